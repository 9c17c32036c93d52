//! The part of a server's shell that judges upstream jobs: it looks when a machine asks, when it hears that something has
//! ended, and now and then. Words between servers may be lost.

use rota_core::batch::{Origin, Run, RunState};
use rota_core::id::{Epoch, JobId, PartitionId, RunId};
use rota_core::job::JobState;
use rota_core::partition::{AskUpstream, Input};
use rota_core::time::UnixMs;
use rota_core::upstream::{Edge, Evidence, Fact, Span, Verdict, judge, together};
use rota_core::why::Why;

use crate::clock::ms;
use crate::event::Event;
use crate::store::{Part, Store};
use crate::story::tell;
use crate::world::World;

/// A look at what a slot waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// The job that waits.
    pub job: JobId,
    /// Its slot.
    pub slot: UnixMs,
    /// Whether it is one of those that come now and then, without a word.
    pub is_pace: bool,
}

impl World {
    /// A machine asks about the upstream jobs of a slot.
    pub(crate) fn ask_upstream(&mut self, server: usize, partition: PartitionId, ask: AskUpstream) {
        let look = Look { job: ask.job, slot: ask.slot, is_pace: true };
        let Some(hosted) = self.servers[server].hosted.get_mut(&partition) else { return };
        hosted.asks.insert(ask.job, ask);
        let wait = self.dice.upstream.between(0, 20_000);
        self.judge_after(wait, server, partition, look);
    }

    fn judge_after(&mut self, wait: u64, server: usize, partition: PartitionId, look: Look) {
        let boot = self.servers[server].boot;
        let Some(epoch) = self.term(server, partition) else { return };
        self.at(wait, Event::Judge { server, boot, partition, epoch, look });
    }

    /// A server looks at what a slot waits for.
    pub(crate) fn judge(&mut self, server: usize, partition: PartitionId, epoch: Epoch, look: Look) {
        if self.term(server, partition) != Some(epoch) {
            return;
        }
        let Look { job, slot, is_pace } = look;
        let now = self.servers[server].clock.now(self.now).wall;
        let ask = self.servers[server].hosted.get(&partition).and_then(|hosted| hosted.asks.get(&job));
        let Some(ask) = ask.filter(|ask| ask.slot == slot) else { return };
        let edges = ask.edges.clone();
        let verdicts = edges.iter().map(|edge| judge_edge(&self.store, edge, ask, now));
        let verdict = match together(verdicts) {
            Verdict::Met => Ok(()),
            Verdict::Unmet(why) => Err(why),
            Verdict::NotYet => {
                for edge in edges.iter() {
                    self.watch(server, partition, edge.job);
                }
                if is_pace {
                    let wait = ms(self.dice.upstream.between(1_000, 4_000));
                    self.judge_after(wait, server, partition, look);
                }
                return;
            }
        };
        tell!(self, format!("s{server}/p{partition}"), "judges slot {slot} of job {job}: {verdict:?}");
        if let Some(hosted) = self.servers[server].hosted.get_mut(&partition) {
            hosted.asks.remove(&job);
        }
        let boot = self.servers[server].boot;
        let input = Box::new(Input::Upstream { job, slot, verdict });
        let wait = self.dice.upstream.between(0, 30_000);
        self.at(wait, Event::Tell { server, boot, partition, epoch, input });
    }

    /// Wants to hear of a job's ends, once per term; one word in three is lost.
    fn watch(&mut self, server: usize, partition: PartitionId, job: JobId) {
        let is_new = self.servers[server].hosted.get_mut(&partition).is_some_and(|own| own.watched.insert(job));
        if !is_new || self.dice.upstream.chance(333_000) {
            return;
        }
        let Some((partition, _)) = part_of(&self.store, job) else { return };
        let server = self.owners[usize::from(partition.0)];
        let (boot, input) = (self.servers[server].boot, Box::new(Input::WatchEnds(job)));
        if let Some(epoch) = self.term(server, partition) {
            let wait = self.dice.upstream.between(0, 20_000);
            self.at(wait, Event::Tell { server, boot, partition, epoch, input });
        }
    }

    /// A machine says that something of a job has ended: those who wait for it look again.
    pub(crate) fn ended(&mut self, job: JobId) {
        let mut waiting = Vec::new();
        for (server, host) in self.servers.iter().enumerate() {
            for (partition, hosted) in &host.hosted {
                let asks = hosted.asks.values().filter(|ask| ask.edges.iter().any(|edge| edge.job == job));
                let look = |ask: &AskUpstream| Look { job: ask.job, slot: ask.slot, is_pace: false };
                waiting.extend(asks.map(|ask| (server, *partition, look(ask))));
            }
        }
        for (server, partition, look) in waiting {
            let wait = self.dice.upstream.between(0, 5_000);
            self.judge_after(wait, server, partition, look);
        }
    }
}

/// Where a job lies.
pub fn part_of(store: &Store, job: JobId) -> Option<(PartitionId, &Part)> {
    store.parts().find(|(_, part)| part.jobs.contains_key(&job))
}

fn judge_edge(store: &Store, edge: &Edge, ask: &AskUpstream, now: UnixMs) -> Verdict {
    let span = edge.span(ask.slot, ask.previous);
    match judge(edge, span, &evidence(store, edge, span)) {
        Verdict::NotYet if edge.deadline(ask.slot) < now => Verdict::Unmet(Why::UpstreamDeadline),
        verdict => verdict,
    }
}

fn evidence(store: &Store, edge: &Edge, span: Span) -> Evidence {
    let Some((_, part)) = part_of(store, edge.job) else {
        return Evidence {
            state: JobState::Deleted,
            schedule: None,
            is_broken: false,
            mark: UnixMs(0),
            exception: None,
            rows: Vec::new(),
            is_swept: false,
        };
    };
    let of_job = || {
        let rows = part.runs.values().map(|row| &row.run);
        rows.filter(|run| run.job == edge.job && run.origin == Origin::Schedule)
    };
    let rows: Vec<_> = match span {
        Span::Within { first, last } => of_job().filter(|run| run.slot <= last && run.slot_last >= first).collect(),
        Span::Newest { last } => {
            of_job().filter(|run| run.slot <= last).max_by_key(|run| run.slot).into_iter().collect()
        }
    };
    let fact = |run: &Run| {
        let whole = stands_for(part, run);
        Fact { slot: run.slot, slot_last: run.slot_last, state: whole.state, reruns: reruns(part, whole.id) }
    };
    let current = &part.jobs[&edge.job].current;
    Evidence {
        state: current.state,
        schedule: current.compile().ok().and_then(|job| job.schedule),
        is_broken: false,
        mark: UnixMs(part.mark),
        exception: part.exceptions.get(&edge.job).copied(),
        rows: rows.into_iter().map(fact).collect(),
        is_swept: false,
    }
}

/// The run that stands for a row: the absorber of one that was merged.
pub fn stands_for<'p>(part: &'p Part, run: &'p Run) -> &'p Run {
    part.merged.get(&run.id).and_then(|into| part.runs.get(into)).map_or(run, |row| &row.run)
}

/// The states of everything that repeats a run.
pub fn reruns(part: &Part, of: RunId) -> Vec<RunState> {
    let mut states = Vec::new();
    let mut left = vec![of];
    while let Some(next) = left.pop() {
        for rerun in part.reruns.values().filter(|rerun| rerun.of == next) {
            states.push(part.runs[&rerun.run].run.state);
            left.push(rerun.run);
        }
    }
    states
}
