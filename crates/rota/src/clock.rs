//! The one place of this program that reads the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

use rota_cron::UnixMs;

/// Now.
#[expect(clippy::disallowed_methods, reason = "this is the one clock module")]
pub(crate) fn now() -> UnixMs {
    // A clock before 1970 is not worth a case of its own: the server suspends firing by its own rules.
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    UnixMs(i64::try_from(ms).unwrap_or(i64::MAX))
}
