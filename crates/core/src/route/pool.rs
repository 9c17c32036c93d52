//! A pool: members with what they carry, and the choice of one of them.
//!
//! Invariant: what [`Pool::pick`] picks is what a scan of all members by the words of [`Rule`] would pick; the laws hold
//! it against one. A choice and a change cost the logarithm of the number of members and allocate nothing, once what a
//! rule needs has been built. Not so: resources are linear in the sample; members that are shunned or have no room are
//! looked at one by one; and where choices are counted job by job, a member that can or cannot take a task moves in the
//! order of each job.
//!
//! What a pool remembers of its choices goes with it, when its members change.
//!
//! Absent on purpose: a pool does not reserve. Whoever has picked says what the member carries now, before the next
//! choice.

use std::collections::BTreeMap;

use rota_cron::mix;

use super::draw::Draw;
use super::fit::{Amounts, Room};
use super::places::Places;
use super::ring::{Hash, Ring};
use super::rule::{OnBusy, Rule, Scope, Unit};
use super::tree::{Burden, Tree};
use super::usage::Usage;
use crate::limits;
use crate::time::Mono;
use crate::why::Why;

/// Members up to which all are scored for their resources.
const SCORED_ALL: u32 = 500;
const SCORED_LEAST: u32 = 100;
/// Draws after which a random choice among members that may not suit goes on in order.
const DRAWS_MAX: u32 = 16;
/// What one choice adds to a member of size 1; larger ones move on by less.
const STRIDE: u64 = 1 << 52;
/// From here on passes are counted anew.
const PASS_MAX: u64 = 1 << 62;

/// A member, as it does not change while its pool lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its name on the ring.
    pub name: String,
    /// How much it can carry beside others: cores in millionths, or any other measure that all members share.
    pub size: u64,
    /// Its place among the values of the label that tasks are spread over.
    pub zone: u32,
    /// What it has of each resource.
    pub has: Amounts,
}

/// What a member carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Unreleased attempts.
    pub tasks: u32,
    /// The sum of their weights.
    pub weight: u64,
    /// The sum of their requests.
    pub taken: Amounts,
}

/// Whether a member can take a task now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seat {
    /// It can, and carries so much.
    Able(Load),
    /// It cannot, for this reason.
    Refused(Why),
}

/// What a member is wanted for.
#[derive(Clone, Copy, Debug)]
pub struct Task<'t> {
    /// Its job.
    pub job: u64,
    /// Its place on the ring, by the rule's hash.
    pub key: u64,
    /// What it weighs, in the measure of the members' sizes.
    pub weight: u64,
    /// What it requests of each resource.
    pub needs: &'t Amounts,
    /// Members that may not be chosen.
    pub shuns: &'t [u32],
    /// Members on which its job has unreleased attempts.
    pub runs_on: &'t [u32],
    /// The member of its job's last attempt, and the percent above the mean that it may carry to be chosen again.
    pub stay: Option<(u32, u32)>,
    /// Unreleased attempts of its job in each zone, if it is to be spread over them.
    pub spread: Option<&'t [u32]>,
    /// Choices of its app so far.
    pub app_turn: u64,
    /// Choices of its job so far.
    pub job_turn: u64,
}

/// Requests of nothing.
pub const NOTHING: Amounts = [0; limits::RESOURCES_MAX];

impl Task<'static> {
    /// A task of a job that asks for nothing special.
    #[must_use]
    pub fn of(job: u64, weight: u64) -> Task<'static> {
        let (shuns, runs_on, key) = (&[][..], &[][..], 0);
        let (app_turn, job_turn, stay, spread) = (0, 0, None, None);
        Task { job, key, weight, needs: &NOTHING, shuns, runs_on, stay, spread, app_turn, job_turn }
    }
}

/// Why nobody was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nobody {
    /// The pool has no members.
    Empty,
    /// Members refuse; for the reason that a person can do most about.
    Refused(Why),
    /// Its job runs on all that can take a task.
    Busy,
    /// No member that can take a task has room for what it requests.
    NoRoom,
    /// It shuns all that can take a task.
    Shunned,
}

/// The reasons that refuse a member, the one that a person can do most about first.
pub(super) const REFUSALS: [Why; 4] = [Why::Rate, Why::NoCredit, Why::NoCapacity, Why::ConnectFailed];

/// Members in the order of their registration.
#[derive(Clone, Debug)]
pub struct Pool {
    members: Vec<Member>,
    seats: Vec<Seat>,
    sizes: Vec<u64>,
    /// All members are of one size.
    is_even: bool,
    /// What those that can take a task carry together.
    tasks: u64,
    weight: u128,
    /// By [`REFUSALS`].
    refused: [u32; REFUSALS.len()],
    places: Places,
    draw: Draw,
    by_tasks: Option<Tree>,
    by_weight: Option<Tree>,
    strides: Option<Strides>,
    rings: BTreeMap<(Hash, u32), Ring>,
    usages: BTreeMap<(Option<u64>, u64), Usage>,
    picks: u64,
}

/// Where each member is in a rotation in which larger ones come more often: C. A. Waldspurger, W. E. Weihl, Stride
/// Scheduling, 1995.
#[derive(Clone, Debug)]
struct Strides {
    tree: Tree,
    passes: Vec<u64>,
    /// The pass of the last choice: who was away does not catch up.
    now: u64,
}

impl Pool {
    /// Seats members. The seed decides what is chosen by chance.
    #[must_use]
    pub fn new(members: Vec<Member>, seats: Vec<Seat>, seed: u64) -> Pool {
        assert_eq!(members.len(), seats.len(), "each member has a seat");
        let sizes: Vec<u64> = members.iter().map(|member| member.size.max(1)).collect();
        let able: Vec<Option<u64>> =
            sizes.iter().zip(&seats).map(|(size, seat)| matches!(seat, Seat::Able(_)).then_some(*size)).collect();
        let mut pool = Pool {
            is_even: sizes.windows(2).all(|pair| pair[0] == pair[1]),
            places: Places::new(&able),
            members,
            seats: Vec::new(),
            sizes,
            tasks: 0,
            weight: 0,
            refused: [0; REFUSALS.len()],
            draw: Draw::new(seed),
            by_tasks: None,
            by_weight: None,
            strides: None,
            rings: BTreeMap::new(),
            usages: BTreeMap::new(),
            picks: 0,
        };
        for seat in &seats {
            pool.add(*seat);
        }
        pool.seats = seats;
        pool
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// A member, as it came in.
    #[must_use]
    pub fn member(&self, at: u32) -> &Member {
        &self.members[at as usize]
    }

    /// Where a member sits.
    #[must_use]
    pub fn seat(&self, at: u32) -> Seat {
        self.seats[at as usize]
    }

    /// How many can take a task.
    #[must_use]
    pub fn able(&self) -> u32 {
        self.places.able()
    }

    /// Why members refuse, if any does: the reason that a person can do most about.
    #[must_use]
    pub fn refusal(&self) -> Option<Why> {
        REFUSALS.into_iter().zip(self.refused).find(|(_, count)| *count > 0).map(|(why, _)| why)
    }

    /// A member can or cannot take a task, or carries more or less, from now on.
    pub fn set(&mut self, at: u32, seat: Seat) {
        let before = std::mem::replace(&mut self.seats[at as usize], seat);
        if before == seat {
            return;
        }
        self.take(before);
        self.add(seat);
        self.seat_again(at, matches!(before, Seat::Able(_)) != matches!(seat, Seat::Able(_)));
    }

    fn add(&mut self, seat: Seat) {
        match seat {
            Seat::Able(load) => {
                self.tasks += u64::from(load.tasks);
                self.weight += u128::from(load.weight);
            }
            Seat::Refused(why) => self.refused[rank(why)] += 1,
        }
    }

    fn take(&mut self, seat: Seat) {
        match seat {
            Seat::Able(load) => {
                self.tasks -= u64::from(load.tasks);
                self.weight -= u128::from(load.weight);
            }
            Seat::Refused(why) => self.refused[rank(why)] -= 1,
        }
    }

    /// Brings what is kept beside the seats up to date.
    fn seat_again(&mut self, at: u32, turned: bool) {
        let (seat, size) = (self.seats[at as usize], self.sizes[at as usize]);
        let is_able = matches!(seat, Seat::Able(_));
        self.places.set(at, is_able.then_some(size));
        if let Some(tree) = &mut self.by_tasks {
            tree.set(at, tasks_of(seat, size));
        }
        if let Some(tree) = &mut self.by_weight {
            tree.set(at, weight_of(seat, size));
        }
        if turned {
            if let Some(strides) = &mut self.strides {
                strides.set_able(at, is_able);
            }
            for usage in self.usages.values_mut() {
                usage.set_able(at, is_able);
            }
        }
    }

    /// Chooses a member.
    pub fn pick(&mut self, rule: &Rule, task: &Task<'_>, now: Mono) -> Result<u32, Nobody> {
        self.prepare(rule, task, now);
        let mut draw = self.draw;
        let chosen = self.choose(rule, task, &mut draw)?;
        self.draw = draw;
        self.picks += 1;
        if let Some(strides) = self.strides.as_mut().filter(|_| *rule == Rule::AppRoundRobin { by_size: true }) {
            strides.move_on(chosen, self.sizes[chosen as usize]);
        }
        if let Some(usage) = usage_of(rule, task).and_then(|key| self.usages.get_mut(&key)) {
            usage.count_choice(chosen);
            usage.asked = self.picks;
        }
        Ok(chosen)
    }

    /// Builds what a rule goes by, if it is new to this pool.
    fn prepare(&mut self, rule: &Rule, task: &Task<'_>, now: Mono) {
        match rule {
            Rule::First
            | Rule::Last
            | Rule::Failover
            | Rule::TaskRoundRobin
            | Rule::Random { .. }
            | Rule::ResourceFit { .. } => {}
            Rule::AppRoundRobin { by_size } => {
                if *by_size && !self.is_even && self.strides.is_none() {
                    self.strides = Some(Strides::new(&self.seats));
                }
            }
            Rule::Busyover { .. } | Rule::LeastInflight { .. } => {
                if self.by_tasks.is_none() {
                    self.by_tasks = Some(self.tree(tasks_of));
                }
            }
            Rule::Weight { .. } => {
                if self.by_weight.is_none() {
                    self.by_weight = Some(self.tree(weight_of));
                }
            }
            Rule::ConsistentHash { hash, points, .. } => {
                let names = self.members.iter().map(|member| member.name.as_str());
                if self.rings.len() >= limits::RINGS_MAX && !self.rings.contains_key(&(*hash, *points)) {
                    self.rings.clear();
                }
                self.rings.entry((*hash, *points)).or_insert_with(|| Ring::new(names, *hash, *points));
            }
            Rule::Lfu { .. } | Rule::Lru { .. } => self.prepare_usage(rule, task, now),
        }
    }

    fn prepare_usage(&mut self, rule: &Rule, task: &Task<'_>, now: Mono) {
        let Some(key) = usage_of(rule, task) else { return };
        if !self.usages.contains_key(&key) {
            if self.usages.len() >= limits::USAGES_MAX {
                let oldest = self.usages.iter().min_by_key(|(_, usage)| usage.asked).map(|(key, _)| *key);
                oldest.and_then(|key| self.usages.remove(&key));
            }
            let able: Vec<bool> = self.seats.iter().map(|seat| matches!(seat, Seat::Able(_))).collect();
            self.usages.insert(key, Usage::new(&able, key.1, now));
        }
        if matches!(rule, Rule::Lfu { .. })
            && let Some(usage) = self.usages.get_mut(&key)
        {
            usage.slide(now, |member| self.places.is_able(member));
        }
    }

    fn tree(&self, burden: fn(Seat, u64) -> Option<Burden>) -> Tree {
        Tree::new(&self.sizes, self.seats.iter().zip(&self.sizes).map(|(seat, size)| burden(*seat, *size)))
    }

    /// Whom a rule chooses; it changes nothing but what is drawn.
    fn choose(&self, rule: &Rule, task: &Task<'_>, draw: &mut Draw) -> Result<u32, Nobody> {
        let overcommit =
            if let Rule::ResourceFit { overcommit_percent, .. } = rule { *overcommit_percent } else { 100 };
        let suits = |member: u32| self.suits(task, overcommit, member);
        if let Some((last, percent)) = task.stay
            && self.may_stay(task, last, percent)
            && suits(last)
        {
            return Ok(last);
        }
        let chosen = match task.spread {
            Some(counts) => self.spread(rule, task, counts, draw, &suits),
            None => self.choose_of(rule, task, draw, &suits),
        };
        chosen.ok_or_else(|| self.nobody(rule, task, overcommit))
    }

    /// Tries the zones one after the other, the one with the fewest attempts of the job first.
    fn spread(
        &self,
        rule: &Rule,
        task: &Task<'_>,
        counts: &[u32],
        draw: &mut Draw,
        suits: &impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let mut tried: Option<(u32, u64, usize)> = None;
        let zones = counts.len() as u64;
        let rank = |zone: usize| (counts[zone], (zone as u64 + task.job_turn) % zones, zone);
        while let Some(next) = (0..counts.len()).map(rank).filter(|next| tried.is_none_or(|tried| *next > tried)).min()
        {
            let zone = u32::try_from(next.2).expect("zones are fewer than members");
            let is_there = |member: u32| self.members[member as usize].zone == zone && suits(member);
            if let Some(chosen) = self.choose_of(rule, task, draw, &is_there) {
                return Some(chosen);
            }
            tried = Some(next);
        }
        None
    }

    /// Whom a rule chooses of those that suit.
    fn choose_of(&self, rule: &Rule, task: &Task<'_>, draw: &mut Draw, suits: &impl Fn(u32) -> bool) -> Option<u32> {
        match rule {
            Rule::First | Rule::Failover => self.places.from(0).find(|member| suits(*member)),
            Rule::Last => self.places.backwards().find(|member| suits(*member)),
            Rule::Busyover { on_busy } => {
                let idle = |member: &u32| !task.runs_on.contains(member) && suits(*member);
                let found = self.places.from(0).find(idle);
                match (found, on_busy) {
                    (None, OnBusy::LeastLoaded) => self.by_tasks.as_ref()?.emptiest(1, task.job_turn, suits),
                    (found, OnBusy::LeastLoaded | OnBusy::Queue | OnBusy::Fail) => found,
                }
            }
            Rule::TaskRoundRobin => {
                let start = (mix(task.job) >> 1).wrapping_add(task.job_turn);
                self.places.from(start).find(|member| suits(*member))
            }
            Rule::AppRoundRobin { by_size } => match &self.strides {
                Some(strides) if *by_size => strides.tree.emptiest(0, 0, suits),
                Some(_) | None => self.places.from(task.app_turn).find(|member| suits(*member)),
            },
            Rule::Random { by_size } => self.by_chance(*by_size, draw, suits),
            Rule::Lfu { .. } => self.usages.get(&usage_of(rule, task)?)?.least_often(mix(task.job), suits),
            Rule::Lru { .. } => self.usages.get(&usage_of(rule, task)?)?.longest_ago(mix(task.job), suits),
            Rule::ConsistentHash { hash, points, bound } => {
                let ring = self.rings.get(&(*hash, *points))?;
                if self.places.able() == 0 {
                    return None;
                }
                let has_room =
                    |member: u32| bound.is_none_or(|bound| self.is_below(task, bound.percent, bound.unit, member));
                let found = ring
                    .from(task.key)
                    .find(|member| self.places.is_able(*member) && has_room(*member) && suits(*member));
                found.or_else(|| ring.from(task.key).find(|member| self.places.is_able(*member) && suits(*member)))
            }
            Rule::LeastInflight { choices: 0 } => self.by_tasks.as_ref()?.emptiest(1, draw.number(), suits),
            Rule::LeastInflight { choices } => self.best_of(*choices, 1, tasks_of, draw, suits),
            Rule::Weight { choices: 0 } => self.by_weight.as_ref()?.emptiest(task.weight, task.app_turn, suits),
            Rule::Weight { choices } => self.best_of(*choices, task.weight, weight_of, draw, suits),
            Rule::ResourceFit { score, weights, sample, .. } => {
                let sample = match *sample {
                    0 if self.places.able() <= SCORED_ALL => u32::MAX,
                    0 => SCORED_LEAST.max(self.places.able() / 20),
                    sample => sample,
                };
                let scored = |member: u32| self.room(member).score(task.needs, score, weights);
                self.best_scored(sample, task.app_turn, scored, draw, suits)
            }
        }
    }

    /// One by chance; if nobody that was drawn suits, the first from there that does.
    fn by_chance(&self, by_size: bool, draw: &mut Draw, suits: &impl Fn(u32) -> bool) -> Option<u32> {
        let able = self.places.able();
        for _ in 0..DRAWS_MAX {
            let drawn = if by_size {
                let below = u64::try_from(self.places.size()).unwrap_or(u64::MAX);
                self.places.at_point(u128::from(draw.below(below)))
            } else {
                self.places.nth(u32::try_from(draw.below(u64::from(able))).expect("below the number of members"))
            };
            if drawn.is_some_and(suits) {
                return drawn;
            }
        }
        self.places.from(draw.number()).find(|member| suits(*member))
    }

    /// The best of some by chance, of equals the first drawn; if none of those suits, the first from a place by chance
    /// that does.
    fn best_of(
        &self,
        choices: u32,
        add: u64,
        burden: fn(Seat, u64) -> Option<Burden>,
        draw: &mut Draw,
        suits: &impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let able = self.places.able();
        let choices = choices.min(limits::CHOICES_MAX).min(able);
        let mut ranks = [0_u32; limits::CHOICES_MAX as usize];
        let mut best: Option<(u32, Burden)> = None;
        for drawn in 0..choices as usize {
            // Without putting back: the ranks that are drawn already are left out, in rising order.
            let left = u64::from(able) - drawn as u64;
            let mut rank = u32::try_from(draw.below(left)).expect("below the number of members");
            let mut place = 0;
            while place < drawn && ranks[place] <= rank {
                rank += 1;
                place += 1;
            }
            ranks.copy_within(place..drawn, place + 1);
            ranks[place] = rank;
            let Some(member) = self.places.nth(rank).filter(|member| suits(*member)) else { continue };
            let Some(burden) = burden(self.seats[member as usize], self.sizes[member as usize]) else { continue };
            if best.is_none_or(|(_, best)| burden.cmp_with(best, add).is_lt()) {
                best = Some((member, burden));
            }
        }
        best.map(|(member, _)| member).or_else(|| self.places.from(draw.number()).find(|member| suits(*member)))
    }

    /// The best score of the first so many that suit from a place on; of equals one by chance.
    fn best_scored(
        &self,
        sample: u32,
        start: u64,
        score: impl Fn(u32) -> f64,
        draw: &mut Draw,
        suits: &impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let count = self.members.len() as u64;
        let start = u32::try_from(start % count.max(1)).expect("below the number of members");
        let count = u32::try_from(count).expect("members are fewer than 2^32");
        let able = (start..count).chain(0..start).filter(|member| self.places.is_able(*member) && suits(*member));
        let mut best: Option<(u32, f64)> = None;
        let mut equals = 0;
        for member in able.take(sample as usize) {
            let scored = score(member);
            match best {
                Some((_, highest)) if scored < highest => {}
                Some((_, highest)) if scored == highest => {
                    equals += 1;
                    if draw.below(equals) == 0 {
                        best = Some((member, scored));
                    }
                }
                Some(_) | None => {
                    equals = 1;
                    best = Some((member, scored));
                }
            }
        }
        best.map(|(member, _)| member)
    }

    /// Whether a member may be chosen for a task at all, if it can take one.
    fn suits(&self, task: &Task<'_>, overcommit_percent: u32, member: u32) -> bool {
        !task.shuns.contains(&member) && self.has_room(task, overcommit_percent, member)
    }

    fn has_room(&self, task: &Task<'_>, overcommit_percent: u32, member: u32) -> bool {
        *task.needs == NOTHING || self.room(member).fits(task.needs, overcommit_percent)
    }

    fn room(&self, member: u32) -> Room<'_> {
        let taken = match &self.seats[member as usize] {
            Seat::Able(load) => &load.taken,
            Seat::Refused(_) => &NOTHING,
        };
        Room { has: &self.members[member as usize].has, taken }
    }

    /// Whether a member carries less than so many percent of the mean, the task included.
    fn is_below(&self, task: &Task<'_>, percent: u32, unit: Unit, member: u32) -> bool {
        let Seat::Able(load) = self.seats[member as usize] else { return false };
        let (own, all) = match unit {
            Unit::Weight => (load.weight, self.weight + u128::from(task.weight.max(1))),
            Unit::Count => (u64::from(load.tasks), u128::from(self.tasks) + 1),
        };
        let own = u128::from(own).saturating_mul(self.places.size()).saturating_mul(100);
        own < u128::from(percent.max(100)).saturating_mul(all).saturating_mul(u128::from(self.sizes[member as usize]))
    }

    fn may_stay(&self, task: &Task<'_>, last: u32, percent: u32) -> bool {
        let is_able = self.places.is_able(last);
        is_able && self.is_below(task, percent.saturating_add(100), Unit::Weight, last)
    }

    /// Why nobody was chosen.
    fn nobody(&self, rule: &Rule, task: &Task<'_>, overcommit_percent: u32) -> Nobody {
        if self.members.is_empty() {
            return Nobody::Empty;
        }
        if self.places.able() == 0 {
            return self.refusal().map_or(Nobody::Empty, Nobody::Refused);
        }
        if !self.places.from(0).any(|member| self.has_room(task, overcommit_percent, member)) {
            return Nobody::NoRoom;
        }
        let is_wanted = |member: u32| self.suits(task, overcommit_percent, member);
        let is_busyover = matches!(rule, Rule::Busyover { .. });
        if is_busyover && self.places.from(0).any(is_wanted) { Nobody::Busy } else { Nobody::Shunned }
    }
}

impl Strides {
    fn new(seats: &[Seat]) -> Strides {
        let sizes = vec![1; seats.len()];
        let at = |seat: &Seat| matches!(seat, Seat::Able(_)).then_some(Burden { load: 0, second: 0, size: 1 });
        Strides { tree: Tree::new(&sizes, seats.iter().map(at)), passes: vec![0; seats.len()], now: 0 }
    }

    fn set_able(&mut self, member: u32, is_able: bool) {
        let pass = &mut self.passes[member as usize];
        *pass = (*pass).max(self.now);
        self.tree.set(member, is_able.then_some(Burden { load: *pass, second: 0, size: 1 }));
    }

    fn move_on(&mut self, member: u32, size: u64) {
        self.now = self.passes[member as usize];
        if self.now > PASS_MAX {
            self.begin_anew();
        }
        let pass = &mut self.passes[member as usize];
        *pass = pass.saturating_add((STRIDE / size).max(1));
        self.tree.set(member, Some(Burden { load: *pass, second: 0, size: 1 }));
    }

    /// Counts all passes from the present one on, before they leave the range of their type.
    fn begin_anew(&mut self) {
        for (member, pass) in (0..).zip(&mut self.passes) {
            *pass = pass.saturating_sub(self.now);
            if self.tree.holds(member) {
                self.tree.set(member, Some(Burden { load: *pass, second: 0, size: 1 }));
            }
        }
        self.now = 0;
    }
}

/// Whose use of the members a rule goes by, and within which window.
fn usage_of(rule: &Rule, task: &Task<'_>) -> Option<(Option<u64>, u64)> {
    let (scope, window_ms) = if let Rule::Lfu { scope, window_ms } = rule {
        (scope, *window_ms)
    } else if let Rule::Lru { scope } = rule {
        (scope, 0)
    } else {
        return None;
    };
    Some(((*scope == Scope::Job).then_some(task.job), window_ms))
}

fn tasks_of(seat: Seat, size: u64) -> Option<Burden> {
    match seat {
        Seat::Able(load) => Some(Burden { load: u64::from(load.tasks), second: 0, size }),
        Seat::Refused(_) => None,
    }
}

fn weight_of(seat: Seat, size: u64) -> Option<Burden> {
    match seat {
        Seat::Able(load) => Some(Burden { load: load.weight.min(u64::MAX - 1), second: load.tasks, size }),
        Seat::Refused(_) => None,
    }
}

fn rank(why: Why) -> usize {
    REFUSALS.into_iter().position(|known| known == why).expect("a member refuses for one of these reasons")
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
