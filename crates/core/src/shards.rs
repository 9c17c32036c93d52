//! How a run is split, and what its shards mean for it: parameters of their own, one for every worker, how many of
//! them must succeed, and what becomes of those whose worker dies. Pure.

use serde::{Deserialize, Serialize};

use crate::job::Invalid;
use crate::limits;
use crate::retry::Retry;
use crate::target::Target;

/// What a job says of its shards, beside their number.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sharding {
    /// One parameter for each shard, in order: what `{{shard.param}}` stands for. Empty: there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<String>,
    /// The rules that runs are made and judged by.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rules: Rules,
}

/// The rules by which the shards of a run are made and judged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// One shard for every worker that is eligible when the run is made; each is that worker's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_broadcast: bool,
    /// How many shards must succeed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub success: Success,
    /// What becomes of a shard whose worker dies; absent: what the job's retries say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_loss: Option<OnLoss>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How many shards of a run must succeed for the run to be a success.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Success {
    /// All of them.
    #[default]
    All,
    /// So many.
    Count(u32),
    /// So many in a hundred, rounded up.
    Percent(u32),
    /// As many as can, but at least one: a run of which nothing succeeded is no success.
    BestEffort,
}

/// What becomes of a shard whose worker dies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLoss {
    /// It is made anew elsewhere, which costs none of the job's retries; within the delivery mode.
    Reassign,
    /// It is over.
    Fail,
}

impl Success {
    /// Shards that must succeed, of so many.
    #[must_use]
    pub fn required(self, shards: u32) -> u32 {
        match self {
            Success::All => shards,
            Success::Count(count) => count,
            Success::Percent(percent) => {
                let required = (u64::from(shards) * u64::from(percent)).div_ceil(100);
                u32::try_from(required).unwrap_or(u32::MAX).max(1)
            }
            Success::BestEffort => 1,
        }
    }
}

impl Sharding {
    /// Checks the bounds, and what contradicts the rest of the job.
    pub(crate) fn check(&self, shards: u32, target: &Target, retry: &Retry) -> Result<(), Invalid> {
        let is_url = matches!(target, Target::Url { .. });
        let refused = |field, message: String, hint: &str| Err(Invalid { field, message, hint: Some(hint.to_owned()) });
        if self.rules.is_broadcast {
            if is_url {
                let hint = "give the job a handler that the workers offer, or a count of shards";
                return refused("shards.broadcast", "a URL has no workers to send to".to_owned(), hint);
            }
            if shards != 1 {
                let hint = "leave one of the two out";
                return refused("shards.broadcast", "`count` is given too".to_owned(), hint);
            }
            if !self.params.is_empty() {
                let hint = "leave `params` out; a handler knows its worker, and `{{shard.index}}` its place";
                return refused("shards.params", "nobody knows how many shards a broadcast has".to_owned(), hint);
            }
            if retry.elsewhere {
                let hint = "leave it out, or say `on_loss: reassign` to let others take what a lost worker had";
                return refused("retry.elsewhere", "a shard of a broadcast is its worker's".to_owned(), hint);
            }
        }
        if retry.elsewhere && is_url {
            return refused("retry.elsewhere", "a URL has no other worker".to_owned(), "leave it out");
        }
        if self.rules.on_loss.is_some() && is_url {
            return refused("shards.on_loss", "a URL has no worker that could be lost".to_owned(), "leave it out");
        }
        self.check_params(shards)?;
        self.check_success(shards)
    }

    fn check_params(&self, shards: u32) -> Result<(), Invalid> {
        let refused =
            |message: String, hint: &str| Err(Invalid { field: "shards.params", message, hint: Some(hint.to_owned()) });
        if !self.params.is_empty() && self.params.len() != shards as usize {
            let message = format!("{} parameters for {shards} shards", self.params.len());
            return refused(message, "one for each shard, or leave `count` out: the list gives it");
        }
        let bytes: usize = self.params.iter().map(String::len).sum();
        if bytes > limits::PARAM_BYTES_MAX {
            let message = format!("{bytes} bytes in all are more than {}", limits::PARAM_BYTES_MAX);
            return refused(message, "keep large inputs elsewhere, and pass where they are");
        }
        Ok(())
    }

    fn check_success(&self, shards: u32) -> Result<(), Invalid> {
        let refused = |message: String, hint: &str| {
            Err(Invalid { field: "shards.success", message, hint: Some(hint.to_owned()) })
        };
        match self.rules.success {
            Success::All | Success::BestEffort => Ok(()),
            Success::Percent(1..=100) => Ok(()),
            Success::Percent(percent) => refused(format!("{percent}% is outside 1% to 100%"), "for example \"60%\""),
            Success::Count(0) => refused("a quorum of none".to_owned(), "at least 1"),
            Success::Count(count) if !self.rules.is_broadcast && count > shards => {
                refused(format!("a quorum of {count} in {shards} shards"), "at most as many as there are shards")
            }
            Success::Count(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_rounded_up_and_never_none() {
        assert_eq!(Success::All.required(7), 7);
        assert_eq!(Success::Count(3).required(7), 3);
        assert_eq!(Success::BestEffort.required(7), 1);
        for (percent, shards, required) in [(50, 7, 4), (100, 7, 7), (1, 7, 1), (60, 10, 6), (34, 3, 2), (1, 1, 1)] {
            assert_eq!(Success::Percent(percent).required(shards), required, "{percent}% of {shards}");
        }
    }

    fn handler() -> Target {
        Target::Handler { name: "copy".to_owned(), param: String::new() }
    }

    fn url() -> Target {
        Target::Url { method: "GET".to_owned(), url: "http://x/".to_owned(), headers: [].into(), body: String::new() }
    }

    #[test]
    fn contradictions_are_refused() {
        let field = |sharding: &Sharding, shards, target: &Target, retry: Retry| {
            sharding.check(shards, target, &retry).map_err(|invalid| invalid.field)
        };
        let rules = |rules: Rules| Sharding { rules, ..Sharding::default() };
        let none = Retry::default();
        let elsewhere = Retry { max: 1, elsewhere: true, ..none };
        let broadcast = rules(Rules { is_broadcast: true, ..Rules::default() });
        assert_eq!(field(&broadcast, 1, &handler(), none), Ok(()));
        assert_eq!(field(&broadcast, 1, &url(), none), Err("shards.broadcast"));
        assert_eq!(field(&broadcast, 2, &handler(), none), Err("shards.broadcast"));
        assert_eq!(field(&broadcast, 1, &handler(), elsewhere), Err("retry.elsewhere"));
        assert_eq!(field(&Sharding::default(), 1, &url(), elsewhere), Err("retry.elsewhere"));
        assert_eq!(field(&Sharding::default(), 1, &handler(), elsewhere), Ok(()));
        let on_loss = rules(Rules { on_loss: Some(OnLoss::Fail), ..Rules::default() });
        assert_eq!(field(&on_loss, 3, &url(), none), Err("shards.on_loss"));
        let params = Sharding { params: vec!["a".to_owned(), "b".to_owned()], ..Sharding::default() };
        assert_eq!(field(&params, 2, &handler(), none), Ok(()));
        assert_eq!(field(&params, 3, &handler(), none), Err("shards.params"));
        assert_eq!(field(&Sharding { params: params.params, ..broadcast }, 1, &handler(), none), Err("shards.params"));
        for (success, expected) in [
            (Success::Count(3), Ok(())),
            (Success::Count(4), Err("shards.success")),
            (Success::Count(0), Err("shards.success")),
            (Success::Percent(0), Err("shards.success")),
            (Success::Percent(101), Err("shards.success")),
            (Success::BestEffort, Ok(())),
        ] {
            let found = field(&rules(Rules { success, ..Rules::default() }), 3, &handler(), none);
            assert_eq!(found, expected, "{success:?}");
        }
    }

    #[test]
    fn what_is_stored_is_read_back_and_may_be_absent() {
        let sharding = Sharding {
            params: vec!["a".to_owned()],
            rules: Rules { is_broadcast: true, success: Success::Percent(60), on_loss: Some(OnLoss::Reassign) },
        };
        let text = serde_json::to_string(&sharding).unwrap();
        assert_eq!(serde_json::from_str::<Sharding>(&text).unwrap(), sharding);
        assert_eq!(serde_json::from_str::<Sharding>("{}").unwrap(), Sharding::default());
        assert_eq!(serde_json::to_string(&Sharding::default()).unwrap(), "{}");
    }
}
