//! From wall times to slots: the search in a zone, under a DST rule.
//!
//! Time is cut into segments in which the offset does not change. Inside a segment a match of the wall clock is a slot,
//! unless the rule gives it to the other pass of an overlap; at the start of a segment there may be one for the gap
//! before it. The set of slots is thus defined by instants alone: where a search starts from does not change it.
//!
//! Most searches never look at a segment. If the offset is the same some hours before the start and some hours after
//! the candidate, and these are near, nothing changed in between: no zone changes twice within four days, and no overlap
//! lasts twelve hours (a test in `zone` reads the whole database for that). Near a change, the same fact finds it by
//! halving. jiff's own list of changes is not used: 1.0.2 leaves out the last explicit one when it lists backwards
//! (America/Ciudad_Juarez, 2022-11-30).

use crate::calendar::Calendar;
use crate::civil::DAY_S;
use crate::dst::{Dst, Gap, Overlap};
use crate::steps::step;
use crate::time::HORIZON;
use crate::wall::Wall;
use crate::zone::Zone;

/// Slots lie between these seconds since the epoch.
pub(crate) const FIRST_S: i64 = 0;
pub(crate) const LAST_S: i64 = HORIZON.0 / 1_000;

/// Longer than any overlap.
const MARGIN_S: i64 = 12 * 3_600;
/// With both margins less than the four days that lie between two changes of an offset.
const NEAR_S: i64 = 2 * DAY_S;
/// How far a segment is looked at; with a margin less than these four days too.
const SPAN_S: i64 = 2 * DAY_S;
/// Wall clocks differ from UTC by less than this, so a slot cannot be further from its wall time.
const REACH_S: i64 = 26 * 3_600;
/// Every step passes a change of offset or reaches a new day that matches; two centuries have fewer of both than this,
/// as only gaps refuse a match. A bound, not a limit that a search meets.
const STEPS_MAX: u32 = 20_000;

pub(crate) struct Search<'s> {
    pub(crate) wall: &'s Wall,
    pub(crate) calendar: Option<&'s Calendar>,
    pub(crate) zone: &'s Zone,
    pub(crate) dst: Dst,
}

enum Step {
    Slot(i64),
    /// No slot before (searching up) or after (searching down) this second; go on from here.
    GoOn(i64),
    Never,
}

/// A span of time with one offset: up to the changes around it, or as far as was looked.
struct Segment {
    offset_s: i64,
    /// Its first second, and the offset before; none if it goes back further than matters.
    start: Option<(i64, i64)>,
    /// The first second after it, and the offset from there on.
    end: Option<(i64, i64)>,
}

impl Search<'_> {
    /// The first slot at or after this second.
    pub(crate) fn next(&self, from: i64) -> Option<i64> {
        let mut from = from.max(FIRST_S);
        for _ in 0..STEPS_MAX {
            step();
            if from > LAST_S {
                return None;
            }
            match self.step_up(from) {
                Step::Slot(found) => return (found <= LAST_S).then_some(found),
                Step::GoOn(later) => {
                    assert!(later > from, "a search moves on");
                    from = later;
                }
                Step::Never => return None,
            }
        }
        None
    }

    /// The last slot at or before this second.
    pub(crate) fn prev(&self, from: i64) -> Option<i64> {
        let mut from = from.min(LAST_S);
        for _ in 0..STEPS_MAX {
            step();
            if from < FIRST_S {
                return None;
            }
            match self.step_down(from) {
                Step::Slot(found) => return (found >= FIRST_S).then_some(found),
                Step::GoOn(earlier) => {
                    assert!(earlier < from, "a search moves on");
                    from = earlier;
                }
                Step::Never => return None,
            }
        }
        None
    }

    /// Where the second pass of an overlap reaches the wall time that `second` has in the first pass;
    /// `second` itself if it is in no first pass.
    pub(crate) fn same_wall_in_second_pass(&self, second: i64) -> i64 {
        let segment = self.segment(second, second - MARGIN_S, second + SPAN_S);
        match segment.end {
            Some((end, after)) if second + segment.offset_s >= end + after => second + (segment.offset_s - after),
            _ => second,
        }
    }

    fn step_up(&self, from: i64) -> Step {
        let offset_s = self.zone.offset_s(from - MARGIN_S);
        let candidate = self.wall.next(from + offset_s, self.calendar);
        match candidate.and_then(|wall| self.slot_if_steady(from, wall, offset_s, MARGIN_S)) {
            Some(found) => Step::Slot(found),
            None => self.step_up_by_segment(from),
        }
    }

    fn step_up_by_segment(&self, from: i64) -> Step {
        let mut segment = self.segment(from, from - MARGIN_S, from + SPAN_S);
        segment.end = segment.end.or(Some((from + SPAN_S, segment.offset_s)));
        if self.gap_slot(&segment) == Some(from) {
            return Step::Slot(from);
        }
        let (first, end) = self.own_walls(&segment);
        let local = from + segment.offset_s;
        let candidate = self.wall.next(local.max(first), self.calendar);
        match (candidate, segment.end) {
            (Some(wall), _) if wall < end => Step::Slot(wall - segment.offset_s),
            // In an overlap the wall clock goes back, to matches that are behind the candidate.
            (_, Some((next, after))) if after < segment.offset_s => Step::GoOn(next),
            (Some(wall), Some((next, _))) => Step::GoOn(next.max(wall - REACH_S)),
            (None, _) | (_, None) => Step::Never,
        }
    }

    fn step_down(&self, from: i64) -> Step {
        let offset_s = self.zone.offset_s(from + MARGIN_S);
        let candidate = self.wall.prev(from + offset_s, self.calendar);
        match candidate.and_then(|wall| self.slot_if_steady(from, wall, offset_s, -MARGIN_S)) {
            Some(found) => Step::Slot(found),
            None => self.step_down_by_segment(from),
        }
    }

    /// The slot of a wall time, if no change of the offset can matter between `from` and there.
    ///
    /// `offset_s` is in force a margin behind `from`; `ahead_s` is the margin in the direction of the search. A far
    /// candidate is steady if nothing changes around `from` nor around the candidate: changes in between neither bring
    /// back wall times that the search has left behind, nor hide a match, as the candidate is the first.
    fn slot_if_steady(&self, from: i64, wall: i64, offset_s: i64, ahead_s: i64) -> Option<i64> {
        let found = wall - offset_s;
        if self.zone.is_fixed() {
            return Some(found);
        }
        if (found - from).abs() <= NEAR_S {
            return (self.zone.offset_s(found + ahead_s) == offset_s).then_some(found);
        }
        let there = self.zone.offset_s(wall - REACH_S);
        let is_steady = self.zone.offset_s(from + ahead_s) == offset_s && self.zone.offset_s(wall + REACH_S) == there;
        is_steady.then_some(wall - there)
    }

    fn step_down_by_segment(&self, from: i64) -> Step {
        let mut segment = self.segment(from, from - SPAN_S, from + MARGIN_S);
        segment.start = segment.start.or(Some((from - SPAN_S, segment.offset_s)));
        let (first, end) = self.own_walls(&segment);
        let local = from + segment.offset_s;
        let candidate = self.wall.prev(local.min(end - 1), self.calendar);
        if let Some(wall) = candidate.filter(|wall| *wall >= first) {
            return Step::Slot(wall - segment.offset_s);
        }
        if let Some(found) = self.gap_slot(&segment) {
            return Step::Slot(found);
        }
        match (candidate, segment.start) {
            (_, Some((start, before))) if before > segment.offset_s => Step::GoOn(start - 1),
            (Some(wall), Some((start, _))) => Step::GoOn((start - 1).min(wall + REACH_S)),
            (None, _) | (_, None) => Step::Never,
        }
    }

    /// The segment around `second`, with those of its ends that lie after `low` and up to `high`.
    fn segment(&self, second: i64, low: i64, high: i64) -> Segment {
        let (before, offset_s, after) = (self.zone.offset_s(low), self.zone.offset_s(second), self.zone.offset_s(high));
        Segment {
            offset_s,
            start: (before != offset_s).then(|| (self.change_between(low, second), before)),
            end: (after != offset_s).then(|| (self.change_between(second, high), after)),
        }
    }

    /// The first second with another offset than `low` has; there is exactly one change up to `high`.
    fn change_between(&self, mut low: i64, mut high: i64) -> i64 {
        let before = self.zone.offset_s(low);
        while high - low > 1 {
            step();
            let middle = low + (high - low) / 2;
            if self.zone.offset_s(middle) == before { low = middle } else { high = middle }
        }
        high
    }

    /// The wall times of a segment whose slots lie in it: from the first up to, not including, the end.
    fn own_walls(&self, segment: &Segment) -> (i64, i64) {
        let first = match (segment.start, self.dst.overlap) {
            (None, _) => i64::MIN,
            (Some((start, before)), Overlap::First) => start + before.max(segment.offset_s),
            (Some((start, _)), Overlap::Last | Overlap::Both) => start + segment.offset_s,
        };
        let end = match (segment.end, self.dst.overlap) {
            (None, _) => i64::MAX,
            (Some((end, after)), Overlap::Last) => end + after.min(segment.offset_s),
            (Some((end, _)), Overlap::First | Overlap::Both) => end + segment.offset_s,
        };
        (first, end)
    }

    /// The slot at the start of a segment that stands for the matches inside the gap before it. Both must be open: a
    /// match that a calendar closes is none, and no slot is at a closed instant.
    fn gap_slot(&self, segment: &Segment) -> Option<i64> {
        let (start, before) = segment.start?;
        let lost = match self.dst.gap {
            Gap::Skip => None,
            Gap::RunAfter => self.wall.next(start + before, self.calendar),
        };
        let after = start + segment.offset_s;
        let is_open = |calendar: &Calendar| calendar.is_open(after);
        lost.filter(|wall| *wall < after && self.calendar.is_none_or(is_open)).map(|_| start)
    }
}
