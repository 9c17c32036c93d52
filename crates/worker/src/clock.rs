//! The clocks of the worker: the one place that reads them.
//!
//! [`Mono`] is for ages and deadlines, and obeys a paused runtime clock; the wall clock is only for
//! what people read and for the incarnation.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Milliseconds on the monotonic clock since the worker was built.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Mono(pub(crate) u64);

/// Turns the runtime's clock into [`Mono`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    zero: Instant,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { zero: Instant::now() }
    }

    pub(crate) fn now(self) -> Mono {
        Mono(u64::try_from(self.zero.elapsed().as_millis()).expect("584 million years have not passed"))
    }
}

/// Microseconds since 1970 on the wall clock; 0 if it stands before that.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970 on the wall clock.
pub(crate) fn unix_ms() -> u64 {
    unix_us() / 1_000
}
