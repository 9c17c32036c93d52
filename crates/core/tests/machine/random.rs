//! Any order of operations and crashes covers each slot once, and loses none.
//!
//! A seed is a story of operators, workers that refuse, fail, fall silent and are replaced, clocks that
//! step, and crashes between a commit and its notice. In the end everybody comes back, all jobs are
//! resumed, and whatever is owed has to be covered.

use std::ops::Range;

use rota_core::batch::Origin;
use rota_core::id::{Incarnation, JobId, WorkerId};
use rota_core::job::{JobState, Overlap, Retry, Spec, When};
use rota_core::partition::{Config, Dispatch, Holder, Input, Outcome, ProbeAnswer, ReplyTo, SendOutcome};
use rota_core::why::Why;

use super::rig::{Rig, echo, results};

/// The stories that are told; a longer search is another range here.
const SEEDS: Range<u64> = 1..26;
const OPERATIONS: u32 = 300;
const JOBS_MAX: usize = 8;
const WORKERS_MAX: u32 = 3;

/// Field case B093: after every step, load is counted anew from what is unreleased.
#[test]
fn any_order_of_operations_and_crashes_covers_each_slot_once() {
    for seed in SEEDS {
        // Shown if the test fails: the last one is the one that did.
        eprintln!("seed {seed}");
        let mut story = Story::new(seed);
        for _ in 0..OPERATIONS {
            let before = story.rig.batches();
            story.operate();
            if story.rig.batches() > before {
                story.rig.check_ledger();
            }
        }
        story.come_to_rest();
    }
}

struct Story {
    rig: Rig,
    random: Random,
    jobs: Vec<Job>,
    /// The incarnation of each worker, from the first on.
    workers: Vec<u64>,
    sends: Vec<Dispatch>,
    beat_no: u64,
}

struct Job {
    id: JobId,
    period_ms: u64,
    version: u32,
}

impl Story {
    fn new(seed: u64) -> Story {
        let rig = Rig::with(Config { send_credits: 2, ..Config::NATIVE });
        let random = Random::new(seed);
        Story { rig, random, jobs: Vec::new(), workers: Vec::new(), sends: Vec::new(), beat_no: 1 }
    }

    fn operate(&mut self) {
        match self.random.below(28) {
            0 | 1 => self.define(),
            2 => self.add_worker(),
            3 => self.replace_worker(),
            4 => self.set_state(JobState::Paused),
            5 | 6 => self.set_state(JobState::Enabled),
            7 => self.edit(),
            8 if self.random.below(2) == 0 => self.crash(),
            9 => self.rig.holds_commits = true,
            10 => self.rig.release_commits(),
            11 => self.trigger(),
            12 => {
                let steps = self.random.below(50).cast_signed() - 25;
                self.rig.shift_wall(steps * 100);
            }
            13 => self.kill(),
            14 => self.beat(),
            15 => self.resolve_a_doubt(),
            16 if self.random.below(8) == 0 => {
                let minutes = self.random.below(5).cast_signed() - 2;
                self.rig.shift_wall(minutes * 61_000);
                self.rig.step(Input::Turn);
            }
            17..=21 => self.answer_a_send(),
            _ => {
                let ms = self.random.below(2_500);
                self.rig.advance(ms);
                self.rig.step(Input::Turn);
            }
        }
    }

    /// Answers may have to wait for commits; nobody looks at them here.
    fn ask(&mut self, make: impl FnOnce(ReplyTo) -> Input) {
        let reply = self.rig.reply();
        self.rig.step(make(reply));
    }

    fn spec(&mut self, period_ms: u64) -> Spec {
        let mut spec = echo(When::EveryMs(period_ms));
        if self.random.below(3) == 0 {
            spec.overlap = Overlap::SKIP;
        }
        if self.random.below(3) == 0 {
            spec.timeout.start_ms = Some(500 + self.random.below(5_000));
        }
        if self.random.below(4) == 0 {
            spec.timeout.attempt_ms = Some(1_000 + self.random.below(5_000));
        }
        if self.random.below(3) == 0 {
            spec.retry = Retry { max: 2, delay_ms: self.random.below(3_000), ..Retry::default() };
        }
        if self.random.below(4) == 0 {
            spec.timeout.run_ms = Some(1_000 + self.random.below(20_000));
        }
        if self.random.below(4) == 0 {
            spec.shards = 2;
        }
        if self.random.below(4) == 0 {
            spec.route.labels = "zone!=x".into();
        }
        spec
    }

    fn define(&mut self) {
        if self.jobs.len() == JOBS_MAX {
            return;
        }
        self.rig.release_commits();
        let period_ms = *self.random.pick(&[1_000, 2_000, 5_000, 7_000]);
        let spec = self.spec(period_ms);
        let id = self.rig.job(&format!("j{}", self.jobs.len()), spec);
        self.jobs.push(Job { id, period_ms, version: 1 });
    }

    fn edit(&mut self) {
        let Some(at) = self.random.position(self.jobs.len()) else { return };
        let Job { id, period_ms, version } = self.jobs[at];
        let spec = self.spec(period_ms);
        self.rig.release_commits();
        self.rig.edit(id, version, spec);
        self.jobs[at].version += 1;
    }

    fn set_state(&mut self, state: JobState) {
        if let Some(at) = self.random.position(self.jobs.len()) {
            let job = self.jobs[at].id;
            self.ask(|reply| Input::SetState { job, state, expected: None, by: "story".into(), reason: None, reply });
        }
    }

    fn trigger(&mut self) {
        if let Some(at) = self.random.position(self.jobs.len()) {
            let job = self.jobs[at].id;
            self.ask(|reply| Input::Trigger {
                job,
                param: None,
                request_id: None,
                origin: Origin::Api,
                parent: None,
                reply,
            });
        }
    }

    fn kill(&mut self) {
        let open = self.rig.snapshot().attempts;
        if let Some(at) = self.random.position(open.len()) {
            let run = open[at].run;
            self.ask(|reply| Input::Kill { run, shard: None, reply });
        }
    }

    fn add_worker(&mut self) {
        let id = u32::try_from(self.workers.len()).unwrap() + 1;
        if id <= WORKERS_MAX {
            self.rig.release_commits();
            self.rig.worker(id);
            self.workers.push(1);
        }
    }

    fn replace_worker(&mut self) {
        let Some(at) = self.random.position(self.workers.len()) else { return };
        let holder = if self.random.below(3) == 0 { Holder::Silent } else { Holder::Gone(self.incarnation(at)) };
        let registration = Box::new(self.rig.registration(self.worker(at).0, self.workers[at] + 1));
        let is_proven = holder != Holder::Silent;
        self.ask(|reply| Input::Register { registration, is_reachable: true, holder, reply });
        let taken = self
            .rig
            .snapshot()
            .workers
            .iter()
            .any(|live| (live.id, live.incarnation.0) == (self.worker(at), self.workers[at] + 1));
        assert!(taken || !is_proven, "a name whose holder is gone is free");
        self.workers[at] += u64::from(taken);
    }

    fn worker(&self, at: usize) -> WorkerId {
        WorkerId(u32::try_from(at).unwrap() + 1)
    }

    fn incarnation(&self, at: usize) -> Incarnation {
        Incarnation(self.workers[at])
    }

    /// A beat with a part of what the worker has.
    fn beat(&mut self) {
        let Some(at) = self.random.position(self.workers.len()) else { return };
        let worker = self.worker(at);
        let mut running: Vec<_> =
            self.rig.snapshot().attempts.iter().filter(|open| open.worker == worker).map(|open| open.attempt).collect();
        running.retain(|_| self.random.below(4) > 0);
        self.beat_no += 1;
        let beat = Box::new(self.rig.beat_of(worker, self.incarnation(at), self.beat_no, &running));
        self.ask(|reply| Input::Beat { beat, reply });
    }

    fn resolve_a_doubt(&mut self) {
        let Some(at) = self.random.position(self.rig.probes.len()) else { return };
        let attempt = self.rig.probes.swap_remove(at).attempt;
        let running = ProbeAnswer::Running { next_beat: self.beat_no + 1 };
        let answers = [ProbeAnswer::NeverSeen, ProbeAnswer::Silent, running];
        let answer = self.random.pick(&answers).clone();
        self.rig.step(Input::Probed { attempt, answer });
    }

    fn answer_a_send(&mut self) {
        self.sends.append(&mut self.rig.sends);
        let Some(at) = self.random.position(self.sends.len()) else { return };
        let send = self.sends.swap_remove(at);
        let attempt = send.attempt;
        let outcome = match self.random.below(5) {
            0 => SendOutcome::InDoubt,
            1 => SendOutcome::NotStarted(Why::RefusedFull),
            _ => SendOutcome::Accepted { next_beat: self.beat_no + 1 },
        };
        let is_accepted = matches!(outcome, SendOutcome::Accepted { .. });
        self.rig.step(Input::Sent { attempt, outcome });
        if is_accepted && self.random.below(4) > 0 {
            let outcome = *self.random.pick(&[Outcome::Success, Outcome::Success, Outcome::Failed(Why::HandlerFailed)]);
            self.ask(|reply| results(&send, outcome, None, reply));
        }
    }

    fn crash(&mut self) {
        let durable = self.random.position(self.rig.held.len() + 1).unwrap();
        self.rig.crash(durable);
        self.sends.clear();
        // A take-over that was not durable never happened.
        for at in 0..self.workers.len() {
            let worker = self.worker(at);
            self.workers[at] = self.rig.store.with(|state| state.workers()[&worker].0.incarnation.0);
        }
        let ms = self.random.below(4_000);
        self.rig.advance(ms);
        self.rig.step(Input::Turn);
    }

    fn replace_all_workers(&mut self) {
        for at in 0..self.workers.len() {
            self.workers[at] += 1;
            self.rig.replace_worker(self.worker(at).0, self.workers[at]);
        }
    }

    /// Everybody comes back and does all there is, until nothing waits.
    fn come_to_rest(&mut self) {
        self.rig.release_commits();
        if self.random.below(2) == 0 {
            self.rig.restart(100);
        }
        // Every send is answered in the end, if only by its deadline.
        for send in std::mem::take(&mut self.sends) {
            self.rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::InDoubt });
        }
        while self.workers.len() < WORKERS_MAX as usize {
            self.add_worker();
        }
        for at in 0..self.jobs.len() {
            self.rig.set_state(self.jobs[at].id, JobState::Enabled);
        }
        let mut is_at_rest = false;
        for round in 0..2_000 {
            if round % 10 == 0 {
                self.replace_all_workers();
            }
            self.rig.do_all();
            self.rig.advance(500);
            self.rig.step(Input::Turn);
            let snapshot = self.rig.snapshot();
            let is_done = snapshot.held.is_empty() && snapshot.waiting.is_empty() && snapshot.attempts_open == 0;
            if is_done
                && snapshot.suspended.is_none()
                && snapshot.next.iter().all(|(_, slot)| *slot > self.rig.now.wall)
            {
                is_at_rest = true;
                break;
            }
        }
        assert!(is_at_rest, "something waits for ever: {:?}", self.rig.snapshot());
        // One more batch carries the mark up to now; what it passes has to be covered.
        self.rig.job("last", echo(When::Manual));
        self.rig.check_ledger();
        for job in &self.jobs {
            let next = self.rig.snapshot().next.iter().find(|(id, _)| *id == job.id).expect("it is armed").1;
            let period = job.period_ms.cast_signed();
            assert_eq!(next.0 - next.0.rem_euclid(period), next.0, "slots count from the Unix epoch");
            let last = (next.0 - period - super::rig::START) / 1_000;
            assert!(self.rig.covered(job.id).iter().all(|slot| *slot <= last), "armed at a slot that has a row");
        }
    }
}

/// A small xorshift generator: the same story for the same seed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..5 {
            random.below(2);
        }
        random
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    /// A place in something of this length; none if it is empty.
    fn position(&mut self, len: usize) -> Option<usize> {
        (len > 0).then(|| usize::try_from(self.below(len as u64)).unwrap())
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = self.position(from.len()).expect("a choice has alternatives");
        &from[at]
    }
}
