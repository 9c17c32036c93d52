//! A partition of the scheduler: every live thing of a hash class of apps, in one synchronous object.
//!
//! The way of a slot through the files: `due` takes it from the timeline and passes it through the
//! gate, `admit` makes the run and routes its shards, `pipeline` carries the rows to the store,
//! `calls` sends what is durable and hears what became of it, `settle` ends attempts, shards and
//! runs. `requests` are definitions, triggers and kills; `members` are workers that come, beat and go.
//!
//! Invariants: nothing leaves before what it rests on is durable; the mark covers only slots whose
//! rows are in this batch or an earlier one; an attempt ends once, and is released separately.
//!
//! Absent on purpose: rollback (a machine that is fenced is dropped and loaded anew), reads (they
//! come from snapshots and the store), and any hint to a pass: `Turn` looks at everything that may
//! be due, and does nothing if nothing is.

mod admit;
mod ahead;
mod backfill;
mod calls;
mod check;
mod child;
mod config;
mod deadline;
mod due;
mod effect;
mod fleet;
mod freeze;
mod gate;
mod jitter;
mod jobs;
mod load;
mod mark;
mod members;
mod message;
mod misfire;
mod pipeline;
mod places;
mod pools;
mod publish;
mod requests;
mod rerun;
mod runs;
mod settle;
mod shards;
mod snapshot;
mod table;
mod timer;
mod upstream;
mod valve;

pub use config::Config;
#[cfg(feature = "mutants")]
pub use config::Mutant;
pub use effect::{Answer, AskUpstream, Dispatch, Effect, Enquiry};
pub use message::{
    BackfillOrder, Beat, CancelAnswer, Holder, Input, Outcome, ProbeAnswer, ReplyTo, Report, RerunOrder, SendOutcome,
};
pub use snapshot::{
    Backfilling, DispatchResult, Held, LATENESS_BOUNDS_MS, LISTED_MAX, NotesWaiting, Open, Snapshot, ValveState,
    Waiting, Worker,
};

use requests::{Asked, Author};

use crate::batch::{Batch, Row};
use crate::id::{Block, Epoch, PartitionId};
use crate::time::{Mono, Now, UnixMs};
use crate::why::Why;

use config::planted;

/// Ids left under which a machine asks for more.
const IDS_LOW: u64 = 8_192;
/// Ids older than this are given back, so that ids grow with time.
const IDS_OLD_MS: u64 = 60_000;

/// The sole owner of a partition's live state.
#[derive(Debug)]
pub struct Machine {
    config: Config,
    partition: PartitionId,
    epoch: Epoch,
    ids: Block,
    ids_at: Mono,
    /// Shards that this partition may have admitted and not yet sent, out of the server's cap.
    permits: u32,
    clock: crate::clock::Watch,
    pipeline: pipeline::Pipeline,
    jobs: jobs::Jobs,
    fleet: fleet::Fleet,
    runs: runs::Runs,
    timers: timer::Timers,
    /// All slots up to here are covered or held.
    processed: UnixMs,
    /// The mark of the last closed batch.
    mark: UnixMs,
    /// Slots up to here came while the wall clock was suspect.
    suspect_until: Option<UnixMs>,
    was_suspect: bool,
    /// The latest instant at which a definition or a pause took effect.
    changed_max: UnixMs,
    /// The latest slot that has a row.
    fired_max: UnixMs,
    ahead: ahead::Ahead,
    /// Jobs whose exception may have to change with this batch.
    touched: Vec<jobs::JobIx>,
    freezes: freeze::Freezes,
    backfills: backfill::Backfills,
    /// What the next turn asks about upstream jobs.
    asks: Vec<AskUpstream>,
    notes: child::Notes,
    stats: publish::Stats,
}

impl Machine {
    /// Takes one step. Effects are pushed to `out`, in the order in which they have to be carried out.
    pub fn step(&mut self, now: Now, input: Input, out: &mut Vec<Effect>) {
        if let Input::Slept(ms) = input {
            self.clock.slept(ms);
        }
        self.clock.look(now);
        if !self.clock.is_good() {
            self.was_suspect = true;
        } else if std::mem::take(&mut self.was_suspect) {
            self.suspect_until = Some(now.wall);
        }
        match input {
            Input::Turn => self.turn(now, out),
            Input::Ids(block) => {
                self.ids = block;
                self.ids_at = now.mono;
            }
            Input::Permits(permits) => self.permits = permits,
            Input::Tokens(tokens) => self.fleet.lend_tokens(tokens),
            Input::Committed(seq) => self.committed(now, seq, out),
            Input::App(app) => {
                let id = app.id;
                self.fleet.set_app(app);
                self.fleet.set_rates(id, now.mono, false);
            }
            Input::Define { definition, expected, reply } => self.define(now, *definition, expected, reply, out),
            Input::SetState { job, expected: Some(seen), reply, .. } if self.has_moved(job, seen) => {
                out.push(Effect::Reply(reply, Answer::Refused(Why::VersionConflict)));
            }
            Input::SetState { job, state, expected: _, by, reason, reply } => {
                self.set_state(now, job, state, Author { by, reason }, reply, out);
            }
            Input::Trigger { job, param, request_id, origin, parent, reply } => {
                self.trigger(now, job, Asked { slot: now.wall, origin, param, request_id, parent }, reply, out);
            }
            Input::Rerun { order, reply } => self.rerun(now, *order, reply, out),
            Input::Backfill { order, reply } => self.backfill(now, *order, reply, out),
            Input::CancelBackfill { backfill, kills, by, reply } => {
                self.cancel_backfill(now, backfill, kills, by, reply, out);
            }
            Input::Freeze { app, by, reason, reply } => self.freeze(app, now, by, reason, reply, out),
            Input::Thaw { app, by, missed, reply } => self.thaw(app, now, by, missed, reply, out),
            Input::Kill { run, shard: None, reply } => self.kill(now, run, reply, out),
            Input::Kill { run, shard: Some(shard), reply } => self.kill_shard(now, run, shard, reply, out),
            Input::Register { registration, is_reachable, holder, reply } => {
                self.register(now, *registration, is_reachable, holder, reply, out);
            }
            Input::Beat { beat, reply } => self.beat(now, *beat, reply, out),
            Input::Results { worker, incarnation, reports, reply } => {
                self.results(now, worker, incarnation, reports, reply, out);
            }
            Input::Drain { worker, incarnation, reply } => self.drain(now, worker, incarnation, reply, out),
            Input::Deregister { worker, incarnation, reply } => self.deregister(now, worker, incarnation, reply, out),
            Input::Sent { attempt, outcome } => self.sent(now, attempt, outcome, out),
            Input::Probed { attempt, answer } => self.probed(now, attempt, answer),
            Input::Cancelled { attempt, answer } => self.cancelled(now, attempt, answer),
            Input::Upstream { job, slot, verdict } => self.upstream_judged(job, slot, verdict),
            Input::Children(notes) => self.take_notes(notes),
            Input::WatchEnds(job) => self.watch_ends(job),
            Input::ConfirmClock => self.clock.confirm(),
            // Heard before the clocks were looked at.
            Input::Slept(_) => {}
        }
    }

    /// Whether the shell shall hand in a block before the next step.
    #[must_use]
    pub fn wants_ids(&self, now: Now) -> bool {
        self.ids.left() < IDS_LOW || now.mono.since(self.ids_at) > IDS_OLD_MS
    }

    /// Shards that have a worker and are not yet sent: what the server's cap counts.
    #[must_use]
    pub fn pending(&self) -> u32 {
        self.fleet.placed()
    }

    /// What is left of the tokens that it was lent, and whether something waits for more.
    #[must_use]
    pub fn server_tokens(&self) -> (u32, bool) {
        (self.fleet.server_tokens.unwrap_or(0), self.fleet.wants_token)
    }

    /// The lowest id of a row that is still needed: of an open run, or of what a slot waits for; `u64::MAX` if there is none.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.runs.runs.keys().next().map_or(u64::MAX, |id| id.0).min(self.upstream_floor())
    }

    /// Whether nothing waits to become durable.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.pipeline.is_idle() && !self.pipeline.has_open()
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// The term.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn turn(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.run_timers(now, out);
        self.list_long_runs(now);
        let mut is_caught_up = false;
        while !is_caught_up && self.pipeline.has_room() {
            is_caught_up = self.pass(now);
            if !self.pipeline.has_open() {
                self.keep_verdicts();
            }
            if !self.pipeline.has_open() {
                break;
            }
            self.close_batch(now, out);
        }
        for (at, app) in self.fleet.rate_wakes.drain(..) {
            self.timers.add(at, timer::Timer::Rate(app));
        }
        out.extend(self.asks.drain(..).map(|ask| Effect::AskUpstream(Box::new(ask))));
        self.publish_if_due(now, out);
        out.push(Effect::WakeIn(self.wake_in(now, is_caught_up)));
    }

    /// Milliseconds until something may be due. With a full pipeline nothing is due before the next `Committed`.
    fn wake_in(&self, now: Now, is_caught_up: bool) -> u64 {
        let mut wake = 1_000;
        if !is_caught_up && self.pipeline.has_room() {
            return 0;
        }
        if let Some((slot, _)) = self.jobs.first()
            && is_caught_up
            && self.clock.is_good()
        {
            wake = wake.min(u64::try_from(slot.0.saturating_sub(now.wall.0)).unwrap_or(0));
        }
        for at in [self.timers.next(), self.runs.next_listing()].into_iter().flatten() {
            wake = wake.min(at.since(now.mono));
        }
        if self.pipeline.has_room() && self.clock.is_good() {
            // Looked at in a pass, and there is none before the next `Committed`, and no such look by a suspect clock.
            for ms in [self.freezes.wake_in(now.mono), self.backfills.wake_in(now.mono)].into_iter().flatten() {
                wake = wake.min(ms);
            }
        }
        wake
    }

    fn list_long_runs(&mut self, now: Now) {
        while !self.pipeline.is_full()
            && let Some(id) = self.runs.next_to_list(now.mono)
        {
            let run = self.runs.run_mut(id);
            run.is_listed = true;
            let (job, state, why) = (run.job, run.state, run.open_why());
            self.pipeline.write(Row::Listed { run: id, is_open: true });
            if !state.is_terminal() {
                self.pipeline.write(Row::RunSet { run: id, job, state, why, ended_at: None });
            }
        }
    }

    fn close_batch(&mut self, now: Now, out: &mut Vec<Effect>) {
        let mark = self.advance_mark(now);
        self.settle_exceptions(mark);
        assert!(mark >= self.mark, "the mark never goes back");
        self.mark = mark;
        let ahead = self.ahead.close(mark);
        let floor = self.runs.floor().unwrap_or(u64::MAX).min(ahead.unwrap_or(u64::MAX));
        let (seq, rows) = self.pipeline.close();
        let batch = Batch { partition: self.partition, epoch: self.epoch, seq, at: now.wall, mark, floor, rows };
        out.push(Effect::Commit(Box::new(batch)));
        if planted!(self.config, SendBeforeCommit) {
            self.committed(now, seq, out);
        }
    }
}
