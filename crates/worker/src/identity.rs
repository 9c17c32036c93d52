//! Who this process is: its incarnation, its callback secret, its default name.

use crate::clock;
use crate::error::Error;

/// The largest incarnation: JSON numbers are exact below 2^53 everywhere.
const INCARNATION_MAX: u64 = (1 << 53) - 1;
/// Low bits of an incarnation that are random: two starts within a millisecond still differ.
const RANDOM_BITS: u32 = 10;

/// What no other start of this worker has: microseconds on the wall clock, their low bits random.
pub(crate) fn incarnation() -> Result<u64, Error> {
    let random = random_u64()? & ((1 << RANDOM_BITS) - 1);
    let time = clock::unix_us() & (INCARNATION_MAX << RANDOM_BITS) & INCARNATION_MAX;
    Ok((time | random).max(1))
}

/// What the server's calls must carry: 32 random bytes in hexadecimal.
pub(crate) fn callback_secret() -> Result<String, Error> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| Error::Random(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A seed for jitter.
pub(crate) fn random_u64() -> Result<u64, Error> {
    getrandom::u64().map_err(|error| Error::Random(error.to_string()))
}

/// Host name and process id. It changes with each start, so a configured name is better.
pub(crate) fn default_name() -> String {
    #[cfg(unix)]
    let host = nix::unistd::gethostname().ok().and_then(|host| host.into_string().ok());
    #[cfg(not(unix))]
    let host: Option<String> = None;
    let mut host = host.unwrap_or_else(|| "worker".to_owned());
    // Linux allows 64 bytes; a name may have 100 with the process id.
    host.truncate(host.floor_char_boundary(80));
    format!("{host}-{}", std::process::id())
}

/// Compares in a time that does not depend on where the first difference is.
pub(crate) fn is_same_secret(given: &[u8], expected: &[u8]) -> bool {
    // The length is no secret: it is the same for every worker.
    if given.len() != expected.len() {
        return false;
    }
    let difference = given.iter().zip(expected).fold(0_u8, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incarnations_are_positive_exact_in_json_and_differ() {
        let some: std::collections::BTreeSet<u64> = (0..4).map(|_| incarnation().unwrap()).collect();
        assert!(some.iter().all(|one| (1..=INCARNATION_MAX).contains(one)));
        assert!(some.len() > 1);
    }

    #[test]
    fn secrets_differ_and_only_the_same_one_matches() {
        let (a, b) = (callback_secret().unwrap(), callback_secret().unwrap());
        assert_eq!(a.len(), 64);
        assert!(is_same_secret(a.as_bytes(), a.as_bytes()));
        assert!(!is_same_secret(b.as_bytes(), a.as_bytes()));
        assert!(!is_same_secret(&a.as_bytes()[..63], a.as_bytes()));
        assert!(!is_same_secret(b"", a.as_bytes()));
    }

    #[test]
    fn the_default_name_fits_the_limit() {
        assert!((1..=100).contains(&default_name().len()));
    }
}
