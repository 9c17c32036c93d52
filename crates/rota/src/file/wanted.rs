//! What a job file wants: its apps, and its jobs with the defaults laid under them.
//!
//! A job's keys are those of the API, and so are the types that read them: a key that a job gets there can be written
//! here. What a file adds is for whoever writes it: `defaults`, `calendars`, `shell`, and a pause with its reason.

use rota_wire::rest::{AppPut, JobSpec};

use super::alerts::{self, Alert};
use super::calendars::Calendars;
use super::mistake::Mistake;
use super::node::{Key, Mark, Node, Value, beginning};
use super::reader::{read, unknown_key};
use super::yaml;

/// The format that this version reads.
const VERSION: i64 = 1;
/// Keys at the top of a file.
const TOP: [&str; 8] = ["version", "name", "namespace", "defaults", "alerts", "calendars", "apps", "jobs"];
/// Keys of which a job has one: what it gives itself takes the place of any of them among the defaults.
const ONE_OF: [&[&str]; 2] = [&["cron", "every", "delay", "at"], &["handler", "shell", "http"]];
/// Keys that belong to one handler's job, and mean nothing for a request.
const OF_HANDLER: [&str; 1] = ["param"];
/// Keys that only mean something for a job with slots to miss.
const OF_SLOTS: [&str; 1] = ["misfire"];
/// Keys of the API that stand elsewhere in a file.
const ELSEWHERE: [(&str, &str); 2] = [
    ("name", "a job's name is the key that it stands under"),
    ("namespace", "`namespace` stands at the top of the file"),
];
/// Keys of a job that are the file's own.
const OWN: [&str; 1] = ["shell"];

/// A file, read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Wanted {
    /// The name by which the file manages its jobs, if it has one of its own.
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) alerts: Vec<Alert>,
    pub(crate) apps: Vec<App>,
    /// In the order of the file.
    pub(crate) jobs: Vec<Job>,
}

/// An app that a file names.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct App {
    pub(crate) name: String,
    pub(crate) put: AppPut,
}

/// A job that a file wants.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Job {
    pub(crate) spec: JobSpec,
    /// Why it is paused.
    pub(crate) reason: Option<String>,
    /// Where its name stands.
    pub(crate) mark: Mark,
    /// Its keys with the defaults under them, to tell where a mistake is.
    pub(crate) node: Node,
}

/// A file as it stands there. Files of one call are all taken apart before one of them is read: they share calendars.
pub(crate) struct Parsed {
    root: Node,
}

impl Parsed {
    /// Takes a text apart.
    pub(crate) fn of(text: &str) -> Result<Parsed, Vec<Mistake>> {
        let root = yaml::parse(text).map_err(|mistake| vec![mistake])?;
        if root.entries().is_some() {
            return Ok(Parsed { root });
        }
        let message = format!("expected a map with `version` and `jobs`, found {}", root.kind());
        Err(vec![Mistake::new(root.mark, message).hint("begin with: version: 1")])
    }

    fn top(&self) -> Top<'_> {
        Top { entries: self.root.entries().expect("what is taken apart is a map") }
    }

    /// Adds the file's calendars; `file` is its name in messages.
    pub(crate) fn calendars(&self, file: &str, all: &mut Calendars) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        let own = self.top().map("calendars", &mut mistakes);
        mistakes.extend(all.read(file, own));
        mistakes
    }

    /// Reads what it wants. All its mistakes come at once.
    pub(crate) fn wanted(&self, calendars: &Calendars) -> Result<Wanted, Vec<Mistake>> {
        let top = self.top();
        let unknown = top.entries.iter().filter(|(key, _)| !TOP.contains(&key.text.as_str()));
        let mut mistakes: Vec<Mistake> =
            unknown.map(|(key, _)| unknown_key(&key.text, &TOP).under(&key.text, key.mark)).collect();
        mistakes.extend(top.check_version(self.root.mark));
        let name = top.name("name").unwrap_or_else(|mistake| noted(&mut mistakes, mistake));
        let namespace = top.name("namespace").unwrap_or_else(|mistake| noted(&mut mistakes, mistake));
        let alerts = alerts::wanted(top.map("alerts", &mut mistakes), &mut mistakes);
        let apps = top.apps(&mut mistakes);
        let jobs = top.jobs(namespace.as_deref().unwrap_or("default"), calendars, &mut mistakes);
        if mistakes.is_empty() { Ok(Wanted { name, namespace, alerts, apps, jobs }) } else { Err(mistakes) }
    }
}

fn noted<T>(mistakes: &mut Vec<Mistake>, mistake: Mistake) -> Option<T> {
    mistakes.push(mistake);
    None
}

struct Top<'n> {
    entries: &'n [(Key, Node)],
}

impl<'n> Top<'n> {
    fn get(&self, key: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(known, _)| known.text == key).map(|(_, node)| node)
    }

    fn check_version(&self, mark: Mark) -> Option<Mistake> {
        match self.get("version") {
            None => {
                Some(Mistake::new(mark, "`version` is missing").under("version", mark).hint("begin with: version: 1"))
            }
            Some(Node { value: Value::Number(VERSION), .. }) => None,
            Some(node) => {
                let message = format!("this version reads files of version {VERSION}, not {}", node.kind());
                Some(Mistake::new(node.mark, message).under("version", node.mark).hint("write: version: 1"))
            }
        }
    }

    fn name(&self, key: &str) -> Result<Option<String>, Mistake> {
        let Some(node) = self.get(key) else { return Ok(None) };
        let under = |mistake: Mistake| mistake.under(key, node.mark);
        let name: Option<String> = read(node).map_err(under)?;
        let field = if key == "name" { "name" } else { "namespace" };
        if let Some(name) = &name {
            rota_core::job::check_name(field, name)
                .map_err(|invalid| under(Mistake::new(node.mark, invalid.message).maybe_hint(invalid.hint)))?;
        }
        Ok(name)
    }

    /// The entries of a map at the top; none if there are none.
    fn map(&self, key: &str, mistakes: &mut Vec<Mistake>) -> &'n [(Key, Node)] {
        let Some(node) = self.get(key) else { return &[] };
        match &node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            Value::Bool(_) | Value::Number(_) | Value::Fraction(_) | Value::Text(_) | Value::List(_) => {
                let message = format!("expected a map (`name: …`), found {}", node.kind());
                mistakes.push(Mistake::new(node.mark, message).under(key, node.mark));
                &[]
            }
        }
    }

    fn apps(&self, mistakes: &mut Vec<Mistake>) -> Vec<App> {
        let mut apps = Vec::new();
        for (key, node) in self.map("apps", mistakes) {
            let put = match &node.value {
                Value::Null => Ok(AppPut::default()),
                Value::Bool(_)
                | Value::Number(_)
                | Value::Fraction(_)
                | Value::Text(_)
                | Value::List(_)
                | Value::Map(_) => read::<AppPut>(node),
            };
            match put {
                Ok(put) => apps.push(App { name: key.text.clone(), put }),
                Err(mistake) => mistakes.push(mistake.under(&key.text, key.mark).under("apps", key.mark)),
            }
        }
        apps
    }

    fn jobs(&self, namespace: &str, calendars: &Calendars, mistakes: &mut Vec<Mistake>) -> Vec<Job> {
        let defaults = self.map("defaults", mistakes);
        for (key, _) in defaults {
            let misplaced = ELSEWHERE.iter().find(|(known, _)| *known == key.text);
            if let Some((_, hint)) = misplaced {
                let mistake = Mistake::new(key.mark, format!("`{}` is no default", key.text)).hint(*hint);
                mistakes.push(mistake.under(&key.text, key.mark).under("defaults", key.mark));
            }
        }
        let found = mistakes.len();
        mistakes.extend(check_defaults(defaults, calendars));
        if mistakes.len() > found {
            // Every job would repeat them.
            return Vec::new();
        }
        let mut jobs = Vec::new();
        for (key, node) in self.map("jobs", mistakes) {
            match job(namespace, key, node, defaults, calendars) {
                Ok(job) => jobs.push(job),
                Err(mistake) => mistakes.push(mistake.under(&key.text, key.mark).under("jobs", key.mark)),
            }
        }
        jobs
    }
}

/// Mistakes in the defaults themselves, found once and not in each job.
fn check_defaults(defaults: &[(Key, Node)], calendars: &Calendars) -> Option<Mistake> {
    let (first, _) = defaults.first()?;
    let mut entries: Vec<(Key, Node)> =
        defaults.iter().filter(|(key, _)| !OWN.contains(&key.text.as_str()) && key.text != "paused").cloned().collect();
    // Nothing of a job is missing in what is only its defaults.
    entries.retain(|(key, _)| ELSEWHERE.iter().all(|(known, _)| *known != key.text));
    if let Err(mistake) = calendars.resolve(&mut entries) {
        return Some(mistake.under("defaults", first.mark));
    }
    entries.push((Key { mark: first.mark, text: "name".to_owned() }, text_node("x", first.mark)));
    let node = Node { mark: first.mark, value: Value::Map(entries) };
    read::<JobSpec>(&node)
        .err()
        .filter(|mistake| !mistake.message.ends_with("is missing"))
        .map(|mistake| told_as_file(mistake).under("defaults", first.mark))
}

fn text_node(text: &str, mark: Mark) -> Node {
    Node { mark, value: Value::Text(text.to_owned()) }
}

fn job(
    namespace: &str,
    key: &Key,
    node: &Node,
    defaults: &[(Key, Node)],
    calendars: &Calendars,
) -> Result<Job, Mistake> {
    let own: &[(Key, Node)] = match &node.value {
        Value::Map(entries) => entries,
        Value::Null => &[],
        Value::Bool(_) | Value::Number(_) | Value::Fraction(_) | Value::Text(_) | Value::List(_) => {
            return Err(Mistake::new(node.mark, format!("expected a map (`handler: …`), found {}", node.kind())));
        }
    };
    if let Some((wrong, hint)) = own
        .iter()
        .find_map(|(key, _)| ELSEWHERE.iter().find(|(known, _)| *known == key.text).map(|(_, hint)| (key, *hint)))
    {
        let message = format!("`{}` does not stand here", wrong.text);
        return Err(Mistake::new(wrong.mark, message).hint(hint).under(&wrong.text, wrong.mark));
    }
    let merged = Node { mark: node.mark, value: Value::Map(with_defaults(own, defaults)) };
    let mut entries = merged.entries().map(<[_]>::to_vec).unwrap_or_default();
    let reason = take_pause(&mut entries)?;
    take_shell(&mut entries)?;
    calendars.resolve(&mut entries)?;
    entries.push((Key { mark: key.mark, text: "name".to_owned() }, text_node(&key.text, key.mark)));
    entries.push((Key { mark: key.mark, text: "namespace".to_owned() }, text_node(namespace, key.mark)));
    let spec = read::<JobSpec>(&Node { mark: node.mark, value: Value::Map(entries) }).map_err(told_as_file)?;
    Ok(Job { spec, reason, mark: key.mark, node: merged })
}

/// The known keys of a refusal, as a file has them.
fn told_as_file(mut mistake: Mistake) -> Mistake {
    if let Some(known) = mistake.hint.as_deref().and_then(|hint| hint.strip_prefix("known here are name, namespace, "))
    {
        mistake.hint = Some(format!("known here are {known}, {}", OWN.join(", ")));
    } else if mistake.hint.as_deref().is_some_and(|hint| hint.starts_with("did you mean `name")) {
        mistake.hint = Some("a job's name is the key that it stands under".to_owned());
    }
    if mistake.code == "unknown_key"
        && let Some(key) = mistake.path.last()
        && let Some(meant) = rota_cron::text::nearest(key, OWN)
        && mistake.path.len() == 1
    {
        mistake.hint = Some(format!("did you mean `{meant}`?"));
    }
    mistake
}

/// A job's keys, and the defaults for what it does not say. Maps are laid over each other key by key; `null` takes a
/// default away.
fn with_defaults(own: &[(Key, Node)], defaults: &[(Key, Node)]) -> Vec<(Key, Node)> {
    let gives = |word: &str| own.iter().any(|(key, node)| key.text == word && node.value != Value::Null);
    let is_request = gives("http");
    // The schedule may be a default itself.
    let has =
        |word: &str| gives(word) || defaults.iter().any(|(key, node)| key.text == word && node.value != Value::Null);
    let is_armed = ["delay", "at"].into_iter().any(gives);
    let has_slots = !is_armed && (has("cron") || has("every"));
    let is_out = |word: &str| {
        (is_request && OF_HANDLER.contains(&word))
            || (!has_slots && OF_SLOTS.contains(&word))
            || ONE_OF.iter().any(|group| group.contains(&word) && group.iter().any(|other| gives(other)))
    };
    let mut merged = Vec::with_capacity(own.len() + defaults.len());
    for (key, node) in defaults.iter().filter(|(key, _)| !is_out(&key.text)) {
        match own.iter().find(|(other, _)| other.text == key.text) {
            None => merged.push((key.clone(), node.clone())),
            // Another policy has no use for the parts of the default one.
            Some((own_key, own_node)) if OF_SLOTS.contains(&key.text.as_str()) && names_policy(own_node) => {
                merged.push((own_key.clone(), own_node.clone()));
            }
            Some((own_key, own_node)) => merged.push((own_key.clone(), laid_over(own_node, node))),
        }
    }
    let is_new = |(key, _): &&(Key, Node)| merged.iter().all(|(other, _)| other.text != key.text);
    let new: Vec<(Key, Node)> = own.iter().filter(is_new).cloned().collect();
    merged.extend(new);
    merged.retain(|(_, node)| node.value != Value::Null);
    merged
}

fn names_policy(node: &Node) -> bool {
    node.entries().is_some_and(|entries| entries.iter().any(|(key, _)| key.text == "policy"))
}

fn laid_over(own: &Node, default: &Node) -> Node {
    let (Some(over), Some(under)) = (own.entries(), default.entries()) else { return own.clone() };
    let mut entries = over.to_vec();
    entries.extend(under.iter().filter(|(key, _)| over.iter().all(|(other, _)| other.text != key.text)).cloned());
    entries.retain(|(_, node)| node.value != Value::Null);
    Node { mark: own.mark, value: Value::Map(entries) }
}

/// `paused: "until v2"` becomes `paused: true` and a reason.
fn take_pause(entries: &mut [(Key, Node)]) -> Result<Option<String>, Mistake> {
    let Some((key, node)) = entries.iter_mut().find(|(key, _)| key.text == "paused") else { return Ok(None) };
    let under = |mistake: Mistake| mistake.under("paused", key.mark);
    match &node.value {
        Value::Bool(_) => Ok(None),
        Value::Text(reason) if reason.trim().is_empty() => {
            Err(under(Mistake::new(node.mark, "the reason is blank").hint("write true, or say why")))
        }
        Value::Text(reason) => {
            let reason = reason.trim().to_owned();
            node.value = Value::Bool(true);
            Ok(Some(reason))
        }
        Value::Null | Value::Number(_) | Value::Fraction(_) | Value::List(_) | Value::Map(_) => {
            let message = format!("expected true, false or a reason, found {}", node.kind());
            Err(under(Mistake::new(node.mark, message).hint("for example: paused: \"until index v2\"")))
        }
    }
}

/// `shell: [program, argument]` becomes the handler `shell` and its parameter.
fn take_shell(entries: &mut Vec<(Key, Node)>) -> Result<(), Mistake> {
    let Some(at) = entries.iter().position(|(key, _)| key.text == "shell") else { return Ok(()) };
    let (key, node) = entries.remove(at);
    let under = |mistake: Mistake| mistake.under("shell", key.mark);
    for other in ["handler", "param", "http"] {
        if let Some((other_key, _)) = entries.iter().find(|(known, _)| known.text == other) {
            let message = format!("`shell` is given too, on line {}", key.mark.line);
            return Err(Mistake::new(other_key.mark, message)
                .hint("`shell` is the handler `shell` with its parameter; leave one of the two out")
                .under(other, other_key.mark));
        }
    }
    let param = match &node.value {
        Value::Text(line) if line.trim().is_empty() => {
            return Err(under(Mistake::new(node.mark, "the command is blank")));
        }
        Value::Text(line) => line.clone(),
        Value::List(words) if words.is_empty() => {
            return Err(under(
                Mistake::new(node.mark, "the list names no program")
                    .hint("for example: shell: [bin/reindex, --part, \"1\"]"),
            ));
        }
        Value::List(_) => {
            let words: Vec<String> = read(&node).map_err(under)?;
            serde_json::to_string(&words).expect("a list of texts")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Fraction(_) | Value::Map(_) => {
            let message = format!("expected a command line or a list of words, found {}", node.kind());
            return Err(under(Mistake::new(node.mark, message).hint("for example: shell: [bin/reindex, --fast]")));
        }
    };
    let entry =
        |text: &str, value: String| (Key { mark: key.mark, text: text.to_owned() }, text_node(&value, node.mark));
    entries.push(entry("handler", "shell".to_owned()));
    entries.push(entry("param", param));
    Ok(())
}

/// What is wrong with a job, as the server would refuse it, at the place in the file that it is about.
pub(crate) fn refused(job: &Job, error: rota_wire::error::Error) -> Mistake {
    let code = ["too_large", "cycle"].into_iter().find(|known| *known == error.code).unwrap_or("invalid");
    let field = error.field.unwrap_or_default();
    let node = &job.node;
    // `shell` stands where the API has a handler and its parameter.
    let has = |word: &str| node.entries().is_some_and(|entries| entries.iter().any(|(key, _)| key.text == word));
    let field = if ["handler", "param"].contains(&field.as_str()) && has("shell") { "shell" } else { &field };
    let mark = match field {
        "" | "name" => job.mark,
        field => {
            let at = node.place(field);
            if at == node.mark { job.mark } else { at }
        }
    };
    let mut mistake = Mistake::new(mark, error.message).code(code).maybe_hint(error.hint);
    let is_named = !field.is_empty() && field != "name";
    mistake.path = ["jobs", &job.spec.name].into_iter().map(str::to_owned).collect();
    if is_named {
        mistake.path.extend(field.split('.').map(beginning));
    }
    mistake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_for_missed_slots_is_for_jobs_that_have_slots() {
        let text = "version: 1\ndefaults: {misfire: {within: 1h, threshold: 2m}, app: a, handler: h}\njobs:\n  \
                    cron: {cron: '0 2 * * *'}\n  more: {every: 5m, misfire: {within: 2h}}\n  \
                    other: {every: 5m, misfire: {policy: skip}}\n  once: {at: '2030-01-01T00:00:00Z'}\n  \
                    delay: {delay: 5m}\n  hand: {}\n";
        let wanted = Parsed::of(text).and_then(|parsed| parsed.wanted(&Calendars::default())).expect("it is a file");
        let within = |job: &Job| job.spec.misfire.as_ref().map(|misfire| misfire.within.clone().unwrap_or_default());
        let found: Vec<Option<String>> = wanted.jobs.iter().map(within).collect();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(found, [text("1h"), text("2h"), text(""), None, None, None]);
    }
}
