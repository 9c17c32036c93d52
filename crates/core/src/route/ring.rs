//! Consistent hashing: members stand at many points of a ring, and a key belongs to the next point after it, so that a
//! member that comes or goes moves no keys but its own.
//!
//! D. Karger et al., Consistent Hashing and Random Trees, STOC 1997. The MD5 variant gives the very places that XXL-JOB
//! gives (label `SHARD-<name>-NODE-<i>`, the first four bytes of the digest, little endian; of two points at one place
//! the later member's stands). A table over the upper bits of a place says where to begin, instead of a binary search.

use md5::{Digest, Md5};
use xxhash_rust::xxh3::xxh3_64;

/// How places on the ring are computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Hash {
    /// XXH3, 64 bits.
    #[default]
    Xxh3,
    /// As XXL-JOB does it, 32 bits of MD5.
    Md5Xxl,
}

impl Hash {
    /// A key's place on the ring.
    #[must_use]
    pub fn place(self, key: &str) -> u64 {
        match self {
            Hash::Xxh3 => xxh3_64(key.as_bytes()),
            Hash::Md5Xxl => {
                let digest = Md5::digest(key.as_bytes());
                let four = [digest[0], digest[1], digest[2], digest[3]];
                u64::from(u32::from_le_bytes(four)) << 32
            }
        }
    }
}

/// The points of members, in order.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    points: Vec<(u64, u32)>,
    /// The first point at or after the beginning of each stretch of the ring.
    begins: Vec<u32>,
    /// How far a place is shifted to tell its stretch.
    shift: u32,
}

impl Ring {
    /// Puts members on a ring, each at so many points.
    pub(super) fn new<'n>(names: impl Iterator<Item = &'n str>, hash: Hash, points_each: u32) -> Ring {
        let mut points: Vec<(u64, u32)> = Vec::new();
        let mut label = String::new();
        for (member, name) in (0..).zip(names) {
            for point in 0..points_each {
                label.clear();
                label.push_str("SHARD-");
                label.push_str(name);
                label.push_str("-NODE-");
                label.push_str(&point.to_string());
                points.push((hash.place(&label), member));
            }
        }
        points.sort_unstable();
        // Of those at one place the last stands.
        points.reverse();
        points.dedup_by_key(|(place, _)| *place);
        points.reverse();
        let bits = usize::BITS - points.len().leading_zeros();
        let shift = 64 - bits.max(1);
        let stretches = 1_u64 << bits.max(1);
        let begin = |stretch: u64| points.partition_point(|(place, _)| *place < stretch << shift);
        let begins = (0..stretches).map(|stretch| u32::try_from(begin(stretch)).expect("points are fewer than 2^32"));
        Ring { begins: begins.collect(), points, shift }
    }

    /// Members from a place on and round, one entry for each of their points.
    pub(super) fn from(&self, place: u64) -> impl Iterator<Item = u32> {
        let stretch = usize::try_from(place >> self.shift).expect("below the number of stretches");
        let mut first = self.begins[stretch] as usize;
        while self.points.get(first).is_some_and(|(at, _)| *at < place) {
            first += 1;
        }
        let (before, after) = self.points.split_at(first.min(self.points.len()));
        after.iter().chain(before).map(|(_, member)| *member)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// As `printf %s TEXT | md5sum` prints them: the first four bytes, from the last to the first.
    #[test]
    fn places_are_those_that_md5_tools_print() {
        for (text, digest) in
            [("1", 0x3842_CAC4_u64), ("12345", 0x0ECB_7C82), ("SHARD-http://10.0.0.1:9999/-NODE-0", 0xDE14_B1FE)]
        {
            assert_eq!(Hash::Md5Xxl.place(text), digest << 32, "{text}: {:08x}", Hash::Md5Xxl.place(text) >> 32);
        }
    }

    #[test]
    fn a_place_belongs_to_the_next_point() {
        let names = ["a", "b", "c"];
        for hash in [Hash::Xxh3, Hash::Md5Xxl] {
            let ring = Ring::new(names.into_iter(), hash, 100);
            let mut points = BTreeMap::new();
            for (member, name) in (0..).zip(names) {
                for point in 0..100 {
                    points.insert(hash.place(&format!("SHARD-{name}-NODE-{point}")), member);
                }
            }
            for key in 0..1_000 {
                let place = hash.place(&key.to_string());
                let expected = points.range(place..).next().or_else(|| points.first_key_value()).map(|(_, at)| *at);
                assert_eq!(ring.from(place).next(), expected);
            }
            assert_eq!(ring.from(u64::MAX).next(), points.values().next().copied());
        }
        assert_eq!(Ring::new([].into_iter(), Hash::Xxh3, 100).from(5).next(), None);
    }

    #[test]
    fn who_comes_or_goes_moves_no_keys_but_its_own() {
        let names: Vec<String> = (0..20).map(|n| format!("worker-{n}")).collect();
        for hash in [Hash::Xxh3, Hash::Md5Xxl] {
            let all = Ring::new(names.iter().map(String::as_str), hash, 100);
            let fewer = Ring::new(names[..19].iter().map(String::as_str), hash, 100);
            let mut moved = 0;
            for key in 0..10_000 {
                let place = hash.place(&key.to_string());
                let (before, after) = (all.from(place).next(), fewer.from(place).next());
                assert!(before == after || before == Some(19), "{key} moved from {before:?} to {after:?}");
                moved += u32::from(before != after);
            }
            assert!((200..1_000).contains(&moved), "one of twenty members had {moved} of 10,000 keys");
        }
    }
}
