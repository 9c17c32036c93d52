//! What a user writes of how a job's worker is chosen, and what it comes to.

use serde::{Deserialize, Serialize};

use super::learn;
use super::ring::Hash;
use super::rule::{Bound, Rule, Scope, Unit};
use crate::job::Invalid;
use crate::limits;

/// How a worker is chosen.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The strategy's name; `default` stands for what Rota thinks best.
    pub strategy: Strategy,
    /// A label selector in text form; blank matches all.
    pub labels: String,
    /// What its strategy is told; absent: all of it as usual.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
}

/// A routing strategy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Strategy {
    /// Unset: the least weight for now.
    #[default]
    #[serde(rename = "default")]
    Default,
    /// The first in the order of registration.
    #[serde(rename = "FIRST")]
    First,
    /// The last in the order of registration.
    #[serde(rename = "LAST")]
    Last,
    /// The first that is alive.
    #[serde(rename = "FAILOVER")]
    Failover,
    /// One after the other, one counter per job.
    #[serde(rename = "TASK_ROUND_ROBIN")]
    TaskRoundRobin,
    /// One after the other, one counter per app; larger ones more often.
    #[serde(rename = "APP_ROUND_ROBIN")]
    AppRoundRobin,
    /// By chance; larger ones more often.
    #[serde(rename = "RANDOM")]
    Random,
    /// The least often chosen within a window.
    #[serde(rename = "LFU")]
    Lfu,
    /// The one whose last choice lies furthest back.
    #[serde(rename = "LRU")]
    Lru,
    /// The one to which the job belongs on a ring.
    #[serde(rename = "CONSISTENT_HASH")]
    ConsistentHash,
    /// The worker with the fewest unreleased attempts for its capacity.
    #[serde(rename = "LEAST_INFLIGHT")]
    LeastInflight,
    /// The worker with the least weight of unreleased attempts for its capacity; heavy tasks are placed first.
    #[serde(rename = "TASK_WEIGHT")]
    TaskWeight,
}

/// What a strategy is told.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// What a task of the job weighs, in millionths of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u64>,
    /// How many workers are looked at, by chance; absent or 0: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choices: Option<u32>,
    /// Whether larger workers are chosen more often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_capacity: Option<bool>,
    /// Whether the choices of one job are counted, not those of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_job: Option<bool>,
    /// Over how many milliseconds choices are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// Whether places on the ring are those of XXL-JOB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_xxl: Option<bool>,
    /// Points of each worker on the ring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points: Option<u32>,
    /// How many percent of the mean load a worker may carry before others take what belongs to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_max_percent: Option<u32>,
    /// Whether that load is a count of tasks, not their weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_is_count: Option<bool>,
}

impl Options {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Options::default()
    }
}

/// A route, compiled.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Routing {
    /// How a worker is chosen.
    pub rule: Rule,
    /// What a task weighs, in millionths of a core.
    pub weight: u64,
    /// Whether heavy tasks go first among those that are due together.
    pub heavy_first: bool,
}

const WINDOW_MS: u64 = 86_400_000;
const POINTS: u32 = 100;

impl Route {
    /// What it comes to. The error names an option that is out of range, or that its strategy has no use for.
    pub fn compile(&self) -> Result<Routing, Invalid> {
        self.options.check(self.strategy)?;
        let options = &self.options;
        let by_size = options.by_capacity.unwrap_or(true);
        let choices = options.choices.unwrap_or(0);
        let scope = if options.by_job.unwrap_or(false) { Scope::Job } else { Scope::App };
        let rule = match self.strategy {
            Strategy::Default | Strategy::TaskWeight => Rule::Weight { choices },
            Strategy::First => Rule::First,
            Strategy::Last => Rule::Last,
            Strategy::Failover => Rule::Failover,
            Strategy::TaskRoundRobin => Rule::TaskRoundRobin,
            Strategy::AppRoundRobin => Rule::AppRoundRobin { by_size },
            Strategy::Random => Rule::Random { by_size },
            Strategy::Lfu => Rule::Lfu { scope, window_ms: options.window_ms.unwrap_or(WINDOW_MS) },
            Strategy::Lru => Rule::Lru { scope },
            Strategy::ConsistentHash => Rule::ConsistentHash {
                hash: if options.as_xxl.unwrap_or(false) { Hash::Md5Xxl } else { Hash::Xxh3 },
                points: options.points.unwrap_or(POINTS),
                bound: options.load_max_percent.map(|percent| Bound {
                    percent,
                    unit: if options.load_is_count.unwrap_or(false) { Unit::Count } else { Unit::Weight },
                }),
            },
            Strategy::LeastInflight => Rule::LeastInflight { choices },
        };
        let heavy_first = matches!(rule, Rule::Weight { .. });
        Ok(Routing { rule, weight: options.weight.unwrap_or(learn::UNKNOWN), heavy_first })
    }
}

impl Routing {
    /// That of a job that says nothing.
    #[must_use]
    pub fn usual() -> Routing {
        Routing { rule: Rule::Weight { choices: 0 }, weight: learn::UNKNOWN, heavy_first: true }
    }

    /// Where a task stands among those that are due at the same instant: the lower first. Weights that differ by less
    /// than a thousandth of a core are equal.
    #[must_use]
    pub fn turn(&self) -> u32 {
        let weight = if self.heavy_first { self.weight } else { learn::UNKNOWN };
        u32::MAX - u32::try_from(weight / 1_000).unwrap_or(u32::MAX)
    }
}

impl Options {
    /// Whether each is in range, and means something to the strategy.
    fn check(&self, strategy: Strategy) -> Result<(), Invalid> {
        let is_weighed = matches!(strategy, Strategy::Default | Strategy::TaskWeight);
        let is_hash = strategy == Strategy::ConsistentHash;
        let looks = is_weighed || strategy == Strategy::LeastInflight;
        let turns = matches!(strategy, Strategy::AppRoundRobin | Strategy::Random);
        let counts = matches!(strategy, Strategy::Lfu | Strategy::Lru);
        let bounded = is_hash && self.load_max_percent.is_some();
        // What a task weighs counts for the tasks of others too, so it may be said with every strategy.
        in_use("route.choices", self.choices.is_some(), looks, "LEAST_INFLIGHT, TASK_WEIGHT and default")?;
        in_use("route.capacity_weighted", self.by_capacity.is_some(), turns, "APP_ROUND_ROBIN and RANDOM")?;
        in_use("route.scope", self.by_job.is_some(), counts, "LFU and LRU")?;
        in_use("route.window", self.window_ms.is_some(), strategy == Strategy::Lfu, "LFU")?;
        in_use("route.hash", self.as_xxl.is_some(), is_hash, "CONSISTENT_HASH")?;
        in_use("route.vnodes", self.points.is_some(), is_hash, "CONSISTENT_HASH")?;
        in_use("route.max_load_factor", self.load_max_percent.is_some(), is_hash, "CONSISTENT_HASH")?;
        in_use("route.load_unit", self.load_is_count.is_some(), bounded, "CONSISTENT_HASH with max_load_factor")?;
        within("route.weight", self.weight, 1, limits::WEIGHT_MAX, "more than 0, and at most 1048576 cores")?;
        within("route.choices", self.choices.map(u64::from), 0, u64::from(limits::CHOICES_MAX), "0 to 16")?;
        within("route.window", self.window_ms, 1_000, limits::WINDOW_MAX_MS, "1s to 30d")?;
        within("route.vnodes", self.points.map(u64::from), 1, 1_000, "1 to 1000")?;
        within("route.max_load_factor", self.load_max_percent.map(u64::from), 100, 10_000, "1.0 to 100.0")
    }
}

fn in_use(field: &'static str, is_said: bool, has_use: bool, of: &str) -> Result<(), Invalid> {
    if !is_said || has_use {
        return Ok(());
    }
    let message = "means nothing to this strategy".to_owned();
    Err(Invalid { field, message, hint: Some(format!("it is for {of}")) })
}

fn within(field: &'static str, value: Option<u64>, least: u64, most: u64, range: &str) -> Result<(), Invalid> {
    if value.is_none_or(|value| (least..=most).contains(&value)) {
        return Ok(());
    }
    Err(Invalid { field, message: "is out of range".to_owned(), hint: Some(range.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(strategy: Strategy, options: Options, expected: Result<Rule, &str>) {
        let route = Route { strategy, labels: String::new(), options };
        assert_eq!(route.compile().map(|routing| routing.rule).map_err(|invalid| invalid.field), expected);
    }

    #[test]
    fn options_go_with_their_strategies() {
        let said = Options::default;
        check(Strategy::Default, said(), Ok(Rule::Weight { choices: 0 }));
        check(Strategy::LeastInflight, Options { choices: Some(2), ..said() }, Ok(Rule::LeastInflight { choices: 2 }));
        check(Strategy::LeastInflight, Options { choices: Some(17), ..said() }, Err("route.choices"));
        check(Strategy::First, Options { choices: Some(2), ..said() }, Err("route.choices"));
        check(Strategy::Lru, Options { window_ms: Some(5_000), ..said() }, Err("route.window"));
        check(Strategy::ConsistentHash, Options { load_is_count: Some(true), ..said() }, Err("route.load_unit"));
        check(Strategy::ConsistentHash, Options { load_max_percent: Some(99), ..said() }, Err("route.max_load_factor"));
        check(Strategy::Random, Options { weight: Some(0), ..said() }, Err("route.weight"));
        check(Strategy::Random, Options { weight: Some(1 << 40), ..said() }, Ok(Rule::Random { by_size: true }));
    }

    #[test]
    fn the_heavier_has_its_turn_first_and_those_that_are_not_weighed_stand_in_the_middle() {
        let turn = |strategy, weight| {
            let options = Options { weight: Some(weight), ..Options::default() };
            Route { strategy, labels: String::new(), options }.compile().unwrap().turn()
        };
        assert!(turn(Strategy::TaskWeight, 2_000_000) < turn(Strategy::Random, 5_000_000));
        assert!(turn(Strategy::Random, 1) < turn(Strategy::TaskWeight, 100_000));
        assert_eq!(turn(Strategy::Random, 1), Routing::usual().turn());
        assert!(turn(Strategy::TaskWeight, limits::WEIGHT_MAX) < turn(Strategy::TaskWeight, 1 << 30));
    }
}
