//! Overlap policies, between flags and a job, and in words.

use rota_wire::rest::{JobSpec, Overlap, OverlapRule};

use crate::args::JobFields;

/// What a flag says to take the key away.
const NONE: &str = "none";

/// Lays the flags over a job. Another policy starts from its own defaults.
pub(super) fn apply(spec: &mut JobSpec, fields: &JobFields) {
    let JobFields { overlap: word, overlap_max: max, overlap_queue: queue, overlap_key: key, .. } = fields;
    if word.is_none() && max.is_none() && queue.is_none() && key.is_none() {
        return;
    }
    let before = match spec.overlap.take() {
        Some(Overlap::Rule(rule)) => rule,
        Some(Overlap::Word(policy)) => OverlapRule { policy, ..OverlapRule::default() },
        None => OverlapRule { policy: "allow".to_owned(), ..OverlapRule::default() },
    };
    let mut rule = match word {
        Some(policy) if *policy != before.policy => {
            OverlapRule { policy: policy.clone(), key: before.key, ..OverlapRule::default() }
        }
        Some(_) | None => before,
    };
    if let Some(max) = max {
        rule.max = Some(*max).filter(|max| *max > 0);
    }
    if let Some(queue) = queue {
        rule.queue = Some(*queue).filter(|queue| *queue > 0);
    }
    if let Some(key) = key {
        rule.key = Some(key.clone()).filter(|key| key != NONE);
    }
    // A policy without a limit has no key.
    if word.is_some() && key.is_none() && rule.policy == "allow" && rule.max.is_none() {
        rule.key = None;
    }
    let is_plain = rule.max.is_none() && rule.queue.is_none() && rule.key.is_none();
    spec.overlap = Some(if is_plain { Overlap::Word(rule.policy) } else { Overlap::Rule(rule) });
}

/// `queue, 2 at once, 9 wait, by tenant`.
pub(super) fn fact(overlap: &Overlap) -> String {
    match overlap {
        Overlap::Word(word) => word.clone(),
        Overlap::Rule(OverlapRule { policy, max, queue, key }) => {
            let max = max.map(|max| format!("{max} at once"));
            let queue = queue.map(|queue| format!("at most {queue} wait"));
            let key = key.as_ref().map(|key| format!("by {key}"));
            let parts = [Some(policy.clone()), max, queue, key];
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        }
    }
}
