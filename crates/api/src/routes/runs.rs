//! Runs, their stories and their logs, and slots that wait without a row.

use rota_wire::rest;
use rota_wire::rest::words::{Origin, RunState};

use crate::code::Code;
use crate::cursor::AFTER;
use crate::endpoint::{APP, Arg, Content, Endpoint, JOB, LIMIT, Opens, Shape, body, get, page, post};
use crate::follow::LAST_EVENT_ID;
use crate::runs::LOG_BYTES_MAX;
use crate::{held, runs};

const STATE: Arg = Arg::new("state", Shape::Word(RunState::ALL), "only in this state");
const ORIGIN: Arg = Arg::new("origin", Shape::Word(Origin::ALL), "only what was made by this");
const BACKFILL: Arg = Arg::new("backfill", Shape::Text, "only of this backfill, as printed; pages may be short");
const SINCE: Arg =
    Arg::new("since", Shape::Instant, "only what was decided since: an instant, or a duration back from now");
const OF_SHARD: Arg = Arg::new("shard", Shape::Number { min: 0, max: u32::MAX as u64 }, "only of this shard, from 0");
const SHARD: Arg = Arg::new("shard", Shape::Number { min: 0, max: u32::MAX as u64 }, "the shard, from 0; 0 if absent");
const ATTEMPT: Arg = Arg::new(
    "attempt",
    Shape::Number { min: 0, max: u32::MAX as u64 },
    "the attempt's number, from 1; the last if absent",
);
const FOLLOW: Arg = Arg::new("follow", Shape::Flag, "follow the log as a stream of events; without `from` and `bytes`");
const FROM: Arg = Arg::new("from", Shape::Number { min: 0, max: u64::MAX }, "the byte to begin with; 0 if absent");
const BYTES: Arg =
    Arg::new("bytes", Shape::Number { min: 1, max: LOG_BYTES_MAX as u64 }, "how many bytes at most; 65,536 if absent");

pub(super) fn entries() -> Vec<Endpoint> {
    vec![
        get("list_runs", "/runs", runs::list)
            .says("Lists runs, and rows that say why slots had none, newest first.")
            .opens(Opens::Readers)
            .args(&[JOB, APP, STATE, ORIGIN, BACKFILL, SINCE, AFTER, LIMIT])
            .refuses(&[Code::AppUnknown, Code::JobUnknown, Code::BackfillUnknown])
            .refuses(&[Code::RunUnknown, Code::RunAmbiguous])
            .answers(200, "runs", page::<rest::Run>()),
        get("watch_runs", "/runs/stream", runs::watch)
            .says("Tells of runs as they change, from now on.")
            .opens(Opens::Readers)
            .args(&[JOB, APP, STATE])
            .refuses(&[Code::AppUnknown, Code::JobUnknown, Code::TooManyStreams])
            .answers_with(
                200,
                "a stream of changes",
                Content::Events(vec![
                    ("run", body::<rest::Run>()),
                    ("dropped", body::<rest::Dropped>()),
                    ("end", body::<rest::StreamEnd>()),
                ]),
            ),
        get("get_run", "/runs/{run}", runs::get)
            .says("Shows a run with all its attempts.")
            .opens(Opens::Readers)
            .refuses(&[Code::RunUnknown, Code::RunAmbiguous])
            .answers(200, "the run", body::<rest::RunDetail>()),
        get("list_attempts", "/runs/{run}/attempts", runs::attempts)
            .says("Lists the attempts of a run by shard and number.")
            .opens(Opens::Readers)
            .args(&[OF_SHARD, AFTER, LIMIT])
            .refuses(&[Code::RunUnknown, Code::RunAmbiguous])
            .answers(200, "attempts", page::<rest::Attempt>()),
        post("kill_run", "/runs/{run}/kill", runs::kill)
            .says("Kills a run, or one shard of it: durable at once, and what it started is being stopped.")
            .opens(Opens::Admins)
            .args(&[OF_SHARD])
            .refuses(&[Code::RunUnknown, Code::RunAmbiguous, Code::RunEnded, Code::ShardEnded])
            .answers(200, "the run is being killed", body::<rest::Killed>()),
        get("explain_run", "/runs/{run}/why", runs::why)
            .says("Tells what happened to a run.")
            .opens(Opens::Readers)
            .refuses(&[Code::RunUnknown, Code::RunAmbiguous])
            .answers(200, "its story", body::<rest::Story>()),
        get("read_log", "/runs/{run}/logs", runs::logs)
            .says("Reads a part of an attempt's log; or follows what all attempts of a run print, until it has ended.")
            .opens(Opens::Readers)
            .args(&[SHARD, ATTEMPT, FROM, BYTES, FOLLOW])
            .headers(&[LAST_EVENT_ID])
            .refuses(&[Code::RunUnknown, Code::RunAmbiguous, Code::TooManyStreams])
            .answers(200, "whole lines", body::<rest::LogWindow>())
            .answers_with(
                200,
                "with `follow`, a stream of what is printed",
                Content::Events(vec![
                    ("log", body::<rest::LogPart>()),
                    ("run", body::<rest::Followed>()),
                    ("end", body::<rest::StreamEnd>()),
                ]),
            ),
        get("list_held", "/held", held::list)
            .says("Lists slots that are due and wait without a row, longest first, at most 1,000.")
            .opens(Opens::Readers)
            .args(&[JOB, APP, AFTER, LIMIT])
            .refuses(&[Code::AppUnknown, Code::JobUnknown])
            .answers(200, "the slots", page::<rest::Held>()),
    ]
}
