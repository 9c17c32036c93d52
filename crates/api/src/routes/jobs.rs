//! Jobs, and running them now.

use rota_wire::rest;
use serde_json::{Value, json};

use crate::code::Code;
use crate::cursor::AFTER;
use crate::endpoint::{APP, Arg, Endpoint, LIMIT, Opens, Shape, body, delete, get, page, post, put};
use crate::parent::TRACEPARENT;
use crate::{batch, jobs, trigger};

const VERSION: Arg = Arg::new(
    "version",
    Shape::Number { min: 0, max: u32::MAX as u64 },
    "the version that is changed; refused if it is another by now",
);

const MANAGED_BY: Arg =
    Arg::new("managed_by", Shape::Name, "only of this job file; pages may be short, and only the last has no `next`");

fn example() -> Value {
    json!({"name": "report", "app": "etl", "cron": "0 2 * * *", "timezone": "Asia/Shanghai", "handler": "report"})
}

pub(super) fn entries() -> Vec<Endpoint> {
    vec![
        get("list_jobs", "/jobs", jobs::list)
            .says("Lists jobs by their ids, without deleted ones.")
            .opens(Opens::Readers)
            .args(&[APP, MANAGED_BY, AFTER, LIMIT])
            .refuses(&[Code::AppUnknown])
            .answers(200, "jobs", page::<rest::Job>()),
        post("create_job", "/jobs", jobs::create)
            .says("Makes a job.")
            .opens(Opens::Admins)
            .takes::<rest::JobSpec>(example())
            .refuses(&[Code::AppUnknown, Code::NameTaken, Code::Cycle])
            .answers(201, "the job was made", body::<rest::JobSaved>()),
        post("change_jobs", "/jobs/batch", batch::batch)
            .says("Changes up to 1,000 jobs, each as a call of its own would: one that is refused stops no other.")
            .opens(Opens::Admins)
            .takes::<rest::Batch>(json!({"managed_by": "shop", "changes": [{"op": "create", "spec": example()}]}))
            .answers(200, "what became of each change, in their order", body::<rest::BatchDone>()),
        post("find_jobs", "/jobs/find", batch::find)
            .says("Shows the living jobs among up to 1,000 names.")
            .opens(Opens::Readers)
            .takes::<rest::JobsNamed>(json!({"names": ["report"]}))
            .refuses(&[Code::AppUnknown])
            .answers(200, "the jobs that there are", page::<rest::Job>()),
        get("get_job", "/jobs/{job}", jobs::get)
            .says("Shows a job. One that is deleted is found by its id.")
            .opens(Opens::Readers)
            .refuses(&[Code::JobUnknown, Code::AppUnknown])
            .answers(200, "the job", body::<rest::Job>())
            .tagged(),
        put("edit_job", "/jobs/{job}", jobs::edit)
            .says("Gives a job a new version.")
            .opens(Opens::Admins)
            .args(&[VERSION])
            .takes::<rest::JobSpec>(example())
            .refuses(&[Code::JobUnknown, Code::AppUnknown, Code::JobDeleted, Code::VersionConflict, Code::Cycle])
            .answers(200, "the job was changed", body::<rest::JobSaved>())
            .tagged(),
        delete("delete_job", "/jobs/{job}", jobs::delete)
            .says("Deletes a job. What runs is followed to its end; what waits is discarded.")
            .opens(Opens::Admins)
            .args(&[VERSION])
            .refuses(&[Code::JobUnknown, Code::AppUnknown, Code::JobDeleted, Code::VersionConflict, Code::InUse])
            .answers(200, "the job is deleted", body::<rest::JobNow>())
            .tagged(),
        post("pause_job", "/jobs/{job}/pause", jobs::pause)
            .says("Pauses a job: its slots are skipped until it is resumed.")
            .opens(Opens::Admins)
            .args(&[VERSION])
            .takes::<rest::Reason>(json!({"reason": "until v2"}))
            .refuses(&[Code::JobUnknown, Code::AppUnknown, Code::JobDeleted, Code::VersionConflict])
            .answers(200, "the job is paused", body::<rest::JobNow>())
            .tagged(),
        post("resume_job", "/jobs/{job}/resume", jobs::resume)
            .says("Resumes a job from now on.")
            .opens(Opens::Admins)
            .args(&[VERSION])
            .takes::<rest::Reason>(json!({}))
            .refuses(&[Code::JobUnknown, Code::AppUnknown, Code::JobDeleted, Code::VersionConflict])
            .answers(200, "the job fires again", body::<rest::JobNow>())
            .tagged(),
        post("trigger_job", "/jobs/{job}/trigger", trigger::trigger)
            .says("Runs a job now, once per `request_id`.")
            .opens(Opens::Admins)
            .headers(&[TRACEPARENT])
            .takes::<rest::Trigger>(json!({"request_id": "8f14e45f", "param": "date=2026-12-01"}))
            .refuses(&[
                Code::JobUnknown,
                Code::AppUnknown,
                Code::JobDeleted,
                Code::Overlap,
                Code::QueueFull,
                Code::PendingFull,
                Code::RateLimited,
            ])
            .refuses(&[Code::RequestOpen, Code::RequestConflict, Code::Refused, Code::Frozen])
            .answers(200, "an earlier request with this id made this run", body::<rest::Triggered>())
            .answers(201, "the run", body::<rest::Triggered>()),
        get("get_job_version", "/jobs/{job}/versions/{version}", jobs::version)
            .says("Shows one version of a job.")
            .opens(Opens::Readers)
            .refuses(&[Code::JobUnknown, Code::AppUnknown, Code::VersionUnknown])
            .answers(200, "the version", body::<rest::Job>()),
    ]
}
