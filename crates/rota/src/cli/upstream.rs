//! Upstream jobs, between flags and a job, and in words.

use rota_wire::rest::{After, AnyUpstream, JobSpec, Upstream, UpstreamEdge};

use crate::exit::Failure;

/// What a flag says to take all away.
const NONE: &str = "none";

/// Lays `--after`, or `--after-any`, over a job: what is given takes the place of what was there.
pub(super) fn apply(spec: &mut JobSpec, flags: &[String], any: &[String]) -> Result<(), Failure> {
    if !any.is_empty() {
        let any = any.iter().map(|text| edge(text)).collect::<Result<_, _>>()?;
        spec.after = Some(After::Any(AnyUpstream { any }));
        return Ok(());
    }
    if flags.is_empty() {
        return Ok(());
    }
    let edges: Vec<Upstream> =
        flags.iter().filter(|text| *text != NONE).map(|text| edge(text)).collect::<Result<_, _>>()?;
    spec.after = match edges.len() {
        0 => None,
        1 => edges.into_iter().next().map(After::One),
        _ => Some(After::All(edges)),
    };
    Ok(())
}

/// `settle,when=completion,deadline=6h`.
fn edge(text: &str) -> Result<Upstream, Failure> {
    let mut parts = text.split(',').map(str::trim);
    let mut edge = UpstreamEdge { job: parts.next().unwrap_or_default().to_owned(), ..UpstreamEdge::default() };
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let place = match key {
            "when" => &mut edge.when,
            "period" => &mut edge.period,
            "on_skip" => &mut edge.on_skip,
            "deadline" => &mut edge.deadline,
            _ => {
                let hint = "known are when, period, on_skip and deadline: --after settle,when=completion";
                return Err(Failure::usage(
                    format!("`{part}` says nothing about an upstream job"),
                    Some(hint.to_owned()),
                ));
            }
        };
        *place = Some(value.to_owned());
    }
    let is_bare = edge == UpstreamEdge { job: edge.job.clone(), ..UpstreamEdge::default() };
    Ok(if is_bare { Upstream::Name(edge.job) } else { Upstream::Edge(edge) })
}

/// What a job waits for, on one line.
pub(super) fn told(after: &After) -> String {
    let told = |upstream: &Upstream| match upstream {
        Upstream::Name(name) => name.clone(),
        Upstream::Edge(edge) => {
            let keys = [
                ("when", &edge.when),
                ("period", &edge.period),
                ("on_skip", &edge.on_skip),
                ("deadline", &edge.deadline),
            ];
            let given: Vec<String> =
                keys.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_ref()?))).collect();
            [std::slice::from_ref(&edge.job), &given].concat().join(",")
        }
    };
    let all = after.jobs().iter().map(told).collect::<Vec<_>>().join(" ");
    if matches!(after, After::Any(_)) { format!("any of {all}") } else { all }
}
