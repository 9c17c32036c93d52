//! A fixed rate under a calendar: the open multiples of a period.
//!
//! A closed multiple is passed by going on where the calendar opens again. If that alone were done, a rate whose every
//! multiple falls into a closed window would have each day of two centuries looked at. So after some rounds it is asked
//! which multiple can be open at all while the zone keeps its offset. Weekdays and windows come again every week, and in
//! a cycle of that length the multiples of a period are a row of equal steps, so this is arithmetic, not a search.

use crate::calendar::WEEK_S;
use crate::civil::DAY_S;
use crate::open::Open;
use crate::steps::step;
use crate::time::{HORIZON, UnixMs};

/// Closed spans that are passed one by one before it is asked whether there is an end to them.
const ROUNDS: u32 = 8;

/// The multiples of a period that a calendar leaves open.
pub(crate) struct Rate<'s> {
    pub(crate) period_ms: i64,
    pub(crate) open: Option<Open<'s>>,
}

impl Rate<'_> {
    /// The first open multiple after `t`.
    pub(crate) fn next(&self, t: UnixMs) -> Option<UnixMs> {
        let mut found = next_multiple(self.period_ms, t)?;
        let Some(open) = self.open else { return Some(found) };
        let mut barren = Barren::new(self.period_ms, open);
        while !open.is_open(found) {
            step();
            let opens = match barren.until(found) {
                Some(until) => until,
                None => open.first_from(found)?,
            };
            assert!(opens > found, "a search moves on");
            found = next_multiple(self.period_ms, opens.plus_ms(-1))?;
        }
        Some(found)
    }

    /// The last open multiple at or before `t`.
    pub(crate) fn prev(&self, t: UnixMs) -> Option<UnixMs> {
        let mut found = last_multiple(self.period_ms, t)?;
        let Some(open) = self.open else { return Some(found) };
        let mut barren = Barren::new(self.period_ms, open);
        while !open.is_open(found) {
            step();
            let closes = match barren.from(found) {
                Some(from) => from.plus_ms(-1),
                None => open.last_to(found)?,
            };
            assert!(closes < found, "a search moves on");
            found = last_multiple(self.period_ms, closes)?;
        }
        Some(found)
    }
}

/// Times without any open multiple.
struct Barren<'s> {
    period_ms: i64,
    open: Open<'s>,
    rounds: u32,
    /// What was found out, by offset: a zone has few.
    hopes: Vec<(i64, Hope)>,
}

/// On which days a multiple can be open under an offset.
#[derive(Clone, Copy)]
enum Hope {
    /// On a weekday that is open.
    Weekdays,
    /// On no weekday that is open, so only on a date that is included.
    Included,
    /// On no day: windows close all times of it.
    None,
}

impl<'s> Barren<'s> {
    fn new(period_ms: i64, open: Open<'s>) -> Self {
        Self { period_ms, open, rounds: 0, hopes: Vec::new() }
    }

    /// The end, itself not in, of a time from the closed multiple `at` on in which none is open; none if one may be soon.
    fn until(&mut self, at: UnixMs) -> Option<UnixMs> {
        let (second, offset_s, hope) = self.look(at)?;
        let Open { calendar, zone } = self.open;
        let day = (second + offset_s).div_euclid(DAY_S);
        let included = calendar.included_from(day).map_or(i64::MAX, |day| day * DAY_S - offset_s);
        let until = match hope {
            Hope::Weekdays => included.min(second.saturating_add(self.to_hopeful(at, offset_s, 1) / 1_000)),
            Hope::Included => included,
            Hope::None => i64::MAX,
        };
        // Most often nothing is left to ask the zone about.
        let until = if until > second { until.min(zone.steady_until(second)) } else { until };
        (until > second).then(|| UnixMs(until.saturating_mul(1_000)))
    }

    /// The start of a time up to the closed multiple `at` in which none is open; none if one may be soon.
    fn from(&mut self, at: UnixMs) -> Option<UnixMs> {
        let (second, offset_s, hope) = self.look(at)?;
        let Open { calendar, zone } = self.open;
        let day = (second + offset_s).div_euclid(DAY_S);
        let included = calendar.included_to(day).map_or(i64::MIN, |day| (day + 1) * DAY_S - offset_s);
        let from = match hope {
            Hope::Weekdays => included.max(second.saturating_sub(self.to_hopeful(at, offset_s, -1) / 1_000) + 1),
            Hope::Included => included,
            Hope::None => i64::MIN,
        };
        let from = if from <= second { from.max(zone.steady_from(second)) } else { from };
        (from <= second).then(|| UnixMs(from.saturating_mul(1_000)))
    }

    /// After some rounds: where a multiple is, and what can be hoped for there.
    fn look(&mut self, at: UnixMs) -> Option<(i64, i64, Hope)> {
        self.rounds += 1;
        if self.rounds <= ROUNDS {
            return None;
        }
        let second = at.0.div_euclid(1_000);
        let offset_s = self.open.zone.offset_s(second);
        let known = self.hopes.iter().find(|(known_s, _)| *known_s == offset_s).map(|(_, hope)| *hope);
        let hope = known.unwrap_or_else(|| {
            let hope = self.hope(offset_s);
            self.hopes.push((offset_s, hope));
            hope
        });
        Some((second, offset_s, hope))
    }

    fn hope(&self, offset_s: i64) -> Hope {
        let common_ms = gcd(self.period_ms, WEEK_S * 1_000);
        let has_multiple = |(from, end): (i64, i64)| {
            step();
            let (from_ms, end_ms) = (from * 1_000, end * 1_000);
            from_ms + (offset_s * 1_000 - from_ms).rem_euclid(common_ms) < end_ms
        };
        if self.open.calendar.open_week(false).any(has_multiple) {
            Hope::Weekdays
        } else if self.open.calendar.open_week(true).any(has_multiple) {
            Hope::Included
        } else {
            Hope::None
        }
    }

    /// Milliseconds from a multiple to the next one (or, with a negative sign, the last one) at which weekday and window
    /// are open under an offset. Zero if it is that itself.
    fn to_hopeful(&self, at: UnixMs, offset_s: i64, sign: i64) -> i64 {
        let week_ms = WEEK_S * 1_000;
        let place_ms = (at.0 + offset_s * 1_000).rem_euclid(week_ms);
        let stride_ms = (self.period_ms * sign).rem_euclid(week_ms);
        let strides = self.open.calendar.open_week(false).filter_map(|(from, end)| {
            step();
            let from_ms = (from * 1_000 - place_ms).rem_euclid(week_ms);
            let last_ms = from_ms + (end - from) * 1_000 - 1;
            if last_ms >= week_ms { Some(0) } else { strides_into(stride_ms, week_ms, from_ms, last_ms) }
        });
        strides.min().map_or(i64::MAX, |strides| strides.saturating_mul(self.period_ms))
    }
}

/// The least `k` from 0 on with `low <= k * stride % cycle <= high`, for `stride < cycle` and `low <= high < cycle`.
///
/// If no multiple of the stride lies between the bounds in the first cycle, the number of whole cycles before the one
/// that has it is the answer to the same question with the stride as its cycle. Each turn at least halves the cycle.
fn strides_into(stride: i64, cycle: i64, low: i64, high: i64) -> Option<i64> {
    if low == 0 {
        return Some(0);
    }
    if stride == 0 {
        return None;
    }
    if stride > cycle - stride {
        return strides_into(cycle - stride, cycle, cycle - high, cycle - low);
    }
    let first = (low + stride - 1) / stride;
    if first * stride <= high {
        return Some(first);
    }
    let cycles = strides_into((-cycle).rem_euclid(stride), stride, low % stride, high % stride)?;
    Some((low + cycles * cycle + stride - 1) / stride)
}

fn next_multiple(period_ms: i64, t: UnixMs) -> Option<UnixMs> {
    let after = t.0.max(-1);
    let next = after.div_euclid(period_ms).checked_add(1)?.checked_mul(period_ms)?;
    Some(UnixMs(next)).filter(|next| *next <= HORIZON)
}

fn last_multiple(period_ms: i64, t: UnixMs) -> Option<UnixMs> {
    let until = t.0.min(HORIZON.0);
    (until >= 0).then(|| UnixMs(until - until % period_ms))
}

fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_those_that_a_walk_counts() {
        for cycle in 1..24_i64 {
            for stride in 0..cycle {
                for low in 0..cycle {
                    for high in low..cycle {
                        let walked = (0..cycle).find(|k| (low..=high).contains(&(k * stride % cycle)));
                        let found = strides_into(stride, cycle, low, high);
                        assert_eq!(found, walked, "{stride} in {cycle} to {low}..={high}");
                    }
                }
            }
        }
    }
}
