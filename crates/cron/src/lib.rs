//! The schedule language of Rota: parse, explain, next and previous slot, time zones, DST policy.
//!
//! A [`Schedule`] is an immutable value that answers two questions: which instants are its **slots**, and how a person
//! would say it. The set of slots depends on nothing but the schedule and the bundled time-zone database
//! ([`tzdb_version`]): not on the clock, not on the host's zone, not on where the question was asked from. That is what
//! lets a ledger say that every slot is covered.
//!
//! ```
//! use rota_cron::{Dialect, DstPolicy, Schedule, UnixMs, Zone};
//!
//! let zone = Zone::parse("Asia/Shanghai")?;
//! let daily = Schedule::cron("0 2 * * *", Dialect::Unix, zone, DstPolicy::Standard)?;
//! let slot = daily.next_after(UnixMs::parse_rfc3339("2026-11-30T18:00:00Z")?).expect("a daily job has a next slot");
//! assert_eq!(daily.zone().format(slot), "2026-12-02T02:00:00+08:00");
//! # Ok::<(), rota_cron::Error>(())
//! ```
//!
//! Invariants, each held by a law test:
//! - `next_after(t) > t`, `prev_before(t) < t`, and both walk the same set;
//! - slots of a cron schedule or a fixed rate lie in 1970..=2199 (up to [`HORIZON`]), so every search is bounded;
//! - no input makes it panic or search for longer than a millisecond.
//!
//! Absent on purpose: a clock, randomness, I/O, and jitter (it comes after the slot, in `core`).

#![deny(missing_docs)]

mod calendar;
mod civil;
mod cron;
mod days;
mod dst;
mod error;
mod explain;
mod field;
mod hash;
mod item;
mod open;
mod rate;
mod schedule;
mod slots;
mod stamp;
mod steps;
pub mod text;
mod time;
mod wall;
mod zone;
mod zone_hint;

pub use calendar::Calendar;
pub use cron::{Cron, Dialect};
pub use dst::{Dst, DstPolicy, Gap, Overlap};
pub use error::{Error, ErrorCode};
pub use explain::Lang;
pub use hash::{mix, seed_of};
pub use open::Active;
pub use schedule::{Kind, PERIOD_MAX_MS, PERIOD_MIN_MS, Schedule, Slots};
pub use stamp::{BadFormat, DIRECTIVES, DateFormat, Step};
#[doc(hidden)]
pub use steps::steps;
pub use time::{HORIZON, UnixMs};
pub use zone::{Zone, tzdb_version};
