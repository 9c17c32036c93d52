//! Jitter: the starts of a job's runs, spread over some time after their slots, so that what is due together does not
//! start together.
//!
//! How long a slot waits follows from its job and itself, nothing else: the same on every server and after a restart.

use rota_cron::mix;

use crate::id::JobId;
use crate::time::UnixMs;

/// Milliseconds from a slot to the start of its run; less than `jitter_ms`, and zero if that is.
#[must_use]
pub fn offset_ms(job: JobId, slot: UnixMs, jitter_ms: u64) -> u64 {
    if jitter_ms == 0 {
        return 0;
    }
    mix(mix(u64::from(job.0)) ^ slot.0.cast_unsigned()) % jitter_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_stay_what_they_are() {
        let of = |job, slot| offset_ms(JobId(job), UnixMs(slot), 30_000);
        assert_eq!(of(1_000_000_001, 1_796_083_200_000), of(1_000_000_001, 1_796_083_200_000));
        assert_eq!([of(1_000_000_000, 1_796_083_200_000), of(1_000_000_001, 1_796_083_200_000)], [22_868, 22_668]);
        assert_eq!(offset_ms(JobId(1), UnixMs(-1), 0), 0);
        assert_eq!(offset_ms(JobId(1), UnixMs(i64::MAX), 1), 0);
    }

    #[test]
    fn offsets_are_spread_evenly_over_jobs_and_over_slots() {
        for by_job in [true, false] {
            let mut counts = [0_u32; 30];
            for n in 0..30_000_u32 {
                let (job, slot) = if by_job { (n, 0) } else { (7, i64::from(n) * 60_000) };
                let offset = offset_ms(JobId(1_000_000_000 + job), UnixMs(1_796_083_200_000 + slot), 30_000);
                counts[usize::try_from(offset / 1_000).unwrap()] += 1;
            }
            assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
        }
    }
}
