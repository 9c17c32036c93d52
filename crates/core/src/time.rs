//! Two times: wall for what users see and store, monotonic for timeouts and terms.

pub use rota_cron::{UnixMs, tzdb_version};

/// Milliseconds of a server's monotonic clock. Its zero means nothing; only differences do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Mono(pub u64);

impl Mono {
    /// Later by `ms`, saturating.
    #[must_use]
    pub fn plus(self, ms: u64) -> Mono {
        Mono(self.0.saturating_add(ms))
    }

    /// Milliseconds since `earlier`; zero if that lies ahead.
    #[must_use]
    pub fn since(self, earlier: Mono) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// One reading of both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// Wall time.
    pub wall: UnixMs,
    /// Monotonic time.
    pub mono: Mono,
}
