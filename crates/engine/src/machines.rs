//! The thread that runs all machines of this server.
//!
//! It works in rounds: everything that waits is taken at once and stepped, then every machine that
//! got an input, or whose wake is due, gets its turn, and what they want goes out in vectors. A
//! machine that is neither costs nothing.
//!
//! Invariants: a machine is told what it may admit before anything that could admit; it gets ids
//! before it needs them, and is never kept waiting for the disk as long as the store keeps up; after
//! a stop no machine gets more than one turn.
//!
//! Absent on purpose: decisions. Which slots fire, what is sent and what is written is up to machines.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rota_core::id::PartitionId;
use rota_core::limits::BATCHES_IN_FLIGHT_MAX;
use rota_core::partition::{Effect, Input, Machine};
use rota_core::rate::Limit;
use rota_core::time::{Mono, Now};
use rota_core::valve::ServerValve;
use rota_port::executor::Outbound;

use crate::clock::Sleep;
use crate::failure::Failure;
use crate::ids::Ids;
use crate::outbox::{Lanes, Outbox, spoken_by};
use crate::permits::Permits;
use crate::shared::{Arrivals, Fence, Shared};

/// The thread looks at its clocks at least this often.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// How often the lowest open run is looked up for the retention.
const FLOOR_MS: u64 = 1_000;
/// An inbox that has grown beyond this many inputs gives its memory back.
const INBOX_KEPT: usize = 65_536;

/// A machine, and what the shell keeps beside it.
struct Slot {
    machine: Machine,
    wake: Option<Mono>,
    /// Whether it got an input since its last turn.
    is_touched: bool,
    pending: u32,
    /// What it was last lent.
    lent: Option<u32>,
    /// Batches that are on their way to the store.
    in_flight: usize,
}

pub(crate) struct Machines {
    shared: Arc<Shared>,
    lanes: Lanes,
    /// By partition; none once it is fenced.
    slots: Vec<Option<Slot>>,
    wakes: BTreeSet<(Mono, PartitionId)>,
    touched: Vec<PartitionId>,
    /// Machines that were lent so little that they may wait for others to send.
    short: BTreeSet<PartitionId>,
    /// Machines that wanted ids while there were none, and the requests that wait for ids. Beats and
    /// outcomes are heard all the same, or workers would be lost while the store is away.
    thirsty: BTreeSet<PartitionId>,
    parked: Vec<(PartitionId, Input)>,
    permits: Permits,
    /// The server's rate, if it has one.
    valve: Option<ServerValve>,
    ids: Ids,
    effects: Vec<Effect>,
    outbox: Outbox,
    floor_at: Mono,
    sleep: Sleep,
}

impl Machines {
    /// `machines` stand in the order of their partitions.
    pub(crate) fn new(
        shared: Arc<Shared>,
        lanes: Lanes,
        machines: Vec<Machine>,
        ids: Ids,
        (pending_max, rate): (u32, Option<Limit>),
    ) -> Machines {
        let mut permits = Permits::new(pending_max);
        let mut slots = Vec::with_capacity(machines.len());
        for (index, machine) in machines.into_iter().enumerate() {
            assert_eq!(usize::from(machine.partition().0), index, "machines stand in the order of their partitions");
            let pending = machine.pending();
            permits.change(0, pending);
            slots.push(Some(Slot { machine, wake: None, is_touched: false, pending, lent: None, in_flight: 0 }));
        }
        let now = shared.clock.mono();
        let valve = rate.map(|limit| ServerValve::new(limit, now));
        shared.gauges.set_bucket(valve.as_ref().map(ServerValve::bucket));
        Machines {
            floor_at: now,
            sleep: Sleep::watch(&shared.clock),
            shared,
            lanes,
            slots,
            wakes: BTreeSet::new(),
            touched: Vec::new(),
            short: BTreeSet::new(),
            thirsty: BTreeSet::new(),
            parked: Vec::new(),
            permits,
            valve,
            ids,
            effects: Vec::new(),
            outbox: Outbox::default(),
        }
    }

    /// Runs until a stop or a failure.
    pub(crate) fn run(mut self) {
        for partition in self.partitions() {
            self.touch(partition);
        }
        let mut arrivals = Arrivals::default();
        loop {
            let timeout = self.timeout();
            self.take(&mut arrivals, timeout);
            if arrivals.is_aborted {
                return;
            }
            let now = self.read_clock();
            self.shared.gauges.begin_round(now.mono);
            self.hear(now, &mut arrivals);
            if let Some(by) = arrivals.stop_by {
                return self.drain(by, arrivals);
            }
            self.turn_all_due();
            self.turn_in_turn();
            self.outbox.flush(&self.shared, &self.lanes);
            self.keep_house(now.mono);
            self.shared.gauges.end_round();
        }
    }

    /// Reads the clocks; a machine hears that the host has slept before it sees what they show.
    fn read_clock(&mut self) -> Now {
        let now = self.shared.clock.now();
        if let Some(ms) = self.sleep.told(&self.shared.clock) {
            tracing::info!(slept_ms = ms, "host_slept");
            for partition in self.partitions() {
                self.step(now, partition, Input::Slept(ms));
            }
        }
        now
    }

    fn partitions(&self) -> Vec<PartitionId> {
        (0..self.shared.partitions).map(PartitionId).collect()
    }

    fn slot(&mut self, partition: PartitionId) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(partition.0)).and_then(Option::as_mut)
    }

    fn timeout(&self) -> Duration {
        if !self.touched.is_empty() {
            return Duration::ZERO;
        }
        let token = self.valve.as_ref().and_then(|valve| {
            let now = self.shared.clock.mono();
            valve.wait_ms(now).map(|ms| now.plus(ms))
        });
        match self.wakes.first().map(|(at, _)| *at).into_iter().chain(token).min() {
            Some(at) => self.shared.clock.until(at).min(WAIT_MAX),
            None => WAIT_MAX,
        }
    }

    /// Takes everything that waits. The two vectors change places, so their memory is used again.
    fn take(&mut self, arrivals: &mut Arrivals, timeout: Duration) {
        arrivals.inputs.shrink_to(INBOX_KEPT);
        self.shared.inbox.take(timeout, Arrivals::is_filled, |waiting| {
            std::mem::swap(&mut waiting.inputs, &mut arrivals.inputs);
            std::mem::swap(&mut waiting.fences, &mut arrivals.fences);
            arrivals.reserve = waiting.reserve.take();
            waiting.since = None;
            arrivals.stop_by = waiting.stop_by;
            arrivals.is_aborted = waiting.is_aborted;
        });
    }

    fn hear(&mut self, now: Now, arrivals: &mut Arrivals) {
        for fence in arrivals.fences.drain(..) {
            self.fence(fence);
        }
        if let Some(reserve) = arrivals.reserve.take() {
            self.ids.replace(reserve);
            for partition in std::mem::take(&mut self.thirsty) {
                self.touch(partition);
            }
            for (partition, input) in std::mem::take(&mut self.parked) {
                self.input(now, partition, input);
            }
        }
        for (partition, input) in arrivals.inputs.drain(..) {
            self.input(now, partition, input);
        }
    }

    /// Another term owns the partition: its machine is gone, and so is everything that it has not made durable.
    fn fence(&mut self, fence: Fence) {
        let Fence { partition, stored, sent } = fence;
        if let Some(slot) = self.slots.get_mut(usize::from(partition.0)).and_then(Option::take) {
            self.permits.change(slot.pending, 0);
            if let Some(valve) = &mut self.valve {
                valve.forget(partition);
            }
            if let Some(at) = slot.wake {
                self.wakes.remove(&(at, partition));
            }
            self.shared.replies.close_partition(partition);
            self.shared.failures.report(Failure::Fenced { partition, stored, sent });
        }
    }

    fn input(&mut self, now: Now, partition: PartitionId, input: Input) {
        let Some(slot) = self.slot(partition) else {
            // Whoever asked a machine that is gone must not wait for ever.
            self.shared.replies.close_partition(partition);
            return;
        };
        if matches!(input, Input::Committed(_)) {
            assert!(slot.in_flight > 0, "only what was sent to the store is committed");
            slot.in_flight -= 1;
        }
        if !slot.is_touched {
            self.touch(partition);
            self.lend(now, partition);
        }
        if self.top_up(now, partition) || !mints(&input) {
            self.step(now, partition, input);
        } else {
            self.parked.push((partition, input));
        }
    }

    fn touch(&mut self, partition: PartitionId) {
        if let Some(slot) = self.slot(partition)
            && !slot.is_touched
        {
            slot.is_touched = true;
            self.touched.push(partition);
        }
    }

    /// Gives a machine the ids that it wants; false if there are none.
    fn top_up(&mut self, now: Now, partition: PartitionId) -> bool {
        if self.thirsty.contains(&partition) {
            return false;
        }
        if !self.slot(partition).is_some_and(|slot| slot.machine.wants_ids(now)) {
            return true;
        }
        match self.ids.block() {
            Some(block) => {
                self.step(now, partition, Input::Ids(block));
                true
            }
            None => {
                self.thirsty.insert(partition);
                false
            }
        }
    }

    /// Tells a machine what it may admit, if that has changed.
    fn lend(&mut self, now: Now, partition: PartitionId) {
        let Some(slot) = self.slots.get_mut(usize::from(partition.0)).and_then(Option::as_mut) else { return };
        let lent = self.permits.for_machine(slot.pending);
        let is_news = slot.lent.replace(lent) != Some(lent);
        if self.permits.is_short(lent) {
            self.short.insert(partition);
        } else {
            self.short.remove(&partition);
        }
        if is_news {
            self.step(now, partition, Input::Permits(lent));
        }
    }

    fn step(&mut self, now: Now, partition: PartitionId, input: Input) {
        let Some(slot) = self.slots.get_mut(usize::from(partition.0)).and_then(Option::as_mut) else { return };
        let lent = self.valve.as_ref().map(|valve| valve.lend(partition, now.mono));
        if let Some(lent) = lent {
            slot.machine.step(now, Input::Tokens(lent), &mut self.effects);
        }
        slot.machine.step(now, input, &mut self.effects);
        if let (Some(lent), Some(valve)) = (lent, &mut self.valve) {
            let (left, waits) = slot.machine.server_tokens();
            valve.settle(partition, now.mono, lent - left, waits);
        }
        let pending = slot.machine.pending();
        self.permits.change(slot.pending, pending);
        slot.pending = pending;
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Commit(batch) => {
                    slot.in_flight += 1;
                    self.outbox.commit(*batch);
                }
                Effect::Send(dispatch) => {
                    let protocol = spoken_by(dispatch.worker.as_ref());
                    self.outbox.call(partition, protocol, Outbound::Send(dispatch));
                }
                Effect::Cancel(enquiry) => {
                    let protocol = spoken_by(enquiry.worker.as_ref());
                    self.outbox.call(partition, protocol, Outbound::Cancel(enquiry));
                }
                Effect::Probe(enquiry) => {
                    let protocol = spoken_by(enquiry.worker.as_ref());
                    self.outbox.call(partition, protocol, Outbound::Probe(enquiry));
                }
                Effect::Reply(to, answer) => self.outbox.reply(to, answer),
                Effect::WakeIn(ms) => {
                    if let Some(before) = slot.wake.replace(now.mono.plus(ms)) {
                        self.wakes.remove(&(before, partition));
                    }
                    self.wakes.insert((now.mono.plus(ms), partition));
                }
                Effect::AskUpstream(ask) => self.outbox.ask(partition, *ask),
                Effect::Ended(job) => self.outbox.ended(job),
                Effect::Publish(snapshot) => self.outbox.publish(snapshot),
            }
        }
        assert!(slot.in_flight <= BATCHES_IN_FLIGHT_MAX, "a machine bounds what it has in flight");
    }

    fn turn_all_due(&mut self) {
        // The inputs may have taken a while, and what is due by now shall not wait for another round.
        let now = self.read_clock();
        while let Some(&(at, partition)) = self.wakes.first()
            && at <= now.mono
        {
            self.wakes.pop_first();
            if let Some(slot) = self.slot(partition) {
                slot.wake = None;
            }
            self.touch(partition);
        }
        for partition in std::mem::take(&mut self.touched) {
            self.turn(now, partition);
        }
        // Others have sent meanwhile, so those that were lent little may have more.
        for partition in std::mem::take(&mut self.short) {
            let permits = &self.permits;
            let slot = self.slots.get(usize::from(partition.0)).and_then(Option::as_ref);
            match slot {
                Some(slot) if slot.lent < Some(permits.for_machine(slot.pending)) => self.turn(now, partition),
                Some(_) => {
                    self.short.insert(partition);
                }
                None => {}
            }
        }
    }

    /// Machines that wait for tokens of the server's rate go on in turn, as long as there are some.
    fn turn_in_turn(&mut self) {
        if self.valve.is_none() {
            return;
        }
        let now = self.read_clock();
        while let Some(partition) = self.valve.as_mut().and_then(|valve| valve.next(now.mono)) {
            self.turn(now, partition);
            self.valve.iter_mut().for_each(ServerValve::pass_on);
        }
        self.shared.gauges.set_bucket(self.valve.as_ref().map(ServerValve::bucket));
    }

    fn turn(&mut self, now: Now, partition: PartitionId) {
        self.top_up(now, partition);
        self.lend(now, partition);
        self.step(now, partition, Input::Turn);
        if let Some(slot) = self.slot(partition) {
            slot.is_touched = false;
        }
    }

    fn keep_house(&mut self, now: Mono) {
        if self.ids.wants_reserve(now) {
            self.shared.orders.put(|orders| orders.wants_reserve = true);
        }
        if now >= self.floor_at {
            // What a partition that is gone has open is not known here, so all of it counts as open.
            let floors = self.slots.iter().map(|slot| slot.as_ref().map_or(0, |slot| slot.machine.floor()));
            self.shared.gauges.set_floor(floors.min().unwrap_or(0));
            self.floor_at = now.plus(FLOOR_MS);
        }
    }

    /// After a stop: every machine gets a last turn as soon as it has room in its pipeline, and its
    /// commits are heard, so that what rests on them still leaves; nothing else is.
    fn drain(mut self, by: Mono, mut arrivals: Arrivals) {
        let mut waits_for_room: BTreeSet<PartitionId> = self.partitions().into_iter().collect();
        loop {
            let now = self.read_clock();
            for partition in std::mem::take(&mut waits_for_room) {
                match self.slot(partition) {
                    Some(slot) if slot.in_flight < BATCHES_IN_FLIGHT_MAX => self.turn(now, partition),
                    Some(_) => {
                        waits_for_room.insert(partition);
                    }
                    None => {}
                }
            }
            self.outbox.flush(&self.shared, &self.lanes);
            self.shared.gauges.end_round();
            let is_done = waits_for_room.is_empty() && self.slots.iter().flatten().all(|slot| slot.in_flight == 0);
            if is_done || now.mono >= by {
                return;
            }
            let timeout = self.shared.clock.until(by).min(WAIT_MAX);
            self.take_commits(&mut arrivals, timeout);
            if arrivals.is_aborted {
                return;
            }
            let now = self.read_clock();
            self.shared.gauges.begin_round(now.mono);
            arrivals.inputs.retain(|(_, input)| matches!(input, Input::Committed(_)));
            self.hear(now, &mut arrivals);
        }
    }

    /// [`Machines::take`], when the stop itself no longer counts as something to hear.
    fn take_commits(&mut self, arrivals: &mut Arrivals, timeout: Duration) {
        let has_news =
            |waiting: &Arrivals| !waiting.inputs.is_empty() || !waiting.fences.is_empty() || waiting.is_aborted;
        self.shared.inbox.take(timeout, has_news, |waiting| {
            std::mem::swap(&mut waiting.inputs, &mut arrivals.inputs);
            std::mem::swap(&mut waiting.fences, &mut arrivals.fences);
            waiting.since = None;
            arrivals.is_aborted = waiting.is_aborted;
        });
    }
}

/// Whether a machine needs ids to hear this. In its turns it looks at what it has by itself.
fn mints(input: &Input) -> bool {
    match input {
        Input::Define { .. }
        | Input::SetState { .. }
        | Input::Trigger { .. }
        | Input::Rerun { .. }
        | Input::Backfill { .. } => true,
        Input::Turn
        | Input::Ids(_)
        | Input::Permits(_)
        | Input::Tokens(_)
        | Input::Committed(_)
        | Input::App(_)
        | Input::Kill { .. }
        | Input::CancelBackfill { .. }
        | Input::Freeze { .. }
        | Input::Thaw { .. }
        | Input::Register { .. }
        | Input::Beat { .. }
        | Input::Results { .. }
        | Input::Drain { .. }
        | Input::Deregister { .. }
        | Input::Sent { .. }
        | Input::Probed { .. }
        | Input::Cancelled { .. }
        | Input::Upstream { .. }
        | Input::Children(_)
        | Input::WatchEnds(_)
        | Input::ConfirmClock
        | Input::Slept(_) => false,
    }
}
