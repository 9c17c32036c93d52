//! A store with an app, and short ways to write rows.

use std::sync::Arc;

use rota_core::batch::{Attempt, AttemptState, Batch, Exception, Loaded, Origin, Row, Run, RunState};
use rota_core::id::{
    AppId, AttemptId, Epoch, Incarnation, JobId, PartitionId, RunId, Seq, Version, WorkerId, partition_of,
};
use rota_core::job::{Definition, JobState, Spec, Target, When};
use rota_core::time::UnixMs;
use rota_core::worker::{App, Protocol, Registration, Secret, WorkerState};

use super::{Open, Reads};
use crate::store::{Error, Outcome, Reservation, Reserved, Store};

/// The moment at which the cases take place.
pub(super) const T: UnixMs = UnixMs(1_800_000_000_000);
/// An id as they are at that moment.
pub(super) const ID: u64 = 222_163_200 << 20;

/// An open store whose first app's partition is claimed.
pub(super) struct Bench {
    pub(super) store: Box<dyn Store>,
    pub(super) query: Box<dyn Reads>,
    pub(super) app: AppId,
    pub(super) partition: PartitionId,
    pub(super) epoch: Epoch,
    pub(super) seq: Seq,
    pub(super) loaded: Loaded,
}

impl Bench {
    pub(super) fn open(open: Open<'_>) -> Bench {
        let (mut store, query) = open();
        let app = app(&mut *store, "pay");
        let partition = partition_of("shop", "pay", store.partitions());
        let loaded = store.claim(&[partition]).unwrap().remove(0);
        Bench { store, query, app, partition, epoch: loaded.epoch, seq: loaded.seq, loaded }
    }

    /// Drops the store and opens it again.
    pub(super) fn reopen(self, open: Open<'_>) -> Bench {
        drop(self);
        Bench::open(open)
    }

    /// Begins another term.
    pub(super) fn claim(&mut self) -> Loaded {
        let loaded = self.store.claim(&[self.partition]).unwrap().remove(0);
        (self.epoch, self.seq) = (loaded.epoch, loaded.seq);
        loaded
    }

    /// The batch after the last one, not committed.
    pub(super) fn batch(&self, rows: Vec<Row>) -> Batch {
        Batch {
            partition: self.partition,
            epoch: self.epoch,
            seq: Seq(self.seq.0 + 1),
            at: T,
            mark: T,
            floor: ID,
            rows,
        }
    }

    pub(super) fn commit(&mut self, rows: Vec<Row>) {
        let batch = self.batch(rows);
        self.apply(batch);
    }

    pub(super) fn apply(&mut self, batch: Batch) {
        let seq = batch.seq;
        assert_eq!(self.store.commit(&[batch]), Ok(vec![Outcome::Applied]));
        self.seq = seq;
    }

    /// Commits rows that contradict what is stored.
    pub(super) fn refuse(&mut self, rows: Vec<Row>) {
        let refused = self.store.commit(&[self.batch(rows)]);
        assert!(matches!(refused, Err(Error::Corrupt(_))), "{refused:?}");
    }

    pub(super) fn reserve(&mut self, what: Reservation) -> Reserved {
        self.store.reserve(&what).unwrap()
    }

    /// A job of the app, reserved, defined and committed.
    pub(super) fn job(&mut self, name: &str) -> JobId {
        let reserved = self.reserve(Reservation::JobName { app: self.app, name: name.to_owned(), at: T });
        let Reserved::Job(job) = reserved else { panic!("{name} is new, but: {reserved:?}") };
        self.commit(vec![Row::Definition(Box::new(definition(job, 1, self.app, name)))]);
        job
    }

    /// A run of the app, in state `dispatched`.
    pub(super) fn run(&self, n: u64, job: JobId) -> Run {
        Run {
            id: RunId(ID + n),
            app: self.app,
            job,
            version: Version(1),
            origin: Origin::Schedule,
            slot: T,
            slot_last: T,
            slots: 1,
            state: RunState::Dispatched,
            why: None,
            shards: 1,
            at: T.plus_ms(3),
            ended_at: None,
            param: None,
        }
    }

    /// A skipped row of the app.
    pub(super) fn skipped(&self, n: u64, job: JobId) -> Run {
        let run = self.run(n, job);
        Run {
            state: RunState::Skipped,
            why: Some(rota_core::why::Why::Overlap),
            shards: 0,
            ended_at: Some(run.at),
            ..run
        }
    }
}

/// Makes an app of namespace `shop`.
pub(super) fn app(store: &mut dyn Store, name: &str) -> AppId {
    let what = Reservation::App { namespace: "shop".to_owned(), name: name.to_owned(), pending_max: None, rates: None };
    let reserved = store.reserve(&what).unwrap();
    let Reserved::App(App { id, .. }) = reserved else { panic!("an app is always given, but: {reserved:?}") };
    id
}

/// An app of another partition than `partition`.
pub(super) fn app_elsewhere(store: &mut dyn Store, partition: PartitionId) -> (AppId, PartitionId) {
    let partitions = store.partitions();
    assert!(partitions > 1, "these cases need a store of several partitions");
    let names = (0..).map(|n| format!("other-{n}"));
    let mut elsewhere = names.map(|name| (partition_of("shop", &name, partitions), name));
    let (other, name) = elsewhere.find(|(of, _)| *of != partition).expect("names hash to all partitions");
    (app(store, &name), other)
}

/// Where a job stands that waits at a slot which was judged.
pub(super) const JUDGED: Exception = Exception::Judged { covered: T, until: UnixMs(T.0 + 9) };

pub(super) fn definition(job: JobId, version: u32, app: AppId, name: &str) -> Definition {
    let target = Target::Handler { name: "echo".to_owned(), param: format!("version {version} of {name}, \"ü\"") };
    Definition {
        id: job,
        version: Version(version),
        app,
        name: name.to_owned(),
        spec: Spec {
            timeout: rota_core::job::Timeout { start_ms: Some(1), attempt_ms: None, run_ms: Some(2) },
            ..Spec::new(When::EveryMs(1_000), target)
        },
        state: JobState::Enabled,
        at: T,
        by: "someone".to_owned(),
        managed_by: version.is_multiple_of(2).then(|| "shop".to_owned()),
        pause: None,
    }
}

/// Attempt 1 of shard 0.
pub(super) fn first(run: &Run) -> Attempt {
    attempt(run, 0, 1, run.id.0)
}

pub(super) fn attempt(run: &Run, shard: u32, no: u32, id: u64) -> Attempt {
    Attempt {
        id: AttemptId(id),
        run: run.id,
        shard,
        no,
        worker: WorkerId(1),
        incarnation: Incarnation((1 << 53) - 1),
        state: AttemptState::Dispatched,
        why: None,
        at: run.at,
        ended_at: None,
        released_at: None,
        message: None,
    }
}

/// The attempt, ended well and released.
pub(super) fn done(attempt: &Attempt) -> Attempt {
    let end = Some(attempt.at.plus_ms(7));
    Attempt {
        state: AttemptState::Success,
        ended_at: end,
        released_at: end,
        message: Some("done".into()),
        ..attempt.clone()
    }
}

/// The row that ends a run well.
pub(super) fn success(run: &Run) -> Row {
    Row::RunSet { run: run.id, job: run.job, state: RunState::Success, why: None, ended_at: Some(run.at.plus_ms(7)) }
}

pub(super) fn row(run: &Run) -> Row {
    Row::Run(Box::new(run.clone()))
}

pub(super) fn sent(attempt: &Attempt) -> Row {
    Row::Attempt(Box::new(attempt.clone()))
}

pub(super) fn set(attempt: &Attempt) -> Row {
    Row::AttemptSet(Box::new(attempt.clone()))
}

pub(super) fn registration(worker: WorkerId, app: AppId, name: &str) -> Registration {
    Registration {
        id: worker,
        app,
        name: name.to_owned(),
        incarnation: Incarnation(7),
        url: "http://10.0.0.1:9000".to_owned(),
        protocol: Protocol::Http,
        handlers: vec!["echo".to_owned(), "sleep".to_owned()],
        labels: [("disk".to_owned(), "ssd".to_owned())].into(),
        capacity: 4,
        list_max: 0,
        secret: Secret("a secret".to_owned()),
        at: T,
    }
}

pub(super) fn worker(registration: &Registration, state: WorkerState) -> Row {
    Row::Worker { worker: Arc::new(registration.clone()), state }
}
