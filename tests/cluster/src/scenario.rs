//! What a seed decides before anything happens: how fast things are, how often they fail, and for how long.
//!
//! Rates differ from seed to seed, and many are zero in many seeds: a fault shows best when nothing else hides it.

use rota_core::limits::Timing;
use rota_core::rate::{Limit, Rate, Rates};

use crate::clock::{Micros, ms};
use crate::rng::Rng;

/// Partitions of the store.
pub const PARTITIONS: u16 = 4;
/// Servers of the cluster.
pub const SERVERS: usize = 2;

/// The surroundings of one seed. Probabilities are parts per million; zero mean intervals switch a fault off.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Time limits of the machines.
    pub timing: Timing,
    /// Send credits per worker.
    pub send_credits: u32,
    /// Runs for which the mark waits for a backlog of the valve's.
    pub backlog_runs_max: u64,
    /// When faults and operators stop.
    pub chaos_us: Micros,
    /// How long a healed cluster runs before jobs are paused.
    pub calm_us: Micros,
    /// Request or answer lost.
    pub lost_ppm: u64,
    /// Message delivered twice.
    pub doubled_ppm: u64,
    /// Message delivered seconds late.
    pub late_ppm: u64,
    /// Connect fails.
    pub refused_ppm: u64,
    /// A call waits long in its lane before its first byte.
    pub slow_lane_ppm: u64,
    /// A request goes to the server that does not own the partition.
    pub wrong_server_ppm: u64,
    /// Commit is unavailable.
    pub unavailable_ppm: u64,
    /// The commit's reply is lost.
    pub reply_lost_ppm: u64,
    /// Longest commit.
    pub commit_us_max: Micros,
    /// Wall clocks of servers differ by at most this from true time.
    pub skew_ms: u64,
    /// Clock rates differ by at most this.
    pub rate_ppm: u64,
    /// Wall clocks are stepped by at most this, and never by more than the clock watch tolerates unless `jumps`.
    pub step_ms: u64,
    /// Mean times between faults.
    pub every: Intervals,
    /// Mean time between operators' requests.
    pub operator_us: Micros,
    /// Whether operators freeze and thaw.
    pub freezes: bool,
    /// How often an operator, whenever there is one, asks for a range of the past to run.
    pub backfill_ppm: u64,
    /// Whether ends of runs fire jobs.
    pub children: bool,
    /// Whether jobs have misfire policies of their own.
    pub misfires: bool,
    /// Mean time for which a server that crashed is gone.
    pub absent_us: Micros,
    /// How fast dispatches of each app may begin.
    pub rates: Vec<Rates>,
    /// How fast dispatches of each server may begin.
    pub server_rate: Option<Limit>,
    /// Jobs that exist from the start.
    pub jobs: u64,
    /// Longest execution of a handler.
    pub work_ms_max: u64,
    /// Handlers that do not listen to cancels and deadlines.
    pub stubborn_ppm: u64,
    /// Executions that fail.
    pub failing_ppm: u64,
    /// Dispatches of which no call can be made: a template that cannot be filled in.
    pub unsendable_ppm: u64,
}

/// Mean microseconds between faults of a kind; zero is never.
#[derive(Clone, Debug)]
pub struct Intervals {
    /// A server crashes.
    pub server_crash: Micros,
    /// A partition is claimed by the other server although its owner lives.
    pub failover: Micros,
    /// A server does nothing for a while.
    pub freeze: Micros,
    /// A link is cut.
    pub cut: Micros,
    /// A worker's process is killed.
    pub worker_crash: Micros,
    /// A worker stops in order.
    pub worker_stop: Micros,
    /// A second process claims a living worker's name.
    pub twin: Micros,
    /// A partition of the store is unavailable for a while.
    pub outage: Micros,
    /// A wall clock is stepped.
    pub clock_step: Micros,
    /// The server's cap is lent anew.
    pub permits: Micros,
}

impl Scenario {
    /// The scenario of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed, 100);
        let harsh = *rng.pick(&[0, 1, 1, 1, 2]);
        let mut ppm = |max: u64| match rng.below(3) * harsh {
            0 => 0,
            1 => rng.below(max / 8 + 1),
            _ => rng.below(max),
        };
        let (lost_ppm, doubled_ppm, late_ppm) = (ppm(200_000), ppm(200_000), ppm(100_000));
        let (refused_ppm, slow_lane_ppm, wrong_server_ppm) = (ppm(200_000), ppm(60_000), ppm(150_000));
        let (unavailable_ppm, reply_lost_ppm) = (ppm(150_000), ppm(100_000));
        let (stubborn_ppm, failing_ppm) = (ppm(300_000), ppm(500_000));
        let mut mean = |s: u64| match rng.below(3) * harsh {
            0 => 0,
            _ => ms(rng.between(s * 500, s * 2_500)),
        };
        let every = Intervals {
            server_crash: mean(40),
            failover: mean(30),
            freeze: mean(40),
            cut: mean(20),
            worker_crash: mean(20),
            worker_stop: mean(40),
            twin: mean(60),
            outage: mean(60),
            clock_step: mean(60),
            permits: mean(30),
        };
        let timing = match rng.below(5) {
            0 => Timing { release_after_ms: 60_000, ..Timing::NATIVE },
            _ => Timing {
                beat_ms: rng.between(700, 1_500),
                dead_ms: rng.between(4_000, 6_000),
                send_ms: rng.between(1_500, 3_000),
                doubt_ms: rng.between(7_000, 12_000),
                probe_ms: rng.between(300, 1_000),
                kill_grace_ms: rng.between(1_000, 3_000),
                release_after_ms: *rng.pick(&[10_000, 20_000, 30_000, 120_000]),
            },
        };
        Scenario {
            timing,
            send_credits: *rng.pick(&[1, 2, 4, 64]),
            chaos_us: ms(rng.between(40_000, 150_000)),
            calm_us: ms(timing.dead_ms * 2 + 45_000),
            lost_ppm,
            doubled_ppm,
            late_ppm,
            refused_ppm,
            slow_lane_ppm,
            wrong_server_ppm,
            unavailable_ppm,
            reply_lost_ppm,
            commit_us_max: *rng.pick(&[3_000, 20_000, 300_000]),
            skew_ms: *rng.pick(&[0, 20, 500, 3_000]),
            rate_ppm: *rng.pick(&[0, 50, 500, 5_000]),
            step_ms: *rng.pick(&[10, 1_000, 5_000, 5_000, 100_000]),
            every,
            operator_us: ms(rng.between(700, 4_000)),
            jobs: rng.between(4, 14),
            work_ms_max: *rng.pick(&[50, 1_000, 8_000, 20_000]),
            stubborn_ppm,
            failing_ppm,
            backlog_runs_max: *rng.pick(&[0, 5, 100_000]),
            unsendable_ppm: *rng.pick(&[0, 0, 20_000]),
            freezes: rng.below(3) == 0,
            misfires: rng.below(2) == 0,
            children: Rng::new(seed, 108).below(3) == 0,
            absent_us: ms(*rng.pick(&[3_000, 3_000, 3_000, 25_000])),
            rates: (0..6).map(|_| rates(&mut rng)).collect(),
            backfill_ppm: *rng.pick(&[0, 0, 100_000, 400_000]),
            server_rate: (rng.below(5) == 0)
                .then(|| Limit { rate: Rate { count: rng.between(4, 40) as u32, per_ms: 1_000 }, ..limit(&mut rng) }),
        }
    }

    /// How far wall clocks can lie apart, at worst, over the whole seed.
    #[must_use]
    pub fn wall_slack_ms(&self) -> u64 {
        let drift = self.rate_ppm * 1_200 / 1_000;
        let steps = if self.every.clock_step > 0 { 20 * self.step_ms } else { 0 };
        2 * self.skew_ms + drift + steps
    }
}

fn limit(rng: &mut Rng) -> Limit {
    Limit {
        rate: Rate { count: rng.between(1, 20) as u32, per_ms: *rng.pick(&[1_000, 1_000, 5_000]) },
        burst: *rng.pick(&[None, Some(1), Some(2), Some(5)]),
    }
}

/// Few apps have a rate, some of them for a group of their workers.
fn rates(rng: &mut Rng) -> Rates {
    let (app, group) = (limit(rng), limit(rng));
    let app = (rng.below(4) == 0).then_some(app);
    let groups = (rng.below(5) == 0).then(|| ("disk=ssd".to_owned(), group)).into_iter().collect();
    Rates { app, groups }
}
