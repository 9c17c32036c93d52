//! Members in the order of their registration: which of them can take a task, and how large those are together.

/// Who can take a task, by place.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// A heap as in a tournament: how many can, and the sum of their sizes.
    nodes: Vec<(u32, u128)>,
    width: usize,
    count: u32,
}

impl Places {
    /// Members with their sizes; none if it cannot take a task.
    pub(super) fn new(sizes: &[Option<u64>]) -> Places {
        let width = sizes.len().next_power_of_two();
        let mut nodes = vec![(0, 0); 2 * width];
        for (leaf, size) in sizes.iter().enumerate() {
            nodes[width + leaf] = size.map_or((0, 0), |size| (1, u128::from(size)));
        }
        for node in (1..width).rev() {
            nodes[node] = sum(nodes[2 * node], nodes[2 * node + 1]);
        }
        Places { nodes, width, count: u32::try_from(sizes.len()).expect("members are fewer than 2^32") }
    }

    pub(super) fn set(&mut self, member: u32, size: Option<u64>) {
        let mut node = self.width + member as usize;
        let leaf = size.map_or((0, 0), |size| (1, u128::from(size)));
        if self.nodes[node] == leaf {
            return;
        }
        self.nodes[node] = leaf;
        while node > 1 {
            node /= 2;
            self.nodes[node] = sum(self.nodes[2 * node], self.nodes[2 * node + 1]);
        }
    }

    /// How many can take a task.
    pub(super) fn able(&self) -> u32 {
        self.nodes[1].0
    }

    /// The sum of the sizes of those that can.
    pub(super) fn size(&self) -> u128 {
        self.nodes[1].1
    }

    pub(super) fn is_able(&self, member: u32) -> bool {
        self.nodes[self.width + member as usize].0 > 0
    }

    /// The `rank`th of those that can, counted from 0.
    pub(super) fn nth(&self, rank: u32) -> Option<u32> {
        if rank >= self.able() {
            return None;
        }
        let (mut node, mut left) = (1, rank);
        while node < self.width {
            let first = self.nodes[2 * node].0;
            let goes_right = left >= first;
            left -= if goes_right { first } else { 0 };
            node = 2 * node + usize::from(goes_right);
        }
        Some(u32::try_from(node - self.width).expect("below the number of members"))
    }

    /// The one in whose stretch this point lies, if those that can are laid end to end by their sizes.
    pub(super) fn at_point(&self, point: u128) -> Option<u32> {
        if point >= self.size() {
            return None;
        }
        let (mut node, mut left) = (1, point);
        while node < self.width {
            let first = self.nodes[2 * node].1;
            let goes_right = left >= first;
            left -= if goes_right { first } else { 0 };
            node = 2 * node + usize::from(goes_right);
        }
        Some(u32::try_from(node - self.width).expect("below the number of members"))
    }

    /// How many of those before this member can.
    fn rank(&self, member: u32) -> u32 {
        let (mut node, mut rank) = (self.width + member as usize, 0);
        while node > 1 {
            if node % 2 == 1 {
                rank += self.nodes[node - 1].0;
            }
            node /= 2;
        }
        rank
    }

    /// Those that can, from a place on and round; the place is counted modulo the number of members.
    pub(super) fn from(&self, start: u64) -> impl Iterator<Item = u32> {
        let able = self.able();
        let start = u32::try_from(start % u64::from(self.count.max(1))).expect("below the number of members");
        let first = if able == 0 { 0 } else { self.rank(start) };
        (0..able)
            .filter_map(move |n| self.nth(u32::try_from((u64::from(first) + u64::from(n)) % u64::from(able)).ok()?))
    }

    /// Those that can, from the last to the first.
    pub(super) fn backwards(&self) -> impl Iterator<Item = u32> {
        (0..self.able()).rev().filter_map(|rank| self.nth(rank))
    }
}

fn sum(left: (u32, u128), right: (u32, u128)) -> (u32, u128) {
    (left.0 + right.0, left.1 + right.1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_are_what_counting_finds(
            mut sizes in prop::collection::vec(prop::option::of(0..9u64), 0..20),
            changes in prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(0..9u64)), 0..20),
            start in any::<u64>(),
        ) {
            let mut places = Places::new(&sizes);
            for (at, size) in changes {
                if !sizes.is_empty() {
                    let at = at.index(sizes.len());
                    sizes[at] = size;
                    places.set(u32::try_from(at).unwrap(), size);
                }
            }
            let able: Vec<u32> = (0..).zip(&sizes).filter(|(_, size)| size.is_some()).map(|(at, _)| at).collect();
            prop_assert_eq!(places.able() as usize, able.len());
            prop_assert_eq!(places.backwards().collect::<Vec<_>>(), able.iter().rev().copied().collect::<Vec<_>>());
            let count = sizes.len() as u64;
            let turned = (0..count).map(|n| u32::try_from((start % count + n) % count).unwrap());
            let turned: Vec<u32> = turned.filter(|at| sizes[*at as usize].is_some()).collect();
            prop_assert_eq!(places.from(start).collect::<Vec<_>>(), turned);
            let laid: Vec<u32> = able.iter().flat_map(|at| {
                let size = usize::try_from(sizes[*at as usize].unwrap()).unwrap();
                std::iter::repeat_n(*at, size)
            }).collect();
            prop_assert_eq!(places.size(), laid.len() as u128);
            for (point, at) in (0..).zip(&laid) {
                prop_assert_eq!(places.at_point(point), Some(*at));
            }
            prop_assert_eq!(places.at_point(laid.len() as u128), None);
            prop_assert_eq!(places.nth(u32::try_from(able.len()).unwrap()), None);
        }
    }
}
