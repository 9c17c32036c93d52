//! What a calendar and bounds take away, in words: clauses that follow those of the schedule.

use super::Lang;
use crate::calendar::{Calendar, Parts};
use crate::civil::{self, Month};
use crate::open::Active;
use crate::zone::Zone;

/// More days than these are only counted.
const LISTED_MAX: usize = 6;

const WEEKDAYS_EN: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const WEEKDAYS_ZH: [&str; 7] = ["周日", "周一", "周二", "周三", "周四", "周五", "周六"];

pub(crate) fn limits(calendar: Option<&Calendar>, active: Active, zone: &Zone, lang: Lang) -> String {
    let mut clauses = Vec::new();
    if let Some(calendar) = calendar {
        let parts = calendar.parts();
        match lang {
            Lang::En => english(&parts, &mut clauses),
            Lang::Zh => chinese(&parts, &mut clauses),
        }
    }
    let bound = |at| zone.format(at);
    match lang {
        Lang::En => {
            clauses.extend(active.from.map(|at| format!("not before {}", bound(at))));
            clauses.extend(active.until.map(|at| format!("not after {}", bound(at))));
        }
        Lang::Zh => {
            clauses.extend(active.from.map(|at| format!("自 {} 起", bound(at))));
            clauses.extend(active.until.map(|at| format!("至 {} 止", bound(at))));
        }
    }
    let joint = if lang == Lang::En { "; " } else { "；" };
    clauses.into_iter().map(|clause| format!("{joint}{clause}")).collect()
}

fn english(parts: &Parts<'_>, clauses: &mut Vec<String>) {
    let day = |(month, day): (u8, u8)| format!("{month:02}-{day:02}");
    let mut days: Vec<String> = weekdays(parts, &WEEKDAYS_EN).collect();
    let yearly = parts.yearly.iter().map(|(from, to)| match from == to {
        true => format!("every {}", day(*from)),
        false => format!("every {} to {}", day(*from), day(*to)),
    });
    days.extend(yearly);
    days.extend(spans(parts.excluded, " to "));
    if !days.is_empty() {
        let yet = match parts.included {
            [] => String::new(),
            included => {
                format!(", except {}", listed(&spans(included, " to "), ", ", |more| format!("and {more} more")))
            }
        };
        clauses.push(format!("not on {}{yet}", listed(&days, ", ", |more| format!("and {more} more"))));
    }
    let windows: Vec<String> =
        parts.windows.iter().map(|(from, to)| format!("{} to {}", clock(*from), clock(*to))).collect();
    if !windows.is_empty() {
        clauses.push(format!("not from {}", listed(&windows, ", ", |more| format!("and {more} more"))));
    }
}

fn chinese(parts: &Parts<'_>, clauses: &mut Vec<String>) {
    let day = |(month, day): (u8, u8)| format!("{month} 月 {day} 日");
    let mut days: Vec<String> = weekdays(parts, &WEEKDAYS_ZH).collect();
    let yearly = parts.yearly.iter().map(|(from, to)| match from == to {
        true => format!("每年 {}", day(*from)),
        false => format!("每年 {}至 {}", day(*from), day(*to)),
    });
    days.extend(yearly);
    days.extend(spans(parts.excluded, " 至 "));
    if !days.is_empty() {
        let yet = match parts.included {
            [] => String::new(),
            included => {
                format!("，但 {} 照常", listed(&spans(included, " 至 "), "、", |more| format!("另有 {more} 项")))
            }
        };
        clauses.push(format!("{} 不执行{yet}", listed(&days, "、", |more| format!("另有 {more} 项"))));
    }
    let windows: Vec<String> =
        parts.windows.iter().map(|(from, to)| format!("{} 至 {}", clock(*from), clock(*to))).collect();
    if !windows.is_empty() {
        clauses.push(format!("{} 不执行", listed(&windows, "、", |more| format!("另有 {more} 段"))));
    }
}

fn weekdays<'n>(parts: &Parts<'_>, names: &'n [&'static str; 7]) -> impl Iterator<Item = String> + use<'n> {
    let mask = parts.weekdays;
    // A week starts with Monday for most of those who plan one.
    (1..=7)
        .map(|number| number % 7)
        .filter(move |number| mask >> number & 1 == 1)
        .map(|number| names[number].to_owned())
}

fn spans(spans: &[(i64, i64)], to: &str) -> Vec<String> {
    let text = |(first, last): &(i64, i64)| match first == last {
        true => date(*first),
        false => format!("{}{to}{}", date(*first), date(*last)),
    };
    spans.iter().map(text).collect()
}

fn listed(texts: &[String], joint: &str, more: impl Fn(usize) -> String) -> String {
    match texts.get(..LISTED_MAX) {
        Some(first) if texts.len() > LISTED_MAX + 1 => {
            format!("{}{joint}{}", first.join(joint), more(texts.len() - LISTED_MAX))
        }
        Some(_) | None => texts.join(joint),
    }
}

fn date(day: i64) -> String {
    let (Month { year, month }, day) = civil::split_day(day);
    format!("{year:04}-{month:02}-{day:02}")
}

fn clock(second: i64) -> String {
    match second % 60 {
        0 => format!("{:02}:{:02}", second / 3_600, second / 60 % 60),
        seconds => format!("{:02}:{:02}:{seconds:02}", second / 3_600, second / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, DstPolicy, Schedule};

    #[test]
    fn what_is_left_out_is_told() {
        let zone = Zone::parse("Asia/Shanghai").unwrap();
        let active = Active { from: zone.day_start("2026-01-01").ok(), until: zone.day_end("2026-12-31").ok() };
        let check = |exclude: &[&str], include: &[&str], active: Active, en: &str, zh: &str| {
            let daily = Schedule::cron("0 2 * * *", Dialect::Unix, zone.clone(), DstPolicy::Standard).unwrap();
            let calendar = Calendar::parse(exclude, include).unwrap();
            let schedule = daily.with_calendar(Some(calendar)).with_active(active);
            assert_eq!(schedule.explain(Lang::En), format!("At 02:00, every day (Asia/Shanghai){en}"));
            assert_eq!(schedule.explain(Lang::Zh), format!("每天 02:00（Asia/Shanghai）{zh}"));
        };
        check(&[], &["2026-10-10"], Active::ALWAYS, "", "");
        check(
            &["sat", "sun", "2026-10-01..2026-10-07"],
            &["2026-10-10"],
            Active::ALWAYS,
            "; not on Saturday, Sunday, 2026-10-01 to 2026-10-07, except 2026-10-10",
            "；周六、周日、2026-10-01 至 2026-10-07 不执行，但 2026-10-10 照常",
        );
        check(
            &["12-25", "02-28..03-01", "22:00-06:00", "12:00-12:00:30"],
            &[],
            active,
            "; not on every 02-28 to 03-01, every 12-25; not from 12:00 to 12:00:30, 22:00 to 06:00; \
             not before 2026-01-01T00:00:00+08:00; not after 2026-12-31T23:59:59.999+08:00",
            "；每年 2 月 28 日至 3 月 1 日、每年 12 月 25 日 不执行；12:00 至 12:00:30、22:00 至 06:00 不执行；\
             自 2026-01-01T00:00:00+08:00 起；至 2026-12-31T23:59:59.999+08:00 止",
        );
        let many: Vec<String> = (1..=9).map(|month| format!("2026-{month:02}-01")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        check(
            &many,
            &[],
            Active::ALWAYS,
            "; not on 2026-01-01, 2026-02-01, 2026-03-01, 2026-04-01, 2026-05-01, 2026-06-01, and 3 more",
            "；2026-01-01、2026-02-01、2026-03-01、2026-04-01、2026-05-01、2026-06-01、另有 3 项 不执行",
        );
    }
}
