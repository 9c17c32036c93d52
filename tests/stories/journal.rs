//! What workers wrote down while they worked: the oracle, apart from everything that the server says.

use std::collections::BTreeMap;
use std::path::Path;

/// A shard of a run, and which try.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key {
    pub(crate) run: u64,
    pub(crate) shard: u32,
    pub(crate) no: u32,
}

/// A handler's start, or its end.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Event {
    pub(crate) key: Key,
    pub(crate) attempt: u64,
    pub(crate) job: u32,
    pub(crate) slot_ms: i64,
    pub(crate) at_ms: i64,
    /// How it ended; none for a start.
    pub(crate) outcome: Option<String>,
}

/// Reads a worker's journal; nothing if there is none yet.
pub(crate) fn read(path: &Path) -> Vec<Event> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // A worker that was killed may have left half a line behind.
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    whole.lines().map(event).collect()
}

fn event(line: &str) -> Event {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| -> i64 {
        words.get(at).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no journal line: {line}"))
    };
    let small = |at: usize| u32::try_from(number(at)).expect("it fits");
    let id = |at: usize| u64::try_from(number(at)).expect("ids are positive");
    let outcome = match words[0] {
        "start" => None,
        "end" => Some(words[8].to_owned()),
        _ => panic!("no journal line: {line}"),
    };
    let key = Key { run: id(1), shard: small(2), no: small(3) };
    Event { key, attempt: id(4), job: small(5), slot_ms: number(6), at_ms: number(7), outcome }
}

/// All starts; fails if one try was started twice, or one attempt's id stood for two tries.
pub(crate) fn starts(events: &[Event]) -> BTreeMap<Key, &Event> {
    let (mut starts, mut attempts) = (BTreeMap::new(), BTreeMap::new());
    for event in events.iter().filter(|event| event.outcome.is_none()) {
        let before = starts.insert(event.key, event);
        assert!(before.is_none(), "started twice: {before:?} and {event:?}");
        let before = attempts.insert(event.attempt, event);
        assert!(before.is_none(), "one id for two tries: {before:?} and {event:?}");
    }
    starts
}

/// All ends by try.
pub(crate) fn ends(events: &[Event]) -> BTreeMap<Key, &Event> {
    events.iter().filter(|event| event.outcome.is_some()).map(|event| (event.key, event)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&str]) -> (usize, usize) {
        let events: Vec<Event> = lines.iter().map(|line| event(line)).collect();
        (starts(&events).len(), ends(&events).len())
    }

    #[test]
    fn starts_and_ends_are_told_apart() {
        let lines = ["start 7 0 1 7 1 1000 1001", "end 7 0 1 7 1 1000 1002 failed", "start 7 0 2 8 1 1000 1003"];
        assert_eq!(check(&lines), (2, 1));
    }

    #[test]
    #[should_panic(expected = "started twice")]
    fn a_second_start_is_seen() {
        check(&["start 7 0 1 7 1 1000 1001", "start 7 0 1 8 1 1000 1003"]);
    }

    #[test]
    #[should_panic(expected = "one id for two tries")]
    fn an_id_that_is_used_twice_is_seen() {
        check(&["start 7 0 1 7 1 1000 1001", "start 9 0 1 7 1 2000 2003"]);
    }
}
