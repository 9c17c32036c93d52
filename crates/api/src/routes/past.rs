//! The past and what operators do about it: history, explanations, audits, freezes, reruns.

use rota_wire::rest;
use serde_json::json;

use crate::code::Code;
use crate::endpoint::{APP, Arg, Content, Endpoint, JOB, LIMIT, Opens, Shape, body, get, page, post};
use crate::parent::TRACEPARENT;
use crate::{audit, freeze, history, rerun, slot_story, top};

const ANY: Shape = Shape::Number { min: 0, max: u32::MAX as u64 };
const BEFORE: Arg = Arg::new("before", ANY, "what the page before gave as `next`");
const FROM: Arg = Arg::new("from", ANY, "the older version; the one before the newer if absent");
const TO: Arg = Arg::new("to", ANY, "the newer version; the current one if absent");
const AT: Arg =
    Arg::new("at", Shape::Text, "RFC 3339, or `2026-12-01 02:00` in the job's zone, or `02:00` of today there");
const SINCE: Arg =
    Arg::new("since", Shape::Instant, "from then on: an instant, or a duration back from now; a day if absent");
const UNTIL: Arg = Arg::new("until", Shape::Instant, "up to then; now if absent");
const BY: Arg = Arg::new("by", Shape::Word(&["failing", "late", "slow"]), "what makes a job stand at the top");

pub(super) fn entries() -> Vec<Endpoint> {
    vec![
        get("get_job_history", "/jobs/{job}/history", history::list)
            .says("Lists the versions of a job and the changes of its state, newest first.")
            .opens(Opens::Readers)
            .args(&[BEFORE, LIMIT])
            .refuses(&[Code::JobUnknown, Code::AppUnknown])
            .answers(200, "what happened to the job", page::<rest::JobEvent>()),
        get("diff_job", "/jobs/{job}/diff", history::compare)
            .says("Compares two versions of a job, key by key.")
            .opens(Opens::Readers)
            .args(&[FROM, TO])
            .refuses(&[Code::JobUnknown, Code::AppUnknown, Code::VersionUnknown])
            .answers(200, "what differs", body::<rest::JobDiff>()),
        get("explain_slot", "/jobs/{job}/why", slot_story::why)
            .says("Tells what became of an instant of a job, also if no row covers it.")
            .opens(Opens::Readers)
            .args(&[AT])
            .refuses(&[Code::JobUnknown, Code::AppUnknown])
            .answers(200, "its story", body::<rest::SlotStory>()),
        get("audit", "/audit", audit::get)
            .says("Compares the ledger with the slots that jobs should have had; one JSON object per line.")
            .opens(Opens::Readers)
            .args(&[SINCE, UNTIL, JOB, APP])
            .refuses(&[Code::AppUnknown, Code::JobUnknown])
            .answers_with(200, "progress, findings, and the summary as the last line", Content::Text(audit::KIND)),
        get("get_top", "/top", top::get)
            .says("Names the jobs that fail most, start latest or run longest.")
            .opens(Opens::Readers)
            .args(&[BY, SINCE, APP, LIMIT])
            .refuses(&[Code::AppUnknown])
            .answers(200, "the jobs, worst first", body::<rest::Top>()),
        post("freeze", "/freeze", freeze::freeze)
            .says("Lets nothing be started, of everything or of one app; what runs goes on.")
            .opens(Opens::Admins)
            .takes::<rest::FreezeAsk>(json!({"reason": "the database is restored"}))
            .refuses(&[Code::AppUnknown])
            .answers(200, "what is frozen now", body::<rest::FrozenNow>()),
        post("thaw", "/thaw", freeze::thaw)
            .says("Ends a freeze; what was missed is skipped, or its newest slot fires.")
            .opens(Opens::Admins)
            .takes::<rest::ThawAsk>(json!({"missed": "skip"}))
            .refuses(&[Code::AppUnknown])
            .answers(200, "what is frozen now", body::<rest::FrozenNow>()),
        post("rerun_run", "/runs/{run}/rerun", rerun::rerun)
            .says("Runs again what has ended, with its version, slot and parameter.")
            .opens(Opens::Admins)
            .headers(&[TRACEPARENT])
            .takes::<rest::RerunAsk>(json!({"failed_shards": true}))
            .refuses(&[Code::RunUnknown, Code::RunAmbiguous, Code::RunOpen, Code::NothingToRerun, Code::JobUnknown])
            .refuses(&[
                Code::JobDeleted,
                Code::AppUnknown,
                Code::VersionUnknown,
                Code::Overlap,
                Code::QueueFull,
                Code::PendingFull,
                Code::RateLimited,
            ])
            .refuses(&[Code::Frozen, Code::RequestOpen, Code::RequestConflict, Code::Refused])
            .answers(200, "an earlier request with this id made this run", body::<rest::Rerun>())
            .answers(201, "the new run", body::<rest::Rerun>()),
    ]
}
