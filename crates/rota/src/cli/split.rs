//! How runs are split into shards, between flags and a job, and in words.

use rota_wire::rest::{JobSpec, Portion, Quorum, Shards, Split, Success};

use crate::args::{JobFields, ShardCount};

/// What a flag says to take a setting away.
const NONE: &str = "none";

/// Lays the flags over a job.
pub(super) fn apply(spec: &mut JobSpec, fields: &JobFields) {
    let is_named = fields.shards.is_some()
        || !fields.shard_params.is_empty()
        || fields.shard_success.is_some()
        || fields.on_loss.is_some();
    if !is_named {
        return;
    }
    let mut split = match spec.shards.take() {
        None => Split::default(),
        Some(Shards::Split(split)) => split,
        Some(Shards::Word(_)) => Split { broadcast: Some(true), ..Split::default() },
    };
    match fields.shards {
        None => {}
        Some(ShardCount::Broadcast) => {
            (split.count, split.broadcast) = (None, Some(true));
            split.params.clear();
        }
        Some(ShardCount::Of(count)) => {
            (split.count, split.broadcast) = (Some(count), None);
            if split.params.len() != count as usize {
                split.params.clear();
            }
        }
    }
    if !fields.shard_params.is_empty() {
        split.params = fields.shard_params.iter().filter(|text| *text != NONE).cloned().collect();
        if fields.shards.is_none() && !split.params.is_empty() {
            (split.count, split.broadcast) = (None, None);
        }
    }
    if let Some(success) = &fields.shard_success {
        split.success = read_success(success);
    }
    if let Some(on_loss) = &fields.on_loss {
        split.on_loss = Some(on_loss.clone()).filter(|word| word != NONE);
    }
    let is_blank = split == Split::default();
    spec.shards = (!is_blank).then_some(Shards::Split(split));
}

/// A word, a number, or a part with its sign; what it may be is the server's to say.
fn read_success(text: &str) -> Option<Success> {
    let quorum = |quorum| Some(Success::Quorum(Quorum { quorum }));
    match text.parse() {
        _ if text == "all" => None,
        Ok(count) => quorum(Portion::Count(count)),
        Err(_) if text.ends_with('%') => quorum(Portion::Percent(text.to_owned())),
        Err(_) => Some(Success::Word(text.to_owned())),
    }
}

/// How a job's runs are split, one fact a line.
pub(super) fn facts(spec: &JobSpec) -> Vec<(&'static str, String)> {
    let split = match &spec.shards {
        None => return Vec::new(),
        Some(Shards::Word(word)) => return vec![("shards", word.clone())],
        Some(Shards::Split(split)) => split,
    };
    let count = match (split.broadcast, split.count) {
        (Some(true), _) => "broadcast".to_owned(),
        (_, Some(count)) => count.to_string(),
        (_, None) => split.params.len().max(1).to_string(),
    };
    let success = match &split.success {
        None => String::new(),
        Some(Success::Word(word)) => word.clone(),
        Some(Success::Quorum(Quorum { quorum: Portion::Count(count) })) => format!("a quorum of {count}"),
        Some(Success::Quorum(Quorum { quorum: Portion::Percent(part) })) => format!("a quorum of {part}"),
    };
    vec![
        ("shards", count),
        ("params", split.params.join(", ")),
        ("success", success),
        ("on loss", split.on_loss.clone().unwrap_or_default()),
    ]
}
