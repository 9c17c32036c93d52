//! The public error codes. A code once published stays, has a page under `docs/errors`, and maps to one HTTP status.

use http::StatusCode;
use rota_core::why::Why;

macro_rules! codes {
    ($($name:ident $word:literal,)*) => {
        /// What a refusal is about, for programs.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Code {
            $(
                #[doc = concat!("`", $word, "`")]
                $name,
            )*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// The word that answers carry.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Code::$name => $word,)* }
            }
        }
    };
}

codes! {
    Malformed "malformed",
    UnknownField "unknown_field",
    Invalid "invalid",
    WeakToken "weak_token",
    Cycle "cycle",
    TooLarge "too_large",
    TokenMissing "token_missing",
    TokenUnknown "token_unknown",
    Forbidden "forbidden",
    RouteUnknown "route_unknown",
    MethodNotAllowed "method_not_allowed",
    AppUnknown "app_unknown",
    JobUnknown "job_unknown",
    VersionUnknown "version_unknown",
    RunUnknown "run_unknown",
    WorkerUnknown "worker_unknown",
    SecretUnknown "secret_unknown",
    AlertUnknown "alert_unknown",
    AlarmUnknown "alarm_unknown",
    BackfillUnknown "backfill_unknown",
    RunAmbiguous "run_ambiguous",
    NameTaken "name_taken",
    SecretInUse "secret_in_use",
    AlertInUse "alert_in_use",
    InUse "in_use",
    VersionConflict "version_conflict",
    JobDeleted "job_deleted",
    RunEnded "run_ended",
    BackfillEnded "backfill_ended",
    ShardEnded "shard_ended",
    RequestConflict "request_conflict",
    RequestOpen "request_open",
    TokenInUse "token_in_use",
    WorkerIdTaken "worker_id_taken",
    Overlap "overlap",
    QueueFull "queue_full",
    Frozen "frozen",
    RunOpen "run_open",
    NothingToRerun "nothing_to_rerun",
    Refused "refused",
    PendingFull "pending_full",
    TooManyBackfills "too_many_backfills",
    RateLimited "rate_limited",
    Overloaded "overloaded",
    TooManyStreams "too_many_streams",
    NotOwner "not_owner",
    NotReady "not_ready",
    StoreUnavailable "store_unavailable",
    StoreDamaged "store_damaged",
    NotDelivered "not_delivered",
    Timeout "timeout",
    Internal "internal",
}

impl Code {
    /// The status that an answer with this code has.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Code::Malformed | Code::UnknownField | Code::Invalid | Code::WeakToken | Code::Cycle => {
                StatusCode::BAD_REQUEST
            }
            Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::TokenMissing | Code::TokenUnknown => StatusCode::UNAUTHORIZED,
            Code::Forbidden => StatusCode::FORBIDDEN,
            Code::RouteUnknown
            | Code::AppUnknown
            | Code::JobUnknown
            | Code::VersionUnknown
            | Code::RunUnknown
            | Code::WorkerUnknown
            | Code::SecretUnknown
            | Code::AlertUnknown
            | Code::BackfillUnknown
            | Code::AlarmUnknown => StatusCode::NOT_FOUND,
            Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Code::RunAmbiguous
            | Code::NameTaken
            | Code::SecretInUse
            | Code::AlertInUse
            | Code::InUse
            | Code::JobDeleted
            | Code::RunEnded
            | Code::BackfillEnded
            | Code::ShardEnded
            | Code::RequestConflict
            | Code::RequestOpen
            | Code::TokenInUse
            | Code::WorkerIdTaken
            | Code::Overlap
            | Code::QueueFull
            | Code::RunOpen
            | Code::NothingToRerun
            | Code::NotDelivered
            | Code::Refused => StatusCode::CONFLICT,
            Code::Frozen => StatusCode::LOCKED,
            // What the caller saw is its condition, be it in a header or an argument.
            Code::VersionConflict => StatusCode::PRECONDITION_FAILED,
            Code::PendingFull | Code::RateLimited | Code::TooManyBackfills => StatusCode::TOO_MANY_REQUESTS,
            Code::Overloaded | Code::TooManyStreams | Code::NotOwner | Code::NotReady | Code::StoreUnavailable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Code::StoreDamaged | Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Code::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// The code of a machine's refusal. Reasons that describe runs and not requests have none of their own.
    #[must_use]
    pub fn of(why: Why) -> Code {
        match why {
            Why::PendingFull => Code::PendingFull,
            Why::Rate | Why::ServerRate => Code::RateLimited,
            Why::JobUnknown => Code::JobUnknown,
            Why::JobDeleted | Why::Deleted => Code::JobDeleted,
            Why::RunUnknown => Code::RunUnknown,
            Why::RunEnded => Code::RunEnded,
            Why::ShardEnded => Code::ShardEnded,
            Why::VersionConflict => Code::VersionConflict,
            Why::WorkerUnknown => Code::WorkerUnknown,
            Why::WorkerIdTaken => Code::WorkerIdTaken,
            Why::SecretUnknown => Code::SecretUnknown,
            Why::NotOwner => Code::NotOwner,
            Why::Overloaded => Code::Overloaded,
            Why::Overlap => Code::Overlap,
            Why::QueueFull => Code::QueueFull,
            Why::Frozen => Code::Frozen,
            Why::BackfillUnknown => Code::BackfillUnknown,
            Why::TooManyBackfills => Code::TooManyBackfills,
            Why::ClockSuspect | Why::ClockBehind => Code::NotReady,
            Why::Invalid | Why::ShardUnknown => Code::Invalid,
            Why::Misfire
            | Why::Paused
            | Why::Edited
            | Why::Restored
            | Why::StartDeadline
            | Why::Cap
            | Why::ServerCap
            | Why::NoCredit
            | Why::NoWorker
            | Why::NoWorkerForHandler
            | Why::NoWorkerForLabels
            | Why::NoCapacity
            | Why::NextPass
            | Why::Backoff
            | Why::Thawing
            | Why::Upstream
            | Why::UpstreamSkipped
            | Why::UpstreamFailed
            | Why::UpstreamDeadline
            | Why::UpstreamUnknown
            | Why::Jitter
            | Why::CatchUp
            | Why::Pace
            | Why::Parallel
            | Why::CancelledByUser
            | Why::HandlerFailed
            | Why::HttpStatus
            | Why::AttemptTimeout
            | Why::KilledByUser
            | Why::CancelledByOverlap
            | Why::Merged
            | Why::WorkerStopped
            | Why::WorkerSilent
            | Why::WorkerRestarted
            | Why::WorkerGone
            | Why::Vanished
            | Why::InDoubt
            | Why::NeverSeen
            | Why::ConnectFailed
            | Why::SendDeadline
            | Why::RunTimeout
            | Why::DispatchFailed
            | Why::RefusedForeignIncarnation
            | Why::RefusedStaleEpoch
            | Why::RefusedCancelled
            | Why::RefusedDraining
            | Why::RefusedUnknownHandler
            | Why::RefusedFull
            | Why::RefusedAddress
            | Why::TemplateFailed
            | Why::PresumedGone
            | Why::AttemptsSpent
            | Why::TargetGone
            | Why::TooManyWorkers
            | Why::Partial
            | Why::QuorumMissed
            | Why::Superseded
            | Why::LateSuccess
            | Why::Unreachable => Code::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_page_and_every_page_a_code() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        let mut pages: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "README.md")
            .collect();
        pages.sort();
        let mut codes: Vec<String> = Code::ALL.iter().map(|code| format!("{}.md", code.word())).collect();
        codes.sort();
        assert_eq!(pages, codes);
        for page in pages {
            let text = std::fs::read_to_string(format!("{folder}/{page}")).unwrap();
            let code = page.trim_end_matches(".md");
            let found = Code::ALL.iter().find(|known| known.word() == code).unwrap();
            let head = format!("# `{code}` ({})", found.status().as_u16());
            assert_eq!(text.lines().next(), Some(head.as_str()), "{page}");
            assert!(text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c)), "{page} has no Chinese line");
        }
    }

    #[test]
    fn words_are_unique() {
        let words: std::collections::BTreeSet<_> = Code::ALL.iter().map(|code| code.word()).collect();
        assert_eq!(words.len(), Code::ALL.len());
    }

    #[test]
    fn a_reason_with_a_code_of_its_own_keeps_its_word() {
        for why in Why::ALL {
            let code = Code::of(*why);
            let is_named = Code::ALL.iter().any(|known| known.word() == why.word());
            assert!(!is_named || code.word() == why.word(), "{why} became {}", code.word());
        }
    }
}
