//! Rates: how many dispatches may begin in a time, counted by token buckets. Exact: integers, and monotonic time.
//!
//! A bucket holds at most `burst` tokens and gains `count` of them evenly in `per_ms`. So in any window no more are taken
//! than its burst and what the window brings.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::job::Invalid;
use crate::label::Selector;
use crate::limits;
use crate::time::Mono;

/// So many in so long.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Rate {
    /// How many.
    pub count: u32,
    /// In how many milliseconds.
    pub per_ms: u64,
}

/// A rate, and how many may come at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Limit {
    /// How fast tokens come.
    pub rate: Rate,
    /// How many are kept; absent: what comes in a second, and at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

/// What limits the dispatches of an app.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Rates {
    /// That of all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<Limit>,
    /// Those to workers with certain labels, by their selector.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Limit>,
}

impl Rate {
    /// Reads `50/s`, `10/m`, `3/h` or `1/10s`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Rate> {
        let (count, per) = text.trim().split_once('/')?;
        let unit_at = per.find(|c: char| !c.is_ascii_digit())?;
        let many: u64 = if unit_at == 0 { 1 } else { per[..unit_at].parse().ok()? };
        let unit_ms = match &per[unit_at..] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        let rate = Rate { count: count.trim().parse().ok()?, per_ms: many.checked_mul(unit_ms)? };
        let is_sound =
            (1..=limits::RATE_COUNT_MAX).contains(&rate.count) && (1..=limits::RATE_PER_MAX_MS).contains(&rate.per_ms);
        is_sound.then_some(rate)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
        let (unit, unit_ms) = units.into_iter().find(|(_, ms)| self.per_ms.is_multiple_of(*ms)).unwrap_or(("ms", 1));
        match self.per_ms / unit_ms {
            1 => write!(f, "{}/{unit}", self.count),
            many => write!(f, "{}/{many}{unit}", self.count),
        }
    }
}

impl Limit {
    /// How many tokens are kept.
    #[must_use]
    pub fn burst(&self) -> u32 {
        self.burst.unwrap_or_else(|| {
            let in_a_second = (u64::from(self.rate.count) * 1_000).div_ceil(self.rate.per_ms);
            u32::try_from(in_a_second).unwrap_or(u32::MAX).max(1)
        })
    }

    /// Checks the bounds; the error's field begins with this one.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Some(burst) = self.burst.filter(|burst| *burst == 0 || *burst > limits::RATE_COUNT_MAX) {
            return Err(Invalid {
                field: "burst",
                message: format!("{burst} is outside 1 to {}", limits::RATE_COUNT_MAX),
                hint: Some("leave it out for what comes in a second".to_owned()),
            });
        }
        Ok(())
    }
}

impl Rates {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.app.is_none() && self.groups.is_empty()
    }

    /// Checks every limit.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.groups.len() > limits::RATE_GROUPS_MAX {
            let message = format!("{} groups are more than {}", self.groups.len(), limits::RATE_GROUPS_MAX);
            return Err(Invalid { field: "groups", message, hint: None });
        }
        for limit in self.app.iter().chain(self.groups.values()) {
            limit.check()?;
        }
        for selector in self.groups.keys() {
            let problem = match Selector::parse(selector) {
                Ok(selector) if selector == Selector::default() => "a blank selector is the whole app".to_owned(),
                Ok(_) => continue,
                Err(error) => error.to_string(),
            };
            let hint =
                Some("a label selector, for example zone=a; for the whole app write `rate` beside `groups`".to_owned());
            return Err(Invalid { field: "groups", message: format!("`{selector}`: {problem}"), hint });
        }
        Ok(())
    }
}

/// A token bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    limit: Limit,
    /// What is in it, in parts: a token is `per_ms` of them, and a millisecond brings `count`.
    parts: u64,
    /// Up to when that is counted.
    at: Mono,
}

impl Bucket {
    /// A bucket with all the tokens that it can hold.
    #[must_use]
    pub fn full(limit: Limit, now: Mono) -> Bucket {
        Bucket { limit, parts: parts_max(&limit), at: now }
    }

    /// A bucket without a token.
    #[must_use]
    pub fn empty(limit: Limit, now: Mono) -> Bucket {
        Bucket { limit, parts: 0, at: now }
    }

    /// Its limit.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// How many tokens there are.
    #[must_use]
    pub fn tokens(&self, now: Mono) -> u32 {
        u32::try_from(self.parts_at(now) / self.limit.rate.per_ms).unwrap_or(u32::MAX)
    }

    /// Takes so many tokens, or as many as there are.
    pub fn take(&mut self, now: Mono, tokens: u32) {
        let wanted = u64::from(tokens).saturating_mul(self.limit.rate.per_ms);
        self.parts = self.parts_at(now).saturating_sub(wanted);
        self.at = self.at.max(now);
    }

    /// Milliseconds until there is a token; 0 if there is one.
    #[must_use]
    pub fn wait_ms(&self, now: Mono) -> u64 {
        let missing = self.limit.rate.per_ms.saturating_sub(self.parts_at(now));
        missing.div_ceil(u64::from(self.limit.rate.count))
    }

    /// Goes by another limit from now on, with what it holds.
    pub fn set_limit(&mut self, limit: Limit, now: Mono) {
        if limit == self.limit {
            return;
        }
        let tokens = self.tokens(now).min(limit.burst());
        *self = Bucket { limit, parts: u64::from(tokens) * limit.rate.per_ms, at: now };
    }

    fn parts_at(&self, now: Mono) -> u64 {
        let gained = now.since(self.at).saturating_mul(u64::from(self.limit.rate.count));
        self.parts.saturating_add(gained).min(parts_max(&self.limit))
    }
}

fn parts_max(limit: &Limit) -> u64 {
    u64::from(limit.burst()).saturating_mul(limit.rate.per_ms)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rate_is_read_and_printed() {
        for (text, count, per_ms) in [
            ("50/s", 50, 1_000),
            ("10/m", 10, 60_000),
            ("3/h", 3, 3_600_000),
            ("1/10s", 1, 10_000),
            ("7/1d", 7, 86_400_000),
            ("2/250ms", 2, 250),
        ] {
            let rate = Rate::parse(text).unwrap();
            assert_eq!((rate.count, rate.per_ms), (count, per_ms), "{text}");
            assert_eq!(Rate::parse(&rate.to_string()), Some(rate), "{text}");
        }
        assert_eq!(Rate { count: 5, per_ms: 90_000 }.to_string(), "5/90s");
        for odd in ["", "5", "/s", "5/", "0/s", "5/0s", "-1/s", "5/w", "5/s/s", "1.5/s", "5/99999999999999999999d"] {
            assert_eq!(Rate::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_burst_is_what_comes_in_a_second_and_at_least_one() {
        let burst = |text: &str| Limit { rate: Rate::parse(text).unwrap(), burst: None }.burst();
        assert_eq!(["50/s", "10/m", "90/m", "3/h", "1/2ms"].map(burst), [50, 1, 2, 1, 500]);
    }

    #[test]
    fn a_token_is_there_in_the_very_millisecond() {
        let limit = Limit { rate: Rate { count: 3, per_ms: 1_000 }, burst: Some(1) };
        let mut bucket = Bucket::empty(limit, Mono(10));
        assert_eq!((bucket.tokens(Mono(343)), bucket.wait_ms(Mono(10))), (0, 334));
        assert_eq!((bucket.tokens(Mono(344)), bucket.wait_ms(Mono(344))), (1, 0));
        bucket.take(Mono(344), 1);
        assert_eq!(bucket.wait_ms(Mono(344)), 334, "what was beyond its burst, 2 parts of 1,000, is not kept");
        assert_eq!(bucket.tokens(Mono(9_999_999)), 1, "no more than its burst");
    }

    #[test]
    fn selectors_and_bursts_are_checked() {
        let limit = Limit { rate: Rate { count: 3, per_ms: 1_000 }, burst: Some(0) };
        let of = |app: Option<Limit>, groups: &[&str]| {
            let good = Limit { burst: None, ..limit };
            Rates { app, groups: groups.iter().map(|group| ((*group).to_owned(), good)).collect() }
                .check()
                .map_err(|e| e.field)
        };
        assert_eq!(of(Some(limit), &[]), Err("burst"));
        assert_eq!(of(None, &["zone=a", "disk in (ssd|nvme)"]), Ok(()));
        assert_eq!(of(None, &["zone=="]), Err("groups"));
        assert_eq!(of(None, &[" "]), Err("groups"));
    }

    proptest! {
        /// In any window, no more is taken than the burst and what the window brings; and a token is never withheld.
        #[test]
        fn no_window_has_more_than_its_burst_and_its_rate(
            count in 1_u32..50, per_ms in 1_u64..5_000, burst in 1_u32..20,
            steps in proptest::collection::vec((0_u64..400, 0_u32..4), 1..200),
        ) {
            let limit = Limit { rate: Rate { count, per_ms }, burst: Some(burst) };
            let mut bucket = Bucket::full(limit, Mono(0));
            let (mut now, mut taken): (u64, Vec<u64>) = (0, Vec::new());
            for (wait, wanted) in steps {
                now += wait;
                let allowed = |at: u64| u64::from(burst) + (now - at) * u64::from(count) / per_ms;
                for _ in 0..wanted {
                    // The model: as the next one, would any window be too full?
                    let would_fit = (0..taken.len()).all(|first| (taken.len() - first + 1) as u64 <= allowed(taken[first]));
                    prop_assert_eq!(bucket.wait_ms(Mono(now)) == 0, bucket.tokens(Mono(now)) > 0);
                    if bucket.tokens(Mono(now)) > 0 {
                        prop_assert!(would_fit);
                        bucket.take(Mono(now), 1);
                        taken.push(now);
                    } else {
                        prop_assert!(!would_fit || allowed(taken[0]) > 0);
                        let wait = bucket.wait_ms(Mono(now));
                        prop_assert_eq!(bucket.tokens(Mono(now + wait - 1)), 0);
                        // A millisecond may bring several.
                        prop_assert!(bucket.tokens(Mono(now + wait)) > 0);
                    }
                }
            }
        }
    }
}
