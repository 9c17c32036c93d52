//! What a run's shards have to tell beside their tries: whose they are, how they were settled without one, and whether
//! enough of them succeeded.

use std::collections::BTreeSet;

use rota_core::batch::{Attempt, AttemptState, Run, Shards};
use rota_core::job::Spec;
use rota_core::shards::{OnLoss, Success};
use rota_core::time::UnixMs;
use rota_core::why::Why;

use crate::refusal::Refusal;
use crate::view::{self, Names};

/// Names and shards that a line tells one by one.
const TOLD_MAX: usize = 20;

/// A line: when, about what, and what there is to say.
pub(crate) type Line = (Option<UnixMs>, String, String);

/// The lines of a run's shards.
pub(crate) fn lines(
    names: &mut Names<'_>,
    run: &Run,
    attempts: &[Attempt],
    spec: Option<&Spec>,
) -> Result<Vec<Line>, Refusal> {
    let noted = names.state.history.shards(run.id)?;
    let mut lines = Vec::new();
    if let Some(noted) = &noted {
        if !noted.workers.is_empty() {
            let mut told = Vec::new();
            for worker in noted.workers.iter().take(TOLD_MAX) {
                told.push(names.worker(*worker)?);
            }
            let more = noted.workers.len().saturating_sub(TOLD_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let text = format!("one shard for each of {}: {}{more}", noted.workers.len(), told.join(", "));
            lines.push((Some(run.at), "broadcast".to_owned(), text));
        }
        for settled in noted.settled.iter().take(TOLD_MAX) {
            let whose = noted.workers.get(settled.shard as usize).filter(|_| settled.why == Why::TargetGone);
            let whose = match whose {
                Some(worker) => format!(": {}", names.worker(*worker)?),
                None => String::new(),
            };
            let text = format!("{}, {}{whose}", settled.state.word(), view::spelled(settled.why));
            lines.push((Some(settled.at), format!("shard {}", settled.shard), text));
        }
    }
    if let Some(text) = verdict(names, run, attempts, noted.as_deref(), spec)? {
        lines.push((run.ended_at, "shards".to_owned(), text));
    }
    Ok(lines)
}

/// How many succeeded, and how many had to.
fn verdict(
    names: &Names<'_>,
    run: &Run,
    attempts: &[Attempt],
    noted: Option<&Shards>,
    spec: Option<&Spec>,
) -> Result<Option<String>, Refusal> {
    let Some(success) = spec.map(|spec| spec.sharding.rules.success) else { return Ok(None) };
    if run.shards < 2 || !run.state.is_terminal() {
        return Ok(None);
    }
    let is_good = |a: &&Attempt| a.state == AttemptState::Success || a.why == Some(Why::LateSuccess);
    let mut good: BTreeSet<u32> = attempts.iter().filter(is_good).map(|attempt| attempt.shard).collect();
    if let Some(rerun) = names.state.history.rerun(run.id)? {
        good.extend(&rerun.reused);
    }
    good.retain(|shard| noted.is_none_or(|noted| noted.settled(*shard).is_none()));
    let required = match success {
        Success::All => "all must".to_owned(),
        Success::BestEffort => "one must (best_effort)".to_owned(),
        Success::Count(count) => format!("{count} must (a quorum)"),
        Success::Percent(percent) => format!("{} must (a quorum of {percent}%)", success.required(run.shards)),
    };
    let missing: Vec<String> =
        (0..run.shards).filter(|shard| !good.contains(shard)).map(|shard| shard.to_string()).collect();
    let left = match missing.len() {
        0 => String::new(),
        1..=TOLD_MAX => format!("; not {}", missing.join(", ")),
        many => format!("; {many} did not"),
    };
    Ok(Some(format!("{} of {} succeeded, {required}{left}", good.len(), run.shards)))
}

/// What a try says of where it went: a retry that is wanted elsewhere, and one after its worker was lost.
pub(crate) fn whereabouts(attempt: &Attempt, attempts: &[Attempt], spec: Option<&Spec>) -> &'static str {
    let Some(spec) = spec else { return "" };
    let earlier = || attempts.iter().filter(|other| other.shard == attempt.shard && other.no < attempt.no);
    let before = earlier().find(|other| other.no + 1 == attempt.no);
    let was_lost = before.is_some_and(|before| before.state == AttemptState::Lost && before.why != Some(Why::InDoubt));
    if was_lost && spec.sharding.rules.on_loss == Some(OnLoss::Reassign) {
        return "; made anew, since its worker was lost (on_loss: reassign)";
    }
    let mut failed = earlier().filter(|other| other.state != AttemptState::NotStarted).peekable();
    if !spec.retry.elsewhere || failed.peek().is_none() {
        return "";
    }
    if failed.any(|other| other.worker == attempt.worker) {
        "; wanted elsewhere, but no other worker could take it"
    } else {
        "; elsewhere, as retry.elsewhere wants it"
    }
}

/// Why a lost shard was not made anew, if its job says that.
pub(crate) fn not_reassigned(why: Option<Why>, spec: Option<&Spec>) -> Option<String> {
    match (why, spec?.sharding.rules.on_loss) {
        (Some(why @ Why::TargetGone), _) => Some(view::spelled(why)),
        (_, Some(OnLoss::Fail)) => Some("on_loss is fail".to_owned()),
        (_, Some(OnLoss::Reassign)) => Some("it was reassigned as often as may be".to_owned()),
        (_, None) => None,
    }
}
