//! Why a schedule has no slot at an instant at which one could be expected, in words.

use rota_core::closed::Closed;
use rota_core::jitter;
use rota_core::job::{Definition, Job};
use rota_core::time::UnixMs;
use rota_cron::Zone;

use crate::duration::human as span;
use crate::moment::Moment;
use crate::view::human;

/// Slots before an instant that are tried as the one which jitter starts there.
const JITTERED_MAX: usize = 1_000;

/// What took the slot away that the bare schedule has there: a code, and a sentence that names the line.
pub(crate) fn closed(zone: &Zone, definition: &Definition, moment: Moment) -> Option<(&'static str, String)> {
    let version = definition.version;
    Some(match definition.spec.closed(&definition.name, moment.at, moment.last())? {
        Closed::BeforeActive(from) => {
            ("outside_active", format!("no slot: v{version} is active only from {} on", human(zone, from)))
        }
        Closed::AfterActive(until) => {
            ("outside_active", format!("no slot: v{version} was active only until {}", human(zone, until)))
        }
        Closed::Calendar(Some(entry)) => ("calendar", format!("no slot: its calendar excludes `{entry}` (v{version})")),
        Closed::Calendar(None) => ("calendar", format!("no slot: its calendar closes it (v{version})")),
    })
}

/// The slot before an instant whose start the job's jitter puts there.
pub(crate) fn jittered(zone: &Zone, job: &Job, moment: Moment) -> Option<(UnixMs, String)> {
    let (schedule, jitter_ms) = (job.schedule.as_ref()?, job.policy.jitter_ms);
    let start = |slot: UnixMs| slot.plus_ms(jitter::offset_ms(job.id, slot, jitter_ms).cast_signed());
    let earliest = moment.at.plus_ms(-jitter_ms.cast_signed());
    let mut slots = std::iter::successors(schedule.prev_before(moment.at), |slot| schedule.prev_before(*slot))
        .take_while(|slot| *slot >= earliest)
        .take(JITTERED_MAX);
    let slot = slots.find(|slot| (moment.at..=moment.last()).contains(&start(*slot)))?;
    let after = span(start(slot).since_ms(slot));
    let text = format!("no slot: here the slot of {} starts, {after} late by its jitter", human(zone, slot));
    Some((slot, text))
}
