//! Workloads from text: a history as CSV, and the batch tasks of a public trace.

use std::collections::BTreeMap;

use crate::chance::Chance;
use crate::workload::{CORE, Job, Run, Workload, hint_of};

/// The columns of a history, in any order; others are refused. The last may be absent.
const COLUMNS: [&str; 5] = ["job", "start", "duration", "cores", "memory"];
const NEEDED: usize = 4;
/// No run is longer than this, and no history: a leap year.
const SECONDS_MAX: f64 = 366.0 * 86_400.0;
const CORES_MAX: f64 = 1_048_576.0;
/// What machines fill up and learn in, at most; of a short history a quarter.
const WARM_UP_MS: u64 = 7_200_000;
/// How much the time between runs of a periodic job may differ, and how many of the gaps may differ by more: in percent.
const GAP_PERCENT: u64 = 5;
const STRAYS_PERCENT: usize = 10;

/// Text that is no workload.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing in it, or nothing that counts.
    #[error("there are no runs in it")]
    Empty,
    /// The first line names no columns, or others.
    #[error("line 1, column {column}: {found:?} is not a column; write job,start,duration,cores or add memory")]
    Header {
        /// Where.
        column: usize,
        /// What stands there.
        found: String,
    },
    /// The first line does not name a column that is needed.
    #[error("line 1: there is no column {0:?}; write job,start,duration,cores or add memory")]
    Missing(&'static str),
    /// A line has more or fewer fields than the first.
    #[error("line {line}: there are {found} fields, not {expected}")]
    Fields {
        /// The line, counted from 1.
        line: usize,
        /// As many as the first line has.
        expected: usize,
        /// As many as this one has.
        found: usize,
    },
    /// A field that is not what its column takes.
    #[error("line {line}, column {column}: {field} {value:?} is not {wanted}")]
    Value {
        /// The line, counted from 1.
        line: usize,
        /// The character at which the field begins, counted from 1.
        column: usize,
        /// Its column's name.
        field: &'static str,
        /// What stands there.
        value: String,
        /// What would be right.
        wanted: &'static str,
    },
    /// A quote that is not closed.
    #[error("line {line}, column {column}: this quote is not closed")]
    Quote {
        /// The line, counted from 1.
        line: usize,
        /// The character, counted from 1.
        column: usize,
    },
}

/// What was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read {
    /// The workload.
    pub workload: Workload,
    /// Lines that are no runs, by reason.
    pub skipped: BTreeMap<&'static str, usize>,
    /// Whether there is a column that has no part in the simulation: memory.
    pub has_memory: bool,
}

/// A field with the character at which it begins.
type Field = (usize, String);

/// Splits a line at its commas; fields may stand in quotes, in which a doubled quote is one.
fn fields(text: &str, line: usize) -> Result<Vec<Field>, Error> {
    let mut fields = Vec::new();
    let mut chars = text.chars().zip(1..).peekable();
    loop {
        let column = chars.peek().map_or(text.chars().count() + 1, |(_, column)| *column);
        let mut field = String::new();
        if chars.next_if(|(char, _)| *char == '"').is_some() {
            loop {
                match chars.next() {
                    Some(('"', _)) if chars.next_if(|(char, _)| *char == '"').is_some() => field.push('"'),
                    Some(('"', _)) => break,
                    Some((char, _)) => field.push(char),
                    None => return Err(Error::Quote { line, column }),
                }
            }
        }
        while let Some((char, _)) = chars.next_if(|(char, _)| *char != ',') {
            field.push(char);
        }
        fields.push((column, field.trim().to_owned()));
        if chars.next().is_none() {
            return Ok(fields);
        }
    }
}

struct Line {
    number: usize,
    fields: Vec<Field>,
}

impl Line {
    fn number(&self, at: usize, name: &'static str, wanted: &'static str, most: f64) -> Result<f64, Error> {
        self.between(at, name, wanted, (0.0, most))
    }

    fn between(
        &self,
        at: usize,
        name: &'static str,
        wanted: &'static str,
        (least, most): (f64, f64),
    ) -> Result<f64, Error> {
        let (column, value) = &self.fields[at];
        let number = value.parse::<f64>().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| Error::Value {
            line: self.number,
            column: *column,
            field: name,
            value: value.clone(),
            wanted,
        })
    }
}

/// The lines that are not blank, all with as many fields as the first.
fn lines(text: &str) -> impl Iterator<Item = Result<Line, Error>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let numbered = (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty());
    numbered.map(|(number, text)| Ok(Line { number, fields: fields(text, number)? }))
}

/// Where each known column stands.
fn header(line: &Line) -> Result<[Option<usize>; COLUMNS.len()], Error> {
    let mut places = [None; COLUMNS.len()];
    for (at, (column, name)) in line.fields.iter().enumerate() {
        let wrong = || Error::Header { column: *column, found: name.clone() };
        let known = COLUMNS.iter().position(|known| known == name).ok_or_else(wrong)?;
        if places[known].replace(at).is_some() {
            return Err(wrong());
        }
    }
    match places.iter().take(NEEDED).position(Option::is_none) {
        Some(missing) => Err(Error::Missing(COLUMNS[missing])),
        None => Ok(places),
    }
}

/// Reads a history: a line that names the columns `job`, `start`, `duration`, `cores` and maybe `memory`, then a run on
/// each. Times are seconds since any moment, cores what the run used in the mean.
///
/// # Errors
/// If it is no such text.
pub fn csv(name: &str, text: &str) -> Result<Read, Error> {
    let mut lines = lines(text);
    let first = lines.next().ok_or(Error::Empty)??;
    let places = header(&first)?;
    let place = |column: usize| places[column].expect("columns that are needed are there");
    let mut names: BTreeMap<String, u32> = BTreeMap::new();
    let mut runs = Vec::new();
    for line in lines {
        let line = line?;
        if line.fields.len() != first.fields.len() {
            let (expected, found) = (first.fields.len(), line.fields.len());
            return Err(Error::Fields { line: line.number, expected, found });
        }
        let start = line.number(place(1), "start", "a number of seconds since any moment", 1e11)?;
        let duration = line.number(place(2), "duration", "a number of seconds, up to a year", SECONDS_MAX)?;
        let cores = line.number(place(3), "cores", "a number of cores", CORES_MAX)?;
        if let Some(memory) = places[4] {
            line.number(memory, "memory", "a number", f64::MAX)?;
        }
        let known = u32::try_from(names.len()).expect("a text has fewer than 2^32 lines");
        let job = *names.entry(line.fields[place(0)].1.clone()).or_insert(known);
        let duration_ms = whole(duration * 1_000.0).max(1);
        runs.push(Run { job, start_ms: whole(start * 1_000.0), duration_ms, cores: whole(cores * 1e6), lag_ms: 0 });
    }
    let mut jobs = vec![String::new(); names.len()];
    for (name, at) in names {
        jobs[at as usize] = name;
    }
    Ok(Read { workload: history(name, jobs, runs)?, skipped: BTreeMap::new(), has_memory: places[4].is_some() })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "what is read is bounded and not negative")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// A workload of runs as they were, counted from the first start.
fn history(name: &str, names: Vec<String>, mut runs: Vec<Run>) -> Result<Workload, Error> {
    let first = runs.iter().map(|run| run.start_ms).min().ok_or(Error::Empty)?;
    let mut starts = vec![Vec::new(); names.len()];
    let mut used = vec![(0_u128, 0_u128); names.len()];
    for run in &mut runs {
        // A whole second stays one: what is due together is told by it.
        run.start_ms -= first / 1_000 * 1_000;
        starts[run.job as usize].push(run.start_ms);
        let (count, sum) = &mut used[run.job as usize];
        *count += 1;
        *sum += u128::from(run.cores);
    }
    let to_ms = runs.iter().map(|run| run.start_ms).max().unwrap_or(0) + 1;
    let job = |((name, starts), (count, sum)): ((String, Vec<u64>), (u128, u128))| {
        let mean = u64::try_from(sum / count.max(1)).expect("a mean is no larger than what it is of");
        Job { name, hint: hint_of(mean), request: mean, period_ms: period(starts) }
    };
    let jobs = names.into_iter().zip(starts).zip(used).map(job).collect();
    Ok(Workload::new(name, jobs, runs, (to_ms / 4).min(WARM_UP_MS), to_ms))
}

/// The time between starts, if most are the same.
fn period(mut starts: Vec<u64>) -> Option<u64> {
    starts.sort_unstable();
    let mut gaps: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if gaps.len() < 2 {
        return None;
    }
    gaps.sort_unstable();
    let median = gaps[gaps.len() / 2];
    let strays = gaps.iter().filter(|gap| gap.abs_diff(median) * 100 > median * GAP_PERCENT).count();
    (median > 0 && strays * 100 <= gaps.len() * STRAYS_PERCENT).then_some(median)
}

const TRACE_FIELDS: usize = 8;
/// Some tasks were there before the trace began.
const BEFORE_S: f64 = 86_400.0;

/// Reads the batch tasks of Alibaba's cluster trace of 2017: a run for each task that has terminated, of as many of its
/// instances as are merged into one, with up to five cores. Tasks with the same instances and plan are one job. The trace
/// says what tasks request, which is taken for what they use once they have warmed up.
///
/// # Errors
/// If it is no such text.
pub fn alibaba(name: &str, text: &str, merged_most: u64, seed: u64) -> Result<Read, Error> {
    let mut lags = Chance::new(seed, 11);
    let (mut names, mut lag_of): (BTreeMap<String, u32>, Vec<u64>) = (BTreeMap::new(), Vec::new());
    let (mut runs, mut skipped) = (Vec::new(), BTreeMap::new());
    // The first line names the columns.
    for line in lines(text).skip(1) {
        let line = line?;
        if line.fields.len() != TRACE_FIELDS {
            return Err(Error::Fields { line: line.number, expected: TRACE_FIELDS, found: line.fields.len() });
        }
        if line.fields[5].1 != "Terminated" {
            *skipped.entry("not terminated").or_insert(0) += 1;
            continue;
        }
        if line.fields[6].1.is_empty() {
            *skipped.entry("without a plan").or_insert(0) += 1;
            continue;
        }
        let (seconds, bounds) = ("a number of seconds from a day before the trace on", (-BEFORE_S, SECONDS_MAX));
        let start = line.between(0, "task_create_time", seconds, bounds)? + BEFORE_S;
        let end = line.between(1, "task_end_time", seconds, bounds)? + BEFORE_S;
        let instances = whole(line.number(4, "number_of_instances", "a number of instances", 1e9)?);
        let plan = line.number(6, "plan_cpu", "hundredths of a core", CORES_MAX * 100.0)?;
        if end <= start {
            *skipped.entry("without a duration").or_insert(0) += 1;
            continue;
        }
        let known = u32::try_from(names.len()).expect("a text has fewer than 2^32 lines");
        let job = *names.entry(format!("{instances}/{plan}/{}", line.fields[7].1)).or_insert(known);
        if job == known {
            lag_of.push(1_000 + lags.below(14_000));
        }
        let cores = whole(plan * 1e4) * instances.clamp(1, merged_most.max(1));
        let cores = if merged_most > 1 { cores.min(5 * CORE) } else { cores };
        let duration_ms = whole((end - start) * 1_000.0);
        let lag_ms = lag_of[job as usize].min(duration_ms);
        runs.push(Run { job, start_ms: whole(start * 1_000.0), duration_ms, cores, lag_ms });
    }
    let mut jobs = vec![String::new(); names.len()];
    for (name, at) in names {
        jobs[at as usize] = name;
    }
    Ok(Read { workload: history(name, jobs, runs)?, skipped, has_memory: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(csv("h", text).unwrap_err().to_string(), expected, "{text}");
    }

    #[test]
    fn wrong_text_is_told_by_line_and_column() {
        check("", "there are no runs in it");
        check("job,start,duration,cores\n", "there are no runs in it");
        check("job,begin", "line 1, column 5: \"begin\" is not a column; write job,start,duration,cores or add memory");
        check(
            "job,start,job",
            "line 1, column 11: \"job\" is not a column; write job,start,duration,cores or add memory",
        );
        check(
            "job,start,cores",
            "line 1: there is no column \"duration\"; write job,start,duration,cores or add memory",
        );
        let text = |row: &str| format!("job,start,duration,cores,memory\na,0,1,1,1\n\n{row}\n");
        check(&text("a,1,2,3"), "line 4: there are 4 fields, not 5");
        check(&text("a,soon,2,3,4"), "line 4, column 3: start \"soon\" is not a number of seconds since any moment");
        check(&text("a,1,-2,3,4"), "line 4, column 5: duration \"-2\" is not a number of seconds, up to a year");
        check(&text("\"a,b\",1,2,NaN,4"), "line 4, column 11: cores \"NaN\" is not a number of cores");
        check(&text("a,1,2,3,"), "line 4, column 9: memory \"\" is not a number");
        check(&text("a,1,2,3,\"4"), "line 4, column 9: this quote is not closed");
    }

    #[test]
    fn a_history_is_read_as_it_was() {
        let text = "cores,job,start,duration\n\
            0.5,\"a \"\"b\"\"\",1000,2.5\n0.7,\"a \"\"b\"\"\",1060,2\n0.6,\"a \"\"b\"\"\",1120,2\n2,c,1000.25,100\n";
        let read = csv("h", text).unwrap();
        let jobs: Vec<(&str, u64, Option<u64>)> =
            read.workload.jobs.iter().map(|job| (job.name.as_str(), job.hint, job.period_ms)).collect();
        assert_eq!(jobs, [("a \"b\"", CORE / 2, Some(60_000)), ("c", CORE * 3 / 2, None)]);
        let runs: Vec<(u32, u64, u64, u64)> =
            read.workload.runs.iter().map(|run| (run.job, run.start_ms, run.duration_ms, run.cores)).collect();
        assert_eq!(
            runs,
            [
                (0, 0, 2_500, CORE / 2),
                (1, 250, 100_000, 2 * CORE),
                (0, 60_000, 2_000, CORE * 7 / 10),
                (0, 120_000, 2_000, CORE * 6 / 10)
            ]
        );
        assert_eq!((read.workload.from_ms, read.workload.to_ms), (30_000, 120_001));
    }

    #[test]
    fn a_trace_says_what_it_leaves_out() {
        let text = "a,b,c,d,e,f,g,h\n10,30,1,1,3,Terminated,50,0.1\n-60,12,1,2,1,Failed,50,0.1\n-7,-7,1,2,1,Terminated,50,0.1\n\
            12,13,1,3,1,Waiting,,\n12,13,1,4,1,Terminated,,\n15,20,2,1,3,Terminated,50,0.1\n15,20,2,1,20,Terminated,100,0.1\n";
        let cores = |merged| {
            let read = alibaba("t", text, merged, 1).unwrap();
            assert_eq!(
                read.skipped.into_iter().collect::<Vec<_>>(),
                [("not terminated", 2), ("without a duration", 1), ("without a plan", 1)]
            );
            assert_eq!(read.workload.jobs.len(), 2);
            read.workload.runs.iter().map(|run| (run.job, run.cores)).collect::<Vec<_>>()
        };
        assert_eq!(cores(1), [(0, CORE / 2), (0, CORE / 2), (1, CORE)]);
        assert_eq!(cores(6), [(0, CORE * 3 / 2), (0, CORE * 3 / 2), (1, CORE * 5)]);
    }
}
