//! When a job is due: what its user wrote, as plain data, and the schedule that follows from it.
//!
//! Absent on purpose: named calendars. A specification holds its days itself, so that a version of a job means the same
//! for ever.

use rota_cron::{Cron, Dialect, DstPolicy, ErrorCode, Schedule, Zone, seed_of};
use serde::{Deserialize, Serialize};

use crate::job::{Invalid, Spec, When, in_range};
use crate::time::UnixMs;

/// How a cron schedule meets a change of the clocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dst {
    /// No slot is lost and none is doubled.
    #[default]
    Standard,
    /// As Quartz does it.
    Quartz,
    /// The default with what is given here in its place.
    Rule {
        /// What becomes of slots in a gap.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gap: Option<Gap>,
        /// Which pass of an overlap has the slot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        overlap: Option<Fold>,
    },
}

/// What becomes of slots in a gap of the clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// One slot after it.
    RunAfter,
    /// None.
    Skip,
}

/// Which pass of an overlap of the clock has the slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fold {
    /// The first.
    First,
    /// The second.
    Last,
    /// Both.
    Both,
}

/// When a schedule has no slots, as [`rota_cron::Calendar::parse`] reads it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Calendar {
    /// What is closed.
    pub exclude: Vec<String>,
    /// Days that are open all the same.
    pub include: Vec<String>,
}

/// From when until when a schedule has slots: dates of the job's zone, or instants in RFC 3339.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Active {
    /// The first that is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The last that is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

impl Calendar {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exclude.is_empty() && self.include.is_empty()
    }
}

impl Active {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.from.is_none() && self.until.is_none()
    }

    /// The bounds in a zone.
    pub fn bounds(&self, zone: &Zone) -> Result<rota_cron::Active, Invalid> {
        let day = |text: &str| !text.contains([':', 'T', 't']);
        let from = self.from.as_deref().map(|text| match day(text) {
            true => zone.day_start(text),
            false => UnixMs::parse_rfc3339(text.trim()),
        });
        let until = self.until.as_deref().map(|text| match day(text) {
            true => zone.day_end(text),
            false => UnixMs::parse_rfc3339(text.trim()),
        });
        let from = from.transpose().map_err(|e| bound("active.from", &self.from, &e))?;
        let until = until.transpose().map_err(|e| bound("active.until", &self.until, &e))?;
        if let (Some(from), Some(until)) = (from, until)
            && from > until
        {
            let message = format!("{} lies before {}, from which it is active", zone.format(until), zone.format(from));
            return Err(Invalid { field: "active.until", message, hint: None });
        }
        Ok(rota_cron::Active { from, until })
    }
}

fn bound(field: &'static str, text: &Option<String>, error: &rota_cron::Error) -> Invalid {
    let shown: String = text.as_deref().unwrap_or_default().chars().take(40).collect();
    let what = if error.code == ErrorCode::BadInstant { "an instant" } else { "a date" };
    let hint = Some("a date, such as 2026-12-31, or an instant with its offset: 2026-12-31T18:00:00+08:00".to_owned());
    Invalid { field, message: format!("`{shown}` is not {what}"), hint }
}

impl Dst {
    /// The policy of an expression.
    fn policy(self, is_interval: bool) -> DstPolicy {
        let (gap, fold) = match self {
            Dst::Standard => return DstPolicy::Standard,
            Dst::Quartz => return DstPolicy::Quartz,
            Dst::Rule { gap, overlap } => (gap, overlap),
        };
        let gap = gap.map(|gap| match gap {
            Gap::RunAfter => rota_cron::Gap::RunAfter,
            Gap::Skip => rota_cron::Gap::Skip,
        });
        let fold = fold.map(|fold| match fold {
            Fold::First => rota_cron::Overlap::First,
            Fold::Last => rota_cron::Overlap::Last,
            Fold::Both => rota_cron::Overlap::Both,
        });
        DstPolicy::replaced(gap, fold, is_interval)
    }
}

impl Spec {
    /// The schedule of a job of this name, and its zone.
    pub(crate) fn compile_schedule(&self, name: &str) -> Result<(Option<Schedule>, Zone), Invalid> {
        let zone = Zone::parse(&self.zone).map_err(|e| Invalid {
            field: "timezone",
            message: e.message.clone(),
            hint: e.hint.clone(),
        })?;
        let Some(bare) = self.bare_schedule(name, &zone)? else {
            self.check_limits_allowed("a job without a schedule")?;
            return Ok((None, zone));
        };
        if matches!(self.schedule, When::OnceMs(_)) {
            self.check_limits_allowed("a job that runs once")?;
        }
        let active = self.active.bounds(&zone)?;
        let schedule = bare.with_calendar(self.read_calendar()?).with_active(active);
        Ok((Some(schedule), zone))
    }

    fn bare_schedule(&self, name: &str, zone: &Zone) -> Result<Option<Schedule>, Invalid> {
        if !matches!(self.schedule, When::Cron(_)) && self.dst != Dst::Standard {
            return Err(Invalid {
                field: "dst",
                message: "only a cron schedule is read on a clock that changes".to_owned(),
                hint: Some("leave it out, or give `cron`".to_owned()),
            });
        }
        let refused = |field| move |e: rota_cron::Error| Invalid { field, message: e.to_string(), hint: e.hint };
        Ok(match &self.schedule {
            When::Cron(expr) => {
                let cron = Cron::parse_hashed(expr, Dialect::of(expr), seed_of(name));
                let cron = cron.map_err(|e| misread("cron", expr, e))?;
                let dst = self.dst.policy(cron.is_interval());
                Some(Schedule::of_cron(cron, zone.clone(), dst))
            }
            When::EveryMs(ms) => {
                in_range("every", *ms)?;
                Some(Schedule::every(*ms).map_err(refused("every"))?.with_zone(zone.clone()))
            }
            When::DelayMs(ms) => {
                in_range("delay", *ms)?;
                Some(Schedule::delay(*ms).map_err(refused("delay"))?.with_zone(zone.clone()))
            }
            When::OnceMs(at) if !(0..=rota_cron::HORIZON.0).contains(at) => {
                return Err(Invalid {
                    field: "at",
                    message: format!("{at} ms since 1970 is outside 1970 to 2199"),
                    hint: Some("for example: 2026-12-01T02:00:00+08:00".to_owned()),
                });
            }
            When::OnceMs(at) => Some(Schedule::once(UnixMs(*at)).with_zone(zone.clone())),
            When::Manual => None,
        })
    }

    /// Refuses what narrows a schedule where there is none to narrow.
    fn check_limits_allowed(&self, whose: &str) -> Result<(), Invalid> {
        let given = [
            ("calendar", !self.calendar.is_empty()),
            ("active", !self.active.is_empty()),
            ("jitter", self.jitter_ms > 0),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((field, _)) => Err(Invalid {
                field,
                message: format!("{whose} has nothing to narrow"),
                hint: Some("leave it out, or give `cron`, `every` or `delay`".to_owned()),
            }),
        }
    }

    fn read_calendar(&self) -> Result<Option<rota_cron::Calendar>, Invalid> {
        if self.calendar.is_empty() {
            return Ok(None);
        }
        let read = rota_cron::Calendar::parse(&self.calendar.exclude, &self.calendar.include);
        read.map(Some).map_err(|e| {
            let field =
                if e.item.is_some_and(|(list, _)| list == "include") { "calendar.include" } else { "calendar.exclude" };
            let place = e.item.map(|(_, place)| format!(" (item {})", place + 1)).unwrap_or_default();
            Invalid { field, message: format!("{e}{place}"), hint: e.hint }
        })
    }
}

/// What is wrong with an expression, and where: in a long one it is not seen at once.
fn misread(field: &'static str, text: &str, error: rota_cron::Error) -> Invalid {
    let before = error.position.and_then(|position| text.get(..position)).map(|before| before.chars().count());
    let place = before.map(|before| format!(" (at character {})", before + 1)).unwrap_or_default();
    Invalid { field, message: format!("{error}{place}"), hint: error.hint }
}
