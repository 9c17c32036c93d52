//! The words that fields of the API hold, for the schemas only: the bodies carry text, so that a newer server may say
//! more to an older client.
//!
//! Tests of the server hold these lists and its own tables together.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident: $($word:literal)*;)*) => {
        $(
            $(#[$doc])*
            pub struct $name;

            impl $name {
                /// Every one.
                pub const ALL: &'static [&'static str] = &[$($word,)*];
            }

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    let text = ObjectBuilder::new().schema_type(Type::String);
                    text.enum_values(Some($name::ALL.iter().copied())).into()
                }
            }

            impl ToSchema for $name {
                fn name() -> Cow<'static, str> {
                    Cow::Borrowed(stringify!($name))
                }
            }
        )*
    };
}

words! {
    /// What happens while an earlier run holds its place.
    OverlapPolicy: "allow" "skip" "queue" "cancel_running" "cancel_and_wait" "merge";
    /// What became of a run that was asked for.
    Entry: "started" "queued" "merged";
    /// What becomes of slots in a gap of the clock.
    DstGap: "run_after" "skip";
    /// Which of the slots run whose time has passed.
    MisfirePolicy: "skip" "fire_once" "catch_up";
    /// Which pass of an overlap of the clock has the slot.
    DstOverlap: "first" "last" "both";
    /// How an upstream run has to end.
    UpstreamWhen: "success" "failure" "completion";
    /// Which slots of an upstream job count.
    UpstreamPeriod: "same_slot" "latest" "window";
    /// What an upstream slot without a run means.
    OnSkip: "skip" "run";
    /// What is done about an attempt that may have run.
    Delivery: "at_least_once" "at_most_once";
    /// What becomes of a shard whose worker dies.
    OnLoss: "reassign" "fail";
    /// How a worker is chosen.
    Strategy: "FIRST" "LAST" "FAILOVER" "TASK_ROUND_ROBIN" "APP_ROUND_ROBIN" "RANDOM" "LFU" "LRU" "CONSISTENT_HASH"
        "LEAST_INFLIGHT" "TASK_WEIGHT" "default";
    /// Whose choices of workers are counted.
    RouteScope: "app" "job";
    /// How places on a ring are computed.
    RouteHash: "xxh3" "md5_xxl";
    /// What a load is measured in.
    LoadUnit: "weight" "count";
    /// States of a job.
    JobState: "enabled" "paused" "finished" "deleted";
    /// What made a run.
    Origin: "schedule" "manual" "api" "rerun" "backfill" "upstream";
    /// Where a backfill stands.
    BackfillState: "running" "done" "cancelled";
    /// What a trigger may say that it is.
    TriggerOrigin: "manual" "api";
    /// States of a run, and of a row without one.
    RunState: "pending" "dispatched" "running" "success" "failed" "timeout" "killed" "lost" "skipped" "merged"
        "discarded" "rejected";
    /// States of an attempt.
    AttemptState: "dispatched" "running" "in_doubt" "stopping" "success" "failed" "timeout" "killed" "lost"
        "not_started";
    /// States of a worker.
    WorkerState: "online" "draining" "unreachable" "offline";
    /// What a token opens.
    TokenScope: "admin" "read" "worker";
    /// Why a stream ended.
    StreamEnding: "ended" "shutdown" "slow" "failed";
    /// What a token that is made on request opens.
    NewScope: "read";
}
