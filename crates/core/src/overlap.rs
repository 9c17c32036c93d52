//! Overlap: what becomes of a run while earlier ones of its job hold their places. Pure.
//!
//! A run holds its place from its begin until it has ended and each of its attempts is released; a retry in backoff
//! keeps it. With a key, runs share places only with those whose parameter has the same value of it.

use serde::{Deserialize, Serialize};

use crate::job::Invalid;
use crate::limits;
use crate::target::Target;
use crate::why::Why;

/// What happens to a run of a job while earlier ones hold their places.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Overlap {
    /// What happens once no place is left.
    pub mode: Mode,
    /// How many may hold a place at once; absent: any number with [`Mode::Allow`], else one.
    pub max: Option<u32>,
    /// How many may wait, with [`Mode::Queue`]; absent: [`limits::QUEUE_DEFAULT`].
    pub queue: Option<u32>,
    /// The part of the parameter whose values have places of their own.
    pub key: Option<String>,
}

/// What happens to a run for which there is no place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It runs beside the others, up to the maximum; beyond that it is skipped.
    #[default]
    Allow,
    /// It is skipped, with a row.
    Skip,
    /// It waits for its turn; if too many wait, it is skipped.
    Queue,
    /// Those that hold a place are cancelled, and it begins at once.
    CancelRunning,
    /// Those that hold a place are cancelled, and it begins once their places are free; what waited gives way to it.
    CancelAndWait,
    /// It waits, if none does; else the one that waits stands for it.
    Merge,
}

/// What a run is told for which the places of its job were counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It takes a place.
    Start,
    /// It waits for one.
    Wait,
    /// The one that waits stands for it.
    Merge,
    /// It takes the place of those that hold one, which are cancelled.
    Replace,
    /// Those that hold a place are cancelled, those that wait are given up, and it waits.
    Await,
    /// There is no place for it.
    Refuse(Why),
}

impl Overlap {
    /// Runs beside others, without a limit.
    pub const ALLOW: Overlap = Overlap::of(Mode::Allow);
    /// One at a time; others are skipped.
    pub const SKIP: Overlap = Overlap::of(Mode::Skip);

    /// A policy with the defaults of its mode.
    #[must_use]
    pub const fn of(mode: Mode) -> Overlap {
        Overlap { mode, max: None, queue: None, key: None }
    }

    /// Whether it limits nothing.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.mode == Mode::Allow && self.max.is_none()
    }

    /// How many may hold a place at once.
    #[must_use]
    pub fn places(&self) -> usize {
        let max = match self.mode {
            Mode::Allow => self.max.unwrap_or(u32::MAX),
            Mode::Queue | Mode::Merge => self.max.unwrap_or(1),
            Mode::Skip | Mode::CancelRunning | Mode::CancelAndWait => 1,
        };
        max as usize
    }

    /// How many may wait.
    fn queue_max(&self) -> usize {
        self.queue.unwrap_or(limits::QUEUE_DEFAULT) as usize
    }

    /// What a new run is told while so many hold a place and so many wait for one.
    #[must_use]
    pub fn decide(&self, holders: usize, waiting: usize) -> Verdict {
        // Nobody overtakes who waits.
        let is_open = holders < self.places() && waiting == 0;
        match self.mode {
            _ if is_open => Verdict::Start,
            Mode::Allow | Mode::Skip => Verdict::Refuse(Why::Overlap),
            Mode::Queue if waiting < self.queue_max() => Verdict::Wait,
            Mode::Queue => Verdict::Refuse(Why::QueueFull),
            Mode::CancelRunning => Verdict::Replace,
            Mode::CancelAndWait => Verdict::Await,
            Mode::Merge if waiting == 0 => Verdict::Wait,
            Mode::Merge => Verdict::Merge,
        }
    }

    /// Checks the policy of a job that calls this.
    pub(crate) fn check(&self, target: &Target) -> Result<(), Invalid> {
        let refused = |field, message: String, hint: &str| Err(Invalid { field, message, hint: Some(hint.to_owned()) });
        let has_max = matches!(self.mode, Mode::Allow | Mode::Queue | Mode::Merge);
        if self.max.is_some() && !has_max {
            let message = "this policy has one place".to_owned();
            return refused("overlap.max", message, "`max` goes with allow, queue and merge");
        }
        if self.queue.is_some() && self.mode != Mode::Queue {
            let message = "this policy has no queue".to_owned();
            return refused("overlap.queue", message, "`queue` goes with `policy: queue`");
        }
        for (field, count, most) in
            [("overlap.max", self.max, limits::PLACES_MAX), ("overlap.queue", self.queue, limits::QUEUE_MAX)]
        {
            if let Some(count) = count.filter(|count| *count == 0 || *count > most) {
                return refused(field, format!("{count} is outside 1 to {most}"), "leave it out for the default");
            }
        }
        let Some(key) = &self.key else { return Ok(()) };
        if self.is_free() {
            let message = "a key needs a limit that holds for each of its values".to_owned();
            return refused("overlap.key", message, "add `max`, or another policy");
        }
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || is_separator(c) || "={}\"".contains(c);
        if key.is_empty() || key.len() > limits::NAME_BYTES_MAX || key.contains(is_odd) {
            let message = "is not the name of a part of a parameter".to_owned();
            return refused(
                "overlap.key",
                message,
                "for example `tenant`, for parameters like tenant=a or {\"tenant\": \"a\"}",
            );
        }
        let own = param_of(target);
        let value = value_of(key, own);
        let is_unreadable = own.contains("{{") && own.trim_start().starts_with('{') && value.is_none();
        if is_unreadable || value.is_some_and(|value| value.contains("{{")) {
            let message = format!("the job's own parameter has a template where the value of `{key}` is read");
            return refused(
                "overlap.key",
                message,
                "places are counted before templates are filled in: write the value out",
            );
        }
        Ok(())
    }
}

/// The parameter that a run has unless it brings one of its own: the body, if a URL is called.
#[must_use]
pub fn param_of(target: &Target) -> &str {
    match target {
        Target::Handler { param, .. } => param,
        Target::Url { body, .. } => body,
    }
}

/// The value of a part of a parameter. An object in JSON has it as a member: text as it is, all else as JSON. Any other
/// parameter has it in the form `name=value`, between blanks, commas, semicolons or ampersands. Absent and null are
/// one value, which is none.
#[must_use]
pub fn value_of(key: &str, param: &str) -> Option<String> {
    if param.trim_start().starts_with('{')
        && let Ok(mut object) = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(param)
    {
        let value = object.remove(key).filter(|value| !value.is_null())?;
        return Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    let parts = param.split(|c: char| c.is_whitespace() || is_separator(c));
    let mut pairs = parts.filter_map(|part| part.split_once('='));
    pairs.find(|(name, _)| *name == key).map(|(_, value)| value.to_owned())
}

fn is_separator(c: char) -> bool {
    matches!(c, ',' | ';' | '&')
}

/// How it is stored: one word, or all of it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Word(Mode),
    Whole {
        policy: Mode,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queue: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
}

impl From<Written> for Overlap {
    fn from(written: Written) -> Overlap {
        match written {
            Written::Word(mode) => Overlap::of(mode),
            Written::Whole { policy, max, queue, key } => Overlap { mode: policy, max, queue, key },
        }
    }
}

impl From<Overlap> for Written {
    fn from(overlap: Overlap) -> Written {
        let Overlap { mode, max, queue, key } = overlap;
        match (max, queue, &key) {
            (None, None, None) => Written::Word(mode),
            _ => Written::Whole { policy: mode, max, queue, key },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_value(param: &str, expected: Option<&str>) {
        assert_eq!(value_of("tenant", param).as_deref(), expected, "{param}");
    }

    #[test]
    fn a_value_is_read_from_json_and_from_pairs() {
        check_value("tenant=a", Some("a"));
        check_value("date=2026-12-01 tenant=a", Some("a"));
        check_value("x=1,tenant=a;tenant=b", Some("a"));
        check_value("x=1&tenant=&y", Some(""));
        check_value("subtenant=a", None);
        check_value("tenant", None);
        check_value("", None);
        check_value(r#"{"tenant": "a", "x": 1}"#, Some("a"));
        check_value(r#" {"tenant": 7}"#, Some("7"));
        check_value(r#"{"tenant": {"id": 7}}"#, Some(r#"{"id":7}"#));
        check_value(r#"{"tenant": null}"#, None);
        check_value(r#"{"x": {"tenant": "a"}}"#, None);
        check_value("{tenant=a", None);
        check_value("{ tenant=a }", Some("a"));
    }

    #[test]
    fn a_policy_is_stored_as_one_word_or_whole() {
        for (text, overlap) in [
            (r#""allow""#, Overlap::ALLOW),
            (r#""skip""#, Overlap::SKIP),
            (r#""cancel_and_wait""#, Overlap::of(Mode::CancelAndWait)),
            (
                r#"{"policy":"queue","max":2,"queue":9,"key":"tenant"}"#,
                Overlap { mode: Mode::Queue, max: Some(2), queue: Some(9), key: Some("tenant".to_owned()) },
            ),
        ] {
            assert_eq!(serde_json::to_string(&overlap).unwrap(), text);
            assert_eq!(serde_json::from_str::<Overlap>(text).unwrap(), overlap);
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let handler = |param: &str| Target::Handler { name: "h".to_owned(), param: param.to_owned() };
        let field = |overlap: &Overlap, param: &str| overlap.check(&handler(param)).map_err(|invalid| invalid.field);
        let queue = Overlap { max: Some(2), queue: Some(9), ..Overlap::of(Mode::Queue) };
        assert_eq!(field(&queue, ""), Ok(()));
        assert_eq!(field(&Overlap { max: Some(0), ..queue.clone() }, ""), Err("overlap.max"));
        assert_eq!(field(&Overlap { queue: Some(limits::QUEUE_MAX + 1), ..queue.clone() }, ""), Err("overlap.queue"));
        assert_eq!(field(&Overlap { max: Some(2), ..Overlap::SKIP }, ""), Err("overlap.max"));
        assert_eq!(field(&Overlap { queue: Some(2), ..Overlap::of(Mode::Merge) }, ""), Err("overlap.queue"));
        let key = |key: &str, overlap: &Overlap| Overlap { key: Some(key.to_owned()), ..overlap.clone() };
        assert_eq!(field(&key("tenant", &queue), ""), Ok(()));
        assert_eq!(field(&key("tenant", &Overlap::ALLOW), ""), Err("overlap.key"));
        assert_eq!(field(&key("a b", &queue), ""), Err("overlap.key"));
        assert_eq!(field(&key("", &queue), ""), Err("overlap.key"));
        assert_eq!(field(&key("tenant", &queue), "tenant=a day={{slot}}"), Ok(()));
        assert_eq!(field(&key("day", &queue), "tenant=a day={{slot}}"), Err("overlap.key"));
        assert_eq!(field(&key("day", &queue), r#"{"day": {{slot.unix}}}"#), Err("overlap.key"));
    }

    #[test]
    fn each_policy_tells_a_run_what_it_says() {
        let told = |overlap: &Overlap| {
            [(0, 0), (1, 0), (1, 1), (0, 1)].map(|(holders, waiting)| overlap.decide(holders, waiting))
        };
        use Verdict::{Await, Merge, Refuse, Replace, Start, Wait};
        let skip = Refuse(Why::Overlap);
        assert_eq!(told(&Overlap { max: Some(1), ..Overlap::ALLOW }), [Start, skip, skip, skip]);
        assert_eq!(told(&Overlap::SKIP), [Start, skip, skip, skip]);
        assert_eq!(told(&Overlap::of(Mode::Queue)), [Start, Wait, Wait, Wait]);
        let short = Overlap { queue: Some(1), ..Overlap::of(Mode::Queue) };
        assert_eq!(told(&short), [Start, Wait, Refuse(Why::QueueFull), Refuse(Why::QueueFull)]);
        assert_eq!(told(&Overlap::of(Mode::CancelRunning)), [Start, Replace, Replace, Replace]);
        assert_eq!(told(&Overlap::of(Mode::CancelAndWait)), [Start, Await, Await, Await]);
        assert_eq!(told(&Overlap::of(Mode::Merge)), [Start, Wait, Merge, Merge]);
    }
}
