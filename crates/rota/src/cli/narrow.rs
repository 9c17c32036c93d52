//! What narrows a schedule, between flags and a job, and in words.

use rota_wire::rest::{Active, Calendar, Dst, DstRule, JobSpec, Misfire};

use crate::args::JobFields;

/// What a flag says to take a setting away.
const NONE: &str = "none";

/// Lays the flags over a job. Call it when the schedule is laid: what cannot narrow that goes.
pub(super) fn apply(spec: &mut JobSpec, fields: &JobFields) {
    if spec.cron.is_none() {
        spec.dst = None;
    }
    if spec.cron.is_none() && spec.every.is_none() && spec.delay.is_none() {
        (spec.calendar, spec.active, spec.jitter) = (None, None, None);
    }
    if let Some(word) = &fields.dst {
        spec.dst = Some(Dst::Policy(word.clone())).filter(|_| word != "default");
    }
    if fields.dst_gap.is_some() || fields.dst_overlap.is_some() {
        let before = match spec.dst.take() {
            Some(Dst::Rule(rule)) => rule,
            Some(Dst::Policy(_)) | None => DstRule::default(),
        };
        let gap = fields.dst_gap.clone().or(before.gap);
        spec.dst = Some(Dst::Rule(DstRule { gap, overlap: fields.dst_overlap.clone().or(before.overlap) }));
    }
    if !fields.exclude.is_empty() || !fields.include.is_empty() {
        let calendar = spec.calendar.get_or_insert_with(Calendar::default);
        lay_list(&mut calendar.exclude, &fields.exclude);
        lay_list(&mut calendar.include, &fields.include);
    }
    if fields.active_from.is_some() || fields.active_until.is_some() {
        let active = spec.active.get_or_insert_with(Active::default);
        lay(&mut active.from, fields.active_from.as_ref());
        lay(&mut active.until, fields.active_until.as_ref());
    }
    lay(&mut spec.jitter, fields.jitter.as_ref());
    lay_misfire(spec, fields);
}

/// A policy that is named takes what it has no use for away.
fn lay_misfire(spec: &mut JobSpec, fields: &JobFields) {
    if spec.cron.is_none() && spec.every.is_none() {
        spec.misfire = None;
    }
    let mut misfire = spec.misfire.take().unwrap_or_default();
    if let Some(policy) = &fields.misfire {
        if policy == "skip" {
            misfire.within = None;
        }
        if policy != "catch_up" {
            (misfire.max, misfire.pace) = (None, None);
        }
        misfire.policy = Some(policy.clone());
    }
    lay(&mut misfire.threshold, fields.misfire_threshold.as_ref());
    lay(&mut misfire.within, fields.misfire_within.as_ref());
    lay(&mut misfire.pace, fields.misfire_pace.as_ref());
    misfire.max = fields.misfire_max.or(misfire.max);
    spec.misfire = Some(misfire).filter(|misfire| *misfire != Misfire::default());
}

fn lay(place: &mut Option<String>, flag: Option<&String>) {
    if let Some(text) = flag {
        *place = Some(text.clone()).filter(|text| text != NONE);
    }
}

pub(super) fn lay_list(place: &mut Vec<String>, flags: &[String]) {
    if !flags.is_empty() {
        *place = flags.iter().filter(|text| *text != NONE).cloned().collect();
    }
}

/// What narrows a job's schedule, one fact a line.
pub(super) fn facts(spec: &JobSpec) -> Vec<(&'static str, String)> {
    let dst = match &spec.dst {
        None => String::new(),
        Some(Dst::Policy(word)) => word.clone(),
        Some(Dst::Rule(DstRule { gap, overlap })) => {
            let parts = [("gap", gap), ("overlap", overlap)];
            let parts: Vec<String> =
                parts.iter().filter_map(|(key, word)| Some(format!("{key} {}", word.as_ref()?))).collect();
            parts.join(", ")
        }
    };
    let calendar = spec.calendar.clone().unwrap_or_default();
    let active = spec.active.clone().unwrap_or_default();
    let misfire = spec.misfire.clone().unwrap_or_default();
    let parts = [
        misfire.policy,
        misfire.threshold.map(|threshold| format!("later than {threshold}")),
        misfire.within.map(|within| format!("within {within}")),
        misfire.max.map(|max| format!("at most {max}")),
        misfire.pace,
    ];
    vec![
        ("misfire", parts.into_iter().flatten().collect::<Vec<_>>().join(", ")),
        ("dst", dst),
        ("exclude", calendar.exclude.join(", ")),
        ("include", calendar.include.join(", ")),
        ("from", active.from.unwrap_or_default()),
        ("until", active.until.unwrap_or_default()),
        ("jitter", spec.jitter.clone().unwrap_or_default()),
    ]
}
