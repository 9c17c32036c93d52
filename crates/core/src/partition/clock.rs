//! Whether the wall clock can be believed.
//!
//! A jump against the monotonic clock of more than a minute suspends firing until it has been stable
//! for 30 s; one of more than a day, until an operator confirms (semantics, section 4).

use crate::time::{Mono, Now};

const JUMP_MS: u64 = 60_000;
const JUMP_DAY_MS: u64 = 24 * 3_600_000;
const STABLE_MS: u64 = 30_000;

#[derive(Debug)]
pub(super) struct Watch {
    last: Now,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Good,
    UntilStable(Mono),
    UntilConfirmed,
}

impl Watch {
    pub(super) fn new(now: Now) -> Watch {
        Watch { last: now, state: State::Good }
    }

    /// Looks at both clocks.
    pub(super) fn look(&mut self, now: Now) {
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
    }

    pub(super) fn confirm(&mut self) {
        self.state = State::Good;
    }

    pub(super) fn is_good(&self) -> bool {
        self.state == State::Good
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::UnixMs;

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
        watch.look(at(130_000, 41_000));
        assert!(watch.is_good());
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
