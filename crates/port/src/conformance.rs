//! What every store must do, one case per fact; each implementation's tests run all of them with
//! [`store_suite!`](crate::store_suite).
//!
//! A case gets a function that opens its store. The first call makes an empty one; a later call, after
//! what the one before gave was dropped, opens the same store again.
//!
//! Absent on purpose: what only some stores can suffer (a full disk, a locked file, a segment that is
//! dropped). Their own tests show that.
#![expect(clippy::unwrap_used, reason = "these are tests; a panic is how they fail")]

mod alerts;
mod children;
mod claims;
mod fencing;
mod fixture;
mod past;
mod reads;
mod reservations;
mod secrets;
mod upkeep;

pub use alerts::*;
pub use children::*;
pub use claims::*;
pub use fencing::*;
pub use past::*;
pub use reads::*;
pub use reservations::*;
pub use secrets::*;
pub use upkeep::*;

use crate::store::Store;
pub use crate::upstream::Reads;

/// A store, and reads of it.
pub type Opened = (Box<dyn Store>, Box<dyn Reads>);

/// Opens a case's store: makes it at first, opens it again afterwards.
pub type Open<'o> = &'o mut dyn FnMut() -> Opened;

/// Makes a test of each case. Takes an expression that gives a new `FnMut() -> Opened` for each.
// A macro, so that every case is a test of its own, and is named when it fails.
#[macro_export]
macro_rules! store_suite {
    ($open:expr) => {
        $crate::store_suite! { $open =>
            a_stale_epoch_is_fenced
            a_claim_fences_the_term_before
            the_same_batch_twice_changes_nothing
            a_hole_in_the_sequence_is_fenced
            one_fenced_batch_leaves_the_others
            a_lost_reply_is_answered_by_sending_again
            batches_of_one_partition_apply_in_order
            a_run_cannot_be_inserted_twice
            a_run_that_is_not_there_cannot_be_set
            an_attempt_that_is_not_there_cannot_be_set
            an_attempt_needs_its_run
            the_mark_never_goes_back
            a_definition_needs_its_app
            a_new_store_is_empty
            a_claim_gives_back_what_was_written
            what_was_written_survives_reopening
            a_partition_gets_only_what_is_its_own
            deleted_jobs_and_offline_workers_are_not_loaded
            open_runs_are_listed_or_at_the_floor_or_above
            unreleased_attempts_keep_a_run_open
            a_run_of_an_older_version_brings_its_definition
            slots_above_the_mark_are_covered_up_to_the_last
            attempts_of_many_shards_come_in_order
            a_first_attempt_may_follow_its_run
            sets_change_only_what_can_change
            the_same_app_is_made_once
            rates_of_an_app_are_kept
            a_job_name_is_taken_until_it_is_given_back
            a_deleted_jobs_name_is_free_and_its_id_dead
            an_unused_job_name_is_free_after_an_hour
            a_worker_keeps_its_id
            a_request_is_answered_once
            a_request_is_forgotten_after_seven_days
            tokens_are_kept_until_they_are_revoked
            a_secret_is_set_replaced_and_removed
            values_that_went_out_of_use_are_kept_for_a_while
            jobs_that_name_a_secret_are_found
            header_values_come_back_as_they_were
            an_alert_is_set_replaced_and_removed
            what_alerts_came_to_is_kept
            ends_of_watched_runs_are_noted
            no_job_can_be_made_to_wait_for_itself
            upstream_jobs_follow_the_current_version
            ids_are_disjoint_and_grow
            a_sweep_keeps_what_is_needed
            runs_are_filtered_newest_first
            a_jobs_runs_are_found_before_and_after_upkeep
            a_run_is_found_by_its_suffix
            jobs_are_paged_by_id
            versions_of_a_job_stay_readable
            workers_are_found
            the_history_of_a_job_stays_readable
            rows_are_read_in_order
            freezes_are_kept
            backfills_are_kept
            reruns_are_linked
            merged_runs_name_what_stands_for_them
            shards_are_noted
            a_run_stays_in_the_trace_that_asked_for_it
            ends_of_parents_are_noted
            an_answer_takes_its_note_away
            notes_follow_the_current_version
            a_note_lies_where_its_child_does
            terms_are_noted
        }
    };
    ($open:expr => $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                $crate::conformance::$case(&mut $open);
            }
        )*
    };
}
