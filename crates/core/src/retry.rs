//! Retries: which ends are tried again, how often, and after what pause. Pure: the pause of a retry
//! follows from its shard and its number, so that a restart waits as long as was decided before.

use rota_cron::mix;
use serde::{Deserialize, Serialize};

use crate::batch::RunState;
use crate::id::RunId;
use crate::job::Invalid;
use crate::limits;

/// Retries after a failure, a time-out or a loss.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// How many, beyond the first attempt.
    pub max: u32,
    /// From an attempt's end to the first retry, in milliseconds.
    pub delay_ms: u64,
    /// How the pause grows from retry to retry.
    #[serde(default)]
    pub backoff: Backoff,
    /// The longest pause, in milliseconds; absent: the limit of all durations.
    #[serde(default)]
    pub cap_ms: Option<u64>,
    /// Whether a pause is drawn from its upper half, so that what failed together does not come back together.
    #[serde(default)]
    pub jitter: bool,
    /// Which ends are tried again.
    #[serde(default)]
    pub when: When,
    /// Whether a retry goes to another worker than those that failed, if another can take it.
    #[serde(default)]
    pub elsewhere: bool,
}

/// How the pause grows from retry to retry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// It stays the same.
    #[default]
    Fixed,
    /// It doubles.
    Exponential,
}

/// Which ends of an attempt are tried again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// The handler failed.
    pub failed: bool,
    /// It ran too long.
    pub timeout: bool,
    /// Its worker was lost.
    pub lost: bool,
}

impl Default for When {
    fn default() -> When {
        When { failed: true, timeout: true, lost: true }
    }
}

impl When {
    /// Whether a shard that would end in this state is tried again.
    #[must_use]
    pub fn includes(self, state: RunState) -> bool {
        match state {
            RunState::Failed => self.failed,
            RunState::Timeout => self.timeout,
            RunState::Lost => self.lost,
            RunState::Pending
            | RunState::Dispatched
            | RunState::Running
            | RunState::Success
            | RunState::Killed
            | RunState::Skipped
            | RunState::Merged
            | RunState::Discarded
            | RunState::Rejected => false,
        }
    }
}

impl Retry {
    /// The pause before the retry with this number (from 1) of a shard, in milliseconds.
    #[must_use]
    pub fn pause_ms(&self, run: RunId, shard: u32, no: u32) -> u64 {
        let cap = self.cap_ms.unwrap_or(limits::DURATION_MAX_MS).min(limits::DURATION_MAX_MS);
        let grown = match self.backoff {
            Backoff::Fixed => self.delay_ms,
            Backoff::Exponential => {
                let factor = 1_u64.checked_shl(no.saturating_sub(1)).unwrap_or(u64::MAX);
                self.delay_ms.saturating_mul(factor)
            }
        };
        let pause = grown.min(cap);
        if !self.jitter {
            return pause;
        }
        let half = pause / 2;
        let draw = mix(run.0 ^ mix((u64::from(shard) << 32) | u64::from(no)));
        pause - draw % (half + 1)
    }

    /// Checks the bounds.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let refused =
            |field, message, hint: Option<&str>| Err(Invalid { field, message, hint: hint.map(ToOwned::to_owned) });
        if self.max > limits::RETRIES_MAX {
            return refused("retry.max", format!("{} is more than {}", self.max, limits::RETRIES_MAX), None);
        }
        if self.delay_ms > limits::DURATION_MAX_MS {
            return refused("retry.first", "longer than 366 days".to_owned(), None);
        }
        match self.cap_ms {
            Some(cap) if cap == 0 || cap > limits::DURATION_MAX_MS => {
                let hint = Some("durations carry a unit: 500ms, 30s, 5m, 2h, 1d");
                return refused("retry.cap", format!("{cap} ms is outside 1 ms to 366 days"), hint);
            }
            Some(cap) if cap < self.delay_ms => {
                let message = format!("{cap} ms is shorter than the first pause, {} ms", self.delay_ms);
                return refused("retry.cap", message, Some("the cap is the longest pause: raise it, or lower `first`"));
            }
            Some(_) | None => {}
        }
        if self.backoff == Backoff::Exponential && self.delay_ms == 0 {
            let hint = Some("give `first`, the pause that doubles: 10s");
            return refused("retry.first", "an exponential backoff needs a first pause".to_owned(), hint);
        }
        if self.max > 0 && !(self.when.failed || self.when.timeout || self.when.lost) {
            let hint = Some("name at least one of failed, timeout and lost");
            return refused("retry.when", "nothing is retried, but `max` asks for retries".to_owned(), hint);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(retry: Retry, expected: &[u64]) {
        let pauses: Vec<u64> = (1..).take(expected.len()).map(|no| retry.pause_ms(RunId(7), 0, no)).collect();
        assert_eq!(pauses, expected, "{retry:?}");
    }

    #[test]
    fn the_pause_stays_or_doubles_up_to_its_cap() {
        let fixed = Retry { max: 3, delay_ms: 100, ..Retry::default() };
        check(fixed, &[100, 100, 100]);
        let doubling = Retry { backoff: Backoff::Exponential, ..fixed };
        check(doubling, &[100, 200, 400, 800]);
        check(Retry { cap_ms: Some(300), ..doubling }, &[100, 200, 300, 300]);
        assert_eq!(doubling.pause_ms(RunId(7), 0, 100), limits::DURATION_MAX_MS);
        assert_eq!(doubling.pause_ms(RunId(7), 0, u32::MAX), limits::DURATION_MAX_MS);
    }

    #[test]
    fn jitter_draws_from_the_upper_half_and_is_the_same_each_time() {
        let retry = Retry { max: 3, delay_ms: 1_000, jitter: true, ..Retry::default() };
        let pauses: Vec<u64> = (0..1_000).map(|run| retry.pause_ms(RunId(run), 0, 1)).collect();
        assert!(pauses.iter().all(|pause| (500..=1_000).contains(pause)));
        assert_eq!(pauses, (0..1_000).map(|run| retry.pause_ms(RunId(run), 0, 1)).collect::<Vec<_>>());
        let mean = pauses.iter().sum::<u64>() / 1_000;
        assert!((720..780).contains(&mean), "{mean}");
        assert_ne!(retry.pause_ms(RunId(1), 0, 1), retry.pause_ms(RunId(1), 1, 1));
    }

    #[test]
    fn contradictions_are_refused() {
        let field = |retry: Retry| retry.check().map_err(|invalid| invalid.field);
        let good = Retry { max: 2, delay_ms: 10_000, ..Retry::default() };
        assert_eq!(field(good), Ok(()));
        assert_eq!(field(Retry { max: 101, ..good }), Err("retry.max"));
        assert_eq!(field(Retry { delay_ms: limits::DURATION_MAX_MS + 1, ..good }), Err("retry.first"));
        assert_eq!(field(Retry { cap_ms: Some(0), ..good }), Err("retry.cap"));
        assert_eq!(field(Retry { cap_ms: Some(9_999), ..good }), Err("retry.cap"));
        assert_eq!(field(Retry { backoff: Backoff::Exponential, delay_ms: 0, ..good }), Err("retry.first"));
        let never = When { failed: false, timeout: false, lost: false };
        assert_eq!(field(Retry { when: never, ..good }), Err("retry.when"));
        assert_eq!(field(Retry { max: 0, when: never, ..good }), Ok(()));
    }
}
