use std::collections::BTreeMap;
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;
use crate::job::{Spec, Target};

const HOUR: i64 = 3_600_000;

fn edge(when: Ended, period: Period, on_skip: OnSkip) -> Edge {
    Edge { job: JobId(1), name: "up".to_owned(), when, period, on_skip, deadline_ms: None }
}

/// The evidence of an hourly upstream job that is covered up to `mark` hours.
fn hourly(mark: i64, rows: &[(i64, i64, RunState)]) -> Evidence {
    let fact = |(first, last, state): &(i64, i64, RunState)| Fact {
        slot: UnixMs(first * HOUR),
        slot_last: UnixMs(last * HOUR),
        state: *state,
        reruns: Vec::new(),
    };
    let spec = Spec::new(When::EveryMs(3_600_000), Target::Handler { name: "h".into(), param: String::new() });
    let job = spec.compile(JobId(1), crate::id::Version(1), crate::id::AppId(1), "up", JobState::Enabled);
    Evidence {
        state: JobState::Enabled,
        schedule: job.unwrap().schedule,
        is_broken: false,
        mark: UnixMs(mark * HOUR),
        exception: None,
        rows: rows.iter().map(fact).collect(),
        is_swept: false,
    }
}

fn at(edge: &Edge, slot: i64, previous: i64, evidence: &Evidence) -> Verdict {
    judge(edge, edge.span(UnixMs(slot * HOUR), Some(UnixMs(previous * HOUR))), evidence)
}

const SKIPPED: Verdict = Verdict::Unmet(Why::UpstreamSkipped);
const FAILED: Verdict = Verdict::Unmet(Why::UpstreamFailed);

#[test]
fn each_end_is_judged_by_what_was_asked_for() {
    use RunState as S;
    let table = [
        (S::Success, Verdict::Met, FAILED, Verdict::Met),
        (S::Failed, FAILED, Verdict::Met, Verdict::Met),
        (S::Timeout, FAILED, Verdict::Met, Verdict::Met),
        (S::Lost, FAILED, Verdict::Met, Verdict::Met),
        (S::Killed, FAILED, Verdict::Met, Verdict::Met),
        (S::Skipped, SKIPPED, SKIPPED, SKIPPED),
        (S::Merged, SKIPPED, SKIPPED, SKIPPED),
        (S::Discarded, SKIPPED, SKIPPED, SKIPPED),
        (S::Rejected, SKIPPED, SKIPPED, SKIPPED),
        (S::Pending, Verdict::NotYet, Verdict::NotYet, Verdict::NotYet),
        (S::Dispatched, Verdict::NotYet, Verdict::NotYet, Verdict::NotYet),
        (S::Running, Verdict::NotYet, Verdict::NotYet, Verdict::NotYet),
    ];
    assert_eq!(table.len(), RunState::ALL.len());
    for (state, success, failure, completion) in table {
        let evidence = hourly(5, &[(5, 5, state)]);
        let judged = |when| at(&edge(when, Period::SameSlot, OnSkip::Skip), 5, 4, &evidence);
        let found = (judged(Ended::Success), judged(Ended::Failure), judged(Ended::Completion));
        assert_eq!(found, (success, failure, completion), "{}", state.word());
        let runs = at(&edge(Ended::Success, Period::SameSlot, OnSkip::Run), 5, 4, &evidence);
        assert_eq!(runs, if success == SKIPPED { Verdict::Met } else { success }, "{}", state.word());
    }
}

#[test]
fn a_rerun_that_succeeds_mends_what_failed_and_one_that_is_open_is_waited_for() {
    let judged = |reruns: &[RunState]| {
        let mut evidence = hourly(5, &[(5, 5, RunState::Failed)]);
        evidence.rows[0].reruns = reruns.to_vec();
        at(&edge(Ended::Success, Period::SameSlot, OnSkip::Skip), 5, 4, &evidence)
    };
    assert_eq!(judged(&[RunState::Failed]), FAILED);
    assert_eq!(judged(&[RunState::Failed, RunState::Running]), Verdict::NotYet);
    assert_eq!(judged(&[RunState::Failed, RunState::Success]), Verdict::Met);
}

#[test]
fn a_slot_without_a_row_is_awaited_only_if_it_will_get_one() {
    let same = edge(Ended::Success, Period::SameSlot, OnSkip::Skip);
    assert_eq!(at(&same, 5, 4, &hourly(4, &[])), Verdict::NotYet);
    assert_eq!(at(&same, 5, 4, &hourly(5, &[])), SKIPPED, "it is covered, and there is no row: it was no slot");
    let half = UnixMs(5 * HOUR + HOUR / 2);
    assert_eq!(judge(&same, same.span(half, None), &hourly(4, &[])), SKIPPED, "the schedule has no such slot");
    let mut held = hourly(9, &[]);
    held.exception = Some(Exception::Covered(UnixMs(4 * HOUR)));
    assert_eq!(at(&same, 5, 4, &held), Verdict::NotYet, "the exception says more than the mark");
    held.state = JobState::Paused;
    assert_eq!(at(&same, 5, 4, &held), SKIPPED, "a pause has no runs");
    assert_eq!(at(&edge(Ended::Success, Period::SameSlot, OnSkip::Run), 5, 4, &held), Verdict::Met);
    for state in [JobState::Finished, JobState::Deleted] {
        held.state = state;
        assert_eq!(at(&same, 5, 4, &held), SKIPPED);
    }
    let broken = Evidence { is_broken: true, schedule: None, ..hourly(4, &[]) };
    assert_eq!(at(&same, 5, 4, &broken), Verdict::NotYet);
    let swept = Evidence { is_swept: true, ..hourly(9, &[]) };
    assert_eq!(at(&same, 5, 4, &swept), Verdict::Unmet(Why::UpstreamUnknown));
}

#[test]
fn one_bad_slot_of_a_window_decides_before_one_that_is_still_to_come() {
    let window = edge(Ended::Success, Period::Window, OnSkip::Skip);
    let good = |hour| (hour, hour, RunState::Success);
    assert_eq!(at(&window, 3, 0, &hourly(3, &[good(1), good(2), good(3)])), Verdict::Met);
    assert_eq!(at(&window, 3, 0, &hourly(2, &[good(1), good(2)])), Verdict::NotYet);
    assert_eq!(at(&window, 3, 0, &hourly(0, &[good(1), good(2)])), Verdict::NotYet, "rows above the mark count too");
    assert_eq!(at(&window, 3, 0, &hourly(1, &[(1, 1, RunState::Failed)])), FAILED);
    assert_eq!(at(&window, 3, 0, &hourly(3, &[(1, 2, RunState::Skipped), good(3)])), SKIPPED);
}

#[test]
fn latest_looks_at_the_newest_slot_alone() {
    let latest = edge(Ended::Success, Period::Latest, OnSkip::Skip);
    let half =
        |hour: i64, evidence: &Evidence| judge(&latest, latest.span(UnixMs(hour * HOUR + HOUR / 2), None), evidence);
    assert_eq!(half(5, &hourly(5, &[(5, 5, RunState::Success)])), Verdict::Met);
    assert_eq!(half(5, &hourly(5, &[(5, 5, RunState::Failed)])), FAILED);
    assert_eq!(half(5, &hourly(4, &[(4, 4, RunState::Failed)])), Verdict::NotYet, "a newer one is still to come");
    assert_eq!(half(5, &hourly(4, &[(5, 5, RunState::Success)])), Verdict::Met, "its row lies above the mark");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_field() {
    let compiled = |when: When, edges: &[Edge]| compile("own", &when, edges);
    let hourly = When::EveryMs(3_600_000);
    let refused = |when: When, edges: &[Edge]| compiled(when, edges).unwrap_err().to_string();
    let same = edge(Ended::Success, Period::SameSlot, OnSkip::Skip);
    assert_eq!(compiled(hourly.clone(), &[]), Ok(None));
    assert_eq!(compiled(hourly.clone(), std::slice::from_ref(&same)).unwrap().unwrap().len(), 1);
    assert!(refused(When::DelayMs(1_000), std::slice::from_ref(&same)).contains("after: a job with a delay"));
    assert!(refused(hourly.clone(), &[same.clone(), same.clone()]).contains("`up` is named twice"));
    assert!(refused(hourly.clone(), &[Edge { name: "own".to_owned(), ..same.clone() }]).contains("is the job itself"));
    let late = Edge { deadline_ms: Some(limits::UPSTREAM_DEADLINE_MAX_MS + 1), ..same.clone() };
    assert!(refused(hourly.clone(), &[late]).contains("the deadline for `up`"));
    let window = edge(Ended::Success, Period::Window, OnSkip::Skip);
    assert!(refused(When::OnceMs(0), &[window]).contains("a window lies between two slots"));
    let many: Vec<Edge> = (0..).map(|id: u32| Edge { name: format!("up-{id}"), ..same.clone() }).take(101).collect();
    assert!(refused(hourly, &many).contains("101 are more than 100"));
}

type Graph = BTreeMap<JobId, Vec<JobId>>;

/// The cycle that a job's edges would close, and how many jobs were looked at.
fn found(graph: &Graph, job: u32, upstreams: &[u32]) -> (Option<Vec<u32>>, usize) {
    let mut looked = 0;
    let upstreams: Vec<JobId> = upstreams.iter().map(|id| JobId(*id)).collect();
    let cycle = cycle(JobId(job), &upstreams, |job| {
        looked += 1;
        Ok::<_, Infallible>(graph.get(&job).cloned().unwrap_or_default())
    });
    let Ok(cycle) = cycle;
    (cycle.map(|path| path.iter().map(|job| job.0).collect()), looked)
}

#[test]
fn a_cycle_is_named_from_the_job_to_itself() {
    let graph = Graph::from([(JobId(2), vec![JobId(3)]), (JobId(3), vec![JobId(1), JobId(4)])]);
    assert_eq!(found(&graph, 1, &[1]).0, Some(vec![1, 1]));
    assert_eq!(found(&graph, 1, &[4, 2]).0, Some(vec![1, 2, 3, 1]));
    assert_eq!(found(&graph, 4, &[2]).0, Some(vec![4, 2, 3, 4]));
    assert_eq!(found(&graph, 5, &[2, 3, 1, 4]).0, None, "a diamond is no cycle");
}

/// Field case B105: no chain is too long to be checked.
#[test]
fn every_job_is_looked_at_once_however_long_the_chain_or_wide_the_fan() {
    let chain: Graph = (1..10_000).map(|id| (JobId(id), vec![JobId(id + 1)])).collect();
    assert_eq!(found(&chain, 0, &[1]), (None, 10_000));
    let (path, looked) = found(&chain, 10_000, &[1]);
    assert_eq!((path.map(|path| path.len()), looked), (Some(10_001), 9_999));
    let fan: Graph = (1..=5_000).map(|id| (JobId(id), vec![JobId(9_000), JobId(9_001)])).collect();
    let wide: Vec<u32> = (1..=5_000).collect();
    assert_eq!(found(&fan, 0, &wide), (None, 5_002));
}

proptest! {
    /// Whatever the order in which its jobs are saved, an acyclic graph is taken, and an edge that closes a cycle is not.
    ///
    /// Field case B106: no diamond is a cycle.
    #[test]
    fn acyclic_graphs_are_taken_in_any_order_and_one_edge_back_is_refused(
        picks in proptest::collection::vec((0_u32..50, 0_u32..50), 1..120),
        order in Just((0..50_u32).collect::<Vec<_>>()).prop_shuffle(),
        names in Just((0..50_u32).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut wanted: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (a, b) in picks.iter().filter(|(a, b)| a != b) {
            let (low, high) = (*a.min(b), *a.max(b));
            wanted.entry(names[high as usize]).or_default().push(names[low as usize]);
        }
        let mut graph = Graph::new();
        for job in order {
            let upstreams = wanted.get(&job).cloned().unwrap_or_default();
            prop_assert_eq!(found(&graph, job, &upstreams).0, None);
            graph.insert(JobId(job), upstreams.into_iter().map(JobId).collect());
        }
        for (job, upstreams) in &wanted {
            for upstream in upstreams {
                let (path, _) = found(&graph, *upstream, &[*job]);
                let path = path.expect("the edge back closes a cycle");
                prop_assert_eq!((path.first(), path.last()), (Some(upstream), Some(upstream)));
                for pair in path.windows(2).skip(1) {
                    prop_assert!(graph[&JobId(pair[0])].contains(&JobId(pair[1])));
                }
            }
        }
    }
}
