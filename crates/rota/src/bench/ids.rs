//! A set of ids that were handed out in blocks: a bit for each id, so that millions cost neither memory nor a pause in
//! which a table grows.

use std::collections::HashMap;

/// Ids whose bits stand together.
const BLOCK: u64 = 4_096;
const WORDS: usize = 64;

#[derive(Default)]
pub(super) struct Ids(HashMap<u64, Box<[u64; WORDS]>>);

impl Ids {
    /// Puts an id in; says whether it is new.
    pub(super) fn insert(&mut self, id: u64) -> bool {
        let (block, word, bit) = place(id);
        let words = self.0.entry(block).or_insert_with(|| Box::new([0; WORDS]));
        let is_new = words[word] & bit == 0;
        words[word] |= bit;
        is_new
    }

    pub(super) fn contains(&self, id: u64) -> bool {
        let (block, word, bit) = place(id);
        self.0.get(&block).is_some_and(|words| words[word] & bit != 0)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

fn place(id: u64) -> (u64, usize, u64) {
    let at = usize::try_from(id % BLOCK).expect("below the size of a block");
    (id / BLOCK, at / 64, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_is_new_once() {
        let mut ids = Ids::default();
        let some = [0, 1, 63, 64, 4_095, 4_096, 1 << 40, (1 << 53) - 1];
        assert!(some.iter().all(|id| !ids.contains(*id)));
        assert!(some.iter().all(|id| ids.insert(*id)));
        assert!(some.iter().all(|id| ids.contains(*id) && !ids.insert(*id)));
        assert!(!ids.contains(2) && !ids.contains(4_097));
        ids.clear();
        assert!(!ids.contains(0));
    }
}
