//! What a run that ended, or what is live, says about a job.

use super::{Event, Facts, NO_WORKER_MS, Rule};
use crate::batch::{Origin, Run, RunState};
use crate::id::RunId;
use crate::time::UnixMs;
use crate::why::Why;

/// What is to be noted of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is there.
    Raise(Event, Facts),
    /// It is over.
    Clear(Event),
}

/// What is live of one job.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Live {
    /// Slots and shards that wait: the slot, why, and since when.
    pub waiting: Vec<(UnixMs, Why, UnixMs)>,
    /// Open runs: the run, its slot if it has one of its schedule, and since when it is there.
    pub open: Vec<(RunId, Option<UnixMs>, UnixMs)>,
    /// From when on the time without a success counts; none while the job does not fire.
    pub success_since: Option<UnixMs>,
    /// By how much a job's own spread may delay its starts, in milliseconds.
    pub jitter_ms: u64,
}

/// Judges a run that has ended, or a row that says why slots had none.
#[must_use]
pub fn ended(rule: &Rule, run: &Run, jitter_ms: u64) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut raise = |event: Event, facts: Facts| {
        if rule.hears(event) {
            verdicts.push(Verdict::Raise(event, facts));
        }
    };
    match run.state {
        RunState::Failed | RunState::Timeout => raise(Event::Failed, facts(run)),
        RunState::Lost => raise(Event::Lost, facts(run)),
        RunState::Skipped if run.why.is_some_and(is_a_miss) => {
            raise(Event::Missed, Facts { slots: Some(run.slots), ..facts(run) });
        }
        RunState::Success => {
            let over = [Event::Failed, Event::Lost, Event::Missed, Event::NoSuccess];
            verdicts.extend(over.into_iter().filter(|event| rule.hears(*event)).map(Verdict::Clear));
        }
        RunState::Pending
        | RunState::Dispatched
        | RunState::Running
        | RunState::Killed
        | RunState::Skipped
        | RunState::Merged
        | RunState::Discarded
        | RunState::Rejected => {}
    }
    if run.shards > 0 && run.origin == Origin::Schedule {
        verdicts.extend(late(rule, Some(run.id), run.slot, run.at, jitter_ms, true));
    }
    verdicts
}

/// Judges what is live.
#[must_use]
pub fn live(rule: &Rule, live: &Live, now: UnixMs) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    if rule.hears(Event::NoWorker) {
        let lacks = live.waiting.iter().find(|(_, why, since)| {
            let is_one = matches!(why, Why::NoWorker | Why::NoWorkerForHandler | Why::NoWorkerForLabels);
            is_one && now.since_ms(*since) >= NO_WORKER_MS
        });
        match lacks {
            Some((slot, why, since)) => {
                let facts = Facts {
                    slot: Some(slot.0),
                    why: Some(why.word().to_owned()),
                    ms: ms(now.since_ms(*since)),
                    ..Facts::default()
                };
                verdicts.push(Verdict::Raise(Event::NoWorker, facts));
            }
            None => verdicts.push(Verdict::Clear(Event::NoWorker)),
        }
    }
    for (slot, why, _) in &live.waiting {
        // Whoever freezes a server, or lets a job wait by its jitter, means it.
        if !matches!(why, Why::Frozen | Why::Thawing | Why::Jitter) {
            let found = late(rule, None, *slot, now, live.jitter_ms, false);
            verdicts.extend(found.map(|verdict| with_why(verdict, *why)));
        }
    }
    for (run, slot, at) in &live.open {
        if let Some(slot) = slot {
            verdicts.extend(late(rule, Some(*run), *slot, *at, live.jitter_ms, false));
        }
    }
    if let Some(bound) = rule.running_ms {
        let longest = live.open.iter().min_by_key(|(_, _, at)| *at);
        verdicts.push(match longest.filter(|(_, _, at)| exceeds(now.since_ms(*at), bound)) {
            Some((run, slot, at)) => {
                let slot = slot.map(|slot| slot.0);
                Verdict::Raise(
                    Event::Running,
                    Facts { run: Some(*run), slot, ms: ms(now.since_ms(*at)), ..Facts::default() },
                )
            }
            None => Verdict::Clear(Event::Running),
        });
    }
    if let Some(bound) = rule.no_success_ms {
        let too_long = live.success_since.filter(|since| exceeds(now.since_ms(*since), bound));
        verdicts.push(match too_long {
            Some(since) => Verdict::Raise(Event::NoSuccess, Facts { ms: ms(now.since_ms(since)), ..Facts::default() }),
            None => Verdict::Clear(Event::NoSuccess),
        });
    }
    verdicts
}

/// Slots that a user did not mean to leave out.
fn is_a_miss(why: Why) -> bool {
    !matches!(
        why,
        Why::Paused
            | Why::Deleted
            | Why::Edited
            | Why::Overlap
            | Why::QueueFull
            | Why::Merged
            | Why::CancelledByOverlap
            | Why::Frozen
            | Why::Restored
            | Why::KilledByUser
    )
}

/// Whether a start was, or is, later than its bound; `has_started` clears it if it was not.
fn late(
    rule: &Rule,
    run: Option<RunId>,
    slot: UnixMs,
    started: UnixMs,
    jitter_ms: u64,
    has_started: bool,
) -> Option<Verdict> {
    let bound = rule.late_ms?;
    let late_ms = started.since_ms(slot);
    if exceeds(late_ms, bound.saturating_add(jitter_ms)) {
        return Some(Verdict::Raise(
            Event::Late,
            Facts { run, slot: Some(slot.0), ms: ms(late_ms), ..Facts::default() },
        ));
    }
    has_started.then_some(Verdict::Clear(Event::Late))
}

fn with_why(verdict: Verdict, why: Why) -> Verdict {
    match verdict {
        Verdict::Raise(event, facts) => Verdict::Raise(event, Facts { why: Some(why.word().to_owned()), ..facts }),
        Verdict::Clear(event) => Verdict::Clear(event),
    }
}

fn facts(run: &Run) -> Facts {
    Facts {
        run: Some(run.id),
        slot: Some(run.slot.0),
        state: Some(run.state.word().to_owned()),
        why: run.why.map(|why| why.word().to_owned()),
        ms: None,
        slots: None,
    }
}

fn exceeds(ms: i64, bound: u64) -> bool {
    u64::try_from(ms).is_ok_and(|ms| ms > bound)
}

fn ms(ms: i64) -> Option<u64> {
    u64::try_from(ms).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::alert::Channel;
    use crate::id::{AppId, JobId, Version};

    fn rule() -> Rule {
        Rule {
            when: BTreeSet::from([Event::Failed, Event::Lost, Event::Missed, Event::NoWorker]),
            late_ms: Some(5_000),
            running_ms: Some(60_000),
            no_success_ms: Some(3_600_000),
            ..Rule::new(Channel::Webhook { url: "http://a/".to_owned(), bearer: None })
        }
    }

    fn run(state: RunState, why: Option<Why>, late_ms: i64) -> Run {
        Run {
            id: RunId(7),
            app: AppId(1),
            job: JobId(1),
            version: Version(1),
            origin: Origin::Schedule,
            slot: UnixMs(1_000_000),
            slot_last: UnixMs(1_000_000),
            slots: 1,
            state,
            why,
            shards: u32::from(state != RunState::Skipped),
            at: UnixMs(1_000_000 + late_ms),
            ended_at: Some(UnixMs(2_000_000)),
            param: None,
        }
    }

    fn words(verdicts: &[Verdict]) -> String {
        let word = |verdict: &Verdict| match verdict {
            Verdict::Raise(event, _) => format!("+{}", event.word()),
            Verdict::Clear(event) => format!("-{}", event.word()),
        };
        verdicts.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ends_are_judged() {
        let check = |state, why, late_ms, expected: &str| {
            assert_eq!(words(&ended(&rule(), &run(state, why, late_ms), 1_000)), expected, "{state:?} {why:?}");
        };
        check(RunState::Failed, Some(Why::HandlerFailed), 6_000, "+failed -late");
        check(RunState::Timeout, Some(Why::AttemptTimeout), 6_001, "+failed +late");
        check(RunState::Lost, Some(Why::WorkerSilent), 0, "+lost -late");
        check(RunState::Success, None, 0, "-failed -lost -missed -no_success -late");
        check(RunState::Killed, Some(Why::KilledByUser), 0, "-late");
        check(RunState::Skipped, Some(Why::Misfire), 0, "+missed");
        check(RunState::Skipped, Some(Why::Paused), 0, "");
        check(RunState::Skipped, Some(Why::ClockSuspect), 0, "+missed");
        let deaf = Rule { when: BTreeSet::from([Event::Lost]), late_ms: None, ..rule() };
        assert_eq!(words(&ended(&deaf, &run(RunState::Failed, None, 9_000), 0)), "");
    }

    #[test]
    fn what_is_live_is_judged() {
        let now = UnixMs(10_000_000);
        let check = |change: &dyn Fn(&mut Live), expected: &str| {
            let mut live = Live { success_since: Some(now.plus_ms(-1_000)), ..Live::default() };
            change(&mut live);
            assert_eq!(words(&super::live(&rule(), &live, now)), expected);
        };
        check(&|_| {}, "-no_worker -running -no_success");
        let waits = |why, ms: i64| (now.plus_ms(-ms), why, now.plus_ms(-ms));
        check(&|live| live.waiting.push(waits(Why::NoWorker, 4_000)), "-no_worker -running -no_success");
        check(&|live| live.waiting.push(waits(Why::NoWorker, 30_000)), "+no_worker +late -running -no_success");
        check(&|live| live.waiting.push(waits(Why::Frozen, 30_000)), "-no_worker -running -no_success");
        let open = |ms: i64, late: i64| (RunId(1), Some(now.plus_ms(-ms - late)), now.plus_ms(-ms));
        check(&|live| live.open.push(open(60_000, 0)), "-no_worker -running -no_success");
        check(&|live| live.open.push(open(60_001, 5_001)), "-no_worker +late +running -no_success");
        check(&|live| live.success_since = Some(now.plus_ms(-3_600_001)), "-no_worker -running +no_success");
        check(&|live| live.success_since = None, "-no_worker -running -no_success");
    }
}
