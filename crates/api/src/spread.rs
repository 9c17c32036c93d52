//! How long many things took, in little memory: counts by size, eight sizes to a doubling.

use std::collections::BTreeMap;

use rota_wire::rest;

/// Sizes of one doubling.
const STEPS: u64 = 8;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Spread {
    counts: BTreeMap<u16, u64>,
    count: u64,
    max_ms: i64,
}

impl Spread {
    pub(crate) fn add(&mut self, ms: i64) {
        let ms = ms.max(0);
        *self.counts.entry(size_of(ms.unsigned_abs())).or_default() += 1;
        self.count += 1;
        self.max_ms = self.max_ms.max(ms);
    }

    /// So many per mille took at most this; at most an eighth too much, and never more than the longest.
    pub(crate) fn quantile(&self, per_mille: u64) -> i64 {
        let wanted = (self.count * per_mille).div_ceil(1_000).max(1);
        let mut seen = 0;
        for (size, count) in &self.counts {
            seen += count;
            if seen >= wanted {
                return i64::try_from(upper(*size)).unwrap_or(i64::MAX).min(self.max_ms);
            }
        }
        0
    }

    pub(crate) fn max_ms(&self) -> i64 {
        self.max_ms
    }

    pub(crate) fn shown(&self) -> rest::Spread {
        rest::Spread { count: self.count, p50_ms: self.quantile(500), p99_ms: self.quantile(990), max_ms: self.max_ms }
    }
}

/// Small values have a size of their own.
fn size_of(value: u64) -> u16 {
    if value < 2 * STEPS {
        return u16::try_from(value).expect("it is small");
    }
    let doublings = u64::from(63 - value.leading_zeros()) - 3;
    u16::try_from(doublings * STEPS + (value >> doublings)).expect("64 doublings of eight")
}

/// The largest value of a size.
fn upper(size: u16) -> u64 {
    let size = u64::from(size);
    if size < 2 * STEPS {
        return size;
    }
    let doublings = size / STEPS - 1;
    ((size - doublings * STEPS + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lies_in_its_size() {
        for value in (0..5_000).chain([u64::from(u32::MAX), 1 << 40]) {
            let size = size_of(value);
            assert!(upper(size) >= value && upper(size) - value <= value / STEPS, "{value}: {size}, {}", upper(size));
            assert!(size == 0 || upper(size - 1) < value, "{value}");
        }
    }

    #[test]
    fn quantiles_are_right_to_an_eighth() {
        let mut spread = Spread::default();
        (1..=1_000).for_each(|ms| spread.add(ms));
        let shown = spread.shown();
        assert_eq!((shown.count, shown.max_ms), (1_000, 1_000));
        assert!((500..=563).contains(&shown.p50_ms) && (990..=1_000).contains(&shown.p99_ms), "{shown:?}");
        let mut one = Spread::default();
        one.add(77);
        assert_eq!((one.quantile(500), one.quantile(990)), (77, 77));
        assert_eq!(Spread::default().shown(), rest::Spread::default());
    }
}
