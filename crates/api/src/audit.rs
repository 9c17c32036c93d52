//! The audit: what slots every job should have had, beside what the ledger says. See [`rota_core::audit`].
//!
//! One pass over the ledger in the order of ids, whatever the number of jobs; the answer is a stream, so that a long one
//! neither waits for its end nor is kept anywhere. Absent on purpose: more than one at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State as Shared;
use axum::response::Response;
use http::Uri;
use rota_core::audit::{self, Audit, Finding, Wrong};
use rota_core::batch::{Exception, Origin};
use rota_core::id::{AppId, JobId, PartitionId, RunId, Version, id_floor, id_time};
use rota_core::job::{Definition, JobState};
use rota_core::time::UnixMs;
use rota_port::history::{COVERED_MAX, Covered, PAST_MAX, StateFilter};
use rota_wire::rest::{AuditFinding, AuditLine, AuditSummary};

use crate::auth::Reader;
use crate::body::Args;
use crate::code::Code;
use crate::ndjson::{self, Gone, Lines};
use crate::refusal::Refusal;
use crate::slot_story::ID_EARLY_MS;
use crate::state::State;
use crate::view::{self, Names};

/// What it answers with.
pub(crate) const KIND: &str = ndjson::KIND;
/// How far back it looks if nothing is said.
const SINCE_MS: i64 = 24 * 3_600_000;
/// Findings that are listed one by one.
const LISTED_MAX: u64 = 10_000;
/// An audit that takes longer is given up: it would hold a version of the store for too long.
const LASTS_MAX: Duration = Duration::from_secs(1_800);
/// Jobs read at a time.
const JOBS: u32 = 1_000;

/// What is audited.
struct Asked {
    namespace: String,
    since: UnixMs,
    until: UnixMs,
    app: Option<AppId>,
    job: Option<JobId>,
}

pub(crate) async fn get(_: Reader, Shared(state): Shared<Arc<State>>, uri: Uri) -> Result<Response, Refusal> {
    let args = Args::read(&uri, &["since", "until", "job", "app"])?;
    let now = state.now();
    let since = args.instant("since", now)?.unwrap_or(now.plus_ms(-SINCE_MS));
    let until = args.instant("until", now)?.unwrap_or(now).min(now);
    if until < since {
        return Err(Refusal::invalid("until", "it lies before `since`"));
    }
    let asked = state
        .read(move |state| {
            let namespace = args.namespace();
            let app = args.text("app").map(|app| view::find_app(state, &namespace, app)).transpose()?;
            let job = args.text("job").map(|job| view::find_job(state, &namespace, job)).transpose()?;
            Ok(Asked { since, until, app: app.map(|app| app.id), job: job.map(|job| job.id), namespace })
        })
        .await?;
    let turn = state.audits.clone().try_acquire_owned().map_err(|_| {
        Refusal::new(Code::Overloaded, "an audit is under way").hint("wait for its end, or narrow it by --job")
    })?;
    let (lines, answer) = ndjson::answer();
    let shared = Arc::clone(&state);
    // Not among the reads: those are short, and must not wait for this.
    tokio::task::spawn_blocking(move || {
        let _turn = turn;
        if let Err(End::Refused(refusal)) = (Run { state: &shared, lines: &lines, asked: &asked }).run() {
            // Whoever asked hears it as the last line, or has gone.
            let _gone = lines.send(&AuditLine::Broken(refusal.into()));
        }
    });
    Ok(answer)
}

/// Why an audit ended early.
enum End {
    Gone,
    Refused(Refusal),
}

impl From<Gone> for End {
    fn from(_: Gone) -> End {
        End::Gone
    }
}

impl<E: Into<Refusal>> From<E> for End {
    fn from(error: E) -> End {
        End::Refused(error.into())
    }
}

/// What is written while rows are read.
struct Found {
    unreadable: u64,
    listed: u64,
    findings: Vec<Finding>,
    total: u64,
}

struct Run<'r> {
    state: &'r State,
    lines: &'r Lines,
    asked: &'r Asked,
}

impl Run<'_> {
    fn run(&self) -> Result<(), End> {
        let began = self.state.now();
        // How far slots are covered is read first: rows that come later cannot be missing then.
        let standing = self.state.history.standing()?;
        let pruned_to = id_time(standing.swept).plus_ms(ID_EARLY_MS);
        let is_cut = standing.swept > 0 && self.asked.since < pruned_to;
        let since = if is_cut { pruned_to } else { self.asked.since };
        let marks: BTreeMap<PartitionId, UnixMs> = standing.marks.into_iter().collect();
        let exceptions: BTreeMap<JobId, Exception> = standing.exceptions.into_iter().collect();
        let mut audit = Audit::new(since, self.asked.until);
        let mut found = Found { unreadable: 0, listed: 0, findings: Vec::new(), total: 0 };
        self.add_jobs(&mut audit, &mut found, since, &marks, &exceptions)?;
        let mut names = Names::new(self.state);
        let mut from = RunId(id_floor(since.plus_ms(-ID_EARLY_MS)).max(standing.swept));
        // Rows made from here on are of slots that nobody has to have covered yet.
        let end = id_floor(began.plus_ms(ID_EARLY_MS));
        let mut rows = 0;
        loop {
            let (page, next) = self.page(from)?;
            rows += page.len() as u64;
            for row in page.iter().filter(|row| row.origin == Origin::Schedule) {
                audit.row(&slots_of(row), &mut |finding| found.findings.push(finding));
            }
            self.tell(&mut names, &mut found)?;
            match next.filter(|next| next.0 < end) {
                Some(next) => from = next,
                None => break,
            }
            self.lines.send(&AuditLine::Progress { rows })?;
            if self.state.now().since_ms(began) > i64::try_from(LASTS_MAX.as_millis()).unwrap_or(i64::MAX) {
                return Err(End::Refused(
                    Refusal::new(Code::Timeout, "the audit takes longer than half an hour")
                        .hint("audit a shorter time"),
                ));
            }
        }
        let counts = audit.finish(&mut |finding| found.findings.push(finding));
        self.tell(&mut names, &mut found)?;
        let summary = AuditSummary {
            since: since.to_string(),
            until: self.asked.until.to_string(),
            is_cut,
            jobs: counts.jobs,
            rows: counts.rows,
            slots: counts.slots,
            holes: counts.holes,
            doubles: counts.doubles,
            unfounded: counts.unfounded,
            waiting: counts.waiting,
            unreadable: found.unreadable,
            unlisted: found.total - found.listed,
            is_clean: counts.is_clean(),
        };
        Ok(self.lines.send(&AuditLine::Summary(summary))?)
    }

    /// The next rows, and where to read on.
    fn page(&self, from: RunId) -> Result<(Vec<Covered>, Option<RunId>), End> {
        let (page, limit) = match self.asked.job {
            Some(job) => {
                let runs = self.state.history.runs_from(job, from, PAST_MAX)?;
                (runs.iter().map(Covered::of).collect(), PAST_MAX)
            }
            None => (self.state.history.ledger(from, COVERED_MAX)?, COVERED_MAX),
        };
        let is_full = page.len() == limit as usize;
        let next = page.last().filter(|_| is_full).map(|last: &Covered| RunId(last.run.0 + 1));
        Ok((page, next))
    }

    fn add_jobs(
        &self,
        audit: &mut Audit,
        found: &mut Found,
        since: UnixMs,
        marks: &BTreeMap<PartitionId, UnixMs>,
        exceptions: &BTreeMap<JobId, Exception>,
    ) -> Result<(), End> {
        let mut add = |definition: &Definition, deleted_at: Option<UnixMs>| -> Result<(), End> {
            let is_ours = self.asked.app.is_none_or(|app| app == definition.app)
                && self.asked.job.is_none_or(|job| job == definition.id)
                && self.state.app(definition.app)?.is_none_or(|app| app.namespace == self.asked.namespace);
            if !is_ours || audit.knows(definition.id) {
                return Ok(());
            }
            let partition = self.state.intake.partition(definition.app);
            let mark = partition.and_then(|partition| marks.get(&partition)).copied().unwrap_or(UnixMs(0));
            let exception = exceptions.get(&definition.id).copied();
            let versions = self.versions(definition, since)?;
            if let Err(invalid) = audit.add(&versions, deleted_at, mark, exception) {
                found.unreadable += 1;
                let message = invalid.to_string();
                self.lines.send(&AuditLine::Unreadable { job: definition.id.0, message })?;
            }
            Ok(())
        };
        let mut filter = StateFilter { state: Some(JobState::Deleted), since: Some(since), ..StateFilter::default() };
        loop {
            let page = self.state.history.state_changes(&filter)?;
            for deletion in &page {
                if let Some(definition) = self.state.query.job(deletion.job)? {
                    add(&definition, Some(deletion.at))?;
                }
            }
            match page.last() {
                Some(last) => filter.after = last.no,
                None => break,
            }
        }
        if let Some(job) = self.asked.job {
            let definition = self.state.query.job(job)?.filter(|job| job.state != JobState::Deleted);
            return definition.map_or(Ok(()), |definition| add(&definition, None));
        }
        let mut after = JobId(0);
        loop {
            let page = self.state.query.jobs(self.asked.app, after, JOBS)?;
            for definition in &page {
                add(definition, None)?;
            }
            match page.last() {
                Some(last) => after = last.id,
                None => return Ok(()),
            }
        }
    }

    /// The versions of a job that stood since then.
    fn versions(&self, current: &Definition, since: UnixMs) -> Result<Vec<Definition>, End> {
        if current.version == Version(1) || current.at <= since {
            return Ok(vec![current.clone()]);
        }
        let oldest = current.version.0.saturating_sub(PAST_MAX - 1).max(1);
        Ok(self.state.history.job_versions(current.id, Version(oldest))?)
    }

    /// Writes what was found since the last time, as far as there is room for it.
    fn tell(&self, names: &mut Names<'_>, found: &mut Found) -> Result<(), End> {
        for finding in found.findings.drain(..) {
            found.total += 1;
            if found.listed < LISTED_MAX {
                found.listed += 1;
                self.lines.send(&AuditLine::Finding(shown(names, &finding)?))?;
            }
        }
        Ok(())
    }
}

fn slots_of(row: &Covered) -> audit::Row {
    audit::Row { run: row.run, job: row.job, slot: row.slot, slot_last: row.slot_last, slots: row.slots }
}

fn shown(names: &mut Names<'_>, finding: &Finding) -> Result<AuditFinding, Refusal> {
    let job = names.job(finding.job, None)?;
    let (last, slots, run) = match finding.what {
        Wrong::Hole { last, slots } => (Some(last).filter(|last| *last != finding.slot), slots, None),
        Wrong::Double(run) | Wrong::Unfounded(run) => (None, 1, Some(run)),
        Wrong::Miscounted { run, slots } => (None, slots, Some(run)),
    };
    Ok(AuditFinding {
        job: finding.job.0,
        what: finding.what.word().to_owned(),
        slot: job.zone.format(finding.slot),
        slot_last: last.map(|last| job.zone.format(last)),
        slots,
        run: run.map(|run| run.to_string()),
        job_name: job.name,
    })
}
