//! Waits between tries: doubling, capped, with jitter, so that a fleet does not knock in step.

use std::time::Duration;

/// Doubles from `first` to `cap`; each wait lies between half of its step and all of it.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    first_ms: u64,
    cap_ms: u64,
    step_ms: u64,
    random: u64,
}

impl Backoff {
    pub(crate) fn new(first: Duration, cap: Duration, seed: u64) -> Backoff {
        let ms = |wait: Duration| u64::try_from(wait.as_millis()).expect("waits are short").max(1);
        let (first_ms, cap_ms) = (ms(first), ms(cap));
        assert!(first_ms <= cap_ms, "a backoff grows");
        Backoff { first_ms, cap_ms, step_ms: first_ms, random: seed | 1 }
    }

    /// The next wait.
    pub(crate) fn wait(&mut self) -> Duration {
        // Marsaglia's xorshift64: plenty for jitter, and no dependency.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let half_ms = self.step_ms / 2;
        let wait_ms = self.step_ms - self.random % (half_ms + 1);
        self.step_ms = self.step_ms.saturating_mul(2).min(self.cap_ms);
        Duration::from_millis(wait_ms)
    }

    /// It worked: the next wait is short again.
    pub(crate) fn reset(&mut self) {
        self.step_ms = self.first_ms;
    }

    /// Whether the last try worked.
    pub(crate) fn is_fresh(&self) -> bool {
        self.step_ms == self.first_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_stay_within_their_step() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(1_000), 7);
        for step_ms in [100, 200, 400, 800, 1_000, 1_000] {
            let wait_ms = backoff.wait().as_millis();
            assert!((step_ms / 2..=step_ms).contains(&wait_ms), "{wait_ms} is not within {step_ms}");
        }
        backoff.reset();
        assert!(backoff.wait() <= Duration::from_millis(100));
    }
}
