//! Reading templates, from left to right. A mistake is named by its place and what would be right.

use rota_cron::{DIRECTIVES, DateFormat, Zone};

use super::{Error, Expression, FILTERS, Filter, NAMES, Name, Of, Part, Template, Unit, is_secret_name};

/// Expressions of one template.
const EXPRESSIONS_MAX: usize = 1_000;
/// Filters of one expression.
const FILTERS_MAX: usize = 8;
/// The largest count of a step: more than the years that slots have, in days.
const COUNT_MAX: u32 = 100_000;

const AS_IT_IS: &str = "two braces that are meant as they are: {{'{{'}}";

/// What an expression is worth so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Instant,
    Text,
}

/// Reads a text that has two opening braces somewhere.
pub(super) fn template(text: &str) -> Result<Template, Error> {
    let mut reader = Reader { text, at: 0 };
    let (mut parts, mut expressions) = (Vec::new(), 0);
    while let Some(braces) = reader.rest().find("{{") {
        if braces > 0 {
            parts.push(Part::Text(reader.rest()[..braces].into()));
        }
        let opened = reader.at + braces;
        reader.at = opened + 2;
        expressions += 1;
        if expressions > EXPRESSIONS_MAX {
            return Err(reader.error(opened, format!("a template has at most {EXPRESSIONS_MAX} expressions")));
        }
        parts.push(Part::Value(reader.expression(opened)?));
    }
    if !reader.rest().is_empty() {
        parts.push(Part::Text(reader.rest().into()));
    }
    Ok(Template { parts })
}

struct Reader<'t> {
    text: &'t str,
    /// In bytes.
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn error(&self, at: usize, message: impl Into<String>) -> Error {
        Error { at: self.text[..at].chars().count() + 1, message: message.into(), hint: None }
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        let is_there = self.rest().starts_with(token);
        if is_there {
            self.at += token.len();
        }
        is_there
    }

    /// Letters, digits, and what names have between them.
    fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "_-.".contains(c))).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// What stands between the braces, up to the closing ones.
    fn expression(&mut self, opened: usize) -> Result<Expression, Error> {
        self.blanks();
        let (of, mut kind) = self.of(opened)?;
        let mut filters = Vec::new();
        loop {
            self.blanks();
            if self.take("}}") {
                return Ok(Expression { of, filters });
            }
            let at = self.at;
            if !self.take("|") {
                return Err(self.unexpected(opened));
            }
            if filters.len() == FILTERS_MAX {
                return Err(self.error(at, format!("an expression has at most {FILTERS_MAX} filters")));
            }
            self.blanks();
            filters.push(self.filter(&mut kind)?);
        }
    }

    /// There is neither a filter nor the end.
    fn unexpected(&self, opened: usize) -> Error {
        let next = self.rest().chars().next();
        match next {
            None | Some('\n') => {
                self.error(opened, "`{{` is not closed").with(format!("close it with `}}}}`; {AS_IT_IS}"))
            }
            Some(c) => self
                .error(self.at, format!("`{c}` is not expected here"))
                .with(format!("an expression is a name and its filters: {{{{slot|date('%F')}}}}; {AS_IT_IS}")),
        }
    }

    fn of(&mut self, opened: usize) -> Result<(Of, Kind), Error> {
        let at = self.at;
        if self.rest().starts_with('\'') {
            return Ok((Of::Quoted(self.quoted()?.into()), Kind::Text));
        }
        if self.rest().starts_with("}}") {
            return Err(self.error(at, "nothing stands between the braces").with(format!("{}; {AS_IT_IS}", names())));
        }
        let word = self.word();
        if word.is_empty() {
            return Err(self.unexpected(opened));
        }
        if let Some(name) = word.strip_prefix("secret.").or((word == "secret").then_some("")) {
            if !is_secret_name(name) {
                let message = format!("`{}` names no secret", short(word));
                return Err(self.error(at, message).with("for example secret.PARTNER: letters, digits, _ and -"));
            }
            return Ok((Of::Secret(name.into()), Kind::Text));
        }
        match Name::parse(word) {
            Some(Name::Slot) => Ok((Of::Name(Name::Slot), Kind::Instant)),
            Some(name) => Ok((Of::Name(name), Kind::Text)),
            None => {
                let hint = match nearest(word, NAMES.iter().map(|(name, _)| *name).chain(["secret"])) {
                    Some("secret") => "did you mean `secret.NAME`?".to_owned(),
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("{}; {AS_IT_IS}", names()),
                };
                Err(self.error(at, format!("`{}` is not known in a template", short(word))).with(hint))
            }
        }
    }

    fn filter(&mut self, kind: &mut Kind) -> Result<Filter, Error> {
        let at = self.at;
        let word = self.word();
        let arguments = self.arguments()?;
        let texts: Vec<&str> = arguments.iter().map(|(_, text)| *text).collect();
        let filter = match (word, &texts[..]) {
            ("date", [_] | [_, _]) => self.date(&arguments)?,
            ("minus" | "plus", [_]) => self.shift(word == "plus", arguments[0])?,
            ("unix", []) => Filter::Unix,
            ("ms", []) => Filter::Ms,
            ("lower", []) => Filter::Lower,
            ("upper", []) => Filter::Upper,
            ("json", []) => Filter::Json,
            ("url", []) => Filter::Url,
            ("base64", []) => Filter::Base64,
            _ => return Err(self.no_filter(at, word)),
        };
        let takes_instant = matches!(filter, Filter::Date(..) | Filter::Shift { .. } | Filter::Unix | Filter::Ms);
        if takes_instant && *kind != Kind::Instant {
            let message = format!("`{word}` takes an instant, and what is before it is text");
            return Err(self.error(at, message).with("put it after `slot`: slot|minus('1d')|date('%F')"));
        }
        if !matches!(filter, Filter::Shift { .. }) {
            *kind = Kind::Text;
        }
        Ok(filter)
    }

    /// The word is no filter, or its arguments are not those that it takes.
    fn no_filter(&self, at: usize, word: &str) -> Error {
        let forms = |name: &str| {
            let forms = FILTERS.iter().map(|(form, _)| *form).filter(|form| head(form) == name);
            forms.map(|form| format!("`{form}`")).collect::<Vec<_>>().join(" or ")
        };
        let heads = || FILTERS.iter().map(|(form, _)| head(form));
        if heads().any(|known| known == word) {
            return self.error(at, format!("`{word}` is not written so")).with(forms(word));
        }
        let hint = match nearest(word, heads()) {
            Some(known) => format!("did you mean {}?", forms(known)),
            None => {
                let mut known: Vec<&str> = heads().collect();
                known.dedup();
                format!("filters are {}", known.join(", "))
            }
        };
        let message = if word.is_empty() {
            "a filter is expected here".to_owned()
        } else {
            format!("`{}` is no filter", short(word))
        };
        self.error(at, message).with(hint)
    }

    fn date(&self, arguments: &[(usize, &str)]) -> Result<Filter, Error> {
        let (at, text) = arguments[0];
        let format = DateFormat::parse(text).map_err(|bad| {
            let known: Vec<String> = DIRECTIVES.iter().map(|(letters, _)| format!("%{letters}")).collect();
            self.error(at + bad.at, bad.message).with(format!("known are {}", known.join(" ")))
        })?;
        let Some((at, name)) = arguments.get(1) else { return Ok(Filter::Date(format, None)) };
        let zone = Zone::parse(name).map_err(|bad| Error { hint: bad.hint, ..self.error(*at, bad.message) })?;
        Ok(Filter::Date(format, Some(zone)))
    }

    fn shift(&self, is_later: bool, (at, text): (usize, &str)) -> Result<Filter, Error> {
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let count = text[..split].parse::<u32>().ok().filter(|count| *count <= COUNT_MAX);
        let unit = Unit::ALL.iter().find(|(word, _)| *word == &text[split..]).map(|(_, unit)| *unit);
        match (count, unit) {
            (Some(count), Some(unit)) => Ok(Filter::Shift { is_later, count, unit }),
            _ => Err(self
                .error(at, format!("`{}` is not a step", short(text)))
                .with(format!("a number up to {COUNT_MAX} with s, m, h, d, w, mo or y: 1d"))),
        }
    }

    /// What stands in parentheses, each with its place.
    fn arguments(&mut self) -> Result<Vec<(usize, &'t str)>, Error> {
        let mut arguments = Vec::new();
        self.blanks();
        if !self.take("(") {
            return Ok(arguments);
        }
        loop {
            self.blanks();
            if arguments.is_empty() && self.take(")") {
                return Ok(arguments);
            }
            let at = self.at;
            if !self.rest().starts_with('\'') {
                return Err(self.error(at, "text in single quotes is expected here").with("for example date('%F')"));
            }
            arguments.push((at + 1, self.quoted()?));
            self.blanks();
            if self.take(")") {
                return Ok(arguments);
            }
            if !self.take(",") || arguments.len() == 2 {
                return Err(self.error(self.at, "`)` is expected here").with("for example date('%F', 'UTC')"));
            }
        }
    }

    fn quoted(&mut self) -> Result<&'t str, Error> {
        let at = self.at;
        let inner = &self.rest()[1..];
        let Some(end) = inner.find('\'') else {
            return Err(self.error(at, "the quote is not closed").with("close it with another single quote"));
        };
        self.at += end + 2;
        Ok(&inner[..end])
    }
}

impl Error {
    fn with(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }
}

/// A filter's name, from how it is written.
fn head(form: &'static str) -> &'static str {
    form.split('(').next().unwrap_or(form)
}

fn names() -> String {
    let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
    format!("names are {} and secret.NAME", names.join(", "))
}

/// At most so much of what was written that a message stays one line.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The known word that a mistaken one is nearest to, if it is near.
fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    if word.len() > 40 {
        return None;
    }
    let word = word.to_lowercase();
    let best = known.map(|known| (distance(&word, known), known)).min_by_key(|(distance, _)| *distance);
    best.filter(|(distance, known)| *distance <= 1 + known.len() / 5).map(|(_, known)| known)
}

/// How many letters must be changed, added or removed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut before = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let change = before + usize::from(from != *to);
            before = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(before + 1);
        }
    }
    row[b.len()]
}
