//! Whether the wall clock can be believed.
//!
//! A jump against the time since the host's start of more than a minute suspends firing until the clock has
//! been stable for 30 s; one of more than a day, until an operator confirms (semantics, section 4). Time
//! that the host slept is time since its start, although the monotonic clock stood still: the shell says
//! how long it was, and it is no jump.

use crate::time::{Mono, Now, UnixMs};

const JUMP_MS: u64 = 60_000;
const JUMP_DAY_MS: u64 = 24 * 3_600_000;
const STABLE_MS: u64 = 30_000;

/// Compares the wall clock with the monotonic one, look by look.
#[derive(Debug)]
pub struct Watch {
    last: Now,
    /// The last reading that could be believed.
    good: Now,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Good,
    UntilStable(Mono),
    UntilConfirmed,
}

impl Watch {
    /// A watch that believes the clock as it is.
    #[must_use]
    pub fn new(now: Now) -> Watch {
        Watch { last: now, good: now, state: State::Good }
    }

    /// Looks at both clocks.
    pub fn look(&mut self, now: Now) {
        let wall = now.wall.0.saturating_sub(self.last.wall.0);
        let mono = i64::try_from(now.mono.since(self.last.mono)).unwrap_or(i64::MAX);
        let jump = wall.abs_diff(mono);
        self.last = now;
        if jump > JUMP_DAY_MS {
            self.state = State::UntilConfirmed;
        } else if jump > JUMP_MS && self.state != State::UntilConfirmed {
            self.state = State::UntilStable(now.mono.plus(STABLE_MS));
        } else if let State::UntilStable(until) = self.state
            && now.mono >= until
        {
            self.state = State::Good;
        }
        if self.is_good() {
            self.good = now;
        }
    }

    /// The host slept for so long since the last look: the wall clock went on, the monotonic one did not.
    pub fn slept(&mut self, ms: u64) {
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        self.last.wall = self.last.wall.plus_ms(ms);
        self.good.wall = self.good.wall.plus_ms(ms);
    }

    /// An operator says that the clock is right.
    pub fn confirm(&mut self) {
        self.state = State::Good;
        self.good = self.last;
    }

    /// The time as far as it can be believed: while the wall clock cannot, the monotonic one counts on from
    /// when it could.
    #[must_use]
    pub fn believed(&self, now: Now) -> UnixMs {
        if self.is_good() {
            return now.wall;
        }
        self.good.wall.plus_ms(i64::try_from(now.mono.since(self.good.mono)).unwrap_or(i64::MAX))
    }

    /// Whether the wall clock can be believed.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.state == State::Good
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall: i64, mono: u64) -> Now {
        Now { wall: UnixMs(wall), mono: Mono(mono) }
    }

    #[test]
    fn a_jump_suspends_until_the_clock_is_stable() {
        let mut watch = Watch::new(at(0, 0));
        watch.look(at(10_000, 10_000));
        assert!(watch.is_good());
        watch.look(at(100_000, 11_000));
        assert!(!watch.is_good());
        watch.look(at(129_000, 40_000));
        assert!(!watch.is_good());
        assert_eq!(watch.believed(at(129_500, 40_500)), UnixMs(40_500));
        watch.look(at(130_000, 41_000));
        assert!(watch.is_good());
    }

    #[test]
    fn the_sleep_of_the_host_is_no_jump_and_hides_none() {
        let mut watch = Watch::new(at(0, 0));
        watch.slept(90_000_000);
        watch.look(at(90_001_000, 1_000));
        assert!(watch.is_good());
        watch.slept(5_000);
        watch.look(at(90_106_000, 2_000));
        assert!(!watch.is_good());
    }

    #[test]
    fn a_jump_of_more_than_a_day_waits_for_an_operator() {
        let mut watch = Watch::new(at(0, 0));
        watch.look(at(-90_000_000, 1_000));
        watch.look(at(-89_000_000, 1_001_000));
        assert!(!watch.is_good());
        watch.confirm();
        assert!(watch.is_good());
    }
}
