use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const ME: u64 = 7;

fn machine(capacity: u32, memory: Memory) -> Attempts {
    Attempts::new(ME, BTreeSet::from(["echo".to_owned()]), capacity, memory)
}

fn ask(attempt: u64) -> Execute {
    Execute {
        incarnation: ME,
        epoch: 1,
        attempt,
        run: attempt + 1_000,
        shard: 0,
        shards: 1,
        no: 1,
        idempotency_key: format!("{}/0", attempt + 1_000),
        job: 1,
        job_name: "job".to_owned(),
        version: 1,
        origin: "schedule".to_owned(),
        slot: "2026-12-01T02:00:00Z".to_owned(),
        zone: "UTC".to_owned(),
        handler: "echo".to_owned(),
        param: String::new(),
        timeout_ms: None,
        traceparent: None,
    }
}

fn enquiry(attempt: u64) -> Enquiry {
    Enquiry { incarnation: ME, epoch: 1, attempt, run: attempt + 1_000, shard: 0, no: 1 }
}

#[test]
fn the_same_attempt_again_is_known_and_not_started() {
    let mut machine = machine(0, Memory::DEFAULT);
    assert_eq!(machine.execute(Mono(0), &ask(1)), Verdict::Start(1));
    assert_eq!(machine.execute(Mono(0), &ask(1)), Verdict::Known(1));
    machine.beat();
    machine.finish(1, Outcome::Success, None);
    assert_eq!(machine.execute(Mono(0), &ask(1)), Verdict::Known(2));
    machine.reports();
    machine.settle(Mono(0), &[1]);
    assert_eq!(machine.execute(Mono(0), &ask(1)), Verdict::Known(2));
}

#[test]
fn each_obstacle_has_its_refusal_and_stays() {
    type Change = fn(&mut Execute);
    let cases: [(Change, Refusal); 4] = [
        (|ask| ask.incarnation = 8, Refusal::ForeignIncarnation),
        (|ask| ask.epoch = 1, Refusal::StaleEpoch),
        (|ask| ask.handler = "other".to_owned(), Refusal::UnknownHandler),
        (|_| {}, Refusal::Full),
    ];
    for (change, refusal) in cases {
        let mut machine = machine(1, Memory::DEFAULT);
        let first = Execute { epoch: 2, ..ask(1) };
        assert_eq!(machine.execute(Mono(0), &first), Verdict::Start(1));
        let mut second = Execute { epoch: 2, ..ask(2) };
        change(&mut second);
        assert_eq!(machine.execute(Mono(0), &second), Verdict::Refused(refusal));
        machine.finish(1, Outcome::Success, None);
        assert_eq!(machine.execute(Mono(0), &second), Verdict::Refused(refusal), "what was refused stays so");
    }
    let mut machine = machine(0, Memory::DEFAULT);
    machine.drain();
    assert_eq!(machine.execute(Mono(0), &ask(1)), Verdict::Refused(Refusal::Draining));
}

#[test]
fn another_incarnations_attempt_is_not_remembered() {
    let mut machine = machine(0, Memory::DEFAULT);
    let foreign = Execute { incarnation: 8, epoch: 99, ..ask(1) };
    assert_eq!(machine.execute(Mono(0), &foreign), Verdict::Refused(Refusal::ForeignIncarnation));
    assert_eq!(machine.probe(Mono(0), &Enquiry { incarnation: 8, ..enquiry(1) }), Ok(Status::ForeignIncarnation));
    assert_eq!(machine.execute(Mono(0), &ask(1)), Verdict::Start(1));
}

#[test]
fn a_stale_term_learns_that_a_running_attempt_was_accepted() {
    let mut machine = machine(0, Memory::DEFAULT);
    machine.execute(Mono(0), &ask(1));
    machine.execute(Mono(0), &Execute { epoch: 5, ..ask(2) });
    assert_eq!(machine.execute(Mono(0), &ask(1)), Verdict::Known(1), "a refusal would say that it did not start");
    assert_eq!(machine.probe(Mono(0), &enquiry(1)), Err(Refusal::StaleEpoch));
}

#[test]
fn an_enquiry_raises_the_term_too() {
    let mut machine = machine(0, Memory::DEFAULT);
    assert_eq!(machine.probe(Mono(0), &Enquiry { epoch: 5, ..enquiry(9) }), Ok(Status::NeverSeen));
    assert_eq!(machine.execute(Mono(0), &ask(10)), Verdict::Refused(Refusal::StaleEpoch));
}

#[test]
fn what_was_never_seen_is_refused_from_then_on() {
    let mut machine = machine(0, Memory::DEFAULT);
    assert_eq!(machine.probe(Mono(0), &enquiry(1)), Ok(Status::NeverSeen));
    assert_eq!(machine.execute(Mono(0), &ask(1)), Verdict::Refused(Refusal::Cancelled));
    assert_eq!(machine.probe(Mono(0), &enquiry(1)), Ok(Status::NeverSeen));
}

#[test]
fn a_probe_tells_the_result_and_after_its_acknowledgement_at_least_the_outcome() {
    let mut machine = machine(0, Memory::DEFAULT);
    machine.execute(Mono(0), &ask(1));
    assert_eq!(machine.probe(Mono(0), &enquiry(1)), Ok(Status::Running { next_beat: 1 }));
    assert!(machine.finish(1, Outcome::Failed, Some("boom".to_owned())));
    let key = Key { run: 1_001, shard: 0, no: 1 };
    let said = result(1, key, Outcome::Failed, Some("boom".to_owned()));
    assert_eq!(machine.probe(Mono(0), &enquiry(1)), Ok(Status::Finished { result: said.clone() }));
    assert_eq!(machine.reports(), [said]);
    machine.settle(Mono(0), &[1]);
    let kept = result(1, key, Outcome::Failed, None);
    assert_eq!(machine.probe(Mono(0), &enquiry(1)), Ok(Status::Finished { result: kept }));
    assert_eq!((machine.unacknowledged(), machine.has_reports()), (0, false));
}

#[test]
fn what_is_not_acknowledged_is_reported_again_behind_the_others() {
    let mut machine = machine(0, Memory::DEFAULT);
    for attempt in 1..=3 {
        machine.execute(Mono(0), &ask(attempt));
    }
    machine.finish(1, Outcome::Success, None);
    machine.finish(2, Outcome::Success, None);
    let attempts = |list: Vec<AttemptResult>| list.into_iter().map(|one| one.attempt).collect::<Vec<_>>();
    assert_eq!(attempts(machine.reports()), [1, 2]);
    machine.finish(3, Outcome::Success, None);
    machine.settle(Mono(0), &[2, 3, 999]);
    assert_eq!(machine.beat(), (1, vec![], vec![1]));
    assert_eq!(attempts(machine.reports()), [1], "3 was acknowledged before its turn");
    machine.settle(Mono(0), &[]);
    assert_eq!(attempts(machine.reports()), [1]);
}

/// Field case B082: what was not acknowledged is reported in bounded parts.
#[test]
fn a_list_is_bounded_in_count_and_bytes() {
    let mut machine = machine(0, Memory::DEFAULT);
    for attempt in 1..=1_000 {
        machine.execute(Mono(0), &ask(attempt));
        let message = (attempt > 600).then(|| "é".repeat(MESSAGE_BYTES_MAX));
        machine.finish(attempt, Outcome::Success, message);
    }
    let first = machine.reports();
    assert_eq!(first.len(), REPORTS_MAX);
    machine.settle(Mono(0), &first.iter().map(|one| one.attempt).collect::<Vec<_>>());
    let second = machine.reports();
    assert_eq!(second.len(), 100 + REPORT_BYTES_MAX / MESSAGE_BYTES_MAX);
    assert_eq!(second.last().and_then(|one| one.message.as_ref()).map(String::len), Some(MESSAGE_BYTES_MAX));
}

#[test]
fn memory_is_bounded_by_age_and_count_and_forgetting_never_lets_a_second_start_through() {
    let mut machine = machine(0, Memory { keys_max: 4, keep_ms: 100 });
    for attempt in 1..=3 {
        machine.execute(Mono(0), &ask(attempt));
        machine.finish(attempt, Outcome::Success, None);
    }
    assert_eq!(machine.probe(Mono(0), &enquiry(4)), Ok(Status::NeverSeen));
    machine.reports();
    machine.settle(Mono(0), &[1, 2]);
    assert_eq!(machine.execute(Mono(50), &ask(5)), Verdict::Start(1));
    assert!(!machine.rows.contains_key(&1), "the oldest acknowledged one goes first");
    assert!(machine.rows.contains_key(&2));
    assert_eq!(machine.execute(Mono(50), &ask(1)), Verdict::Refused(Refusal::Cancelled));
    assert_eq!(machine.execute(Mono(200), &ask(6)), Verdict::Start(1));
    assert_eq!(machine.rows.keys().copied().collect::<BTreeSet<_>>(), BTreeSet::from([3, 5, 6]));
    assert_eq!(machine.execute(Mono(200), &ask(4)), Verdict::Refused(Refusal::Cancelled));
    assert_eq!(machine.execute(Mono(200), &ask(7)), Verdict::Start(1));
    assert_eq!(machine.execute(Mono(200), &ask(8)), Verdict::Refused(Refusal::Full), "nothing may be forgotten");
}

#[derive(Clone, Debug)]
enum Step {
    Execute { attempt: u64, epoch: u64, is_mine: bool, is_offered: bool },
    Probe { attempt: u64, epoch: u64 },
    Finish(usize),
    Push,
    Settle(u64),
    Beat,
    Wait(u64),
    Drain,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (1..40_u64, 1..4_u64, prop::bool::weighted(0.95), prop::bool::weighted(0.95)).prop_map(
            |(attempt, epoch, is_mine, is_offered)| Step::Execute { attempt, epoch, is_mine, is_offered }),
        3 => (1..40_u64, 1..4_u64).prop_map(|(attempt, epoch)| Step::Probe { attempt, epoch }),
        6 => (0..8_usize).prop_map(Step::Finish),
        3 => Just(Step::Push),
        3 => any::<u64>().prop_map(Step::Settle),
        3 => Just(Step::Beat),
        1 => (0..200_u64).prop_map(Step::Wait),
        1 => Just(Step::Drain),
    ]
}

/// What an observer outside knows, without any forgetting.
#[derive(Default)]
struct Model {
    started: BTreeSet<u64>,
    /// Refused as `never started`, or answered `never_seen`.
    denied: BTreeSet<u64>,
    running: Vec<u64>,
    unacknowledged: BTreeSet<u64>,
    in_flight: Option<Vec<u64>>,
    /// The beat in which an accepted attempt must be listed, unless it is acknowledged by then.
    listed_from: BTreeMap<u64, u64>,
    beat: u64,
}

impl Model {
    fn take(&mut self, machine: &mut Attempts, now: Mono, step: Step) {
        match step {
            Step::Execute { attempt, epoch, is_mine, is_offered } => {
                let handler = if is_offered { "echo" } else { "other" }.to_owned();
                let incarnation = if is_mine { ME } else { ME + 1 };
                self.execute(machine, now, &Execute { incarnation, epoch, handler, ..ask(attempt) });
            }
            Step::Probe { attempt, epoch } => {
                self.probe(attempt, machine.probe(now, &Enquiry { epoch, ..enquiry(attempt) }));
            }
            Step::Finish(at) if !self.running.is_empty() => {
                let attempt = self.running.remove(at % self.running.len());
                let is_last = machine.finish(attempt, Outcome::Success, None);
                assert_eq!(is_last, self.running.is_empty());
                self.unacknowledged.insert(attempt);
            }
            Step::Push if self.in_flight.is_none() => {
                let list: Vec<u64> = machine.reports().into_iter().map(|one| one.attempt).collect();
                assert!(list.iter().all(|attempt| self.unacknowledged.contains(attempt)));
                self.in_flight = Some(list);
            }
            Step::Settle(chosen) => {
                let Some(list) = self.in_flight.take() else { return };
                let is_chosen = |at: usize| chosen >> (at % 64) & 1 == 1;
                let some: Vec<u64> =
                    list.iter().enumerate().filter(|(at, _)| is_chosen(*at)).map(|(_, id)| *id).collect();
                machine.settle(now, &some);
                self.unacknowledged.retain(|attempt| !some.contains(attempt));
            }
            Step::Beat => self.check_beat(machine.beat()),
            Step::Drain => machine.drain(),
            Step::Finish(_) | Step::Push | Step::Wait(_) => {}
        }
        assert_eq!((machine.running(), machine.unacknowledged()), (self.running.len(), self.unacknowledged.len()));
    }

    fn execute(&mut self, machine: &mut Attempts, now: Mono, ask: &Execute) {
        let attempt = ask.attempt;
        match machine.execute(now, ask) {
            Verdict::Start(next_beat) => {
                assert!(ask.incarnation == ME && ask.handler == "echo", "{ask:?} must not start");
                assert!(!self.denied.contains(&attempt), "{attempt} was denied and starts");
                assert!(self.started.insert(attempt), "{attempt} starts twice");
                self.running.push(attempt);
                self.listed_from.insert(attempt, next_beat);
                assert_eq!(next_beat, self.beat + 1);
            }
            Verdict::Known(_) => assert!(self.started.contains(&attempt), "{attempt} is not known"),
            Verdict::Refused(Refusal::ForeignIncarnation) => assert_ne!(ask.incarnation, ME),
            Verdict::Refused(_) => {
                let is_open = self.running.contains(&attempt) || self.unacknowledged.contains(&attempt);
                assert!(!is_open, "{attempt} was accepted, and is refused before its result was acknowledged");
                self.denied.insert(attempt);
            }
        }
    }

    fn probe(&mut self, attempt: u64, answer: Result<Status, Refusal>) {
        let is_running = self.running.contains(&attempt);
        let is_unacknowledged = self.unacknowledged.contains(&attempt);
        match answer {
            Ok(Status::NeverSeen) => {
                assert!(!is_running && !is_unacknowledged);
                self.denied.insert(attempt);
            }
            Ok(Status::Running { next_beat }) => {
                assert!(is_running);
                assert_eq!(next_beat, self.beat + 1);
            }
            Ok(Status::Finished { result }) => {
                assert!(self.started.contains(&attempt) && !is_running);
                assert_eq!(result.attempt, attempt);
            }
            Ok(Status::ForeignIncarnation) => panic!("it is mine"),
            Err(refusal) => assert_eq!(refusal, Refusal::StaleEpoch),
        }
    }

    fn check_beat(&mut self, (no, running, finished): (u64, Vec<u64>, Vec<u64>)) {
        self.beat += 1;
        assert_eq!(no, self.beat);
        assert_eq!(BTreeSet::from_iter(running), self.running.iter().copied().collect());
        assert_eq!(BTreeSet::from_iter(finished), self.unacknowledged);
        assert!(self.listed_from.values().all(|from| *from <= self.beat));
    }
}

proptest! {
    #[test]
    fn no_history_breaks_the_promises(
        steps in prop::collection::vec(step(), 1..200),
        keys_max in 3..50_usize,
        capacity in 0..6_u32,
    ) {
        let mut machine = machine(capacity, Memory { keys_max, keep_ms: 300 });
        let (mut model, mut now) = (Model::default(), Mono(0));
        for step in steps {
            if let Step::Wait(ms) = step {
                now = Mono(now.0 + ms);
            }
            model.take(&mut machine, now, step);
            prop_assert!(machine.rows.len() <= keys_max);
            prop_assert!(capacity == 0 || machine.running() <= capacity as usize);
        }
    }
}
