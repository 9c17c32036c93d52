//! The one place that reads clocks.
//!
//! Both times of a reading stem from the same call, and the monotonic one counts from one origin:
//! whoever compares a `Mono` (a send's deadline, say) must hold a copy of the same [`Clock`].
//!
//! The monotonic time is the standard library's, which on Linux stands still while the host sleeps: nobody
//! is silent for too long because all slept. How long the host has slept is told apart ([`Clock::slept_ms`]),
//! or waking up would look like a jump of the wall clock.
#![expect(clippy::disallowed_methods, reason = "this is where clocks are read")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rota_core::time::{Mono, Now, UnixMs};

/// Reads wall and monotonic time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose monotonic time counts from now. A process needs one; copies are the same clock.
    #[must_use]
    pub fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    /// One reading of both clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        Now { wall: wall(), mono: self.mono() }
    }

    /// Monotonic time alone.
    #[must_use]
    pub fn mono(&self) -> Mono {
        Mono(self.mono_us() / 1_000)
    }

    /// Microseconds of monotonic time, for measuring.
    #[must_use]
    pub fn mono_us(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_micros()).expect("a process lives for less than half a million years")
    }

    /// For how long the host has slept since it was started; 0 on systems that do not tell.
    #[must_use]
    pub fn slept_ms(&self) -> u64 {
        slept_ms()
    }

    /// How long it is until `at`; zero if that has passed.
    #[must_use]
    pub fn until(&self, at: Mono) -> Duration {
        Duration::from_millis(at.0).saturating_sub(self.origin.elapsed())
    }
}

fn wall() -> UnixMs {
    let ms = |d: Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(after) => UnixMs(ms(after)),
        Err(before) => UnixMs(-ms(before.duration())),
    }
}

/// Notices that the host has slept.
#[derive(Debug)]
pub(crate) struct Sleep {
    slept_ms: u64,
}

impl Sleep {
    /// Less is not told from what passes between two readings, and is no jump of a clock either.
    const TOLD_MS: u64 = 1_000;

    /// Begins to look.
    pub(crate) fn watch(clock: &Clock) -> Sleep {
        Sleep { slept_ms: clock.slept_ms() }
    }

    /// How long the host has slept since that was last told, if it has.
    pub(crate) fn told(&mut self, clock: &Clock) -> Option<u64> {
        self.news(clock.slept_ms())
    }

    fn news(&mut self, slept_ms: u64) -> Option<u64> {
        let ms = slept_ms.saturating_sub(self.slept_ms);
        if ms < Sleep::TOLD_MS {
            return None;
        }
        self.slept_ms = slept_ms;
        Some(ms)
    }
}

#[cfg(target_os = "linux")]
fn slept_ms() -> u64 {
    use nix::time::{ClockId, clock_gettime};
    let read = |clock| clock_gettime(clock).ok().map(Duration::from);
    // The monotonic one last: what passes in between would otherwise count as sleep.
    let (Some(boot), Some(mono)) = (read(ClockId::CLOCK_BOOTTIME), read(ClockId::CLOCK_MONOTONIC)) else { return 0 };
    u64::try_from(boot.saturating_sub(mono).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(not(target_os = "linux"))]
fn slept_ms() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_told_once() {
        let mut sleep = Sleep { slept_ms: 5_000 };
        let told = [5_400, 4_900, 3_605_000, 3_605_000, 3_604_000, 3_606_000].map(|at| sleep.news(at));
        assert_eq!(told, [None, None, Some(3_600_000), None, None, Some(1_000)]);
    }

    #[test]
    fn readings_never_go_back_and_copies_agree() {
        let clock = Clock::start();
        let copy = clock;
        let first = clock.now();
        let second = copy.now();
        assert!(second.mono >= first.mono);
        assert!(first.wall.0 > 1_577_836_800_000, "the tests run after 2020");
        let slept = clock.slept_ms();
        assert!(clock.slept_ms().abs_diff(slept) < 60_000, "the host did not sleep in between");
        assert_eq!(clock.until(Mono(0)), Duration::ZERO);
        assert!(clock.until(second.mono.plus(60_000)) > Duration::from_secs(30));
    }
}
