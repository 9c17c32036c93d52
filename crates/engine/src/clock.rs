//! The one place that reads clocks.
//!
//! Both times of a reading stem from the same call, and the monotonic one counts from one origin:
//! whoever compares a `Mono` (a send's deadline, say) must hold a copy of the same [`Clock`].
//!
//! The monotonic time is the standard library's, which on Linux stands still while the host sleeps.
//! After a suspend the wall clock has therefore jumped against it, and machines treat that as a
//! jump of the wall clock.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_never_go_back_and_copies_agree() {
        let clock = Clock::start();
        let copy = clock;
        let first = clock.now();
        let second = copy.now();
        assert!(second.mono >= first.mono);
        assert!(first.wall.0 > 1_577_836_800_000, "the tests run after 2020");
        assert_eq!(clock.until(Mono(0)), Duration::ZERO);
        assert!(clock.until(second.mono.plus(60_000)) > Duration::from_secs(30));
    }
}
