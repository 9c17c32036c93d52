//! Things by id, for ids that are handed out in ascending blocks: those that are open lie close
//! together, so a look-up is a look into a small tree of pages and then an index.
//!
//! Invariants: a page has an entry for every id of it that is in the table, and goes with its last one;
//! iteration is in the order of ids. Places of what was removed are used again, the latest first.

use std::collections::BTreeMap;
use std::ops::Index;

use crate::id::{AttemptId, RunId};

/// Ids in a page. A lone old id costs a page.
const PAGE: usize = 64;
const NOTHING: u32 = u32::MAX;
/// An empty table with more places than this gives their memory back.
const PLACES_KEPT: usize = 65_536;

/// An id that is a number.
pub(super) trait Number: Copy {
    fn number(self) -> u64;
    fn of(number: u64) -> Self;
}

impl Number for RunId {
    fn number(self) -> u64 {
        self.0
    }
    fn of(number: u64) -> RunId {
        RunId(number)
    }
}

impl Number for AttemptId {
    fn number(self) -> u64 {
        self.0
    }
    fn of(number: u64) -> AttemptId {
        AttemptId(number)
    }
}

#[derive(Debug)]
struct Page {
    used: usize,
    /// By the lower bits of the id: its place.
    at: [u32; PAGE],
}

#[derive(Debug)]
pub(super) struct Table<K, T> {
    pages: BTreeMap<u64, Page>,
    places: Vec<Option<T>>,
    free: Vec<u32>,
    _key: std::marker::PhantomData<K>,
}

impl<K, T> Default for Table<K, T> {
    fn default() -> Table<K, T> {
        Table { pages: BTreeMap::new(), places: Vec::new(), free: Vec::new(), _key: std::marker::PhantomData }
    }
}

fn split(number: u64) -> (u64, usize) {
    let page = PAGE as u64;
    (number / page, usize::try_from(number % page).expect("a page is small"))
}

impl<K: Number, T> Table<K, T> {
    fn place(&self, id: K) -> Option<usize> {
        let (page, at) = split(id.number());
        self.pages.get(&page).map(|page| page.at[at]).filter(|place| *place != NOTHING).map(|place| place as usize)
    }

    pub(super) fn get(&self, id: &K) -> Option<&T> {
        self.place(*id).and_then(|place| self.places[place].as_ref())
    }

    pub(super) fn get_mut(&mut self, id: &K) -> Option<&mut T> {
        let place = self.place(*id)?;
        self.places[place].as_mut()
    }

    pub(super) fn contains_key(&self, id: &K) -> bool {
        self.place(*id).is_some()
    }

    /// Adds what is not there yet.
    pub(super) fn insert(&mut self, id: K, value: T) {
        let (page, at) = split(id.number());
        let page = self.pages.entry(page).or_insert(Page { used: 0, at: [NOTHING; PAGE] });
        assert!(page.at[at] == NOTHING, "an id is entered once");
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            u32::try_from(self.places.len() - 1).expect("open things are fewer than 2^32")
        });
        self.places[place as usize] = Some(value);
        page.at[at] = place;
        page.used += 1;
    }

    pub(super) fn remove(&mut self, id: &K) -> Option<T> {
        let (number, at) = split(id.number());
        let page = self.pages.get_mut(&number)?;
        let place = std::mem::replace(&mut page.at[at], NOTHING);
        if place == NOTHING {
            return None;
        }
        page.used -= 1;
        if page.used == 0 {
            self.pages.remove(&number);
        }
        let removed = self.places[place as usize].take();
        self.free.push(place);
        if self.pages.is_empty() && self.places.len() > PLACES_KEPT {
            (self.places, self.free) = (Vec::new(), Vec::new());
        }
        removed
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = K> {
        self.entries().map(|(id, _)| id)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries().map(|(_, place)| self.places[place].as_ref().expect("what has an entry is there"))
    }

    fn entries(&self) -> impl Iterator<Item = (K, usize)> {
        self.pages.iter().flat_map(|(number, page)| {
            let first = number * PAGE as u64;
            let ids = (first..).map(K::of).zip(page.at);
            ids.filter(|(_, place)| *place != NOTHING).map(|(id, place)| (id, place as usize))
        })
    }
}

impl<K: Number, T> Index<&K> for Table<K, T> {
    type Output = T;
    fn index(&self, id: &K) -> &T {
        self.get(id).expect("what is looked at is there")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_tells_what_a_map_tells(steps in prop::collection::vec((0..400_u64, any::<bool>()), 0..200)) {
            let mut table = Table::<RunId, u64>::default();
            let mut map = BTreeMap::new();
            for (n, (number, is_added)) in (0..).zip(steps) {
                // Some close together, some far apart.
                let id = RunId(if number % 3 == 0 { number * 1_000 } else { number });
                if is_added && !map.contains_key(&id) {
                    table.insert(id, n);
                    map.insert(id, n);
                } else {
                    prop_assert_eq!(table.remove(&id), map.remove(&id));
                }
                prop_assert_eq!(table.get(&id), map.get(&id));
                prop_assert_eq!(table.get_mut(&id), map.get_mut(&id));
                prop_assert_eq!(table.contains_key(&id), map.contains_key(&id));
                prop_assert_eq!(table.pages.len() <= map.len(), true);
            }
            prop_assert!(table.keys().eq(map.keys().copied()));
            prop_assert!(table.values().eq(map.values()));
        }
    }
}
