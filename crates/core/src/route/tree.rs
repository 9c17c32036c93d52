//! A tournament over members: who is emptiest for their size, found and kept up to date in the logarithm of their
//! number, without an allocation.
//!
//! How full a member would be depends on the task that is to be placed, since sizes differ: one unit more fills a
//! small machine more than a large one. So no order is kept. Each node knows the least load and the greatest size below
//! it, which bounds from below how empty anybody there would be, and the search leaves out what cannot win. Leaves stand
//! in the order of their sizes, so that a subtree is nearly of one size and its bound nearly exact.

use std::cmp::Ordering;

/// What a member has, and how much of it makes it full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Burden {
    /// What it carries, in the unit of what is to be added.
    pub(super) load: u64,
    /// Decides between equals, the lower first.
    pub(super) second: u32,
    /// Its size, at least 1.
    pub(super) size: u64,
}

impl Burden {
    /// What nobody carries: worse than all others.
    const NONE: Burden = Burden { load: u64::MAX, second: u32::MAX, size: 0 };

    fn is_none(self) -> bool {
        self.size == 0
    }

    /// Who would be emptier with `add` more. Fractions are cross-multiplied; loads saturate far above what is real.
    pub(super) fn cmp_with(self, other: Burden, add: u64) -> Ordering {
        if self.size == other.size {
            // Nobody has the greatest load there is, so this holds for them too.
            return (self.load.saturating_add(add), self.second).cmp(&(other.load.saturating_add(add), other.second));
        }
        match (self.is_none(), other.is_none()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) => {}
        }
        let own = u128::from(self.load.saturating_add(add)) * u128::from(other.size);
        let theirs = u128::from(other.load.saturating_add(add)) * u128::from(self.size);
        own.cmp(&theirs).then(self.second.cmp(&other.second))
    }

    /// A bound of both from below.
    fn below(self, other: Burden) -> Burden {
        let least = if (self.load, self.second) <= (other.load, other.second) { self } else { other };
        Burden { size: self.size.max(other.size), ..least }
    }
}

/// Members by how full they are.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// A heap: the children of `i` are `2i` and `2i + 1`; the leaves begin at `width`.
    nodes: Vec<Burden>,
    width: usize,
    leaf_of: Vec<u32>,
    member_at: Vec<u32>,
}

impl Tree {
    /// Members with their burdens; none if it cannot take a task. `sizes` are what they usually measure, by which leaves
    /// are ordered: only speed depends on it.
    pub(super) fn new(sizes: &[u64], burdens: impl Iterator<Item = Option<Burden>>) -> Tree {
        let count = u32::try_from(sizes.len()).expect("members are fewer than 2^32");
        let mut member_at: Vec<u32> = (0..count).collect();
        member_at.sort_by_key(|member| sizes[*member as usize]);
        let mut leaf_of = vec![0; sizes.len()];
        for (leaf, member) in (0..).zip(&member_at) {
            leaf_of[*member as usize] = leaf;
        }
        let width = sizes.len().next_power_of_two();
        let mut tree = Tree { nodes: vec![Burden::NONE; 2 * width], width, leaf_of, member_at };
        for (member, burden) in burdens.enumerate() {
            tree.nodes[width + tree.leaf_of[member] as usize] = burden.unwrap_or(Burden::NONE);
        }
        for node in (1..width).rev() {
            tree.nodes[node] = tree.nodes[2 * node].below(tree.nodes[2 * node + 1]);
        }
        tree
    }

    /// Whether a member can take a task.
    pub(super) fn holds(&self, member: u32) -> bool {
        !self.nodes[self.width + self.leaf_of[member as usize] as usize].is_none()
    }

    /// A member carries this from now on, or can take no task.
    pub(super) fn set(&mut self, member: u32, burden: Option<Burden>) {
        let mut node = self.width + self.leaf_of[member as usize] as usize;
        self.nodes[node] = burden.unwrap_or(Burden::NONE);
        while node > 1 {
            node /= 2;
            let bound = self.nodes[2 * node].below(self.nodes[2 * node + 1]);
            if self.nodes[node] == bound {
                return; // nor does anything above change
            }
            self.nodes[node] = bound;
        }
    }

    /// Who, of those that suit, would be emptiest with `add` more; of equals the first from the `start`th place on.
    pub(super) fn emptiest(&self, add: u64, start: u64, suits: impl Fn(u32) -> bool) -> Option<u32> {
        let mut best = Burden::NONE;
        self.search(1, add, &suits, &mut best);
        if best.is_none() {
            return None;
        }
        let count = self.member_at.len();
        let start = usize::try_from(start % count as u64).expect("below the number of members");
        let search = Search { add, best, suits: &suits };
        let leaf = self
            .first_equal(1, (0, self.width), (start, count), &search)
            .or_else(|| self.first_equal(1, (0, self.width), (0, start), &search))?;
        Some(self.member_at[leaf])
    }

    /// Lowers `best` to that of the best leaf below a node that suits.
    fn search(&self, node: usize, add: u64, suits: &impl Fn(u32) -> bool, best: &mut Burden) {
        if self.nodes[node].cmp_with(*best, add) != Ordering::Less {
            return;
        }
        if node >= self.width {
            if suits(self.member_at[node - self.width]) {
                *best = self.nodes[node];
            }
            return;
        }
        let (left, right) = (2 * node, 2 * node + 1);
        let left_first = self.nodes[left].cmp_with(self.nodes[right], add) != Ordering::Greater;
        let (near, far) = if left_first { (left, right) } else { (right, left) };
        self.search(near, add, suits, best);
        self.search(far, add, suits, best);
    }

    /// The first leaf of a range that is as good as the best.
    fn first_equal<S: Fn(u32) -> bool>(
        &self,
        node: usize,
        (low, high): (usize, usize),
        (from, to): (usize, usize),
        search: &Search<'_, S>,
    ) -> Option<usize> {
        let is_apart = high <= from || low >= to;
        if is_apart || self.nodes[node].cmp_with(search.best, search.add) == Ordering::Greater {
            return None;
        }
        if node >= self.width {
            let is_equal = self.nodes[node].cmp_with(search.best, search.add) == Ordering::Equal;
            return (is_equal && (search.suits)(self.member_at[low])).then_some(low);
        }
        let middle = low.midpoint(high);
        self.first_equal(2 * node, (low, middle), (from, to), search)
            .or_else(|| self.first_equal(2 * node + 1, (middle, high), (from, to), search))
    }
}

struct Search<'s, S> {
    add: u64,
    best: Burden,
    suits: &'s S,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition: the least fraction, of equals the first from the start on, in the order of sizes.
    fn scan(sizes: &[u64], burdens: &[Option<Burden>], add: u64, start: u64, suits: &[bool]) -> Option<u32> {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|member| sizes[*member]);
        let count = sizes.len() as u64;
        let turned = (0..count).map(|n| order[usize::try_from((start % count.max(1) + n) % count).unwrap()]);
        let able = turned.filter(|member| suits[*member]).filter_map(|member| Some((member, burdens[member]?)));
        let best = able.reduce(|best, other| if other.1.cmp_with(best.1, add).is_lt() { other } else { best });
        best.map(|(member, _)| u32::try_from(member).unwrap())
    }

    fn burden() -> impl Strategy<Value = Option<Burden>> {
        let size = prop_oneof![Just(1), Just(2), Just(4), Just(1 << 40)];
        let load = prop_oneof![0..4u64, Just(1 << 40), Just(u64::MAX - 1)];
        prop::option::weighted(
            0.8,
            (load, 0..3u32, size).prop_map(|(load, second, size)| Burden { load, second, size }),
        )
    }

    proptest! {
        #[test]
        fn the_emptiest_is_whom_a_scan_would_find(
            mut burdens in prop::collection::vec(burden(), 0..20),
            changes in prop::collection::vec((any::<prop::sample::Index>(), burden(), any::<bool>()), 1..30),
            add in prop_oneof![Just(0), Just(1), Just(3), Just(1 << 40)],
            start in any::<u64>(),
        ) {
            let sizes: Vec<u64> = burdens.iter().map(|burden| burden.map_or(1, |burden| burden.size)).collect();
            let mut suits = vec![true; burdens.len()];
            let mut tree = Tree::new(&sizes, burdens.iter().copied());
            for (at, burden, is_suitable) in changes {
                if !burdens.is_empty() {
                    let at = at.index(burdens.len());
                    burdens[at] = burden;
                    suits[at] = is_suitable;
                    tree.set(u32::try_from(at).unwrap(), burden);
                }
                let found = tree.emptiest(add, start, |member| suits[member as usize]);
                prop_assert_eq!(found, scan(&sizes, &burdens, add, start, &suits));
            }
        }
    }
}
