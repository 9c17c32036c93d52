//! One item of a field (`5`, `1-5/2`, `*/15`, `L-3W`, `FRI#2`, `H/10`): its meaning, its parser, its canonical text.
//!
//! The parser is strict where Quartz is lenient: what would be ignored silently is refused, with its place.

use std::fmt;

use crate::cron::Dialect;
use crate::error::{Error, ErrorCode};
use crate::field::Field;
use crate::hash;
use crate::text::edits;

/// What an item says. Numbers are those of the dialect; weekdays too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// `?`: the other day field decides.
    Unset,
    Numbers(Numbers),
    /// In day of month only.
    Date(DateRule),
    /// In day of week only.
    Weekday(WeekdayRule),
}

/// Numbers of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// `*` (step 1) or `*/n`.
    Every { step: u16 },
    /// `a/n`: from `a` to the end of the field.
    From { from: u16, step: u16 },
    /// `a`, `a-b`, `a-b/n`; wraps around the end of the field if `from > to`.
    Span { from: u16, to: u16, step: u16 },
}

/// Days that depend on the month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DateRule {
    /// `L`, `L-n`: this many days before the last day of the month.
    Last { before: u8 },
    /// `LW`, `L-nW`: the weekday (Monday to Friday) nearest to that day.
    LastWeekday { before: u8 },
    /// `nW`: the weekday nearest to day n, inside its month.
    NearestWeekday { day: u8 },
}

/// One such weekday in a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WeekdayRule {
    /// `6L`, `FRIL`: the last such day of the month.
    LastOf { weekday: u16 },
    /// `6#3`, `FRI#3`: the third such day of the month.
    NthOf { weekday: u16, nth: u8 },
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unset => f.write_str("?"),
            Self::Numbers(Numbers::Every { step: 1 }) => f.write_str("*"),
            Self::Numbers(Numbers::Every { step }) => write!(f, "*/{step}"),
            Self::Numbers(Numbers::From { from, step }) => write!(f, "{from}/{step}"),
            Self::Numbers(Numbers::Span { from, to, .. }) if from == to => write!(f, "{from}"),
            Self::Numbers(Numbers::Span { from, to, step: 1 }) => write!(f, "{from}-{to}"),
            Self::Numbers(Numbers::Span { from, to, step }) => write!(f, "{from}-{to}/{step}"),
            Self::Date(DateRule::Last { before: 0 }) => f.write_str("L"),
            Self::Date(DateRule::Last { before }) => write!(f, "L-{before}"),
            Self::Date(DateRule::LastWeekday { before: 0 }) => f.write_str("LW"),
            Self::Date(DateRule::LastWeekday { before }) => write!(f, "L-{before}W"),
            Self::Date(DateRule::NearestWeekday { day }) => write!(f, "{day}W"),
            Self::Weekday(WeekdayRule::LastOf { weekday }) => write!(f, "{weekday}L"),
            Self::Weekday(WeekdayRule::NthOf { weekday, nth }) => write!(f, "{weekday}#{nth}"),
        }
    }
}

impl Item {
    /// `*`.
    pub(crate) const EVERY: Self = Self::Numbers(Numbers::Every { step: 1 });

    pub(crate) fn value(number: u16) -> Self {
        Self::Numbers(Numbers::value(number))
    }

    /// Whether the item goes on through its field, rather than naming its places.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Numbers(Numbers::Every { .. } | Numbers::From { .. }))
    }
}

impl Numbers {
    pub(crate) fn value(number: u16) -> Self {
        Self::Span { from: number, to: number, step: 1 }
    }

    /// The numbers as the dialect writes them (Unix Sunday is 0, and 7 too), in order of the stride.
    pub(crate) fn iter(self, field: Field, dialect: Dialect) -> impl Iterator<Item = u16> {
        let (min, last) = (field.min(dialect), field.last(dialect));
        let count = last - min + 1;
        let (from, to, step) = match self {
            Self::Every { step } => (min, last, step),
            Self::From { from, step } => (from, last.max(from), step),
            // A range that wraps is counted on past the end, so that its step keeps its stride.
            Self::Span { from, to, step } if from > to => (from, to + count, step),
            Self::Span { from, to, step } => (from, to, step),
        };
        let wrap = move |number: u16| if number > field.max() { number - count } else { number };
        (from..=to).step_by(usize::from(step)).map(wrap)
    }
}

/// Where a field stands in its expression, and how to read it.
#[derive(Clone, Copy)]
pub(crate) struct Source<'t> {
    pub(crate) text: &'t str,
    /// Byte offset of `text` in the whole expression.
    pub(crate) at: usize,
    pub(crate) field: Field,
    pub(crate) dialect: Dialect,
    pub(crate) seed: Option<u64>,
}

/// Reads the comma-separated items of one field.
pub(crate) fn parse(source: Source<'_>) -> Result<Vec<Item>, Error> {
    let mut cursor = Cursor { source, next: 0 };
    let mut items = Vec::new();
    loop {
        items.push(cursor.item().map_err(|error| error.in_field(source.field.name()))?);
        if cursor.next == source.text.len() {
            break;
        }
        if !cursor.eat(b',') {
            return Err(cursor.unexpected().in_field(source.field.name()));
        }
    }
    if items.len() > 1 && items.contains(&Item::Unset) {
        let error = Error::new(ErrorCode::QuestionMark, "\"?\" must stand alone, expected it without other items");
        return Err(error.at(source.at).in_field(source.field.name()));
    }
    Ok(items)
}

struct Cursor<'t> {
    source: Source<'t>,
    next: usize,
}

impl Cursor<'_> {
    fn item(&mut self) -> Result<Item, Error> {
        let quartz = self.source.dialect == Dialect::Quartz;
        match self.peek() {
            None | Some(b',') => {
                Err(self.error(ErrorCode::BadSyntax, "an item is missing, expected one on each side of a comma"))
            }
            Some(b'*') => {
                self.next += 1;
                self.every()
            }
            Some(b'/') if quartz => self.every(),
            Some(b'?') => self.unset(),
            Some(letter) if letter.is_ascii_alphabetic() => self.word(),
            Some(digit) if digit.is_ascii_digit() => {
                let from = self.number()?;
                self.after_value(from, false)
            }
            Some(_) => Err(self.unexpected()),
        }
    }

    /// After `*`, or at a leading `/` (which Quartz reads as `*/`).
    fn every(&mut self) -> Result<Item, Error> {
        let step = if self.eat(b'/') { self.step(self.source.field.step_max())? } else { 1 };
        Ok(Item::Numbers(Numbers::Every { step }))
    }

    fn unset(&mut self) -> Result<Item, Error> {
        let field = self.source.field;
        if self.source.dialect == Dialect::Unix {
            let error = self.error(ErrorCode::QuestionMark, "\"?\" is of the Quartz dialect, expected \"*\" here");
            return Err(error);
        }
        if !matches!(field, Field::DayOfMonth | Field::DayOfWeek) {
            return Err(self
                .error(ErrorCode::QuestionMark, "\"?\" belongs in day of month or day of week, expected \"*\" here"));
        }
        self.next += 1;
        Ok(Item::Unset)
    }

    /// A name, `L`, `LW`, `FRIL` or `H`.
    fn word(&mut self) -> Result<Item, Error> {
        let start = self.next;
        let rest = self.source.text.get(start..).unwrap_or("");
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let word = rest.get(..letters).unwrap_or("").to_ascii_uppercase();
        self.next += letters;
        let field = self.source.field;
        match (word.as_str(), field) {
            ("H", _) => self.hashed(start),
            ("L", Field::DayOfMonth) if self.eat(b'-') => {
                let before = self.bounded(0, 30)?;
                Ok(if self.eat_letter(b'W') {
                    Item::Date(DateRule::LastWeekday { before })
                } else {
                    Item::Date(DateRule::Last { before })
                })
            }
            ("L", Field::DayOfMonth) => Ok(Item::Date(DateRule::Last { before: 0 })),
            ("LW", Field::DayOfMonth) => Ok(Item::Date(DateRule::LastWeekday { before: 0 })),
            ("L", Field::DayOfWeek) if self.source.dialect == Dialect::Quartz => Ok(Item::value(7)),
            ("L", Field::DayOfWeek) => Err(self.error_at(
                start,
                ErrorCode::BadSyntax,
                "\"L\" needs a weekday before it, expected one like 5L for the last Friday",
            )),
            _ => {
                let name = word.strip_suffix('L').filter(|name| name.len() == 3 && field == Field::DayOfWeek);
                let number = field.number_of(name.unwrap_or(&word), self.source.dialect);
                match (number, name) {
                    (Some(weekday), Some(_)) => Ok(Item::Weekday(WeekdayRule::LastOf { weekday })),
                    (Some(number), None) => self.after_value(number, true),
                    (None, _) => Err(self.bad_name(start, &word)),
                }
            }
        }
    }

    /// After a number or name: a range, a step, `W`, `L`, `#`, or nothing.
    fn after_value(&mut self, from: u16, is_name: bool) -> Result<Item, Error> {
        let field = self.source.field;
        if self.eat(b'-') {
            return self.range(from, is_name);
        }
        if self.peek() == Some(b'/') {
            self.refuse_step_after_name(is_name)?;
            self.next += 1;
            return Ok(Item::Numbers(Numbers::From { from, step: self.step(field.step_max())? }));
        }
        if field == Field::DayOfMonth && self.eat_letter(b'W') {
            return Ok(Item::Date(DateRule::NearestWeekday { day: crate::civil::narrow(i64::from(from)) }));
        }
        if field == Field::DayOfWeek && !is_name && self.eat_letter(b'L') {
            return Ok(Item::Weekday(WeekdayRule::LastOf { weekday: from }));
        }
        if field == Field::DayOfWeek && self.eat(b'#') {
            return Ok(Item::Weekday(WeekdayRule::NthOf { weekday: from, nth: self.bounded(1, 5)? }));
        }
        Ok(Item::value(from))
    }

    fn range(&mut self, from: u16, from_is_name: bool) -> Result<Item, Error> {
        let start = self.next;
        let to_is_name = self.peek().is_some_and(|byte| byte.is_ascii_alphabetic());
        let to = match self.peek() {
            Some(byte) if byte.is_ascii_alphanumeric() => self.range_end()?,
            _ => return Err(self.error(ErrorCode::BadRange, "a range has no end, expected one like 1-5")),
        };
        if self.source.dialect == Dialect::Quartz && from_is_name != to_is_name {
            let message = "a range mixes a name and a number, expected both of one kind";
            return Err(self.error_at(start, ErrorCode::BadRange, message));
        }
        let to = self.checked_range_end(from, to, start)?;
        if self.peek() == Some(b'/') {
            self.refuse_step_after_name(from_is_name)?;
            self.next += 1;
            return Ok(Item::Numbers(Numbers::Span { from, to, step: self.step(u16::MAX)? }));
        }
        Ok(Item::Numbers(Numbers::Span { from, to, step: 1 }))
    }

    fn range_end(&mut self) -> Result<u16, Error> {
        let start = self.next;
        let rest = self.source.text.get(start..).unwrap_or("");
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        if letters == 0 {
            return self.number();
        }
        let word = rest.get(..letters).unwrap_or("").to_ascii_uppercase();
        self.next += letters;
        self.source.field.number_of(&word, self.source.dialect).ok_or_else(|| self.bad_name(start, &word))
    }

    /// Quartz wraps a backwards range around the end of its field; Unix does not, but SAT-SUN ends on its other Sunday.
    fn checked_range_end(&self, from: u16, to: u16, at: usize) -> Result<u16, Error> {
        let field = self.source.field;
        match self.source.dialect {
            _ if from <= to => Ok(to),
            Dialect::Quartz if field != Field::Year => Ok(to),
            Dialect::Unix if field == Field::DayOfWeek && to == 0 => Ok(7),
            Dialect::Unix | Dialect::Quartz => {
                let (min, max) = (field.min(self.source.dialect), field.last(self.source.dialect));
                let error = self.error_at(
                    at,
                    ErrorCode::BadRange,
                    format!("range {from}-{to} goes backwards, expected it upwards"),
                );
                Err(error.hint(format!("to wrap around, write {from}-{max},{min}-{to}")))
            }
        }
    }

    /// Quartz ignores a step after a name (`MON-FRI/2` fires on every weekday): refused rather than guessed.
    fn refuse_step_after_name(&self, is_name: bool) -> Result<(), Error> {
        if is_name && self.source.dialect == Dialect::Quartz {
            let error =
                self.error(ErrorCode::BadStep, "a step after a name is ignored by Quartz, expected numbers like 2-6/2");
            return Err(error);
        }
        Ok(())
    }

    /// After `H`: `(a-b)`, `/n`, both or nothing.
    fn hashed(&mut self, start: usize) -> Result<Item, Error> {
        let (field, dialect) = (self.source.field, self.source.dialect);
        let Some(seed) = self.source.seed else {
            let message = "\"H\" is hashed from the job's name, expected a number without a job";
            return Err(self.error_at(start, ErrorCode::NoSeed, message));
        };
        if field == Field::Year {
            return Err(self.error_at(start, ErrorCode::BadSyntax, "\"H\" is not for years, expected a year"));
        }
        let (min, max) = match field {
            // Every month has a 28th.
            Field::DayOfMonth => (1, 28),
            Field::Second | Field::Minute | Field::Hour | Field::Month | Field::DayOfWeek | Field::Year => {
                (field.min(dialect), field.last(dialect))
            }
        };
        let span = if self.eat(b'(') { Some(self.hashed_span()?) } else { None };
        let (from, to) = span.unwrap_or((min, max));
        if self.eat(b'/') {
            let step = self.step((to - from + 1).min(field.step_max()))?;
            let from = from + hash::pick(seed, field, step);
            return Ok(if span.is_some() {
                Item::Numbers(Numbers::Span { from, to, step })
            } else {
                Item::Numbers(Numbers::From { from, step })
            });
        }
        Ok(Item::value(from + hash::pick(seed, field, to - from + 1)))
    }

    fn hashed_span(&mut self) -> Result<(u16, u16), Error> {
        let from = self.number()?;
        if !self.eat(b'-') {
            return Err(self.error(ErrorCode::BadRange, "a hashed range has no end, expected one like H(0-29)"));
        }
        let at = self.next;
        let to = self.number()?;
        if !self.eat(b')') {
            return Err(self.error(ErrorCode::BadSyntax, "a hashed range is not closed, expected one like H(0-29)"));
        }
        if from > to {
            return Err(self.error_at(
                at,
                ErrorCode::BadRange,
                format!("range {from}-{to} goes backwards, expected it upwards"),
            ));
        }
        Ok((from, to))
    }

    /// A number inside the field.
    fn number(&mut self) -> Result<u16, Error> {
        let (field, dialect) = (self.source.field, self.source.dialect);
        let (min, max) = (field.min(dialect), field.max());
        let start = self.next;
        let number = self.digits()?;
        if (min..=max).contains(&number) {
            return Ok(number);
        }
        let written = self.source.text.get(start..self.next).unwrap_or("");
        let error =
            self.error_at(start, ErrorCode::OutOfRange, format!("{written} is out of range, expected {min}-{max}"));
        Err(match (field, dialect, number) {
            (Field::DayOfWeek, Dialect::Quartz, 0) => {
                error.hint("in the Quartz dialect Sunday is 1; 0 is Sunday in the Unix dialect")
            }
            (Field::Hour | Field::Minute | Field::Second, _, _) if number == max + 1 => {
                error.hint(format!("for the start of the next one write {min}"))
            }
            _ => error,
        })
    }

    fn step(&mut self, max: u16) -> Result<u16, Error> {
        let start = self.next;
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.error(ErrorCode::BadStep, "a step has no number, expected one like */5"));
        }
        let step = self.digits()?;
        if step == 0 {
            return Err(self.error_at(start, ErrorCode::BadStep, "a step of 0 never moves, expected 1 or more"));
        }
        if step > max {
            return Err(self.error_at(
                start,
                ErrorCode::BadStep,
                format!("step {step} is larger than its field, expected 1-{max}"),
            ));
        }
        Ok(step)
    }

    /// A small number after `L-` or `#`.
    fn bounded(&mut self, min: u8, max: u8) -> Result<u8, Error> {
        let start = self.next;
        let number = self.digits()?;
        let small = u8::try_from(number).ok().filter(|number| (min..=max).contains(number));
        small.ok_or_else(|| {
            self.error_at(start, ErrorCode::OutOfRange, format!("{number} is out of range, expected {min}-{max}"))
        })
    }

    /// Digits, saturating: what is too large is out of range anyway.
    fn digits(&mut self) -> Result<u16, Error> {
        let start = self.next;
        let mut number: u16 = 0;
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            number = number.saturating_mul(10).saturating_add(u16::from(digit - b'0'));
            self.next += 1;
        }
        if self.next == start { Err(self.unexpected()) } else { Ok(number) }
    }

    fn peek(&self) -> Option<u8> {
        self.source.text.as_bytes().get(self.next).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.next += usize::from(found);
        found
    }

    fn eat_letter(&mut self, upper: u8) -> bool {
        let found = self.peek().is_some_and(|byte| byte.to_ascii_uppercase() == upper);
        self.next += usize::from(found);
        found
    }

    fn error(&self, code: ErrorCode, message: impl Into<String>) -> Error {
        self.error_at(self.next, code, message)
    }

    fn error_at(&self, next: usize, code: ErrorCode, message: impl Into<String>) -> Error {
        Error::new(code, message).at(self.source.at + next)
    }

    fn unexpected(&self) -> Error {
        let rest = self.source.text.get(self.next..).unwrap_or("");
        match rest.chars().next() {
            None => self.error(ErrorCode::BadSyntax, "the field ends too early, expected a number"),
            Some(found) if !found.is_ascii() => {
                let error =
                    self.error(ErrorCode::BadSyntax, format!("unexpected \"{found}\", expected ASCII characters"));
                error.hint("full-width digits and signs are not read; switch the input method to half-width")
            }
            Some(found) => self.error(
                ErrorCode::BadSyntax,
                format!("unexpected \"{}\", expected a comma or the end of the field", found.escape_default()),
            ),
        }
    }

    fn bad_name(&self, start: usize, word: &str) -> Error {
        let field = self.source.field;
        let shown: String = word.chars().take(12).collect();
        if field.words().is_empty() {
            return self.error_at(start, ErrorCode::BadName, format!("unexpected \"{shown}\", expected numbers"));
        }
        let (first, last) = (field.words().first().unwrap_or(&""), field.words().last().unwrap_or(&""));
        let error =
            self.error_at(start, ErrorCode::BadName, format!("unknown name \"{shown}\", expected {first}-{last}"));
        let near = field.words().iter().map(|known| (edits(known, shown.get(..3).unwrap_or(&shown)), known)).min();
        match near {
            Some((distance, known)) if distance <= 1 => error.hint(format!("did you mean {known}?")),
            _ => error,
        }
    }
}
