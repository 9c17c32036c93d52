//! The secrets of all namespaces, in memory: what templates are filled in with, and what must not be seen in what
//! workers say.
//!
//! Invariants: what is here was durable before, and a change is seen by the next dispatch; nothing here prints; a value
//! that was replaced or removed is still redacted, since what got it may run on: until the process ends, and in later ones
//! for as long as the store keeps it.
//!
//! A value shorter than [`REDACTED_BYTES_MIN`] cannot be told from ordinary text, and is not redacted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use rota_core::id::AppId;
use rota_core::partition::Dispatch;
use rota_core::template::{self, Failed, base64, json_escape, percent_encoded};
use rota_core::why::Why;
use rota_core::worker::{App, Secret};

use crate::query::Query;
use crate::store::{Error, StoredSecret};

/// Shorter values are not looked for.
pub const REDACTED_BYTES_MIN: usize = 6;
/// Shorter lines of a value with several are not looked for by themselves.
const LINE_BYTES_MIN: usize = 12;
/// Values of a namespace that are still looked for after they were replaced or removed.
pub const RETIRED_MAX: usize = 100;
/// What stands for a value.
pub const REDACTED: &str = "***";

/// The secrets of all namespaces. Shared by whoever sends, and by whoever takes in what workers say.
#[derive(Default)]
pub struct Secrets {
    inner: RwLock<Inner>,
    /// Held by whoever reads the store to replace what is in `inner`, which nobody waits for who only sends.
    loading: Mutex<()>,
}

#[derive(Default)]
struct Inner {
    apps: BTreeMap<AppId, Arc<App>>,
    vaults: BTreeMap<String, Arc<Vault>>,
}

/// The secrets of one namespace, as they were at a moment.
#[derive(Default)]
pub struct Vault {
    values: BTreeMap<String, Secret>,
    /// Those of earlier moments, oldest first.
    retired: Vec<Secret>,
    search: Option<Search>,
}

/// Everything that a value can look like, and the automaton that finds it.
struct Search {
    forms: Vec<String>,
    finder: AhoCorasick,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault(..)")
    }
}

impl Secrets {
    /// Everything that a store holds of secrets, and whose they are.
    pub fn open(query: &dyn Query) -> Result<Secrets, Error> {
        let secrets = Secrets::default();
        let mut retired: BTreeMap<String, Vec<Secret>> = BTreeMap::new();
        for stored in query.retired_secrets()? {
            retired.entry(stored.namespace).or_default().push(stored.value);
        }
        let vaults = retired.into_iter().map(|(namespace, retired)| (namespace, Arc::new(Vault::retired(retired))));
        secrets.write().vaults = vaults.collect();
        secrets.load(|| query.secrets())?;
        for app in query.apps()? {
            secrets.put_app(&app);
        }
        Ok(secrets)
    }

    /// Learns to which namespace an app belongs, before any of its jobs is sent.
    pub fn put_app(&self, app: &App) {
        let is_known = self.read().apps.get(&app.id).is_some_and(|known| **known == *app);
        if !is_known {
            self.write().apps.insert(app.id, Arc::new(app.clone()));
        }
    }

    /// Replaces everything by what is durable. `read` runs while nobody else replaces anything, so that what was read
    /// last is what stays.
    pub fn load<E>(&self, read: impl FnOnce() -> Result<Vec<StoredSecret>, E>) -> Result<(), E> {
        let _turn = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let mut values: BTreeMap<String, BTreeMap<String, Secret>> = BTreeMap::new();
        for stored in read()? {
            values.entry(stored.namespace).or_default().insert(stored.name, stored.value);
        }
        let mut vaults = self.read().vaults.clone();
        // Those without a secret now are still looked for.
        for namespace in vaults.keys() {
            values.entry(namespace.clone()).or_default();
        }
        for (namespace, values) in values {
            let before = vaults.entry(namespace).or_default();
            if before.values != values {
                *before = Arc::new(Vault::after(before, values));
            }
        }
        self.write().vaults = vaults;
        Ok(())
    }

    /// The secrets that the jobs of an app may use.
    #[must_use]
    pub fn of(&self, app: AppId) -> Arc<Vault> {
        let inner = self.read();
        let vault = inner.apps.get(&app).and_then(|app| inner.vaults.get(&app.namespace));
        vault.cloned().unwrap_or_default()
    }

    /// The secrets of a namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Arc<Vault> {
        self.read().vaults.get(namespace).cloned().unwrap_or_default()
    }

    /// Fills in the templates of a dispatch; one without any costs nothing.
    pub fn fill(&self, send: &mut Dispatch) -> Result<(), Failed> {
        if send.body.templates.is_none() {
            return Ok(());
        }
        let app = self.read().apps.get(&send.app).cloned();
        let app = app.ok_or_else(|| Failed {
            why: Why::TemplateFailed,
            message: format!("the name of app {} is not known here", send.app),
        })?;
        let vault = self.in_namespace(&app.namespace);
        template::fill(send, (&app.namespace, &app.name), &|name| vault.value(name).map(str::to_owned))
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Vault {
    fn after(before: &Vault, values: BTreeMap<String, Secret>) -> Vault {
        let mut retired = before.retired.clone();
        let gone = before.values.iter().filter(|(name, value)| values.get(*name) != Some(value));
        retired.extend(gone.map(|(_, value)| value.clone()));
        let excess = retired.len().saturating_sub(RETIRED_MAX);
        retired.drain(..excess);
        let search = Search::new(values.values().chain(&retired));
        Vault { values, retired, search }
    }

    /// Nothing but what is no longer in use.
    fn retired(retired: Vec<Secret>) -> Vault {
        let search = Search::new(retired.iter());
        Vault { values: BTreeMap::new(), retired, search }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// A secret's value.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.0.as_str())
    }

    /// The text with every value, whatever its form, replaced by `***`.
    #[must_use]
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(search) = &self.search else { return Cow::Borrowed(text) };
        if !search.finder.is_match(text) {
            return Cow::Borrowed(text);
        }
        // Values may overlap: whatever is part of any is replaced.
        let found = search.finder.find_overlapping_iter(text).map(|found| (found.start(), found.end()));
        let mut spans: Vec<(usize, usize)> = found.collect();
        spans.sort_unstable();
        let (mut clean, mut at) = (String::with_capacity(text.len()), 0);
        for (start, end) in spans {
            if start >= at {
                clean.push_str(&text[at..start]);
                clean.push_str(REDACTED);
            }
            at = at.max(end);
        }
        clean.push_str(&text[at..]);
        Cow::Owned(clean)
    }

    /// The same for a text whose end was cut off, perhaps within a value.
    #[must_use]
    pub fn redact_cut<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let clean = self.redact(text);
        let Some(search) = &self.search else { return clean };
        let tail = |form: &String| {
            let longest = form.len().min(clean.len());
            let ends = |length: &usize| clean.as_bytes().ends_with(&form.as_bytes()[..*length]);
            (REDACTED_BYTES_MIN..=longest).rev().find(ends)
        };
        match search.forms.iter().filter_map(tail).max() {
            Some(length) => Cow::Owned(format!("{}{REDACTED}", &clean[..clean.len() - length])),
            None => clean,
        }
    }
}

impl Search {
    fn new<'v>(values: impl Iterator<Item = &'v Secret>) -> Option<Search> {
        let mut forms: Vec<String> = values.flat_map(|value| forms(&value.0)).collect();
        forms.sort_unstable();
        forms.dedup();
        if forms.is_empty() {
            return None;
        }
        // The dense automaton would search a little faster, and is made in time that grows with the square of a value
        // that repeats itself.
        let finder = AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(&forms);
        let finder = finder.expect("secrets are few and short");
        Some(Search { forms, finder })
    }
}

/// A value as it is, and as a template or a program may have written it.
fn forms(value: &str) -> Vec<String> {
    if value.len() < REDACTED_BYTES_MIN {
        return Vec::new();
    }
    let in_url = percent_encoded(value);
    let in_path = in_url.replace("%2F", "/").replace("%3A", ":").replace("%2C", ",");
    let mut forms = vec![value.to_owned(), json_escape(value), in_path, in_url, base64(value)];
    if value.contains('\n') {
        let lines = value.lines().filter(|line| line.len() >= LINE_BYTES_MIN);
        forms.extend(lines.map(str::to_owned));
    }
    forms
}

#[cfg(test)]
mod tests {
    use rota_core::time::UnixMs;

    use super::*;

    fn stored(name: &str, value: &str) -> StoredSecret {
        StoredSecret {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            value: Secret(value.to_owned()),
            at: UnixMs(0),
            by: "someone".to_owned(),
        }
    }

    fn with(values: &[&str]) -> Secrets {
        let secrets = Secrets::default();
        set(&secrets, values);
        secrets
    }

    fn set(secrets: &Secrets, values: &[&str]) {
        let all = values.iter().enumerate().map(|(at, value)| stored(&format!("S{at}"), value)).collect();
        assert_eq!(secrets.load(|| Ok::<_, ()>(all)), Ok(()));
    }

    fn check(values: &[&str], text: &str, expected: &str) {
        assert_eq!(with(values).in_namespace("shop").redact(text), expected, "{text}");
    }

    #[test]
    fn values_are_found_wherever_they_stand() {
        check(&[], "nothing to hide", "nothing to hide");
        check(&["s3cret"], "nothing to find", "nothing to find");
        check(&["s3cret"], "s3cret", "***");
        check(&["s3cret"], "a s3cret, and s3crets3cret日", "a ***, and ******日");
        check(&["short"], "short is not hidden", "short is not hidden");
        check(&["密码是密码"], "x密码是密码y", "x***y");
    }

    #[test]
    fn values_that_overlap_are_hidden_whole() {
        check(&["abcdefgh", "efghijkl"], "<abcdefghijkl>", "<***>");
        check(&["abcdefgh", "cdefgh"], "<abcdefgh> cdefgh", "<***> ***");
        check(&["abcdefgh", "bcdefghi"], "<abcdefghi>", "<***>");
        check(&["abcabcabc"], "<abcabcabcabc>", "<***>");
    }

    #[test]
    fn what_filters_and_programs_make_of_a_value_is_hidden_too() {
        let value = "a\"b/c d:e";
        check(&[value], &format!("{{\"k\":\"{}\"}}", json_escape(value)), "{\"k\":\"***\"}");
        check(&[value], &percent_encoded(value), "***");
        check(&[value], "/x/a%22b/c%20d:e", "/x/***");
        check(&[value], &format!("Basic {}", base64(value)), "Basic ***");
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nshort\n-----END KEY-----\n";
        check(&[key], "line MIIEvQIBADANBgkqhkiG9w0B", "line ***");
        check(&[key], "short", "short");
        check(&[key], &format!("<{key}>"), "<***>");
    }

    #[test]
    fn a_value_whose_end_was_cut_off_is_hidden() {
        let vault = with(&["abcdefghijkl", "密码是密码"]).in_namespace("shop");
        assert_eq!(vault.redact_cut("x abcdefg"), "x ***");
        assert_eq!(vault.redact_cut("x abcde"), "x abcde");
        assert_eq!(vault.redact_cut("x abcdefghijkl"), "x ***");
        assert_eq!(vault.redact_cut("x 密码是"), "x ***");
        assert_eq!(vault.redact_cut(""), "");
    }

    #[test]
    fn a_value_that_was_replaced_or_removed_stays_hidden() {
        let secrets = with(&["first-value"]);
        set(&secrets, &["second-value"]);
        let vault = secrets.in_namespace("shop");
        assert_eq!((vault.value("S0"), vault.value("S1")), (Some("second-value"), None));
        assert_eq!(vault.redact("first-value second-value"), "*** ***");
        set(&secrets, &[]);
        assert_eq!(secrets.in_namespace("shop").value("S0"), None);
        assert_eq!(secrets.in_namespace("shop").redact("first-value second-value"), "*** ***");
        for n in 0..2 * RETIRED_MAX {
            set(&secrets, &[&format!("value-{n}")]);
        }
        let vault = secrets.in_namespace("shop");
        assert_eq!(vault.redact("first-value value-199 value-150"), "first-value *** ***");
    }

    #[test]
    fn an_app_uses_the_secrets_of_its_own_namespace() {
        let secrets = with(&["s3cret"]);
        let app = |id, namespace: &str| App {
            id: AppId(id),
            namespace: namespace.to_owned(),
            name: "pay".to_owned(),
            pending_max: 1,
            rates: rota_core::rate::Rates::default(),
        };
        secrets.put_app(&app(1, "shop"));
        secrets.put_app(&app(2, "other"));
        assert_eq!(secrets.of(AppId(1)).value("S0"), Some("s3cret"));
        assert_eq!(secrets.of(AppId(2)).value("S0"), None);
        assert_eq!(secrets.of(AppId(3)).value("S0"), None);
        assert_eq!(
            format!("{secrets:?} {:?} {:?}", secrets.of(AppId(1)), stored("A", "s3cret")).matches("s3cret").count(),
            0
        );
    }
}
