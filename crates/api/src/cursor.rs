//! Where a list goes on: the key of the last thing that was given, in a form that is nobody's to take apart.
//!
//! A list is ordered by a key that never changes while its thing is there, and goes on behind the key in the cursor: so
//! what is added or removed meanwhile moves nothing else, and nothing comes twice.

use crate::body::Args;
use crate::endpoint::{Arg, Shape};
use crate::refusal::Refusal;

/// The argument that takes a cursor.
pub(crate) const AFTER: Arg = Arg::new("after", Shape::Text, "what the part before gave as `next`");

/// Which list a cursor is of: one of another list is none here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum List {
    Apps,
    Attempts,
    Backfills,
    Held,
    Jobs,
    Runs,
    Tokens,
    Workers,
}

impl List {
    fn letter(self) -> char {
        match self {
            List::Apps => 'a',
            List::Attempts => 't',
            List::Backfills => 'b',
            List::Held => 'h',
            List::Jobs => 'j',
            List::Runs => 'r',
            List::Tokens => 'k',
            List::Workers => 'w',
        }
    }
}

/// The cursor behind a key.
pub(crate) fn write(list: List, key: &[u64]) -> String {
    let numbers: Vec<String> = key.iter().map(|number| format!("{number:x}")).collect();
    let body = format!("{}{}", list.letter(), numbers.join("."));
    let sum = check(&body);
    format!("c{body}-{sum:02x}")
}

/// The key in a cursor, if it is one of this list.
fn read<const N: usize>(list: List, text: &str) -> Option<[u64; N]> {
    let (body, sum) = text.strip_prefix('c')?.rsplit_once('-')?;
    let numbers = body.strip_prefix(list.letter())?;
    let key: Vec<u64> = numbers.split('.').map(|number| u64::from_str_radix(number, 16).ok()).collect::<Option<_>>()?;
    let is_own = sum == format!("{:02x}", check(body)) && write(list, &key) == text;
    if is_own { key.try_into().ok() } else { None }
}

/// Tells a cursor from one that was cut or typed.
fn check(text: &str) -> u8 {
    text.bytes().fold(0x5a, |sum, byte| sum.rotate_left(3) ^ byte)
}

impl Args {
    /// The key behind which a list goes on, if `after` says so.
    pub(crate) fn after<const N: usize>(&self, list: List) -> Result<Option<[u64; N]>, Refusal> {
        let Some(text) = self.text(AFTER.name) else { return Ok(None) };
        read(list, text).map(Some).ok_or_else(|| {
            let shown: String = text.chars().take(40).collect();
            Refusal::invalid(AFTER.name, format!("`{shown}` is no place in this list"))
                .hint("give back what the part before said as `next`, as it is")
        })
    }
}

/// A part of a list that is in memory, ordered by its key, and the cursor behind it.
pub(crate) fn part<T, const N: usize>(
    list: List,
    mut items: Vec<T>,
    key: impl Fn(&T) -> [u64; N],
    after: Option<[u64; N]>,
    limit: u32,
) -> (Vec<T>, Option<String>) {
    items.retain(|item| after.is_none_or(|after| key(item) > after));
    items.sort_by_key(&key);
    let has_more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = items.last().filter(|_| has_more).map(|last| write(list, &key(last)));
    (items, next)
}

/// A signed number as one that is ordered the same way.
pub(crate) fn ordered(number: i64) -> u64 {
    number.cast_unsigned() ^ (1 << 63)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn after(list: List, text: &str) -> Result<Option<[u64; 2]>, Refusal> {
        let uri = format!("/x?after={text}").parse().unwrap();
        Args::read(&uri, &["after"]).unwrap().after(list)
    }

    #[test]
    fn what_is_no_cursor_of_this_list_is_invalid() {
        let own = write(List::Workers, &[7, 0x2a]);
        assert_eq!(after(List::Workers, &own), Ok(Some([7, 0x2a])));
        assert_eq!(after(List::Workers, ""), Ok(None));
        let (cut, upper) = (&own[..own.len() - 1], own.to_uppercase());
        let (short, long) = (write(List::Workers, &[7]), write(List::Workers, &[7, 1, 2]));
        for text in [cut, &upper, &short, &long, "7", "c", "cw-", "cw7.2a-00", "cw+7.2a-f1", &"9".repeat(1_000)] {
            let refusal = after(List::Workers, text).unwrap_err();
            assert_eq!((refusal.code, refusal.field.as_deref()), (crate::Code::Invalid, Some("after")), "{text}");
            assert!(refusal.hint.is_some() && refusal.message.len() < 100);
        }
        assert!(after(List::Held, &own).is_err(), "a cursor of another list");
    }

    #[test]
    fn signed_numbers_keep_their_order() {
        let numbers = [i64::MIN, -1, 0, 1, i64::MAX];
        assert!(numbers.map(ordered).is_sorted());
    }

    proptest! {
        #[test]
        fn parts_make_the_whole_also_if_things_come_and_go(
            mut keys in prop::collection::btree_set(0u64..500, 0..60),
            limit in 1u32..9,
            changes in prop::collection::vec((0u64..500, any::<bool>()), 0..20),
        ) {
            let lasting: Vec<u64> = keys.iter().copied().filter(|key| changes.iter().all(|(k, _)| k != key)).collect();
            let (mut seen, mut place, mut changes) = (Vec::new(), None, changes.into_iter());
            loop {
                let (found, next) = part(List::Jobs, keys.iter().copied().collect(), |key| [*key], place, limit);
                seen.extend(found);
                let Some(next) = next else { break };
                place = read::<1>(List::Jobs, &next);
                prop_assert!(place.is_some());
                if let Some((key, comes)) = changes.next() {
                    if comes { keys.insert(key); } else { keys.remove(&key); }
                }
            }
            prop_assert!(seen.is_sorted_by(|a, b| a < b), "nothing comes twice");
            prop_assert!(lasting.iter().all(|key| seen.contains(key)), "what stays is seen");
        }
    }
}
