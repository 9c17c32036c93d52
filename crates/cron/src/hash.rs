//! `H` fields: a place in the field that is spread over jobs and always the same for one.

use crate::field::Field;

/// A number below `below` for this field of the expression that has this seed.
///
/// Every field draws its own number, so that `H H * * *` spreads jobs over the whole day.
pub(crate) fn pick(seed: u64, field: Field, below: u16) -> u16 {
    debug_assert!(below > 0, "an empty span has no place");
    let salt: u64 = match field {
        Field::Second => 1,
        Field::Minute => 2,
        Field::Hour => 3,
        Field::DayOfMonth => 4,
        Field::Month => 5,
        Field::DayOfWeek => 6,
        Field::Year => 7,
    };
    let mixed = mix(seed ^ mix(salt));
    crate::civil::narrow((mixed % u64::from(below)).cast_signed())
}

/// The finalizer of SplitMix64: every bit of the input moves half of the output.
fn mix(input: u64) -> u64 {
    let input = input.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let input = (input ^ (input >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let input = (input ^ (input >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    input ^ (input >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashed_minutes_are_spread_evenly_and_independent_of_hours() {
        let mut counts = [0_u32; 60];
        let mut both = 0;
        for seed in 0..60_000 {
            let minute = pick(seed, Field::Minute, 60);
            counts[usize::from(minute)] += 1;
            both += u32::from(minute == 0 && pick(seed, Field::Hour, 24) == 0);
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
        assert!((20..80).contains(&both), "{both}");
    }
}
