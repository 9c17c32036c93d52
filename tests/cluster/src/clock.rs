//! Clocks of nodes: each has an offset and a rate of its own against true time, which only the simulation knows.

use rota_core::time::{Mono, Now, UnixMs};

/// True time, in microseconds since the simulation's start.
pub type Micros = u64;

/// Microseconds of a number of milliseconds.
#[must_use]
pub const fn ms(n: u64) -> Micros {
    n * 1_000
}

/// What true time zero is called on a perfect wall clock: 2026-12-01T00:00:00Z.
pub const WALL_ZERO_MS: i64 = 1_796_083_200_000;

/// A node's wall and monotonic clock.
#[derive(Clone, Debug)]
pub struct Clock {
    wall_zero_ms: i64,
    mono_zero_ms: u64,
    rate_ppm: i64,
}

impl Clock {
    /// A clock that is `offset_ms` ahead at true time zero and gains `rate_ppm` microseconds a second.
    #[must_use]
    pub fn new(offset_ms: i64, rate_ppm: i64, mono_zero_ms: u64) -> Clock {
        Clock { wall_zero_ms: WALL_ZERO_MS + offset_ms, mono_zero_ms, rate_ppm }
    }

    fn elapsed_ms(&self, at: Micros) -> u64 {
        let gained = at as i64 * self.rate_ppm / 1_000_000;
        (at as i64 + gained) as u64 / 1_000
    }

    /// Reads both clocks.
    #[must_use]
    pub fn now(&self, at: Micros) -> Now {
        let elapsed = self.elapsed_ms(at);
        Now { wall: UnixMs(self.wall_zero_ms + elapsed as i64), mono: Mono(self.mono_zero_ms + elapsed) }
    }

    /// How much true time passes while this clock counts `local_ms`; never less than what it counts.
    #[must_use]
    pub fn true_us(&self, local_ms: u64) -> Micros {
        let local_ms = local_ms.min(1 << 40);
        (local_ms as i64 * 1_000 * 1_000_000 / (1_000_000 + self.rate_ppm)) as u64 + 1
    }

    /// Steps the wall clock, as an operator or a time daemon does.
    pub fn step_wall(&mut self, by_ms: i64) {
        self.wall_zero_ms += by_ms;
    }

    /// A new boot: the monotonic clock begins anew, anywhere.
    pub fn reboot(&mut self, mono_zero_ms: u64) {
        self.mono_zero_ms = mono_zero_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_clock_gains_and_its_delays_are_shorter() {
        let clock = Clock::new(500, 10_000, 7);
        let now = clock.now(ms(100_000));
        assert_eq!(now.wall.0, WALL_ZERO_MS + 500 + 101_000);
        assert_eq!(now.mono.0, 7 + 101_000);
        assert!(clock.true_us(101_000).abs_diff(ms(100_000)) <= 1_000);
    }
}
