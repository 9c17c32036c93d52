//! How runs are split into shards, between what users write and what the core keeps.

use rota_core::shards::{OnLoss, Rules, Sharding, Success};
use rota_wire::rest;

use crate::nearest::did_you_mean;
use crate::refusal::Refusal;
use crate::spec::{word, word_of};

pub(crate) const ON_LOSS: [(&str, OnLoss); 2] = [("reassign", OnLoss::Reassign), ("fail", OnLoss::Fail)];
const SUCCESSES: [(&str, Success); 2] = [("all", Success::All), ("best_effort", Success::BestEffort)];
const BROADCAST: &str = "broadcast";

/// The count of shards, and what else is said of them.
pub(crate) fn read(shards: Option<&rest::Shards>) -> Result<(u32, Sharding), Refusal> {
    let split = match shards {
        None => return Ok((1, Sharding::default())),
        Some(rest::Shards::Word(text)) if text == BROADCAST => {
            let rules = Rules { is_broadcast: true, ..Rules::default() };
            return Ok((1, Sharding { rules, ..Sharding::default() }));
        }
        Some(rest::Shards::Word(text)) => {
            let shown: String = text.chars().take(40).collect();
            let hint =
                did_you_mean(text, [BROADCAST]).unwrap_or_else(|| "broadcast, or an object: {\"count\": 8}".to_owned());
            return Err(Refusal::invalid("shards", format!("`{shown}` is not known here")).hint(hint));
        }
        Some(rest::Shards::Split(split)) => split,
    };
    let is_broadcast = split.broadcast.unwrap_or(false);
    if is_broadcast && split.count.is_some() {
        return Err(Refusal::invalid("shards.broadcast", "`count` is given too").hint("leave one of the two out"));
    }
    let listed = u32::try_from(split.params.len()).unwrap_or(u32::MAX).max(1);
    let count = split.count.unwrap_or(if is_broadcast { 1 } else { listed });
    let rules = Rules {
        is_broadcast,
        success: split.success.as_ref().map(read_success).transpose()?.unwrap_or_default(),
        on_loss: word("shards.on_loss", split.on_loss.as_deref(), &ON_LOSS)?,
    };
    Ok((count, Sharding { params: split.params.clone(), rules }))
}

fn read_success(success: &rest::Success) -> Result<Success, Refusal> {
    match success {
        rest::Success::Word(text) => Ok(word("shards.success", Some(text), &SUCCESSES)?.unwrap_or_default()),
        rest::Success::Quorum(rest::Quorum { quorum: rest::Portion::Count(count) }) => Ok(Success::Count(*count)),
        rest::Success::Quorum(rest::Quorum { quorum: rest::Portion::Percent(text) }) => {
            let percent = text.trim().strip_suffix('%').and_then(|number| number.trim_end().parse().ok());
            percent.map(Success::Percent).ok_or_else(|| {
                let shown: String = text.chars().take(40).collect();
                Refusal::invalid("shards.success.quorum", format!("`{shown}` is neither a number nor a part"))
                    .hint("a number of shards, 3, or a part of them, \"60%\"")
            })
        }
    }
}

/// Writes them as a user would: what has its default is left out.
pub(crate) fn write(count: u32, sharding: &Sharding) -> Option<rest::Shards> {
    let Sharding { params, rules } = sharding;
    if *rules == Rules::default() && params.is_empty() {
        return (count != 1).then(|| rest::Shards::Split(rest::Split { count: Some(count), ..Default::default() }));
    }
    if params.is_empty() && *rules == (Rules { is_broadcast: true, ..Rules::default() }) {
        return Some(rest::Shards::Word(BROADCAST.to_owned()));
    }
    let quorum = |quorum| rest::Success::Quorum(rest::Quorum { quorum });
    let success = match rules.success {
        Success::All => None,
        Success::BestEffort => Some(rest::Success::Word(word_of(&SUCCESSES, Success::BestEffort))),
        Success::Count(count) => Some(quorum(rest::Portion::Count(count))),
        Success::Percent(percent) => Some(quorum(rest::Portion::Percent(format!("{percent}%")))),
    };
    Some(rest::Shards::Split(rest::Split {
        count: (!rules.is_broadcast && params.is_empty()).then_some(count),
        params: params.clone(),
        broadcast: rules.is_broadcast.then_some(true),
        success,
        on_loss: rules.on_loss.map(|on_loss| word_of(&ON_LOSS, on_loss)),
    }))
}
