//! Ranges of the past that run on demand.

use rota_wire::rest;
use serde_json::json;

use crate::backfill;
use crate::code::Code;
use crate::cursor::AFTER;
use crate::endpoint::{Arg, Endpoint, JOB, LIMIT, Opens, Shape, body, get, page, post};

const OPEN: Arg = Arg::new("open", Shape::Flag, "only those that have not ended");

pub(super) fn entries() -> Vec<Endpoint> {
    let example = || json!({"from": "2026-11-01", "to": "2026-11-08", "pace": "30/m", "parallel": 2});
    vec![
        post("preview_backfill", "/jobs/{job}/backfills/preview", backfill::preview)
            .says("Tells what a backfill would run, how long that takes at the least, and what else it waits for.")
            .opens(Opens::Readers)
            .takes::<rest::BackfillAsk>(example())
            .refuses(&[Code::JobUnknown, Code::AppUnknown, Code::JobDeleted])
            .answers(200, "what it would do", body::<rest::BackfillPlan>()),
        post("add_backfill", "/jobs/{job}/backfills", backfill::add)
            .says("Runs a job for all its slots in a range of the past, at a pace, once per `request_id`.")
            .opens(Opens::Admins)
            .takes::<rest::BackfillAsk>(example())
            .refuses(&[Code::JobUnknown, Code::AppUnknown, Code::JobDeleted, Code::VersionConflict])
            .refuses(&[Code::TooManyBackfills, Code::BackfillUnknown])
            .refuses(&[Code::RequestOpen, Code::RequestConflict, Code::Refused])
            .answers(200, "an earlier request with this id asked for this backfill", body::<rest::Backfill>())
            .answers(201, "the backfill", body::<rest::Backfill>()),
        get("list_backfills", "/backfills", backfill::list)
            .says("Lists backfills, newest first.")
            .opens(Opens::Readers)
            .args(&[JOB, OPEN, AFTER, LIMIT])
            .refuses(&[Code::JobUnknown, Code::AppUnknown, Code::BackfillUnknown])
            .answers(200, "backfills", page::<rest::Backfill>()),
        get("get_backfill", "/backfills/{backfill}", backfill::get)
            .says("Shows a backfill, and how far it is.")
            .opens(Opens::Readers)
            .refuses(&[Code::BackfillUnknown])
            .answers(200, "the backfill", body::<rest::Backfill>()),
        post("cancel_backfill", "/backfills/{backfill}/cancel", backfill::cancel)
            .says("Lets a backfill make no more runs; those that are open go on, or are killed.")
            .opens(Opens::Admins)
            .takes::<rest::BackfillCancel>(json!({"kill": true}))
            .refuses(&[Code::BackfillUnknown, Code::BackfillEnded, Code::JobUnknown, Code::Refused])
            .answers(200, "it is cancelled", body::<rest::Backfill>()),
    ]
}
