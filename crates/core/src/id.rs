//! Ids and counters, each its own type.
//!
//! Runs and attempts share one id space per store: positive integers below 2^53 (JavaScript
//! clients round beyond that), growing with time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// A job: positive 31-bit, from [`JobId::FIRST`] on (lower ones are kept for imported jobs),
    /// never used again.
    JobId(u32)
);
number!(
    /// A version of a job's definition, from 1.
    Version(u32)
);
number!(
    /// An app within a store, from 1.
    AppId(u32)
);
number!(
    /// A worker's registration within a store, from 1. A restart keeps it if the worker keeps its name.
    WorkerId(u32)
);
number!(
    /// One start of a worker's process, chosen by the worker, below 2^53; another start is another number.
    Incarnation(u64)
);
number!(
    /// An attempt: one dispatch of a shard. Attempt 1 of shard 0 has the id of its run.
    AttemptId(u64)
);
number!(
    /// A hash class of apps, `0..P`.
    PartitionId(u16)
);
number!(
    /// The number of a partition owner's term; only grows.
    Epoch(u64)
);
number!(
    /// The number of a batch within a partition; each batch is one above the one before.
    Seq(u64)
);

impl JobId {
    /// The first id that Rota mints itself.
    pub const FIRST: JobId = JobId(1_000_000_000);
}

/// A run. Prints in base 32 with an `r` in front, for people.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub u64);

const BASE32: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A backfill. From the allocator that runs have their ids from, so it is unique in a store and grows with time.
/// Prints in base 32 with a `b` in front, for people.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BackfillId(pub u64);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_base32(f, "r", self.0)
    }
}

impl fmt::Display for BackfillId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_base32(f, "b", self.0)
    }
}

impl BackfillId {
    /// The id that prints so.
    #[must_use]
    pub fn parse(text: &str) -> Option<BackfillId> {
        RunId::parse_suffix(text.strip_prefix('b')?).map(|(value, _)| BackfillId(value))
    }
}

fn write_base32(f: &mut fmt::Formatter<'_>, prefix: &str, number: u64) -> fmt::Result {
    let mut digits = [0u8; 13];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = BASE32[(rest % 32) as usize];
        rest /= 32;
        if rest == 0 {
            break;
        }
    }
    f.write_str(prefix)?;
    f.write_str(std::str::from_utf8(&digits[at..]).expect("base 32 digits are ASCII"))
}

impl RunId {
    /// The attempt id of attempt 1 of shard 0, which lives in the run's own row.
    #[must_use]
    pub fn first_attempt(self) -> AttemptId {
        AttemptId(self.0)
    }

    /// The value and the number of base-32 digits of a printed id or of its suffix (with or without `r`).
    /// A suffix of `n` digits names every run whose id is equal to the value modulo `32^n`.
    #[must_use]
    pub fn parse_suffix(text: &str) -> Option<(u64, u32)> {
        let digits = text.strip_prefix('r').unwrap_or(text);
        if digits.is_empty() || digits.len() > 11 {
            return None;
        }
        let mut value = 0u64;
        for byte in digits.bytes() {
            let digit = BASE32.iter().position(|d| *d == byte.to_ascii_lowercase())?;
            value = value * 32 + digit as u64;
        }
        Some((value, u32::try_from(digits.len()).ok()?))
    }
}

impl FromStr for RunId {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        RunId::parse_suffix(text).map(|(value, _)| RunId(value)).ok_or(())
    }
}

/// The partition of an app: a fixed hash of its full name, so that every server agrees.
///
/// FNV-1a, 64 bits (Fowler, Noll, Vo), folded onto `partitions`.
#[must_use]
pub fn partition_of(namespace: &str, app: &str, partitions: u16) -> PartitionId {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in namespace.bytes().chain([b'/']).chain(app.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let folded = (hash >> 32) ^ (hash & 0xffff_ffff);
    PartitionId(u16::try_from(folded % u64::from(partitions.max(1))).expect("a remainder of a u16"))
}

/// A block of ids, `next..end`, that one partition owns alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Block {
    next: u64,
    end: u64,
}

impl Block {
    /// A block over `start..end`.
    #[must_use]
    pub fn new(start: u64, end: u64) -> Block {
        assert!(start <= end && end < (1 << 53), "ids stay below 2^53");
        Block { next: start, end }
    }

    /// Ids left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.end - self.next
    }

    /// The next id that would be minted.
    #[must_use]
    pub fn peek(&self) -> u64 {
        self.next
    }

    /// Takes the next id. The caller has checked [`Block::left`].
    pub fn mint(&mut self) -> u64 {
        assert!(self.next < self.end, "a step never mints more ids than its block holds");
        self.next += 1;
        self.next - 1
    }
}

/// The first id that may be handed out at this wall time: seconds since 2020 in the upper bits, so
/// that ids grow across restarts and restores even if the high-water mark was lost.
#[must_use]
pub fn id_floor(now: crate::time::UnixMs) -> u64 {
    const EPOCH_2020_S: i64 = 1_577_836_800;
    let seconds = (now.0 / 1000 - EPOCH_2020_S).max(0);
    u64::try_from(seconds).expect("not negative") << 20
}

/// About when an id that is handed out now was taken: the inverse of [`id_floor`], to the second.
#[must_use]
pub fn id_time(id: u64) -> crate::time::UnixMs {
    const EPOCH_2020_S: i64 = 1_577_836_800;
    let seconds = i64::try_from(id >> 20).expect("ids are below 2^53");
    crate::time::UnixMs((seconds + EPOCH_2020_S) * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_runs_read_back() {
        for id in [0u64, 1, 31, 32, 1 << 47, (1 << 53) - 1] {
            let text = RunId(id).to_string();
            assert_eq!(text.parse::<RunId>(), Ok(RunId(id)), "{text}");
        }
        assert_eq!(RunId::parse_suffix("rz0"), Some((31 * 32, 2)));
        assert_eq!(RunId::parse_suffix("u"), None);
    }

    #[test]
    fn backfills_read_back_as_they_print() {
        for id in [1, 11, 222_163_200 << 20] {
            assert_eq!(BackfillId::parse(&BackfillId(id).to_string()), Some(BackfillId(id)));
        }
        for text in ["", "b", "r1", "1", "bu", "b123456789012"] {
            assert_eq!(BackfillId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn ids_tell_their_time() {
        let at = crate::time::UnixMs(1_800_000_000_000);
        assert_eq!(id_time(id_floor(at)), at);
        assert_eq!(id_time(id_floor(at) + (1 << 20) - 1), at);
    }

    #[test]
    fn apps_spread_over_partitions() {
        let mut seen = std::collections::BTreeSet::new();
        for n in 0..1000 {
            seen.insert(partition_of("default", &format!("app-{n}"), 64));
        }
        assert_eq!(seen.len(), 64);
    }
}
