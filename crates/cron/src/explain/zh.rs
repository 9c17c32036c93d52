//! Chinese: years and months first, then days, then the time.

use super::{DayClause, Parts, whole_unit};
use crate::cron::Dialect;
use crate::dst::{Dst, Gap, Overlap};
use crate::field::{Field, weekday_of};
use crate::item::{DateRule, Item, Numbers, WeekdayRule};

const WEEKDAYS: [&str; 7] = ["周日", "周一", "周二", "周三", "周四", "周五", "周六"];
const ORDINALS: [&str; 5] = ["一", "二", "三", "四", "五"];
const UNITS: [&str; 5] = ["毫秒", "秒", "分钟", "小时", "天"];
const WORKDAY: &str = "工作日（周一至周五）";

pub(super) fn cron(parts: &Parts, rule: Option<Dst>, zone: &str) -> String {
    let mut clauses = Vec::new();
    if parts.years != [Item::EVERY] {
        clauses.push(years(&parts.years));
    }
    if parts.months != [Item::EVERY] {
        clauses.push(months(&parts.months));
    }
    let days = match parts.days() {
        DayClause::All => None,
        DayClause::Dates => Some(dates(&parts.dates)),
        DayClause::Weekdays => Some(weekdays(parts)),
        DayClause::Both => Some(format!("{}且为{}", dates(&parts.dates), weekdays(parts))),
        DayClause::Either => Some(format!("{}或{}", dates(&parts.dates), weekdays(parts))),
    };
    match parts.clock_times() {
        Some(times) => clauses.push(format!("{}{}", days.unwrap_or_else(|| "每天".to_owned()), and(&times, "和"))),
        None => {
            let has_days = days.is_some();
            clauses.extend(days);
            let times = time_clauses(parts);
            // Hours alone do not say that they come every day.
            let needs_day = !has_days && !parts.hours.iter().any(|item| item.is_open());
            let joined = times.join("，");
            clauses.push(if needs_day { format!("每天{joined}") } else { joined });
        }
    }
    format!("{}（{zone}{}）", spaced(&clauses.join("，")), rule.map(policy).unwrap_or_default())
}

pub(super) fn duration(ms: i64) -> String {
    let (count, unit) = whole_unit(ms);
    format!("{count} {}", UNITS[unit])
}

fn policy(rule: Dst) -> String {
    let gap = match rule.gap {
        Gap::RunAfter => "被跳过的时间在调时后补一次",
        Gap::Skip => "被跳过的时间不执行",
    };
    let overlap = match rule.overlap {
        Overlap::First => "重复的时间在第一次执行",
        Overlap::Last => "重复的时间在第二次执行",
        Overlap::Both => "重复的时间执行两次",
    };
    format!("；{gap}，{overlap}")
}

fn time_clauses(parts: &Parts) -> Vec<String> {
    let mut clauses = Vec::new();
    let goes_on = parts.minutes.iter().any(|item| item.is_open());
    if parts.hours != [Item::EVERY] || !goes_on {
        clauses.push(unit(&parts.hours, Field::Hour, parts.dialect));
    }
    if parts.minutes != [Item::EVERY] || !parts.has_seconds() {
        clauses.push(unit(&parts.minutes, Field::Minute, parts.dialect));
    }
    if parts.has_seconds() {
        clauses.push(unit(&parts.seconds, Field::Second, parts.dialect));
    }
    clauses
}

/// The noun of a span of time, and the words around a place on the clock.
fn words(field: Field) -> (&'static str, &'static str, &'static str) {
    match field {
        Field::Second => ("秒", "第", "秒"),
        Field::Minute => ("分钟", "第", "分"),
        Field::Hour => ("小时", "", "点"),
        Field::DayOfMonth => ("天", "", "日"),
        Field::Month => ("个月", "", "月"),
        Field::Year => ("年", "", "年"),
        Field::DayOfWeek => ("天", "", ""),
    }
}

fn unit(items: &[Item], field: Field, dialect: Dialect) -> String {
    let phrase = |item: &Item| match *item {
        Item::Numbers(numbers) => phrase(numbers, field, dialect),
        Item::Unset | Item::Date(_) | Item::Weekday(_) => item.to_string(),
    };
    and(&items.iter().map(phrase).collect::<Vec<_>>(), "和")
}

fn phrase(numbers: Numbers, field: Field, dialect: Dialect) -> String {
    let (noun, before, after) = words(field);
    let min = field.min(dialect);
    // Days and months are always told with their start.
    let is_clock = matches!(field, Field::Second | Field::Minute | Field::Hour);
    let is_even = |step| is_clock && (field.last(dialect) - min + 1).is_multiple_of(step);
    match numbers {
        Numbers::Every { step: 1 } => format!("每{noun}"),
        Numbers::Every { step } if is_even(step) => format!("每{step}{noun}"),
        Numbers::Every { step } => format!("从{before}{min}{after}起每{step}{noun}"),
        Numbers::From { from, step } if from == min && is_even(step) => format!("每{step}{noun}"),
        Numbers::From { from, step } => format!("从{before}{from}{after}起每{step}{noun}"),
        Numbers::Span { from, to, .. } if from == to => format!("{before}{from}{after}"),
        Numbers::Span { from, to, step: 1 } => format!("{before}{from}至{to}{after}"),
        Numbers::Span { from, to, step } => format!("{before}{from}至{to}{after}每{step}{noun}"),
    }
}

fn dates(items: &[Item]) -> String {
    let phrase = |item: &Item| match *item {
        Item::Date(DateRule::Last { before: 0 }) => "最后一天".to_owned(),
        Item::Date(DateRule::Last { before }) => format!("最后一天前{before}天"),
        Item::Date(DateRule::LastWeekday { before: 0 }) => format!("最后一个{WORKDAY}"),
        Item::Date(DateRule::LastWeekday { before }) => format!("最接近最后一天前{before}天的{WORKDAY}"),
        Item::Date(DateRule::NearestWeekday { day }) => format!("最接近{day}日的{WORKDAY}"),
        Item::Numbers(numbers) => phrase(numbers, Field::DayOfMonth, Dialect::Quartz),
        Item::Unset | Item::Weekday(_) => item.to_string(),
    };
    format!("每月{}", and(&items.iter().map(phrase).collect::<Vec<_>>(), "和"))
}

fn weekdays(parts: &Parts) -> String {
    let name = |number| WEEKDAYS[usize::from(weekday_of(number, parts.dialect))];
    let phrase = |item: &Item| match *item {
        Item::Weekday(WeekdayRule::LastOf { weekday }) => format!("每月最后一个{}", name(weekday)),
        Item::Weekday(WeekdayRule::NthOf { weekday, nth }) => {
            format!("每月第{}个{}", ORDINALS[usize::from(nth - 1)], name(weekday))
        }
        Item::Numbers(Numbers::Span { from, to, step: 1 }) if from != to => format!("{}至{}", name(from), name(to)),
        Item::Numbers(numbers) => {
            and(&numbers.iter(Field::DayOfWeek, parts.dialect).map(name).collect::<Vec<_>>(), "和")
        }
        Item::Unset | Item::Date(_) => item.to_string(),
    };
    and(&parts.weekdays.iter().map(phrase).collect::<Vec<_>>(), "和")
}

fn months(items: &[Item]) -> String {
    unit(items, Field::Month, Dialect::Quartz)
}

fn years(items: &[Item]) -> String {
    unit(items, Field::Year, Dialect::Quartz)
}

fn and(texts: &[impl AsRef<str>], last_joint: &str) -> String {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    match texts.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{}{last_joint}{last}", rest.join("、")),
        None => String::new(),
    }
}

/// Puts a blank between Chinese characters and digits, as typesetters do.
fn spaced(text: &str) -> String {
    let is_han = |char: char| ('\u{4E00}'..='\u{9FFF}').contains(&char);
    let mut spaced = String::with_capacity(text.len() + 16);
    let mut before = ' ';
    for char in text.chars() {
        if is_han(before) && char.is_ascii_digit() || before.is_ascii_digit() && is_han(char) {
            spaced.push(' ');
        }
        spaced.push(char);
        before = char;
    }
    spaced
}
