//! Choosing a worker: members are seated by whether they can take a task and how full they are, then
//! one is picked. Integers only, deterministic, and no look at every member: a choice and a change
//! cost a logarithm of their number.
//!
//! Invariant: what [`Standing::pick`] picks is what a scan of all its seats would pick; the laws below
//! hold it against one.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::job::Strategy;
use crate::why::Why;

/// How full a worker would be with one task more: a part of what it runs at once, or a plain count.
#[derive(Clone, Copy, Debug)]
pub struct Fullness {
    tasks: u32,
    of: u32,
}

impl Fullness {
    /// `load` tasks and one more, of `capacity`; 0 stands for a plain count. Within a standing either all
    /// have a capacity or all count plainly, or the comparison would have no order.
    #[must_use]
    pub fn after_next(load: u32, capacity: u32) -> Fullness {
        Fullness { tasks: load.saturating_add(1), of: capacity.max(1) }
    }
}

impl Ord for Fullness {
    /// Fractions, cross-multiplied.
    fn cmp(&self, other: &Fullness) -> Ordering {
        let (own, theirs) = (u64::from(self.tasks) * u64::from(other.of), u64::from(other.tasks) * u64::from(self.of));
        own.cmp(&theirs)
    }
}

impl PartialOrd for Fullness {
    fn partial_cmp(&self, other: &Fullness) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Fullness {
    fn eq(&self, other: &Fullness) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Fullness {}

/// Whether a member can take a task now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seat {
    /// It can, and would be so full then.
    Able(Fullness),
    /// It cannot, for this reason.
    Refused(Why),
}

/// The reasons that refuse a member, the one that a person can do most about first.
const REFUSALS: [Why; 4] = [Why::Rate, Why::NoCredit, Why::NoCapacity, Why::ConnectFailed];

/// Members in the order of their registration, each with its seat.
#[derive(Debug, Default)]
pub struct Standing {
    seats: Vec<Seat>,
    able: BTreeSet<u32>,
    by_fullness: BTreeSet<(Fullness, u32)>,
    /// By [`REFUSALS`].
    refused: [u32; REFUSALS.len()],
}

impl Standing {
    /// Seats members.
    #[must_use]
    pub fn new(seats: Vec<Seat>) -> Standing {
        let mut standing = Standing::default();
        for (at, seat) in (0..).zip(&seats) {
            standing.enter(at, *seat);
        }
        Standing { seats, ..standing }
    }

    /// Where a member sits.
    #[must_use]
    pub fn seat(&self, at: u32) -> Seat {
        self.seats[at as usize]
    }

    /// A member can or cannot take a task, or is fuller or emptier, from now on.
    pub fn set(&mut self, at: u32, seat: Seat) {
        let before = std::mem::replace(&mut self.seats[at as usize], seat);
        if before == seat {
            // The same fraction may be another pair of numbers, which compares alike for ever.
            return;
        }
        match (before, seat) {
            (Seat::Able(before), Seat::Able(now)) => {
                self.by_fullness.remove(&(before, at));
                self.by_fullness.insert((now, at));
            }
            (Seat::Able(_) | Seat::Refused(_), _) => {
                self.leave(at, before);
                self.enter(at, seat);
            }
        }
    }

    fn enter(&mut self, at: u32, seat: Seat) {
        match seat {
            Seat::Able(fullness) => {
                self.able.insert(at);
                self.by_fullness.insert((fullness, at));
            }
            Seat::Refused(why) => self.refused[rank(why)] += 1,
        }
    }

    fn leave(&mut self, at: u32, seat: Seat) {
        match seat {
            Seat::Able(fullness) => {
                self.able.remove(&at);
                self.by_fullness.remove(&(fullness, at));
            }
            Seat::Refused(why) => self.refused[rank(why)] -= 1,
        }
    }

    /// Picks a member that can take a task; none if there is none. `turn` is a counter of choices so
    /// far: round robin goes by it, and least inflight breaks ties by it, so that equals take turns.
    #[must_use]
    pub fn pick(&self, strategy: Strategy, turn: u64) -> Option<u32> {
        let members = u64::try_from(self.seats.len()).expect("members are fewer than 2^32").max(1);
        let start = u32::try_from(turn % members).expect("members are fewer than 2^32");
        match strategy {
            Strategy::AppRoundRobin => self.able.range(start..).next().or_else(|| self.able.first()).copied(),
            Strategy::Default | Strategy::LeastInflight => {
                let (emptiest, first) = *self.by_fullness.first()?;
                let next = self.by_fullness.range((emptiest, start)..).next();
                next.filter(|(fullness, _)| *fullness == emptiest).map_or(Some(first), |(_, at)| Some(*at))
            }
        }
    }

    /// Why members refuse, if any does: the reason that a person can do most about.
    #[must_use]
    pub fn refusal(&self) -> Option<Why> {
        REFUSALS.into_iter().zip(self.refused).find(|(_, count)| *count > 0).map(|(why, _)| why)
    }
}

fn rank(why: Why) -> usize {
    REFUSALS.into_iter().position(|known| known == why).expect("a member refuses for one of these reasons")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::strategy::Strategy as _;

    use super::*;
    use crate::job::Strategy;

    /// The definition: a look at every seat, from the start of this turn, around the members.
    fn scan(seats: &[Seat], strategy: Strategy, turn: u64) -> Option<u32> {
        let start = usize::try_from(turn % seats.len().max(1) as u64).unwrap();
        let distance = |at: usize| (at + seats.len() - start) % seats.len();
        let able = seats.iter().enumerate().filter_map(|(at, seat)| match seat {
            Seat::Able(fullness) => Some((at, *fullness)),
            Seat::Refused(_) => None,
        });
        let best = match strategy {
            Strategy::AppRoundRobin => able.min_by_key(|(at, _)| distance(*at)),
            Strategy::Default | Strategy::LeastInflight => {
                able.min_by(|(a, x), (b, y)| x.cmp(y).then_with(|| distance(*a).cmp(&distance(*b))))
            }
        };
        best.map(|(at, _)| u32::try_from(at).unwrap())
    }

    fn check(strategy: Strategy, loads: &[(u32, u32)], turn: u64, expected: Option<u32>) {
        let seats = loads.iter().map(|(load, capacity)| Seat::Able(Fullness::after_next(*load, *capacity)));
        assert_eq!(Standing::new(seats.collect()).pick(strategy, turn), expected);
    }

    #[test]
    fn least_inflight_takes_the_emptiest_for_its_size() {
        check(Strategy::LeastInflight, &[(3, 0), (1, 0), (2, 0)], 0, Some(1));
        check(Strategy::LeastInflight, &[(3, 16), (1, 4)], 0, Some(0));
        check(Strategy::Default, &[], 0, None);
    }

    #[test]
    fn equals_take_turns() {
        for turn in 0..6 {
            let expected = u32::try_from(turn % 3).unwrap();
            check(Strategy::LeastInflight, &[(1, 0), (1, 0), (1, 0)], turn, Some(expected));
            check(Strategy::LeastInflight, &[(1, 4), (3, 8), (0, 2)], turn, Some(expected));
            check(Strategy::AppRoundRobin, &[(9, 0), (0, 0), (5, 0)], turn, Some(expected));
        }
    }

    fn seat() -> impl proptest::strategy::Strategy<Value = Seat> {
        prop_oneof![
            4 => (0..6u32, 1..5u32).prop_map(|(load, capacity)| Seat::Able(Fullness::after_next(load, capacity))),
            1 => prop::sample::select(REFUSALS.to_vec()).prop_map(Seat::Refused),
        ]
    }

    proptest! {
        #[test]
        fn a_pick_is_what_a_scan_would_pick(
            mut seats in prop::collection::vec(seat(), 0..9),
            changes in prop::collection::vec((any::<prop::sample::Index>(), seat(), any::<u64>()), 0..40),
        ) {
            let mut standing = Standing::new(seats.clone());
            for (at, seat, turn) in changes {
                if !seats.is_empty() {
                    let at = at.index(seats.len());
                    seats[at] = seat;
                    standing.set(u32::try_from(at).unwrap(), seat);
                }
                for strategy in [Strategy::Default, Strategy::LeastInflight, Strategy::AppRoundRobin] {
                    prop_assert_eq!(standing.pick(strategy, turn), scan(&seats, strategy, turn));
                }
                let why = REFUSALS.into_iter().find(|why| seats.contains(&Seat::Refused(*why)));
                prop_assert_eq!(standing.refusal(), why);
            }
        }
    }
}
