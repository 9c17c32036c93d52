//! In which order a plan's changes are made: upstream jobs come before those that wait for them, and go after them.
//!
//! With the upstream jobs of a job changed before it, what it waits for is as the file has it, whatever it was: so no
//! change closes a cycle that the file does not have.

use std::collections::{BTreeMap, BTreeSet};

use rota_core::id::JobId;
use rota_core::upstream;
use rota_wire::rest::{After, JobSpec, Upstream};

use super::plan::{Does, Step};

/// The names of the jobs that a job waits for.
pub(crate) fn upstreams(spec: &JobSpec) -> impl Iterator<Item = &str> {
    let all = spec.after.as_ref().map_or(&[][..], After::jobs);
    all.iter().map(|upstream| match upstream {
        Upstream::Name(name) => name.as_str(),
        Upstream::Edge(edge) => edge.job.as_str(),
    })
}

/// The cycle that a job lies on, from it to itself, if the jobs of these names have these upstream jobs.
pub(crate) fn cycle(name: &str, of: &BTreeMap<&str, Vec<&str>>) -> Option<Vec<String>> {
    let names: Vec<&str> = of.keys().copied().collect();
    // Places in the list stand for the jobs.
    let id = |name: &str| names.binary_search(&name).ok().and_then(|at| u32::try_from(at).ok()).map(JobId);
    let edges = |name: &str| of.get(name).into_iter().flatten().filter_map(|upstream| id(upstream)).collect::<Vec<_>>();
    let found =
        upstream::cycle(id(name)?, &edges(name), |job| Ok::<_, std::convert::Infallible>(edges(names[job.0 as usize])));
    let Ok(found) = found;
    found.map(|path| path.iter().map(|job| names[job.0 as usize].to_owned()).collect())
}

/// The wave in which each step's change is made, in the order of the steps.
pub(crate) fn waves(steps: &[&Step]) -> Vec<usize> {
    let kept = depths(steps, |step| step.does != Does::Delete);
    let gone = depths(steps, |step| step.does == Does::Delete);
    let last = kept.values().max().copied().unwrap_or(0);
    let deepest = gone.values().max().copied().unwrap_or(0);
    let wave = |step: &Step| match (kept.get(step.job.as_str()), gone.get(step.job.as_str())) {
        (Some(depth), _) => *depth,
        (None, Some(depth)) => last + 1 + (deepest - depth),
        (None, None) => 0,
    };
    steps.iter().map(|step| wave(step)).collect()
}

/// How many jobs stand between each of some steps and one without upstream jobs, at most.
fn depths<'s>(steps: &[&'s Step], is_one: impl Fn(&Step) -> bool) -> BTreeMap<&'s str, usize> {
    let own = steps.iter().copied().filter(|step| is_one(step));
    let edges = own.map(|step| (step.job.as_str(), step.upstreams.iter().map(String::as_str).collect()));
    levels(&edges.collect())
}

/// The jobs that are on a cycle, or wait for one that is.
pub(crate) fn stuck<'v>(of: &BTreeMap<&'v str, Vec<&'v str>>) -> BTreeSet<&'v str> {
    let levels = levels(of);
    of.keys().copied().filter(|name| !levels.contains_key(name)).collect()
}

/// The level of each job above those that wait for none of them; none for what a cycle holds up.
fn levels<'v>(of: &BTreeMap<&'v str, Vec<&'v str>>) -> BTreeMap<&'v str, usize> {
    let mut dependents: BTreeMap<&str, Vec<&'v str>> = BTreeMap::new();
    let mut missing: BTreeMap<&'v str, usize> = BTreeMap::new();
    for (name, upstreams) in of {
        let known = upstreams.iter().filter(|upstream| of.contains_key(*upstream));
        missing.insert(name, known.clone().count());
        known.for_each(|upstream| dependents.entry(upstream).or_default().push(name));
    }
    let mut levels: BTreeMap<&'v str, usize> = BTreeMap::new();
    let mut ready: Vec<&'v str> = missing.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    let mut level = 0;
    while !ready.is_empty() {
        let mut next = Vec::new();
        for name in ready {
            levels.insert(name, level);
            for dependent in dependents.get(name).into_iter().flatten() {
                let left = missing.get_mut(dependent).expect("every one was counted");
                *left -= 1;
                if *left == 0 {
                    next.push(*dependent);
                }
            }
        }
        (ready, level) = (next, level + 1);
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(job: &str, does: Does, upstreams: &[&str]) -> Step {
        Step { does, upstreams: upstreams.iter().map(|name| (*name).to_owned()).collect(), ..Step::nothing(job, None) }
    }

    #[test]
    fn upstream_jobs_are_made_first_and_deleted_last() {
        let steps = [
            step("c", Does::Create, &["b", "elsewhere"]),
            step("b", Does::Edit, &["a"]),
            step("a", Does::Create, &[]),
            step("old-a", Does::Delete, &[]),
            step("old-b", Does::Delete, &["old-a"]),
        ];
        assert_eq!(waves(&steps.iter().collect::<Vec<_>>()), [2, 1, 0, 4, 3]);
        assert!(waves(&[]).is_empty());
    }

    #[test]
    fn a_cycle_is_named_from_the_job_on() {
        let of = BTreeMap::from([("a", vec!["b", "x"]), ("b", vec!["c"]), ("c", vec!["a"]), ("d", vec!["a"])]);
        assert_eq!(cycle("a", &of).unwrap().join(" -> "), "a -> b -> c -> a");
        assert_eq!(cycle("d", &of), None);
        assert_eq!(stuck(&of), BTreeSet::from(["a", "b", "c", "d"]));
        assert_eq!(cycle("e", &of), None);
    }

    #[test]
    fn a_long_chain_is_put_in_order() {
        let chain: Vec<Step> =
            (0..3_000).map(|n| step(&format!("j{n:05}"), Does::Create, &[format!("j{:05}", n + 1).as_str()])).collect();
        let waves = waves(&chain.iter().collect::<Vec<_>>());
        assert_eq!((waves[0], waves[2_999]), (2_999, 0));
    }
}
