//! YAML 1.2 to values with their places; what people and programs read differently is refused.
//!
//! Invariants: no key of a map is there twice; what aliases stand for, together with everything else, has at most
//! [`NODES_MAX`] values, nested at most [`DEPTH_MAX`] deep.
//!
//! Absent on purpose: tags, merge keys, several documents, octal and hexadecimal numbers, and the words that are `true`
//! or `false` to some readers and text to others (`yes`, `no`, `on`, `off`).

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

use super::mistake::Mistake;
use super::node::{Key, Mark, Node, Value, beginning};

/// The largest file.
pub(crate) const BYTES_MAX: usize = 64 << 20;
/// Values in a file, with those that aliases stand for.
const NODES_MAX: usize = 8_000_000;
/// Maps and lists within each other.
const DEPTH_MAX: usize = 16;

/// Words that YAML 1.1 takes for true and false, and YAML 1.2 for text.
const DIVISIVE: [&str; 6] = ["yes", "no", "on", "off", "y", "n"];

/// Reads a text as one YAML document.
pub(crate) fn parse(text: &str) -> Result<Node, Mistake> {
    if text.len() > BYTES_MAX {
        return Err(Mistake::new(None, format!("the file has {} bytes, which is more than 64 MiB", text.len()))
            .code("too_large")
            .hint("split it into files, each with a `name` of its own"));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut tree = Tree { lines: text, open: Vec::new(), root: None, anchors: BTreeMap::new(), nodes: 0 };
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| broken(text, &error))?;
        let mark = place(span.start);
        if matches!(event, Event::DocumentStart(_)) {
            documents += 1;
            if documents > 1 {
                return Err(Mistake::new(mark, "a second document begins here")
                    .hint("keep one document a file: take the line `---` away, or split the file"));
            }
        }
        tree.hear(event, mark)?;
    }
    tree.root.ok_or_else(|| Mistake::new(None, "the file is empty").hint("begin with: version: 1"))
}

fn place(marker: Marker) -> Mark {
    let count = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Mark { line: count(marker.line()).max(1), column: count(marker.col()).saturating_add(1) }
}

/// The document, as far as it is read.
struct Tree<'t> {
    lines: &'t str,
    open: Vec<Open>,
    root: Option<Node>,
    /// What has an anchor, and how many values it holds.
    anchors: BTreeMap<usize, (Node, usize)>,
    nodes: usize,
}

/// A map or a list that has not ended.
struct Open {
    mark: Mark,
    anchor: usize,
    /// Values counted before it.
    nodes: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map(Vec<(Key, Node)>, Option<Key>),
}

impl Tree<'_> {
    fn hear(&mut self, event: Event<'_>, mark: Mark) -> Result<(), Mistake> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor) else {
                    return Err(quote_hint(self.lines, mark, Mistake::new(mark, "this alias stands within itself")));
                };
                let (node, size) = (node.clone(), *size);
                self.count(size, mark)?;
                self.put(node, mark)
            }
            Event::Scalar(text, style, anchor, tag) => {
                untagged(tag.is_some(), mark)?;
                self.count(1, mark)?;
                let is_key = matches!(self.open.last(), Some(Open { content: Content::Map(_, None), .. }));
                let value = match style {
                    ScalarStyle::Plain if is_key => key(&text, mark)?,
                    ScalarStyle::Plain => plain(&text, mark)?,
                    ScalarStyle::SingleQuoted
                    | ScalarStyle::DoubleQuoted
                    | ScalarStyle::Literal
                    | ScalarStyle::Folded => Value::Text(text.into_owned()),
                };
                let node = Node { mark, value };
                self.keep(anchor, &node, 1);
                self.put(node, mark)
            }
            Event::SequenceStart(anchor, tag) => {
                untagged(tag.is_some(), mark)?;
                self.begin(anchor, mark, Content::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                untagged(tag.is_some(), mark)?;
                self.begin(anchor, mark, Content::Map(Vec::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
        }
    }

    fn count(&mut self, nodes: usize, mark: Mark) -> Result<(), Mistake> {
        self.nodes += nodes;
        if self.nodes > NODES_MAX {
            return Err(Mistake::new(mark, format!("up to here the file has more than {NODES_MAX} values"))
                .code("too_large")
                .hint("an alias counts with everything that it stands for"));
        }
        Ok(())
    }

    fn keep(&mut self, anchor: usize, node: &Node, size: usize) {
        // 0 is no anchor.
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
    }

    fn begin(&mut self, anchor: usize, mark: Mark, content: Content) -> Result<(), Mistake> {
        if self.open.len() >= DEPTH_MAX {
            return Err(Mistake::new(mark, format!("more than {DEPTH_MAX} maps and lists within each other")));
        }
        if matches!(self.open.last(), Some(Open { content: Content::Map(_, None), .. })) {
            return Err(Mistake::new(mark, "a key is text, and this is a map or a list")
                .hint("put what has braces or brackets into quotes: \"{{slot}}\""));
        }
        self.count(1, mark)?;
        self.open.push(Open { mark, anchor, nodes: self.nodes - 1, content });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Mistake> {
        let Open { mark, anchor, nodes, content } = self.open.pop().expect("the parser pairs beginnings and ends");
        let value = match content {
            Content::List(items) => Value::List(items),
            Content::Map(entries, _) => {
                check_once(&entries)?;
                Value::Map(entries)
            }
        };
        let node = Node { mark, value };
        self.keep(anchor, &node, self.nodes - nodes);
        self.put(node, mark)
    }

    fn put(&mut self, node: Node, mark: Mark) -> Result<(), Mistake> {
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(Content::List(items)) => items.push(node),
            Some(Content::Map(entries, waiting)) => match waiting.take() {
                Some(key) => entries.push((key, node)),
                None => match node.value {
                    Value::Text(text) => *waiting = Some(Key { mark, text }),
                    Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::Fraction(_)
                    | Value::List(_)
                    | Value::Map(_) => {
                        return Err(Mistake::new(mark, format!("a key is text, and this is {}", node.kind()))
                            .hint("put it into quotes"));
                    }
                },
            },
        }
        Ok(())
    }
}

fn untagged(has_tag: bool, mark: Mark) -> Result<(), Mistake> {
    if has_tag {
        return Err(Mistake::new(mark, "a tag (`!…`) has no meaning here")
            .hint("leave it out; a text that begins with `!` goes into quotes"));
    }
    Ok(())
}

fn check_once(entries: &[(Key, Node)]) -> Result<(), Mistake> {
    let mut sorted: Vec<&Key> = entries.iter().map(|(key, _)| key).collect();
    sorted.sort_by(|a, b| (&a.text, a.mark).cmp(&(&b.text, b.mark)));
    let twice = sorted.windows(2).filter(|pair| pair[0].text == pair[1].text);
    match twice.min_by_key(|pair| pair[1].mark) {
        Some(pair) => {
            let message = format!(
                "`{}` stands here a second time; first on line {}",
                beginning(&pair[1].text),
                pair[0].mark.line
            );
            Err(Mistake::new(pair[1].mark, message).code("duplicate_key").hint("keep one of the two"))
        }
        None => Ok(()),
    }
}

/// A key without quotes.
fn key(text: &str, mark: Mark) -> Result<Value, Mistake> {
    if text == "<<" {
        return Err(Mistake::new(mark, "merge keys (`<<`) are not part of YAML 1.2")
            .hint("what the jobs have in common goes into `defaults`"));
    }
    if text.is_empty() {
        return Err(Mistake::new(mark, "a key is missing before the colon"));
    }
    // A job may be called `on` or 2024: as keys, these are text to whoever writes them.
    Ok(Value::Text(text.to_owned()))
}

/// A value without quotes.
fn plain(text: &str, mark: Mark) -> Result<Value, Mistake> {
    let lower = text.to_ascii_lowercase();
    let divided = |what: &str, hint: &str| Err(Mistake::new(mark, what.to_owned()).code("ambiguous").hint(hint));
    if DIVISIVE.contains(&lower.as_str()) {
        let message = format!("`{text}` is true or false to some YAML readers and text to others");
        return divided(&message, &format!("write true or false, or \"{text}\" if the text is meant"));
    }
    match lower.as_str() {
        "" | "~" | "null" => return Ok(Value::Null),
        "true" => return Ok(Value::Bool(true)),
        "false" => return Ok(Value::Bool(false)),
        _ => {}
    }
    let digits = lower.trim_start_matches(['+', '-']);
    let is_signed_once = lower.len() - digits.len() <= 1;
    if !is_signed_once || !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Ok(Value::Text(text.to_owned()));
    }
    let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_based =
        |mark: &str| digits.strip_prefix(mark).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_hexdigit()));
    if (is_whole && digits.len() > 1 && digits.starts_with('0')) || is_based("0o") || is_based("0x") {
        let message = format!("`{text}` is another number to some YAML readers than to others");
        return divided(&message, &format!("write it without the zero in front, or \"{text}\" if the text is meant"));
    }
    if is_whole {
        return Ok(lower.parse().map_or_else(|_| Value::Fraction(text.to_owned()), Value::Number));
    }
    let is_fraction = digits.bytes().all(|byte| byte.is_ascii_digit() || b".e+-".contains(&byte));
    if is_fraction && lower.parse::<f64>().is_ok() {
        return Ok(Value::Fraction(text.to_owned()));
    }
    Ok(Value::Text(text.to_owned()))
}

/// A text that is no YAML.
fn broken(text: &str, error: &ScanError) -> Mistake {
    let mark = place(*error.marker());
    let mistake = Mistake::new(mark, format!("this is not YAML: {}", error.info())).code("malformed");
    quote_hint(text, mark, mistake)
}

/// What is most often meant where YAML breaks: a text that has to be in quotes.
fn quote_hint(text: &str, mark: Mark, mistake: Mistake) -> Mistake {
    // A parser often notices a line too late.
    let lines = text.lines().enumerate().skip((mark.line as usize).saturating_sub(2)).take(2);
    let mut hint = None;
    for (at, line) in lines.collect::<Vec<_>>().into_iter().rev() {
        let value = line.split_once(": ").map_or("", |(_, value)| value.trim());
        let key = line.split_once(':').map_or("", |(key, _)| key.trim());
        let no = at + 1;
        if value.starts_with(['*', '@', '%', '`', '?']) || (key == "cron" && value.contains(": ")) {
            let bare = value.split(" #").next().unwrap_or(value).trim();
            hint = Some(format!(
                "line {no}: `{}` begins with a sign of YAML; put it into quotes: {key}: \"{}\"",
                beginning(bare),
                beginning(bare)
            ));
        } else if value.starts_with("{{") {
            hint = Some(format!("line {no}: put what has braces into quotes: {key}: \"{}\"", beginning(value)));
        } else if line.starts_with('\t') || line.trim_start_matches(' ').starts_with('\t') {
            hint = Some(format!("line {no} is indented with a tab; YAML takes spaces only"));
        }
        if hint.is_some() {
            break;
        }
    }
    mistake.maybe_hint(hint)
}
