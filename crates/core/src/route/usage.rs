//! How often, and how long ago, members were chosen: what LFU and LRU go by.

use super::tree::{Burden, Tree};
use crate::time::Mono;

/// A window slides by this part of itself.
const STRETCHES: usize = 24;

/// How often each member was chosen within a window, and when last.
#[derive(Clone, Debug)]
pub(super) struct Usage {
    window_ms: u64,
    /// The stretch of time that is being counted, in parts of the window since the clock's beginning.
    stretch: u64,
    counts: Vec<[u32; STRETCHES]>,
    /// Which choice was each member's last, counted from 1.
    last: Vec<u64>,
    chosen: u64,
    by_count: Tree,
    by_age: Tree,
    /// When it was last asked, for whoever has to forget one.
    pub(super) asked: u64,
}

impl Usage {
    pub(super) fn new(able: &[bool], window_ms: u64, now: Mono) -> Usage {
        let window_ms = window_ms.max(STRETCHES as u64);
        let sizes = vec![1; able.len()];
        let tree = Tree::new(&sizes, able.iter().map(|able| able.then_some(unused())));
        Usage {
            window_ms,
            stretch: now.0 / (window_ms / STRETCHES as u64),
            counts: vec![[0; STRETCHES]; able.len()],
            last: vec![0; able.len()],
            chosen: 0,
            by_count: tree.clone(),
            by_age: tree,
            asked: 0,
        }
    }

    /// A member can take a task from now on, or cannot. What it was used before stays known.
    pub(super) fn set_able(&mut self, member: u32, is_able: bool) {
        let count = is_able.then(|| self.count(member));
        self.by_count.set(member, count.map(|load| Burden { load, ..unused() }));
        let last = is_able.then(|| self.last[member as usize]);
        self.by_age.set(member, last.map(|load| Burden { load, ..unused() }));
    }

    fn count(&self, member: u32) -> u64 {
        self.counts[member as usize].iter().map(|count| u64::from(*count)).sum()
    }

    /// Forgets what has left the window.
    pub(super) fn slide(&mut self, now: Mono, is_able: impl Fn(u32) -> bool) {
        let stretch = now.0 / (self.window_ms / STRETCHES as u64);
        let passed = stretch.saturating_sub(self.stretch).min(STRETCHES as u64);
        if passed == 0 {
            return;
        }
        for past in 0..passed {
            let place = usize::try_from((stretch - past) % STRETCHES as u64).expect("below their number");
            for counts in &mut self.counts {
                counts[place] = 0;
            }
        }
        self.stretch = stretch;
        for member in (0..).take(self.counts.len()).filter(|member| is_able(*member)) {
            let load = self.count(member);
            self.by_count.set(member, Some(Burden { load, ..unused() }));
        }
    }

    /// A member was chosen.
    pub(super) fn count_choice(&mut self, member: u32) {
        let place = usize::try_from(self.stretch % STRETCHES as u64).expect("below their number");
        let count = &mut self.counts[member as usize][place];
        *count = count.saturating_add(1);
        let load = self.count(member);
        self.by_count.set(member, Some(Burden { load, ..unused() }));
        self.chosen += 1;
        self.last[member as usize] = self.chosen;
        self.by_age.set(member, Some(Burden { load: self.chosen, ..unused() }));
    }

    pub(super) fn least_often(&self, start: u64, suits: impl Fn(u32) -> bool) -> Option<u32> {
        self.by_count.emptiest(0, start, suits)
    }

    pub(super) fn longest_ago(&self, start: u64, suits: impl Fn(u32) -> bool) -> Option<u32> {
        self.by_age.emptiest(0, start, suits)
    }
}

fn unused() -> Burden {
    Burden { load: 0, second: 0, size: 1 }
}
