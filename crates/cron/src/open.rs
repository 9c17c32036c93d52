//! When a schedule may have slots at all: its calendar, and from when until when.

use crate::calendar::Calendar;
use crate::civil::DAY_S;
use crate::dst::{Dst, Gap, Overlap};
use crate::slots::Search;
use crate::time::{HORIZON, UnixMs};
use crate::wall::{LAST_DAY, Wall};
use crate::zone::Zone;

/// From when until when a schedule has slots, both ends in; absent is always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Active {
    /// The first instant that can be a slot.
    pub from: Option<UnixMs>,
    /// The last instant that can be a slot.
    pub until: Option<UnixMs>,
}

impl Active {
    /// No bound.
    pub const ALWAYS: Active = Active { from: None, until: None };

    pub(crate) fn first(self) -> UnixMs {
        self.from.unwrap_or(UnixMs(i64::MIN))
    }

    pub(crate) fn last(self) -> UnixMs {
        self.until.unwrap_or(UnixMs(i64::MAX))
    }
}

/// The open instants of a calendar in a zone.
#[derive(Clone, Copy)]
pub(crate) struct Open<'s> {
    pub(crate) calendar: &'s Calendar,
    pub(crate) zone: &'s Zone,
}

impl Open<'_> {
    /// Around the first and the last day some clocks show a year that has no slots; a search finds nothing there.
    pub(crate) fn is_open(&self, at: UnixMs) -> bool {
        let second = at.0.div_euclid(1_000);
        let wall = second + self.zone.offset_s(second);
        (0..=LAST_DAY).contains(&wall.div_euclid(DAY_S)) && self.calendar.is_open(wall)
    }

    /// The first open instant at or after `at`.
    pub(crate) fn first_from(&self, at: UnixMs) -> Option<UnixMs> {
        if at <= HORIZON && self.is_open(at) {
            return Some(at);
        }
        let second = at.0.div_euclid(1_000).checked_add(1)?;
        self.search().next(second).map(|second| UnixMs(second * 1_000))
    }

    /// The last open instant at or before `at`.
    pub(crate) fn last_to(&self, at: UnixMs) -> Option<UnixMs> {
        if at >= UnixMs(0) && self.is_open(at) {
            return Some(at);
        }
        let second = at.0.div_euclid(1_000).checked_sub(1)?;
        self.search().prev(second).map(|second| UnixMs(second * 1_000 + 999))
    }

    /// Every open second is a slot of this.
    fn search(&self) -> Search<'_> {
        let dst = Dst { gap: Gap::Skip, overlap: Overlap::Both };
        Search { wall: &Wall::ALWAYS, calendar: Some(self.calendar), zone: self.zone, dst }
    }
}
