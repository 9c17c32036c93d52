//! English: time first, then days, months and years.

use super::{DayClause, Parts, whole_unit};
use crate::cron::Dialect;
use crate::dst::{Dst, Gap, Overlap};
use crate::field::{Field, weekday_of};
use crate::item::{DateRule, Item, Numbers, WeekdayRule};

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];
const UNITS: [&str; 5] = ["millisecond", "second", "minute", "hour", "day"];

pub(super) fn cron(parts: &Parts, rule: Option<Dst>, zone: &str) -> String {
    let mut clauses = Vec::new();
    let is_named = match parts.clock_times() {
        Some(times) => {
            clauses.push(format!("at {}", and(&times)));
            true
        }
        None => {
            clauses.extend(time_clauses(parts));
            false
        }
    };
    match parts.days() {
        DayClause::All if is_named => clauses.push("every day".to_owned()),
        DayClause::All => {}
        DayClause::Dates => clauses.push(dates(&parts.dates)),
        DayClause::Weekdays => clauses.push(weekdays(parts)),
        DayClause::Both => {
            clauses.push(format!("{} that is also {}", dates(&parts.dates), weekdays(parts).trim_start_matches("on ")))
        }
        DayClause::Either => clauses.push(format!("{} or {}", dates(&parts.dates), weekdays(parts))),
    }
    if parts.months != [Item::EVERY] {
        clauses.push(months(&parts.months));
    }
    if parts.years != [Item::EVERY] {
        clauses.push(phrases(&parts.years, |item| span(item, Field::Year, parts.dialect), "in "));
    }
    capital(&format!("{} ({zone}{})", clauses.join(", "), rule.map(policy).unwrap_or_default()))
}

pub(super) fn duration(ms: i64) -> String {
    let (count, unit) = whole_unit(ms);
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {}{plural}", UNITS[unit])
}

fn policy(rule: Dst) -> String {
    let gap = match rule.gap {
        Gap::RunAfter => "skipped time runs once after the change",
        Gap::Skip => "skipped time does not run",
    };
    let overlap = match rule.overlap {
        Overlap::First => "repeated time runs the first time",
        Overlap::Last => "repeated time runs the second time",
        Overlap::Both => "repeated time runs twice",
    };
    format!("; {gap}, {overlap}")
}

fn time_clauses(parts: &Parts) -> Vec<String> {
    let mut clauses = Vec::new();
    if parts.has_seconds() {
        clauses.push(unit(&parts.seconds, Field::Second, "at", parts.dialect));
    }
    if parts.minutes != [Item::EVERY] || !parts.has_seconds() {
        let preposition = if parts.has_seconds() { "in" } else { "at" };
        clauses.push(unit(&parts.minutes, Field::Minute, preposition, parts.dialect));
    }
    // "Every 15 minutes" needs no "every hour"; "at minute 5" does.
    let goes_on = parts.minutes.iter().any(|item| item.is_open());
    if parts.hours != [Item::EVERY] || !goes_on {
        clauses.push(unit(&parts.hours, Field::Hour, "in", parts.dialect));
    }
    clauses
}

/// A field of the time of day: `every 15 minutes`, `at minutes 5 and 20`, `in hours 9 through 17`.
fn unit(items: &[Item], field: Field, preposition: &str, dialect: Dialect) -> String {
    let name = field.name();
    if let [Item::Numbers(numbers)] = items
        && let Some(text) = stride(*numbers, field, dialect, name, |number| format!("{name} {number}"))
    {
        return text;
    }
    let plural = if is_one_number(items) { "" } else { "s" };
    phrases(items, |item| span(item, field, dialect), &format!("{preposition} {name}{plural} "))
}

fn is_one_number(items: &[Item]) -> bool {
    matches!(items, [Item::Numbers(Numbers::Span { from, to, .. })] if from == to)
}

/// `every 5 minutes`, with where it starts unless it goes evenly around the field; `None` if it is no stride.
fn stride(
    numbers: Numbers,
    field: Field,
    dialect: Dialect,
    unit: &str,
    place: impl Fn(u16) -> String,
) -> Option<String> {
    let (min, last) = (field.min(dialect), field.last(dialect));
    // Days and months are always told with their start.
    let is_clock = matches!(field, Field::Second | Field::Minute | Field::Hour);
    let is_even = |step| is_clock && (last - min + 1).is_multiple_of(step);
    match numbers {
        Numbers::Every { step: 1 } => Some(format!("every {unit}")),
        Numbers::Every { step } if is_even(step) => Some(format!("every {step} {unit}s")),
        Numbers::Every { step } => Some(format!("every {step} {unit}s from {}", place(min))),
        Numbers::From { from, step } if from == min && is_even(step) => Some(format!("every {step} {unit}s")),
        Numbers::From { from, step } => Some(format!("every {step} {unit}s from {}", place(from))),
        Numbers::Span { from, to, step } if step > 1 && from != to => {
            Some(format!("every {step} {unit}s from {} through {to}", place(from)))
        }
        Numbers::Span { .. } => None,
    }
}

/// `5`, `9 through 17`, or a stride inside a list.
fn span(item: Item, field: Field, dialect: Dialect) -> String {
    let Item::Numbers(numbers) = item else { return item.to_string() };
    let plain = |number: u16| number.to_string();
    stride(numbers, field, dialect, field.name(), plain).unwrap_or_else(|| through(numbers, plain, field, dialect))
}

/// `5` or `9 through 17`, each number said by `name`; all of them if they are neither.
fn through(numbers: Numbers, name: impl Fn(u16) -> String, field: Field, dialect: Dialect) -> String {
    match numbers {
        Numbers::Span { from, to, .. } if from == to => name(from),
        Numbers::Span { from, to, step: 1 } => format!("{} through {}", name(from), name(to)),
        Numbers::Span { .. } | Numbers::Every { .. } | Numbers::From { .. } => {
            and(&numbers.iter(field, dialect).map(name).collect::<Vec<_>>())
        }
    }
}

fn dates(items: &[Item]) -> String {
    const FIELD: Field = Field::DayOfMonth;
    let plain = |number: u16| number.to_string();
    let strided = |numbers| stride(numbers, FIELD, Dialect::Quartz, "day", |number| format!("day {number}"));
    match items {
        [Item::Date(DateRule::Last { before: before @ 1.. })] => {
            return format!("{before} days before the last day of the month");
        }
        [Item::Numbers(numbers)] if let Some(text) = strided(*numbers) => return format!("{text} of the month"),
        _ => {}
    }
    let is_plain = |item: &Item| matches!(item, Item::Numbers(Numbers::Span { step: 1, .. }));
    if items.iter().all(is_plain) && !is_one_number(items) {
        return format!("{} of the month", phrases(items, |item| span(item, FIELD, Dialect::Quartz), "on days "));
    }
    let phrase = |item: Item| match item {
        Item::Date(DateRule::Last { before: 0 }) => "the last day".to_owned(),
        Item::Date(DateRule::Last { before }) => format!("the day {before} before the last"),
        Item::Date(DateRule::LastWeekday { before: 0 }) => "the last weekday".to_owned(),
        Item::Date(DateRule::LastWeekday { before }) => format!("the weekday nearest to {before} days before the last"),
        Item::Date(DateRule::NearestWeekday { day }) => format!("the weekday nearest to day {day}"),
        Item::Numbers(numbers @ Numbers::Span { from, to, .. }) if from != to => {
            strided(numbers).unwrap_or_else(|| format!("days {}", through(numbers, plain, FIELD, Dialect::Quartz)))
        }
        Item::Numbers(numbers) => {
            strided(numbers).unwrap_or_else(|| format!("day {}", through(numbers, plain, FIELD, Dialect::Quartz)))
        }
        Item::Unset | Item::Weekday(_) => item.to_string(),
    };
    format!("{} of the month", phrases(items, phrase, "on "))
}

fn weekdays(parts: &Parts) -> String {
    let name = |number| WEEKDAYS[usize::from(weekday_of(number, parts.dialect))].to_owned();
    let phrase = |item: Item| match item {
        Item::Weekday(WeekdayRule::LastOf { weekday }) => format!("the last {} of the month", name(weekday)),
        Item::Weekday(WeekdayRule::NthOf { weekday, nth }) => {
            format!("the {} {} of the month", ORDINALS[usize::from(nth - 1)], name(weekday))
        }
        Item::Numbers(numbers) => through(numbers, name, Field::DayOfWeek, parts.dialect),
        Item::Unset | Item::Date(_) => item.to_string(),
    };
    phrases(&parts.weekdays, phrase, "on ")
}

fn months(items: &[Item]) -> String {
    let name = |number: u16| MONTHS[usize::from(number - 1)].to_owned();
    if let [Item::Numbers(numbers @ (Numbers::Every { .. } | Numbers::From { .. }))] = items
        && let Some(text) = stride(*numbers, Field::Month, Dialect::Quartz, "month", name)
    {
        return text;
    }
    let phrase = |item: Item| match item {
        Item::Numbers(numbers) => through(numbers, name, Field::Month, Dialect::Quartz),
        Item::Unset | Item::Date(_) | Item::Weekday(_) => item.to_string(),
    };
    phrases(items, phrase, "in ")
}

fn phrases(items: &[Item], phrase: impl Fn(Item) -> String, before: &str) -> String {
    let texts: Vec<String> = items.iter().map(|item| phrase(*item)).collect();
    format!("{before}{}", and(&texts))
}

/// `a`, `a and b`, `a, b and c`.
fn and(texts: &[impl AsRef<str>]) -> String {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    match texts.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| format!("{}{}", first.to_ascii_uppercase(), chars.as_str()))
}
