//! The job files of a call: found, read, and held against each other.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::client::Client;
use super::out::note;
use super::table::grouped;
use crate::args::FileArgs;
use crate::exit::Failure;
use crate::file;
use crate::file::calendars::Calendars;
use crate::file::mistake::{Mistake, Shown};
use crate::file::plan::Beside;
use crate::file::wanted::{Parsed, Wanted};

/// Mistakes that are told at once.
const MISTAKES_MAX: usize = 20;
/// The exit code of files that cannot be meant.
const PENDING: u8 = 2;
/// What a file's name ends with in a folder.
const ENDINGS: [&str; 2] = ["yaml", "yml"];

/// A file, read, and all that is needed to point into it.
pub(super) struct Source {
    /// As it is named in messages.
    pub(super) shown: String,
    text: String,
    pub(super) wanted: Wanted,
    /// The name by which it manages its jobs.
    pub(super) manages: Option<String>,
}

impl Source {
    /// The namespace of its jobs; that of the call, if the file names none.
    pub(super) fn namespace<'s>(&'s self, client: &'s Client) -> &'s str {
        self.wanted.namespace.as_deref().unwrap_or_else(|| client.namespace())
    }

    /// What the other files of the call say.
    pub(super) fn beside(&self, all: &[Source], client: &Client) -> Beside {
        let others = || all.iter().filter(|other| !std::ptr::eq(*other, self));
        let near = || others().filter(|other| other.namespace(client) == self.namespace(client));
        Beside {
            files: near().filter_map(|other| other.manages.clone()).collect(),
            jobs: near().flat_map(|other| &other.wanted.jobs).map(|job| job.spec.name.clone()).collect(),
            apps: others().flat_map(|other| &other.wanted.apps).map(|app| app.name.clone()).collect(),
        }
    }
}

/// Reads all files of a call.
pub(super) fn read(args: &FileArgs, client: &Client, is_json: bool) -> Result<Vec<Source>, Failure> {
    let files = found(&args.file)?;
    let mut texts = Vec::new();
    for file in &files {
        texts.push(text_of(file)?);
    }
    let mut wrong = Wrong::default();
    let mut calendars = Calendars::default();
    let mut parsed = Vec::new();
    for (shown, text) in &texts {
        match Parsed::of(text) {
            Ok(taken) => {
                wrong.note(shown, text, taken.calendars(shown, &mut calendars));
                parsed.push(Some(taken));
            }
            Err(mistakes) => {
                wrong.note(shown, text, mistakes);
                parsed.push(None);
            }
        }
    }
    wrong.check(is_json)?;
    let mut sources = Vec::new();
    for ((file, (shown, text)), parsed) in files.iter().zip(&texts).zip(parsed.iter().flatten()) {
        match parsed.wanted(&calendars) {
            Ok(wanted) => {
                sources.push((file, Source { shown: shown.clone(), text: text.clone(), wanted, manages: None }))
            }
            Err(mistakes) => wrong.note(shown, text, mistakes),
        }
    }
    wrong.check(is_json)?;
    let sources = sources.into_iter().map(|(file, source)| named(file, source, client, args.prune));
    let sources = sources.collect::<Result<Vec<Source>, Failure>>()?;
    check_apart(&sources, client, is_json)?;
    Ok(sources)
}

/// The files that are meant: of a folder those in it that end as job files do, in order of their names.
fn found(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in given {
        if path.as_os_str() == "-" || !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let wrong = |error: std::io::Error| Failure::usage(format!("{}: {error}", path.display()), None);
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(wrong)? {
            let entry = entry.map_err(wrong)?.path();
            let is_hidden = entry.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            let ends = |ending: &&str| entry.extension().is_some_and(|own| own == *ending);
            if !is_hidden && ENDINGS.iter().any(ends) && !entry.is_dir() {
                inside.push(entry);
            }
        }
        if inside.is_empty() {
            let hint = "a folder's job files end with .yaml or .yml; folders within it are not looked into".to_owned();
            return Err(Failure::usage(format!("{} has no job file", path.display()), Some(hint)));
        }
        inside.sort();
        files.extend(inside);
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = files.iter().find(|file| !seen.insert(*file)) {
        return Err(Failure::usage(format!("{} is given twice", twice.display()), None));
    }
    Ok(files)
}

fn text_of(file: &Path) -> Result<(String, String), Failure> {
    let (shown, bytes) = bytes_of(file)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok((shown, text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let message = format!("{shown} is not UTF-8 from byte {at} on");
            Err(Failure::usage(message, Some("save it as UTF-8".to_owned())))
        }
    }
}

fn bytes_of(file: &Path) -> Result<(String, Vec<u8>), Failure> {
    let is_stdin = file.as_os_str() == "-";
    let shown = if is_stdin { "stdin".to_owned() } else { file.display().to_string() };
    let mut bytes = Vec::new();
    let reader: Box<dyn std::io::Read> = if is_stdin {
        Box::new(std::io::stdin())
    } else {
        let opened = std::fs::File::open(file);
        Box::new(opened.map_err(|error| Failure::usage(format!("{shown}: {error}"), None))?)
    };
    // A byte more than is taken tells that there is more.
    let read = reader.take(file::BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::usage(format!("{shown}: {error}"), None))?;
    Ok((shown, bytes))
}

/// With the name by which it manages its jobs.
fn named(file: &Path, mut source: Source, client: &Client, prunes: bool) -> Result<Source, Failure> {
    let shown = &source.shown;
    let given = client.given_namespace().zip(source.wanted.namespace.as_deref());
    if let Some((flag, own)) = given.filter(|(flag, own)| flag != own) {
        let message = format!("{shown} is for the namespace `{own}`, and --namespace says `{flag}`");
        return Err(Failure::usage(message, Some("leave --namespace out".to_owned())));
    }
    source.manages = match &source.wanted.name {
        Some(name) => Some(name.clone()),
        None if file.as_os_str() == "-" => None,
        None => Some(base_name(file)?),
    };
    if prunes && source.manages.is_none() {
        let hint = "give it one: name: shop".to_owned();
        return Err(Failure::usage("--prune deletes what the file made, and this file has no name", Some(hint)));
    }
    // The namespace of the call is that of jobs whose file names none.
    let namespace = source.namespace(client).to_owned();
    for job in &mut source.wanted.jobs {
        namespace.clone_into(&mut job.spec.namespace);
    }
    Ok(source)
}

/// The name of a file without its ending: that of `shop.yaml` is `shop`.
fn base_name(file: &Path) -> Result<String, Failure> {
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    rota_core::job::check_name("name", &name).map_err(|_| {
        Failure::usage(
            format!("`{name}` cannot be the name by which the file manages its jobs"),
            Some("give it one at its top: name: shop".to_owned()),
        )
    })?;
    Ok(name)
}

/// Refuses files that would undo what another of them does: a job, an app's cap, or a name that two of them have.
fn check_apart(sources: &[Source], client: &Client, is_json: bool) -> Result<(), Failure> {
    let mut names: BTreeMap<(&str, &str), &Source> = BTreeMap::new();
    let mut jobs: BTreeMap<(&str, &str), &Source> = BTreeMap::new();
    let mut caps: BTreeMap<&str, (u32, &Source)> = BTreeMap::new();
    let mut wrong = Wrong::default();
    for source in sources {
        let namespace = source.namespace(client);
        if let Some(name) = &source.manages
            && let Some(other) = names.insert((namespace, name), source)
        {
            let message = format!("{} and {} both manage their jobs by the name `{name}`", other.shown, source.shown);
            return Err(Failure::usage(message, Some("give one of them another at its top: name: shop".to_owned())));
        }
        let mut mistakes = Vec::new();
        for job in &source.wanted.jobs {
            if let Some(other) = jobs.insert((namespace, &job.spec.name), source) {
                let mistake = Mistake::new(job.mark, format!("{} has a job of this name, too", other.shown));
                mistakes.push(mistake.under(&job.spec.name, job.mark).under("jobs", job.mark));
            }
        }
        for app in &source.wanted.apps {
            let Some(cap) = app.put.pending_max else { continue };
            if let Some((other, by)) = caps.insert(&app.name, (cap, source)).filter(|(other, _)| *other != cap) {
                let message = format!("{} gives the app `{}` a `pending_max` of {other}", by.shown, app.name);
                mistakes.push(Mistake::new(None, message).hint("leave it out of one of the files"));
            }
        }
        wrong.note(&source.shown, &source.text, mistakes);
    }
    wrong.check(is_json)
}

/// What is wrong with the files of a call.
#[derive(Default)]
pub(super) struct Wrong<'s>(Vec<(&'s str, &'s str, Vec<Mistake>)>);

impl<'s> Wrong<'s> {
    pub(super) fn of(source: &'s Source, mistakes: Vec<Mistake>) -> Wrong<'s> {
        Wrong(vec![(&source.shown, &source.text, mistakes)])
    }

    fn note(&mut self, shown: &'s str, text: &'s str, mistakes: Vec<Mistake>) {
        if !mistakes.is_empty() {
            self.0.push((shown, text, mistakes));
        }
    }

    fn check(&self, is_json: bool) -> Result<(), Failure> {
        if self.0.is_empty() { Ok(()) } else { Err(self.said(is_json)) }
    }

    /// Says what is wrong.
    pub(super) fn said(&self, is_json: bool) -> Failure {
        let all = || self.0.iter().flat_map(|(shown, text, mistakes)| mistakes.iter().map(move |it| (shown, text, it)));
        if is_json {
            let mistakes: Vec<Shown> = all().map(|(shown, _, mistake)| mistake.shown(shown)).collect();
            let message = "the job file has mistakes";
            note(&format!("{}\n", serde_json::json!({"code": "job_file", "message": message, "mistakes": mistakes})));
            return Failure::Ended(PENDING);
        }
        for (shown, text, mistake) in all().take(MISTAKES_MAX) {
            note(&mistake.text(shown, text));
        }
        let more = all().count().saturating_sub(MISTAKES_MAX);
        if more > 0 {
            note(&format!("… and {} more\n", grouped(more as u64)));
        }
        Failure::Ended(PENDING)
    }
}
