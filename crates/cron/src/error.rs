//! What is wrong with a schedule, said so that its author can mend it: what, where, and what would be right.

/// A schedule, zone or instant that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The kind of mistake; stable, for programs.
    pub code: ErrorCode,
    /// The cron field in which it is, for example `minute`; none if the mistake is not in one field.
    pub field: Option<&'static str>,
    /// Byte offset of the mistake in the text as it was given; of a calendar, in the item.
    pub position: Option<usize>,
    /// The list of a calendar (`exclude` or `include`) and the place in it, from 0, of the item that is wrong.
    pub item: Option<(&'static str, usize)>,
    /// One clause: what is wrong, and what would be right.
    pub message: String,
    /// What was probably meant, if that can be guessed.
    pub hint: Option<String>,
}

/// The kinds of mistakes; they never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorCode {
    /// The text is empty.
    Empty,
    /// The text is longer than any schedule needs.
    TooLong,
    /// The dialect has another number of fields.
    FieldCount,
    /// An `@` macro that does not exist, or not in this dialect.
    UnknownMacro,
    /// A character or a form that does not belong here.
    BadSyntax,
    /// A month or weekday name that does not exist.
    BadName,
    /// A number outside of its field.
    OutOfRange,
    /// A range without an end, backwards where that is not allowed, or of mixed names and numbers.
    BadRange,
    /// A step that is zero, missing, or larger than its field.
    BadStep,
    /// `?` where it does not belong, or not exactly one in day of month and day of week (Quartz).
    QuestionMark,
    /// `H` without a seed to hash.
    NoSeed,
    /// A zone that the bundled time-zone database does not have.
    UnknownZone,
    /// A period or delay that is too short or too long.
    BadPeriod,
    /// An instant that is no RFC 3339.
    BadInstant,
    /// A date or time of day of a calendar that does not exist.
    BadDate,
}

impl ErrorCode {
    /// The code as it appears in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLong => "too_long",
            Self::FieldCount => "field_count",
            Self::UnknownMacro => "unknown_macro",
            Self::BadSyntax => "bad_syntax",
            Self::BadName => "bad_name",
            Self::OutOfRange => "out_of_range",
            Self::BadRange => "bad_range",
            Self::BadStep => "bad_step",
            Self::QuestionMark => "question_mark",
            Self::NoSeed => "no_seed",
            Self::UnknownZone => "unknown_zone",
            Self::BadPeriod => "bad_period",
            Self::BadInstant => "bad_instant",
            Self::BadDate => "bad_date",
        }
    }
}

impl Error {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, field: None, position: None, item: None, message: message.into(), hint: None }
    }

    pub(crate) fn at(mut self, position: usize) -> Self {
        self.position = Some(position);
        self
    }

    pub(crate) fn in_field(mut self, field: &'static str) -> Self {
        self.message = format!("{field}: {}", self.message);
        self.field = Some(field);
        self
    }

    pub(crate) fn in_item(mut self, list: &'static str, place: usize, item: &str) -> Self {
        let shown: String = item.trim().chars().take(40).collect();
        self.message = format!("\"{shown}\": {}", self.message);
        self.item = Some((list, place));
        // What is wrong with a whole item is wrong from its start on.
        self.position.get_or_insert(item.len() - item.trim_start().len());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
