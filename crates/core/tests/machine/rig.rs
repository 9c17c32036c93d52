//! A machine with a reference store and a hand-held clock. Every batch is durable at once unless
//! `holds_commits` is set; calls pile up in lists that a test reads and answers.

use std::collections::BTreeMap;

use rota_core::batch::{Attempt, Batch, Origin, Row, Run};
use rota_core::id::{AppId, AttemptId, Block, Incarnation, JobId, PartitionId, RunId, Version, WorkerId};
use rota_core::job::{Definition, JobState, Spec, Target, When};
use rota_core::partition::{
    Answer, AskUpstream, Beat, Config, Dispatch, Effect, Enquiry, Holder, Input, Machine, Outcome, ReplyTo, Report,
    SendOutcome, Snapshot,
};
use rota_core::time::{Mono, Now, UnixMs};
use rota_core::upstream::Verdict;
use rota_core::worker::{Protocol, Registration, Secret, WorkerState};
use rota_port::child::Notes as _;
use rota_port::memory::MemoryStore;
use rota_port::store::{Reservation, Reserved, Store};
use rota_port::upstream;

pub(crate) const P0: PartitionId = PartitionId(0);
/// 2026-12-01T00:00:00Z.
pub(crate) const START: i64 = 1_796_083_200_000;

pub(crate) struct Rig {
    pub(crate) store: MemoryStore,
    pub(crate) machine: Machine,
    pub(crate) now: Now,
    pub(crate) app: AppId,
    pub(crate) holds_commits: bool,
    pub(crate) held: Vec<Batch>,
    pub(crate) sends: Vec<Dispatch>,
    pub(crate) probes: Vec<Enquiry>,
    pub(crate) cancels: Vec<Enquiry>,
    pub(crate) answers: BTreeMap<ReplyTo, Answer>,
    /// Slots that wait for upstream jobs, as a shell would keep them.
    pub(crate) asks: Vec<AskUpstream>,
    /// Jobs of which it was said that something ended.
    pub(crate) ended: Vec<JobId>,
    replies: u64,
}

impl Rig {
    pub(crate) fn new() -> Rig {
        Rig::with(Config::NATIVE)
    }

    pub(crate) fn with(config: Config) -> Rig {
        let mut store = MemoryStore::new(1);
        let what = Reservation::App { namespace: "default".into(), name: "etl".into(), pending_max: None, rates: None };
        let Ok(Reserved::App(app)) = store.reserve(&what) else { panic!("an app is made") };
        let now = Now { wall: UnixMs(START), mono: Mono(1_000_000) };
        let loaded = store.claim(&[P0]).unwrap().remove(0);
        let mut rig = Rig {
            store,
            machine: Machine::new(config, loaded, now),
            now,
            app: app.id,
            holds_commits: false,
            held: Vec::new(),
            sends: Vec::new(),
            probes: Vec::new(),
            cancels: Vec::new(),
            answers: BTreeMap::new(),
            asks: Vec::new(),
            ended: Vec::new(),
            replies: 0,
        };
        // A new store's mark lies at the begin of time; the first turn brings it up.
        rig.step(Input::Turn);
        rig
    }

    /// Another term over the same store, `ms` later; whatever was not durable is gone.
    pub(crate) fn restart(&mut self, ms: u64) {
        self.advance(ms);
        let loaded = self.store.claim(&[P0]).unwrap().remove(0);
        self.machine = Machine::new(Config::NATIVE, loaded, self.now);
        self.held.clear();
        self.sends.clear();
        self.probes.clear();
        self.cancels.clear();
        self.asks.clear();
        self.step(Input::Turn);
    }

    /// Moves both clocks; nobody is told.
    pub(crate) fn advance(&mut self, ms: u64) {
        self.now = Now { wall: self.now.wall.plus_ms(i64::try_from(ms).unwrap()), mono: self.now.mono.plus(ms) };
    }

    /// Moves the wall clock alone, as an operator or a time server does; nobody is told.
    pub(crate) fn shift_wall(&mut self, ms: i64) {
        self.now.wall = self.now.wall.plus_ms(ms);
    }

    /// Lets time pass while every worker beats, with all that it has.
    pub(crate) fn pass(&mut self, ms: u64) {
        let mut left = ms;
        while left > 0 {
            let step = left.min(5_000);
            self.silence(step);
            left -= step;
            if self.holds_commits {
                continue; // a beat would be answered only after the commit
            }
            let snapshot = self.snapshot();
            for worker in snapshot.workers.iter().filter(|w| w.state == WorkerState::Online && w.id.0 > 0) {
                let own = snapshot.attempts.iter().filter(|open| open.worker == worker.id);
                let running: Vec<AttemptId> = own.map(|open| open.attempt).collect();
                let beat = self.beat_of(worker.id, worker.incarnation, 1_000, &running);
                self.answer(|reply| Input::Beat { beat: Box::new(beat), reply });
            }
        }
    }

    /// Lets time pass in steps of at most a second, as a shell does; nobody beats.
    pub(crate) fn silence(&mut self, ms: u64) {
        let mut left = ms;
        while left > 0 {
            let step = left.min(1_000);
            self.advance(step);
            left -= step;
            self.step(Input::Turn);
        }
    }

    /// One input, the end of its round, and everything that follows from commits.
    pub(crate) fn step(&mut self, input: Input) {
        let mut out = Vec::new();
        self.feed(input, &mut out);
        self.feed(Input::Turn, &mut out);
        self.carry_all(out);
        self.machine.check().unwrap();
    }

    fn carry_all(&mut self, mut out: Vec<Effect>) {
        let mut rounds = 0;
        while !out.is_empty() {
            rounds += 1;
            assert!(rounds < 10_000, "a machine comes to rest");
            let mut next = Vec::new();
            for effect in out {
                self.carry(effect, &mut next);
            }
            out = next;
        }
    }

    /// One input without the end of its round; what leaves at once is carried out.
    pub(crate) fn enter(&mut self, input: Input) {
        let mut out = Vec::new();
        self.feed(input, &mut out);
        self.carry_all(out);
    }

    fn feed(&mut self, input: Input, out: &mut Vec<Effect>) {
        if self.machine.wants_ids(self.now) {
            let floor = rota_core::id::id_floor(self.now.wall);
            let first = self.store.reserve_ids(floor, 16_384).unwrap();
            self.machine.step(self.now, Input::Ids(Block::new(first, first + 16_384)), out);
        }
        self.machine.step(self.now, input, out);
    }

    fn carry(&mut self, effect: Effect, next: &mut Vec<Effect>) {
        match effect {
            Effect::Commit(batch) if self.holds_commits => self.held.push(*batch),
            Effect::Commit(batch) => self.commit(*batch, next),
            Effect::Send(dispatch) => {
                let row = self
                    .store
                    .with(|state| state.attempts_of(dispatch.run).find(|a| a.id == dispatch.attempt).cloned());
                assert!(row.is_some(), "a send rests on a durable attempt");
                self.sends.push(*dispatch);
            }
            Effect::Probe(enquiry) => self.probes.push(*enquiry),
            Effect::Cancel(enquiry) => self.cancels.push(*enquiry),
            Effect::Reply(to, answer) => {
                assert!(self.answers.insert(to, answer).is_none(), "a request is answered once");
            }
            Effect::AskUpstream(ask) => self.asks.push(*ask),
            Effect::Ended(job) => self.ended.push(job),
            Effect::WakeIn(0) => self.feed(Input::Turn, next),
            Effect::WakeIn(_) | Effect::Publish(_) => {}
        }
    }

    fn commit(&mut self, batch: Batch, next: &mut Vec<Effect>) {
        let seq = batch.seq;
        let outcome = self.store.commit(&[batch]).unwrap();
        assert_eq!(outcome, [rota_port::store::Outcome::Applied]);
        self.feed(Input::Committed(seq), next);
        self.feed(Input::Turn, next);
    }

    /// Judges what waits for upstream jobs by what is durable, and says what is final.
    pub(crate) fn judge(&mut self) {
        for ask in std::mem::take(&mut self.asks) {
            let verdict = match upstream::judge(&self.store, &ask, self.now.wall).unwrap() {
                Verdict::Met => Ok(()),
                Verdict::Unmet(why) => Err(why),
                Verdict::NotYet => {
                    self.asks.push(ask);
                    continue;
                }
            };
            self.step(Input::Upstream { job: ask.job, slot: ask.slot, verdict });
        }
    }

    /// Tells the machine of everything that ended and that nobody has answered, also of what it was told before.
    pub(crate) fn carry_notes(&mut self) {
        let notes = self.store.notes(P0, 0, u32::MAX).unwrap();
        self.step(Input::Children(notes));
    }

    /// Makes the held batches durable, and those that follow from them, in order.
    pub(crate) fn release_commits(&mut self) {
        while !self.held.is_empty() {
            self.release_one();
        }
        self.holds_commits = false;
    }

    /// Makes the oldest held batch durable, and says so.
    pub(crate) fn release_one(&mut self) {
        let batch = self.held.remove(0);
        let mut out = Vec::new();
        self.commit(batch, &mut out);
        self.carry_all(out);
    }

    /// A crash with batches on their way: the oldest `durable` of them reached the store, unheard.
    pub(crate) fn crash(&mut self, durable: usize) {
        for batch in self.held.drain(..).take(durable) {
            assert_eq!(self.store.commit(&[batch]).unwrap(), [rota_port::store::Outcome::Applied]);
        }
        self.holds_commits = false;
        self.restart(0);
    }

    /// Rows of another binary: a batch that this machine did not make. Only a restart may follow.
    pub(crate) fn write_behind_its_back(&mut self, rows: Vec<Row>) {
        let header = self.store.with(|state| state.header(P0));
        let (seq, at) = (rota_core::id::Seq(header.seq.0 + 1), self.now.wall);
        let (epoch, mark, floor) = (header.epoch, header.mark, header.floor);
        let batch = Batch { partition: P0, epoch, seq, at, mark, floor, rows };
        assert_eq!(self.store.commit(&[batch]).unwrap(), [rota_port::store::Outcome::Applied]);
    }

    /// Hands in a block with so many ids, in place of what is left.
    pub(crate) fn lend_ids(&mut self, left: u64) {
        let first = self.store.reserve_ids(rota_core::id::id_floor(self.now.wall), left).unwrap();
        self.enter(Input::Ids(Block::new(first, first + left)));
    }

    pub(crate) fn reply(&mut self) -> ReplyTo {
        self.replies += 1;
        ReplyTo(self.replies)
    }

    pub(crate) fn answer(&mut self, make: impl FnOnce(ReplyTo) -> Input) -> Answer {
        let reply = self.reply();
        self.step(make(reply));
        self.answers.remove(&reply).expect("the request is answered")
    }

    /// Defines a job and returns its id.
    pub(crate) fn job(&mut self, name: &str, spec: Spec) -> JobId {
        let definition = self.reserved(name, spec);
        let id = definition.id;
        let answer = self.answer(|reply| Input::Define { definition, expected: None, reply });
        assert!(matches!(answer, Answer::Defined { .. }), "{answer:?}");
        id
    }

    /// Defines jobs in one round.
    pub(crate) fn jobs(&mut self, prefix: &str, count: usize, spec: impl Fn(usize) -> Spec) {
        for n in 0..count {
            let definition = self.reserved(&format!("{prefix}{n}"), spec(n));
            let reply = self.reply();
            self.enter(Input::Define { definition, expected: None, reply });
        }
        self.step(Input::Turn);
    }

    fn reserved(&mut self, name: &str, spec: Spec) -> Box<Definition> {
        let what = Reservation::JobName { app: self.app, name: name.into(), at: self.now.wall };
        let Ok(Reserved::Job(id)) = self.store.reserve(&what) else { panic!("the name is free") };
        Box::new(self.definition(id, name, spec))
    }

    /// Replaces a job's version by a new one.
    pub(crate) fn edit(&mut self, job: JobId, version: u32, spec: Spec) -> Answer {
        let name = self.store.with(|state| state.jobs()[&job][0].name.clone());
        let definition = Box::new(self.definition(job, &name, spec));
        self.answer(|reply| Input::Define { definition, expected: Some(Version(version)), reply })
    }

    pub(crate) fn definition(&self, id: JobId, name: &str, spec: Spec) -> Definition {
        Definition {
            id,
            version: Version(0),
            app: self.app,
            name: name.into(),
            spec,
            state: JobState::Enabled,
            at: UnixMs(0),
            by: "test".into(),
            managed_by: None,
            pause: None,
        }
    }

    pub(crate) fn set_state(&mut self, job: JobId, state: JobState) -> Answer {
        self.answer(|reply| Input::SetState { job, state, expected: None, by: "test".into(), reason: None, reply })
    }

    pub(crate) fn trigger(&mut self, job: JobId) -> Answer {
        self.answer(|reply| Input::Trigger {
            job,
            param: None,
            request_id: None,
            origin: Origin::Manual,
            parent: None,
            reply,
        })
    }

    pub(crate) fn kill(&mut self, run: RunId) -> Answer {
        self.answer(|reply| Input::Kill { run, shard: None, reply })
    }

    pub(crate) fn registration(&self, id: u32, incarnation: u64) -> Registration {
        Registration {
            id: WorkerId(id),
            app: self.app,
            name: format!("w{id}"),
            incarnation: Incarnation(incarnation),
            url: format!("http://127.0.0.1:{id}"),
            protocol: Protocol::Http,
            handlers: vec!["echo".into()],
            labels: BTreeMap::new(),
            capacity: 0,
            list_max: 0,
            secret: Secret("s".into()),
            at: UnixMs(0),
        }
    }

    /// Registers a worker that offers `echo`; its name is reserved as the store would.
    pub(crate) fn worker(&mut self, id: u32) -> WorkerId {
        let registration = self.newcomer(id);
        self.register(registration, Holder::None);
        WorkerId(id)
    }

    /// Registers workers 1 to `count` in one round.
    pub(crate) fn workers(&mut self, count: u32) {
        for id in 1..=count {
            let registration = Box::new(self.newcomer(id));
            let reply = self.reply();
            self.enter(Input::Register { registration, is_reachable: true, holder: Holder::None, reply });
        }
        self.step(Input::Turn);
    }

    fn newcomer(&mut self, id: u32) -> Registration {
        let what = Reservation::WorkerName { app: self.app, name: format!("w{id}") };
        let Ok(Reserved::Worker(real)) = self.store.reserve(&what) else { panic!("a worker name is reserved") };
        assert_eq!(real, WorkerId(id), "workers are registered in order in these tests");
        self.registration(id, 1)
    }

    /// Another process takes a worker's name; that of the incarnation before is gone.
    pub(crate) fn replace_worker(&mut self, id: u32, incarnation: u64) {
        let registration = self.registration(id, incarnation);
        let answer = self.register(registration, Holder::Gone(Incarnation(incarnation - 1)));
        assert_eq!(answer, Answer::Registered(WorkerState::Online));
    }

    pub(crate) fn register(&mut self, registration: Registration, holder: Holder) -> Answer {
        let registration = Box::new(registration);
        self.answer(|reply| Input::Register { registration, is_reachable: true, holder, reply })
    }

    pub(crate) fn beat(&mut self, worker: WorkerId, no: u64, running: &[AttemptId]) -> Answer {
        let beat = self.beat_of(worker, Incarnation(1), no, running);
        self.answer(|reply| Input::Beat { beat: Box::new(beat), reply })
    }

    pub(crate) fn beat_of(&self, worker: WorkerId, incarnation: Incarnation, no: u64, running: &[AttemptId]) -> Beat {
        let (running, finished) = (running.to_vec(), Vec::new());
        Beat { worker, incarnation, no, running, finished, capacity: None, labels: None }
    }

    /// Lets time pass while this worker beats every five seconds with these attempts.
    pub(crate) fn pass_beating(&mut self, ms: u64, worker: WorkerId, running: &[AttemptId]) {
        let mut left = ms;
        let mut no = 1_000;
        while left > 0 {
            let step = left.min(5_000);
            self.silence(step);
            left -= step;
            no += 1;
            self.beat(worker, no, running);
        }
    }

    pub(crate) fn accept(&mut self, attempt: AttemptId) {
        self.step(Input::Sent { attempt, outcome: SendOutcome::Accepted { next_beat: 1 } });
    }

    pub(crate) fn report(&mut self, dispatch: &Dispatch, outcome: Outcome) -> Answer {
        self.report_with(dispatch, outcome, None)
    }

    pub(crate) fn report_with(&mut self, dispatch: &Dispatch, outcome: Outcome, message: Option<&str>) -> Answer {
        let reply = self.reply();
        self.step(results(dispatch, outcome, message, reply));
        self.answers.remove(&reply).expect("the report is answered")
    }

    /// Accepts everything that was sent and reports its success.
    pub(crate) fn do_all(&mut self) {
        for send in std::mem::take(&mut self.sends) {
            self.accept(send.attempt);
            let reply = self.reply();
            self.step(results(&send, Outcome::Success, None, reply));
        }
    }

    pub(crate) fn take_send(&mut self) -> Dispatch {
        assert_eq!(self.sends.len(), 1, "one send: {:?}", self.sends);
        self.sends.remove(0)
    }

    pub(crate) fn run(&self, id: RunId) -> Run {
        self.store.with(|state| state.runs()[&id].clone())
    }

    pub(crate) fn runs(&self) -> Vec<Run> {
        self.store.with(|state| state.runs().values().cloned().collect())
    }

    pub(crate) fn attempts(&self, run: RunId) -> Vec<Attempt> {
        self.store.with(|state| state.attempts_of(run).cloned().collect())
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.machine.snapshot(self.now)
    }

    /// How many batches are durable.
    pub(crate) fn batches(&self) -> u64 {
        self.store.with(|state| state.header(P0).seq.0)
    }

    /// How often a word occurs in the machine's own state: for what grows without being seen otherwise.
    pub(crate) fn mentions(&self, word: &str) -> usize {
        format!("{:?}", self.machine).matches(word).count()
    }
}

/// What the worker of a dispatch reports.
pub(crate) fn results(dispatch: &Dispatch, outcome: Outcome, message: Option<&str>, reply: ReplyTo) -> Input {
    let worker = dispatch.worker.as_ref().expect("a worker");
    let report = Report {
        attempt: dispatch.attempt,
        run: dispatch.run,
        shard: dispatch.shard,
        no: dispatch.no,
        outcome,
        message: message.map(Into::into),
    };
    Input::Results { worker: worker.id, incarnation: worker.incarnation, reports: vec![report], reply }
}

pub(crate) fn echo(schedule: When) -> Spec {
    Spec::new(schedule, Target::Handler { name: "echo".into(), param: "hi".into() })
}

/// One word per row, `state/why` with the slot in seconds since the start: what tests compare.
pub(crate) fn story(runs: &[Run]) -> Vec<String> {
    let seconds = |at: UnixMs| (at.0 - START) as f64 / 1_000.0;
    runs.iter()
        .map(|run| {
            let why = run.why.map_or(String::new(), |why| format!("/{why}"));
            let range =
                if run.slots > 1 { format!("..{} x{}", seconds(run.slot_last), run.slots) } else { String::new() };
            format!("{}{range} {}{why}", seconds(run.slot), run.state.word())
        })
        .collect()
}
