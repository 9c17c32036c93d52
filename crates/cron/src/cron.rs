//! A parsed expression: the text in canonical form, and what it matches.

use std::fmt::Write as _;

use crate::days::{ALL_WEEKDAYS, ByDate, ByWeekday, Days, Join};
use crate::error::{Error, ErrorCode};
use crate::field::{Field, YEAR_MIN, weekday_of};
use crate::item::{self, DateRule, Item, Numbers, WeekdayRule};
use crate::wall::{Wall, Years};

/// The two languages of expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Five fields, `minute hour day-of-month month day-of-week`, or a macro such as `@daily`. 0 and 7 are Sunday. If
    /// both day fields are restricted, a day need match only one; a field that starts with `*` is not a restriction.
    Unix,
    /// Six or seven fields, `second minute hour day-of-month month day-of-week [year]`. 1 is Sunday, and exactly one of
    /// the day fields is `?`.
    Quartz,
}

impl Dialect {
    /// The dialect an expression is in, by its number of fields: 6 or 7 are Quartz; all else is read as Unix.
    pub fn of(expr: &str) -> Self {
        match expr.split_ascii_whitespace().count() {
            6 | 7 if !expr.trim_start().starts_with('@') => Self::Quartz,
            _ => Self::Unix,
        }
    }

    /// `unix` or `quartz`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unix => "unix",
            Self::Quartz => "quartz",
        }
    }
}

/// A parsed cron expression. Equal if it has the same canonical text in the same dialect.
#[derive(Clone, Debug)]
pub struct Cron {
    dialect: Dialect,
    text: Box<str>,
    wall: Wall,
    is_interval: bool,
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        (self.dialect, &self.text) == (other.dialect, &other.text)
    }
}

impl Eq for Cron {}

/// Longer than any expression that someone could still read.
const TEXT_BYTES_MAX: usize = 1_024;

impl Cron {
    /// Parses an expression. `H` is an error here; see [`Cron::parse_hashed`].
    pub fn parse(text: &str, dialect: Dialect) -> Result<Self, Error> {
        Self::parse_with(text, dialect, None)
    }

    /// Parses an expression in which `H`, `H/15` or `H(0-29)` stand for numbers drawn from the seed: always the same
    /// for one seed, spread evenly over seeds. The canonical text has the numbers.
    pub fn parse_hashed(text: &str, dialect: Dialect, seed: u64) -> Result<Self, Error> {
        Self::parse_with(text, dialect, Some(seed))
    }

    fn parse_with(text: &str, dialect: Dialect, seed: Option<u64>) -> Result<Self, Error> {
        check_length(text)?;
        let fields = parse_fields(text, dialect, seed)?;
        let canonical = canonical(&fields);
        // Drawn numbers are longer than `H`; what is kept must be readable again.
        check_length(&canonical)?;
        let items = |field| fields.iter().find(|(known, _)| *known == field).map(|(_, items)| items.as_slice());
        // Unix has no seconds; a field that is left out is its minimum for seconds, and everything for years.
        let seconds = items(Field::Second).map_or(1, |items| bits(items, Field::Second, dialect));
        let is_open = |field| items(field).is_some_and(|items| items.iter().any(|item| item.is_open()));
        let mask = |field| bits(items(field).unwrap_or_default(), field, dialect);
        let wall = Wall {
            seconds,
            minutes: mask(Field::Minute),
            hours: mask(Field::Hour),
            days: days(
                items(Field::DayOfMonth).unwrap_or_default(),
                items(Field::DayOfWeek).unwrap_or_default(),
                dialect,
            ),
            months: mask(Field::Month),
            years: items(Field::Year).and_then(years),
        };
        let is_interval = [Field::Second, Field::Minute, Field::Hour].into_iter().any(is_open);
        Ok(Self { dialect, text: canonical.into(), wall, is_interval })
    }

    /// The dialect it was parsed in.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The canonical text: single blanks, numbers for names, fields for macros, drawn numbers for `H`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it goes on within the hour or day (`*/15 * * * *`) rather than naming its times (`30 2 * * *`).
    /// This is what [`crate::DstPolicy::Standard`] asks.
    pub fn is_interval(&self) -> bool {
        self.is_interval
    }

    pub(crate) fn wall(&self) -> &Wall {
        &self.wall
    }

    /// The items of each field again, for explaining.
    pub(crate) fn fields(&self) -> Vec<(Field, Vec<Item>)> {
        parse_fields(&self.text, self.dialect, None).expect("the canonical text was parsed before")
    }
}

fn check_length(text: &str) -> Result<(), Error> {
    if text.len() <= TEXT_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the expression has {} bytes, expected at most {TEXT_BYTES_MAX}", text.len());
    Err(Error::new(ErrorCode::TooLong, message))
}

fn parse_fields(text: &str, dialect: Dialect, seed: Option<u64>) -> Result<Vec<(Field, Vec<Item>)>, Error> {
    let trimmed = text.trim_ascii();
    if trimmed.starts_with('@') {
        let expanded = expand_macro(trimmed, dialect).map_err(|error| error.at(offset_in(text, trimmed)))?;
        return parse_fields(expanded, dialect, seed);
    }
    let parts: Vec<&str> = text.split_ascii_whitespace().collect();
    check_count(&parts, dialect)?;
    let mut fields = Vec::with_capacity(parts.len());
    for (part, field) in parts.iter().zip(Field::all(dialect)) {
        let source = item::Source { text: part, at: offset_in(text, part), field: *field, dialect, seed };
        let items = item::parse(source).map_err(|error| hint_other_dialect(error, &parts, dialect))?;
        fields.push((*field, items));
    }
    if dialect == Dialect::Quartz {
        check_question_mark(&fields, &parts, text)?;
    }
    Ok(fields)
}

/// Byte offset of a part in the text that it was cut from.
fn offset_in(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

const MACROS: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

fn expand_macro(name: &str, dialect: Dialect) -> Result<&'static str, Error> {
    let shown: String = name.chars().take(20).collect();
    let found = MACROS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    match (found, dialect) {
        (Some((_, expanded)), Dialect::Unix) => Ok(expanded),
        (Some((_, expanded)), Dialect::Quartz) => {
            let message = format!("macro \"{shown}\" is of the Unix dialect, expected 6 or 7 fields");
            Err(Error::new(ErrorCode::UnknownMacro, message).hint(format!("in the Unix dialect it is {expanded}")))
        }
        (None, _) => {
            let message = format!("unknown macro \"{shown}\", expected one like @daily");
            Err(Error::new(ErrorCode::UnknownMacro, message)
                .hint("there are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually"))
        }
    }
}

fn check_count(parts: &[&str], dialect: Dialect) -> Result<(), Error> {
    let (is_right, expected) = match dialect {
        Dialect::Unix => (parts.len() == 5, "5 (minute hour day-of-month month day-of-week)"),
        Dialect::Quartz => {
            ((6..=7).contains(&parts.len()), "6 or 7 (second minute hour day-of-month month day-of-week [year])")
        }
    };
    if is_right {
        return Ok(());
    }
    if parts.is_empty() {
        return Err(Error::new(ErrorCode::Empty, format!("the expression is empty, expected {expected} fields")));
    }
    let error = Error::new(ErrorCode::FieldCount, format!("{} fields, expected {expected}", parts.len()));
    Err(match (dialect, parts.len()) {
        _ if parts.first().is_some_and(|first| first.contains("TZ=")) => {
            error.hint("give the zone beside the expression, not in it")
        }
        (Dialect::Unix, 6 | 7) => error.hint("this looks like the Quartz dialect, which starts with seconds"),
        (Dialect::Quartz, 5) => error.hint("this looks like the Unix dialect, which has no seconds"),
        (Dialect::Unix | Dialect::Quartz, _) => error,
    })
}

/// Adds what was probably meant when a field fails that would be right in the other dialect.
fn hint_other_dialect(error: Error, parts: &[&str], dialect: Dialect) -> Error {
    if error.hint.is_some() || dialect == Dialect::Quartz || error.code != ErrorCode::QuestionMark {
        return error;
    }
    let fields = parts.join(" ");
    error.hint(format!("the Quartz dialect has one more field, the seconds: 0 {fields}"))
}

fn check_question_mark(fields: &[(Field, Vec<Item>)], parts: &[&str], text: &str) -> Result<(), Error> {
    let is_unset = |wanted| fields.iter().any(|(field, items)| *field == wanted && items.contains(&Item::Unset));
    let (by_date, by_weekday) = (is_unset(Field::DayOfMonth), is_unset(Field::DayOfWeek));
    if by_date != by_weekday {
        return Ok(());
    }
    let message = if by_date {
        "\"?\" is in both day of month and day of week, expected it in exactly one"
    } else {
        "day of month and day of week are both given, expected \"?\" in one of them"
    };
    let weekday = parts.get(5).copied().unwrap_or("");
    let error =
        Error::new(ErrorCode::QuestionMark, message).at(offset_in(text, weekday)).in_field(Field::DayOfWeek.name());
    let mut mended = parts.to_vec();
    match (by_date, weekday) {
        (true, _) => mended[5] = "*",
        (false, "*") => mended[5] = "?",
        (false, _) if parts.get(3) == Some(&"*") => mended[3] = "?",
        (false, _) => return Err(error.hint("days that match either of two rules need two jobs, or the Unix dialect")),
    }
    Err(error.hint(format!("did you mean \"{}\"?", mended.join(" "))))
}

fn canonical(fields: &[(Field, Vec<Item>)]) -> String {
    let mut text = String::new();
    for (place, (_, items)) in fields.iter().enumerate() {
        if place > 0 {
            text.push(' ');
        }
        for (rank, item) in items.iter().enumerate() {
            let comma = if rank > 0 { "," } else { "" };
            write!(text, "{comma}{item}").expect("a String takes all");
        }
    }
    text
}

/// The plain numbers of a field; `?` and the day rules have none.
fn numbers(items: &[Item], field: Field, dialect: Dialect) -> impl Iterator<Item = u16> {
    let plain = items.iter().filter_map(|item| match item {
        Item::Numbers(numbers) => Some(*numbers),
        Item::Unset | Item::Date(_) | Item::Weekday(_) => None,
    });
    plain.flat_map(move |numbers| numbers.iter(field, dialect))
}

fn bits(items: &[Item], field: Field, dialect: Dialect) -> u64 {
    numbers(items, field, dialect).fold(0, |mask, number| mask | 1 << number)
}

fn years(items: &[Item]) -> Option<Box<Years>> {
    if items.contains(&Item::EVERY) {
        return None;
    }
    let mut years: Years = [0; 4];
    for year in numbers(items, Field::Year, Dialect::Quartz) {
        let place = year - YEAR_MIN;
        years[usize::from(place / 64)] |= 1 << (place % 64);
    }
    Some(Box::new(years))
}

fn days(by_date: &[Item], by_weekday: &[Item], dialect: Dialect) -> Days {
    let is_and = dialect == Dialect::Quartz || starts_with_star(by_date) || starts_with_star(by_weekday);
    Days {
        by_date: date_rule(by_date, dialect),
        by_weekday: weekday_rule(by_weekday, dialect),
        join: if is_and { Join::And } else { Join::Or },
    }
}

/// Vixie cron does not call a day field a restriction if its text starts with `*`, even `*/2`.
pub(crate) fn starts_with_star(items: &[Item]) -> bool {
    matches!(items.first(), Some(Item::Numbers(Numbers::Every { .. })))
}

fn date_rule(items: &[Item], dialect: Dialect) -> ByDate {
    let mut rule = ByDate { days: narrow_mask(bits(items, Field::DayOfMonth, dialect)), ..ByDate::default() };
    for item in items {
        match *item {
            Item::Unset => rule.days = u32::MAX,
            Item::Numbers(_) => {}
            Item::Date(DateRule::Last { before }) => rule.before_last |= 1 << before,
            Item::Date(DateRule::LastWeekday { before }) => rule.nearest_before_last |= 1 << before,
            Item::Date(DateRule::NearestWeekday { day }) => rule.nearest |= 1 << day,
            Item::Weekday(_) => unreachable!("the parser gives these to day of week only"),
        }
    }
    rule
}

fn weekday_rule(items: &[Item], dialect: Dialect) -> ByWeekday {
    let mut rule = ByWeekday::default();
    for number in numbers(items, Field::DayOfWeek, dialect) {
        rule.every |= 1 << weekday_of(number, dialect);
    }
    for item in items {
        match *item {
            Item::Unset => rule.every = ALL_WEEKDAYS,
            Item::Numbers(_) => {}
            Item::Weekday(WeekdayRule::LastOf { weekday }) => rule.last |= 1 << weekday_of(weekday, dialect),
            Item::Weekday(WeekdayRule::NthOf { weekday, nth }) => {
                rule.nth[usize::from(nth - 1)] |= 1 << weekday_of(weekday, dialect);
            }
            Item::Date(_) => unreachable!("the parser gives these to day of month only"),
        }
    }
    rule
}

fn narrow_mask(mask: u64) -> u32 {
    u32::try_from(mask).expect("days end with 31")
}
