//! `H` fields: a place in the field that is spread over jobs and always the same for one.

use crate::field::Field;

/// The seed of a name, for [`crate::Schedule::cron_hashed`]: the same for ever, since slots follow from it.
pub fn seed_of(name: &str) -> u64 {
    // FNV-1a, then mixed, so that names that differ in their last digit lie apart.
    let hash = name
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
    mix(hash)
}

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

/// Sebastiano Vigna's SplitMix64, one step: every bit of the input moves half of the output. What is drawn from a
/// name or an id, and must stay the same for ever, is drawn with this.
#[must_use]
pub fn mix(input: u64) -> u64 {
    let input = input.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let input = (input ^ (input >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let input = (input ^ (input >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    input ^ (input >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_of_a_name_stays_what_it_is() {
        assert_eq!(seed_of("nightly-settle"), seed_of("nightly-settle"));
        assert_eq!(seed_of(""), mix(0xCBF2_9CE4_8422_2325));
        let mut minutes: Vec<u16> = (0..60).map(|n| pick(seed_of(&format!("job-{n}")), Field::Minute, 60)).collect();
        minutes.sort_unstable();
        minutes.dedup();
        assert!(minutes.len() > 30, "60 names share {} minutes", minutes.len());
    }

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
