//! Running again what has ended: the same job in the same version, with the same slot and parameter.
//!
//! A rerun is asked for by somebody, so pause and lateness do not matter to it; overlap, the cap and a freeze do. It may
//! leave out the shards that had succeeded: those are settled from the start, and the run succeeds with the others.

use std::sync::Arc;

use super::Machine;
use super::admit::Order;
use super::effect::{Answer, Effect};
use super::message::{ReplyTo, RerunOrder};
use super::pipeline::After;
use crate::batch::{Origin, Rerun, Row};
use crate::overlap::Verdict;
use crate::time::Now;
use crate::why::Why;

impl Machine {
    pub(super) fn rerun(&mut self, now: Now, order: RerunOrder, reply: ReplyTo, out: &mut Vec<Effect>) {
        match self.try_rerun(now, order) {
            Ok(answer) => self.pipeline.after(After::Reply(reply, answer)),
            Err(why) => out.push(Effect::Reply(reply, Answer::Refused(why))),
        }
    }

    fn try_rerun(&mut self, now: Now, order: RerunOrder) -> Result<Answer, Why> {
        let RerunOrder { of, definition, slot, param, mut reused, workers, request_id, parent } = order;
        let job = definition.id;
        let ix = self.jobs.find(job).ok_or(Why::JobUnknown)?;
        let app = self.jobs.get(ix).app;
        if self.is_frozen(app) {
            return Err(Why::Frozen);
        }
        let compiled = definition.compile().map_err(|_| Why::Invalid)?;
        if self.jobs.get(ix).is_broken || compiled.app != app {
            return Err(Why::Invalid);
        }
        let pool = self.fleet.pool_of(app, &compiled.policy, &compiled.body.target, now.mono);
        let workers = match (compiled.policy.sharding.is_broadcast, workers.is_empty()) {
            (true, true) => self.broadcast_to(pool)?,
            (true, false) => workers,
            (false, _) => Vec::new(),
        };
        let shards = if workers.is_empty() { compiled.policy.shards as usize } else { workers.len() };
        let shards = u32::try_from(shards).expect("bounded");
        reused.retain(|shard| *shard < shards);
        reused.dedup();
        let fresh = shards - u32::try_from(reused.len()).expect("fewer than the shards");
        if fresh == 0 || !reused.is_sorted() {
            return Err(Why::Invalid);
        }
        // The version that runs again has a say in it, and so has the one in force.
        let live = self.jobs.get(ix);
        let is_alone = compiled.policy.overlap.places() > live.holders as usize;
        let verdict = match live.places {
            None if !is_alone => Verdict::Refuse(Why::Overlap),
            None | Some(_) => self.overlap(ix, &compiled.body, param.as_deref()),
        };
        let waits = match verdict {
            Verdict::Start | Verdict::Replace => false,
            Verdict::Wait | Verdict::Await => true,
            // It differs from what waits, so nothing stands for it.
            Verdict::Merge => return Err(Why::QueueFull),
            Verdict::Refuse(why) => return Err(why),
        };
        if !waits {
            self.fleet.token_for(app, now.mono)?;
            let app_left = self.fleet.app(app).map_or(0, |a| a.app.pending_max.saturating_sub(a.pending));
            let server_left = self.permits.saturating_sub(self.fleet.placed());
            self.may_enter(app, fresh, app_left, server_left).map_err(|_| Why::PendingFull)?;
        }
        if matches!(verdict, Verdict::Replace | Verdict::Await) {
            self.clear_places(now, ix, &compiled.body, param.as_deref());
        }
        let run = self.admit_as(
            now,
            ix,
            Order {
                version: compiled.version,
                policy: compiled.policy,
                body: compiled.body,
                pool,
                slot,
                origin: Origin::Rerun,
                param,
                first: None,
                reused: &reused,
                waits,
                workers,
            },
        );
        self.pipeline.write(Row::Rerun(Arc::new(Rerun { run, of, reused })));
        self.put_into_trace(run, parent);
        if let Some(request_id) = request_id {
            self.pipeline.write(Row::Request { job, request_id, run });
        }
        Ok(if waits { Answer::Queued(run) } else { Answer::Triggered(run) })
    }
}
