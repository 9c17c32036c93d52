//! Schedules in words, English and Chinese.
//!
//! The canonical text is parsed again for this, so that a schedule need not keep its items. A language is a module with
//! the same functions; the order of clauses differs (Chinese says the large unit first), so they share no template.

mod en;
mod limits;
mod zh;

pub(crate) use limits::limits;

use crate::cron::{Cron, Dialect, starts_with_star};
use crate::dst::DstPolicy;
use crate::field::Field;
use crate::item::{Item, Numbers};
use crate::zone::Zone;

/// The languages of [`crate::Schedule::explain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lang {
    /// English.
    En,
    /// Chinese, simplified.
    Zh,
}

/// The items of an expression by field.
struct Parts {
    dialect: Dialect,
    seconds: Vec<Item>,
    minutes: Vec<Item>,
    hours: Vec<Item>,
    dates: Vec<Item>,
    months: Vec<Item>,
    weekdays: Vec<Item>,
    years: Vec<Item>,
}

pub(crate) fn cron(cron: &Cron, dst: DstPolicy, zone: &Zone, lang: Lang) -> String {
    let parts = Parts::of(cron);
    // Where clocks never change there is nothing to say about it.
    let rule = match dst {
        _ if zone.is_fixed() => None,
        DstPolicy::Standard => None,
        DstPolicy::Quartz | DstPolicy::Custom(_) => Some(dst.rule(cron.is_interval())),
    };
    match lang {
        Lang::En => en::cron(&parts, rule, zone.name()),
        Lang::Zh => zh::cron(&parts, rule, zone.name()),
    }
}

pub(crate) fn every(period_ms: i64, lang: Lang) -> String {
    match lang {
        Lang::En => format!("Every {}", en::duration(period_ms)),
        Lang::Zh => format!("每 {}", zh::duration(period_ms)),
    }
}

pub(crate) fn delay(delay_ms: i64, lang: Lang) -> String {
    match lang {
        Lang::En => format!("{} after the end of the previous run", en::duration(delay_ms)),
        Lang::Zh => format!("上次运行结束后 {}", zh::duration(delay_ms)),
    }
}

pub(crate) fn once(at: &str, lang: Lang) -> String {
    match lang {
        Lang::En => format!("Once, at {at}"),
        Lang::Zh => format!("仅一次，{at}"),
    }
}

impl Parts {
    fn of(cron: &Cron) -> Self {
        let mut fields = cron.fields();
        let mut take = |wanted, absent: Item| {
            let found = fields.iter_mut().find(|(field, _)| *field == wanted);
            found.map_or_else(|| vec![absent], |(_, items)| std::mem::take(items))
        };
        Self {
            dialect: cron.dialect(),
            seconds: take(Field::Second, Item::value(0)),
            minutes: take(Field::Minute, Item::value(0)),
            hours: take(Field::Hour, Item::value(0)),
            dates: take(Field::DayOfMonth, Item::Unset),
            months: take(Field::Month, Item::EVERY),
            weekdays: take(Field::DayOfWeek, Item::Unset),
            years: take(Field::Year, Item::EVERY),
        }
    }

    /// The times of day, if they are few enough to be named: `02:30`, or `02:30:15` if seconds matter.
    fn clock_times(&self) -> Option<Vec<String>> {
        let (hours, minutes, seconds) = (values(&self.hours)?, values(&self.minutes)?, values(&self.seconds)?);
        if hours.len() * minutes.len() * seconds.len() > CLOCK_TIMES_MAX {
            return None;
        }
        let mut times = Vec::new();
        for hour in &hours {
            for minute in &minutes {
                times.extend(seconds.iter().map(|second| match seconds.as_slice() {
                    [0] => format!("{hour:02}:{minute:02}"),
                    _ => format!("{hour:02}:{minute:02}:{second:02}"),
                }));
            }
        }
        Some(times)
    }

    /// Whether the field before seconds needs no word: seconds are just `0`.
    fn has_seconds(&self) -> bool {
        self.seconds != [Item::value(0)]
    }

    /// How the day fields restrict days; see [`crate::Dialect`] for the two ways to join them.
    fn days(&self) -> DayClause {
        let is_free = |items: &[Item]| matches!(items, [Item::Unset | Item::EVERY]);
        match (is_free(&self.dates), is_free(&self.weekdays)) {
            (true, true) => DayClause::All,
            (false, true) => DayClause::Dates,
            (true, false) => DayClause::Weekdays,
            (false, false) if starts_with_star(&self.dates) || starts_with_star(&self.weekdays) => DayClause::Both,
            (false, false) => DayClause::Either,
        }
    }
}

enum DayClause {
    All,
    Dates,
    Weekdays,
    /// A day must match both fields.
    Both,
    /// A day must match one of the fields.
    Either,
}

/// More times of day than this are told by field.
const CLOCK_TIMES_MAX: usize = 6;

/// The numbers of a field that names single numbers only, in order.
fn values(items: &[Item]) -> Option<Vec<u16>> {
    let single = |item: &Item| match *item {
        Item::Numbers(Numbers::Span { from, to, .. }) if from == to => Some(from),
        Item::Unset | Item::Numbers(_) | Item::Date(_) | Item::Weekday(_) => None,
    };
    let mut values = items.iter().map(single).collect::<Option<Vec<u16>>>()?;
    values.sort_unstable();
    values.dedup();
    Some(values)
}

/// A duration as a count of its largest whole unit: milliseconds, seconds, minutes, hours or days (0 to 4).
fn whole_unit(ms: i64) -> (i64, usize) {
    let units = [(86_400_000, 4), (3_600_000, 3), (60_000, 2), (1_000, 1)];
    let fits = units.into_iter().find(|(unit_ms, _)| ms % unit_ms == 0);
    fits.map_or((ms, 0), |(unit_ms, unit)| (ms / unit_ms, unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dst, Gap, Overlap, Schedule, UnixMs};

    fn check(expr: &str, en: &str, zh: &str) {
        let zone = Zone::parse("Asia/Shanghai").unwrap();
        let schedule = Schedule::cron(expr, Dialect::of(expr), zone, DstPolicy::Standard).unwrap();
        assert_eq!(schedule.explain(Lang::En), format!("{en} (Asia/Shanghai)"), "{expr}");
        assert_eq!(schedule.explain(Lang::Zh), format!("{zh}（Asia/Shanghai）"), "{expr}");
    }

    #[test]
    fn times_are_told() {
        check("0 2 * * *", "At 02:00, every day", "每天 02:00");
        check("0 30 2 * * ?", "At 02:30, every day", "每天 02:30");
        check("15 30 2 * * ?", "At 02:30:15, every day", "每天 02:30:15");
        check("0 9,17 * * *", "At 09:00 and 17:00, every day", "每天 09:00 和 17:00");
        check("*/15 * * * *", "Every 15 minutes", "每 15 分钟");
        check("* * * * *", "Every minute", "每分钟");
        check("* * * * * ?", "Every second", "每秒");
        check("0/10 * * * * ?", "Every 10 seconds", "每 10 秒");
        check("*/7 * * * *", "Every 7 minutes from minute 0", "从第 0 分起每 7 分钟");
        check("0 5/15 * * * ?", "Every 15 minutes from minute 5", "从第 5 分起每 15 分钟");
        check("5 * * * *", "At minute 5, every hour", "每小时，第 5 分");
        check("0 */2 * * *", "At minute 0, every 2 hours", "每 2 小时，第 0 分");
        check("*/15 2 * * *", "Every 15 minutes, in hour 2", "每天 2 点，每 15 分钟");
        check("0 0/5 14,18 * * ?", "Every 5 minutes, in hours 14 and 18", "每天 14 点和 18 点，每 5 分钟");
        check(
            "*/10 9-17 * * 1-5",
            "Every 10 minutes, in hours 9 through 17, on Monday through Friday",
            "周一至周五，9 至 17 点，每 10 分钟",
        );
        check(
            "0,30 10-20/5 * * *",
            "At minutes 0 and 30, every 5 hours from hour 10 through 20",
            "每天 10 至 20 点每 5 小时，第 0 分和第 30 分",
        );
    }

    #[test]
    fn days_are_told() {
        check("30 4 1,15 * *", "At 04:30, on days 1 and 15 of the month", "每月 1 日和 15 日 04:30");
        check("0 0 12 L * ?", "At 12:00, on the last day of the month", "每月最后一天 12:00");
        check("0 0 12 L-3 * ?", "At 12:00, 3 days before the last day of the month", "每月最后一天前 3 天 12:00");
        check("0 0 9 LW * ?", "At 09:00, on the last weekday of the month", "每月最后一个工作日（周一至周五）09:00");
        check(
            "0 0 9 15W * ?",
            "At 09:00, on the weekday nearest to day 15 of the month",
            "每月最接近 15 日的工作日（周一至周五）09:00",
        );
        check("0 0 9 ? * 6#3", "At 09:00, on the third Friday of the month", "每月第三个周五 09:00");
        check("0 0 9 ? * FRIL", "At 09:00, on the last Friday of the month", "每月最后一个周五 09:00");
        check("0 0 * * 0", "At 00:00, on Sunday", "周日 00:00");
        check(
            "0 0 0 1 JAN,JUL ?",
            "At 00:00, on day 1 of the month, in January and July",
            "1 月和 7 月，每月 1 日 00:00",
        );
        check(
            "0 0 0 1 1/3 ?",
            "At 00:00, on day 1 of the month, every 3 months from January",
            "从 1 月起每 3 个月，每月 1 日 00:00",
        );
        check(
            "0 0 0 1 1 ? 2026-2028",
            "At 00:00, on day 1 of the month, in January, in 2026 through 2028",
            "2026 至 2028 年，1 月，每月 1 日 00:00",
        );
        check("0 0 13 * 5", "At 00:00, on day 13 of the month or on Friday", "每月 13 日或周五 00:00");
        check(
            "0 0 */2 * 1",
            "At 00:00, every 2 days from day 1 of the month that is also Monday",
            "每月从 1 日起每 2 天且为周一 00:00",
        );
        check("0 0 0 1,L * ?", "At 00:00, on day 1 and the last day of the month", "每月 1 日和最后一天 00:00");
        check("0 0 0 ? * SAT-SUN", "At 00:00, on Saturday through Sunday", "周六至周日 00:00");
    }

    #[test]
    fn other_schedules_and_explicit_policies_are_told() {
        let rate = Schedule::every(90_000).unwrap();
        assert_eq!(
            (rate.explain(Lang::En).as_str(), rate.explain(Lang::Zh).as_str()),
            ("Every 90 seconds", "每 90 秒")
        );
        let delay = Schedule::delay(60_000).unwrap();
        assert_eq!(delay.explain(Lang::En), "1 minute after the end of the previous run");
        assert_eq!(delay.explain(Lang::Zh), "上次运行结束后 1 分钟");
        let once = Schedule::once(UnixMs(0)).with_zone(Zone::parse("+08:00").unwrap());
        assert_eq!(once.explain(Lang::En), "Once, at 1970-01-01T08:00:00+08:00");
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        let dst = DstPolicy::Custom(Dst { gap: Gap::RunAfter, overlap: Overlap::Both });
        let custom = Schedule::cron("30 2 * * *", Dialect::Unix, berlin, dst).unwrap();
        assert_eq!(
            custom.explain(Lang::En),
            "At 02:30, every day (Europe/Berlin; skipped time runs once after the change, repeated time runs twice)"
        );
        assert_eq!(
            custom.explain(Lang::Zh),
            "每天 02:30（Europe/Berlin；被跳过的时间在调时后补一次，重复的时间执行两次）"
        );
    }
}
