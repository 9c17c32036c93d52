//! `rota cron`: expressions looked at without a server, by the same code that a server runs.

mod lines;
mod question;

use rota_cron::{Lang, UnixMs, Zone, tzdb_version};
use serde::Serialize;

use self::question::Question;
use super::out::Out;
use super::shown;
use crate::args::{CronCommand, CronFields};
use crate::clock;
use crate::exit::Failure;

pub(crate) fn run(out: Out, command: CronCommand) -> Result<(), Failure> {
    match command {
        CronCommand::Next { expr, fields, from, count } => {
            let question = Question { from, count: Some(count), ..Question::new(fields) };
            match expr.as_str() {
                "-" => lines::answer(&question, std::io::stdin().lock(), std::io::stdout().lock()),
                _ => next(out, &question.about(&expr)),
            }
        }
        CronCommand::Explain { expr, fields, lang } => explain(out, &Question::new(fields).about(&expr), &lang),
    }
}

/// The answer about one expression.
#[derive(Debug, Serialize)]
struct Next {
    /// Canonical.
    expr: String,
    dialect: &'static str,
    zone: String,
    /// In words.
    schedule: String,
    tzdb: &'static str,
    from: String,
    fires: Vec<String>,
}

fn next(out: Out, question: &Question) -> Result<(), Failure> {
    let misread = |mistake: question::Mistake| mistake.failure(question);
    let schedule = question.schedule().map_err(misread)?;
    let from = question.from(clock::now()).map_err(misread)?;
    let zone = schedule.zone().clone();
    let slots: Vec<UnixMs> = question.fires(&schedule, from).collect();
    let cron = schedule.as_cron().expect("the question is about an expression");
    let answer = Next {
        expr: cron.text().to_owned(),
        dialect: cron.dialect().as_str(),
        zone: zone.name().to_owned(),
        schedule: schedule.explain(Lang::En),
        tzdb: tzdb_version(),
        from: zone.format(from),
        fires: slots.iter().map(|slot| zone.format(*slot)).collect(),
    };
    out.show(&answer, |answer| {
        let mut text = format!("{}\n", answer.schedule);
        for slot in &slots {
            text.push_str(&format!("{}  {}\n", shown::moment_of(&zone.format(*slot)), weekday(&zone, *slot)));
        }
        if slots.len() < question.count() {
            let more = if slots.is_empty() { "no slot" } else { "no further slot" };
            text.push_str(&format!("{more} up to {}\n", &zone.format(rota_cron::HORIZON)[..4]));
        }
        text.push_str(&format!("{} dialect, {}, tzdb {}\n", answer.dialect, answer.zone, answer.tzdb));
        text
    })
}

fn weekday(zone: &Zone, at: UnixMs) -> &'static str {
    const NAMES: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    let wall_s = at.0.div_euclid(1_000) + i64::from(zone.offset_at(at));
    // 1970-01-01 was a Thursday.
    let day = (wall_s.div_euclid(86_400) + 4).rem_euclid(7);
    NAMES[usize::try_from(day).expect("a remainder of seven")]
}

#[derive(Debug, Serialize)]
struct Explained {
    expr: String,
    dialect: &'static str,
    zone: String,
    lang: String,
    text: String,
}

fn explain(out: Out, question: &Question, lang: &str) -> Result<(), Failure> {
    let schedule = question.schedule().map_err(|mistake| mistake.failure(question))?;
    let cron = schedule.as_cron().expect("the question is about an expression");
    let explained = Explained {
        expr: cron.text().to_owned(),
        dialect: cron.dialect().as_str(),
        zone: schedule.zone().name().to_owned(),
        lang: lang.to_owned(),
        text: schedule.explain(if lang == "zh" { Lang::Zh } else { Lang::En }),
    };
    out.show(&explained, |explained| format!("{}\n", explained.text))
}

impl Question {
    /// A question with what the flags say.
    fn new(fields: CronFields) -> Question {
        let dst = match fields.dst {
            Some(word) => Some(question::Dst::Word(word)),
            None if fields.gap.is_none() && fields.overlap.is_none() => None,
            None => Some(question::Dst::Rule(question::DstRule { gap: fields.gap, overlap: fields.overlap })),
        };
        let (dialect, zone, job) = (fields.dialect, fields.zone, fields.job);
        Question { expr: None, dialect, zone, from: None, count: None, dst, job }
    }

    fn about(self, expr: &str) -> Question {
        Question { expr: Some(expr.to_owned()), ..self }
    }
}
