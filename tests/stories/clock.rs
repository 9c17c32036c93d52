//! The one place where stories meet real time.

use std::fmt::Debug;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long anything that is waited for may take, on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// Between two looks at what is waited for.
const LOOK: Duration = Duration::from_millis(20);

#[expect(clippy::disallowed_methods, reason = "a story's patience is real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since 1970, as the processes of this machine see them too.
#[expect(clippy::disallowed_methods, reason = "what real processes wrote is compared with real time")]
pub(crate) fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    i64::try_from(since.as_millis()).expect("it is not that late")
}

/// Asks again until the answer is right; fails with the last one when patience ends.
pub(crate) fn wait_for<T: Debug>(what: &str, ask: impl FnMut() -> T, is_right: impl Fn(&T) -> bool) -> T {
    wait_within(PATIENCE, what, ask, is_right)
}

/// The same with a bound of its own.
pub(crate) fn wait_within<T: Debug>(
    bound: Duration,
    what: &str,
    mut ask: impl FnMut() -> T,
    is_right: impl Fn(&T) -> bool,
) -> T {
    let began = now();
    loop {
        let answer = ask();
        if is_right(&answer) {
            return answer;
        }
        assert!(began.elapsed() < bound, "{what}: not within {bound:?}; the last answer was {answer:?}");
        pass(LOOK);
    }
}

/// Lets time pass: between two looks, or because the passing itself is what a story is about. Never instead of
/// waiting for something that can be seen.
pub(crate) fn pass(time: Duration) {
    std::thread::sleep(time);
}

/// The milliseconds since 1970 of a printed time.
pub(crate) fn parse_ms(text: &str) -> i64 {
    rota_cron::UnixMs::parse_rfc3339(text).unwrap_or_else(|error| panic!("{text}: {}", error.message)).0
}
