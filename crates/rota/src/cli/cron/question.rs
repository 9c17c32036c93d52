//! One question about an expression, as flags or a line of JSON ask it, and what can be wrong with it.

use rota_core::time::UnixMs;
use rota_cron::{Cron, Dialect, DstPolicy, Gap, Overlap, Schedule, Zone, seed_of};
use rota_wire::error::Error as Wire;
use serde::{Deserialize, Serialize};

use crate::exit::{Failure, Misread};

/// Slots in one answer.
pub(super) const COUNT_MAX: u32 = 100_000;
/// Slots in an answer to a question that does not say how many.
const COUNT: u32 = 5;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    #[serde(default)]
    pub(super) expr: Option<String>,
    #[serde(default)]
    pub(super) dialect: Option<String>,
    #[serde(default)]
    pub(super) zone: Option<String>,
    #[serde(default)]
    pub(super) from: Option<String>,
    #[serde(default)]
    pub(super) count: Option<u32>,
    #[serde(default)]
    pub(super) dst: Option<Dst>,
    #[serde(default)]
    pub(super) job: Option<String>,
}

/// How an expression meets a change of the clocks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected \"default\", \"quartz\", or an object with gap and overlap")]
pub(super) enum Dst {
    Word(String),
    Rule(DstRule),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DstRule {
    #[serde(default)]
    pub(super) gap: Option<String>,
    #[serde(default)]
    pub(super) overlap: Option<String>,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Mistake {
    pub(super) code: String,
    /// The key of the question that is wrong, if one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<&'static str>,
    /// The field of the expression that is wrong, if one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<&'static str>,
    /// Byte offset of the mistake in the key's value; without a key, in the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) position: Option<usize>,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

impl Mistake {
    pub(super) fn new(code: &str, message: impl Into<String>) -> Mistake {
        let (code, message) = (code.to_owned(), message.into());
        Mistake { code, key: None, field: None, position: None, message, hint: None }
    }

    fn of(key: &'static str, error: rota_cron::Error) -> Mistake {
        let code = error.code.as_str().to_owned();
        let (field, position, hint) = (error.field, error.position, error.hint);
        let of_job = || (error.code == rota_cron::ErrorCode::NoSeed).then(|| "name the job: --job NAME".to_owned());
        let hint = hint.or_else(of_job);
        Mistake { code, key: Some(key), field, position, message: error.message, hint }
    }

    fn word(key: &'static str, word: &str, known: &str) -> Mistake {
        let shown: String = word.chars().take(40).collect();
        let message = format!("`{shown}` is not known here, expected {known}");
        Mistake { key: Some(key), ..Mistake::new("unknown_word", message) }
    }

    /// The same for whoever asked by flags: with the text, and where in it.
    pub(super) fn failure(self, question: &Question) -> Failure {
        let text = match self.key {
            Some("expr") => question.expr.clone(),
            Some("from") => question.from.clone(),
            _ => None,
        };
        // What is wrong with the expression says so itself.
        let field = self.key.filter(|key| *key != "expr").map(|key| format!("--{key}"));
        let error = Wire { code: self.code, message: self.message, field, hint: self.hint };
        Failure::Misread(Box::new(Misread { error, text, position: self.position }))
    }
}

impl Question {
    /// What this does not say, as the other has it.
    pub(super) fn or(self, other: &Question) -> Question {
        Question {
            expr: self.expr.or_else(|| other.expr.clone()),
            dialect: self.dialect.or_else(|| other.dialect.clone()),
            zone: self.zone.or_else(|| other.zone.clone()),
            from: self.from.or_else(|| other.from.clone()),
            count: self.count.or(other.count),
            dst: self.dst.or_else(|| other.dst.clone()),
            job: self.job.or_else(|| other.job.clone()),
        }
    }

    pub(super) fn schedule(&self) -> Result<Schedule, Mistake> {
        let Some(expr) = &self.expr else {
            return Err(Mistake { key: Some("expr"), ..Mistake::new("empty", "there is no expression") });
        };
        let dialect = match self.dialect.as_deref() {
            None => Dialect::of(expr),
            Some("unix") => Dialect::Unix,
            Some("quartz") => Dialect::Quartz,
            Some(other) => return Err(Mistake::word("dialect", other, "unix or quartz")),
        };
        let zone = Zone::parse(self.zone.as_deref().unwrap_or("UTC")).map_err(|error| Mistake::of("zone", error))?;
        let cron = match &self.job {
            Some(job) => Cron::parse_hashed(expr, dialect, seed_of(job)),
            None => Cron::parse(expr, dialect),
        };
        let cron = cron.map_err(|error| Mistake::of("expr", error))?;
        let dst = self.policy(cron.is_interval())?;
        Ok(Schedule::of_cron(cron, zone, dst))
    }

    fn policy(&self, is_interval: bool) -> Result<DstPolicy, Mistake> {
        let rule = match &self.dst {
            None => return Ok(DstPolicy::Standard),
            Some(Dst::Word(word)) => {
                return match word.as_str() {
                    "default" => Ok(DstPolicy::Standard),
                    "quartz" => Ok(DstPolicy::Quartz),
                    other => Err(Mistake::word("dst", other, "default or quartz")),
                };
            }
            Some(Dst::Rule(rule)) => rule,
        };
        let gap = rule.gap.as_deref().map(|word| Gap::parse(word).ok_or((word, "run_after or skip")));
        let overlap = rule.overlap.as_deref().map(|word| Overlap::parse(word).ok_or((word, "first, last or both")));
        let unknown = |(word, known): (&str, &str)| Mistake::word("dst", word, known);
        let (gap, overlap) = (gap.transpose().map_err(unknown)?, overlap.transpose().map_err(unknown)?);
        Ok(DstPolicy::replaced(gap, overlap, is_interval))
    }

    pub(super) fn from(&self, now: UnixMs) -> Result<UnixMs, Mistake> {
        self.from
            .as_deref()
            .map_or(Ok(now), |text| UnixMs::parse_rfc3339(text).map_err(|error| Mistake::of("from", error)))
    }

    pub(super) fn count(&self) -> usize {
        self.count.unwrap_or(COUNT) as usize
    }

    /// The slots that were asked for. Under the policy of Quartz, what Quartz answers if each answer is asked about.
    pub(super) fn fires<'s>(&self, schedule: &'s Schedule, from: UnixMs) -> impl Iterator<Item = UnixMs> + use<'s> {
        std::iter::successors(schedule.next_as_quartz(from), |t| schedule.next_as_quartz(*t)).take(self.count())
    }
}
