//! Planted faults are caught, each by the invariant that it breaks.

use rota_cluster::check::Rule;
use rota_cluster::mutant::Mutant;
use rota_cluster::runner;
use rota_core::partition::Mutant as In;

/// Seeds within which a fault must show.
const SEEDS: u64 = 5_000;

fn check(mutant: Mutant, expected: &[Rule]) {
    let total = runner::run_seeds(0..SEEDS, Some(mutant), 1, 1, &|_, _| {});
    let failure = total.failures.first().unwrap_or_else(|| panic!("{mutant:?} was not caught in {SEEDS} seeds"));
    assert!(
        expected.contains(&failure.broken.rule),
        "{mutant:?} was caught by another rule than {expected:?}:\n{failure}"
    );
}

#[test]
fn planted_bugs_are_caught() {
    check(Mutant::Machine(In::SendBeforeCommit), &[Rule::SendRests, Rule::Acknowledged]);
    check(Mutant::Machine(In::MarkBeforeRows), &[Rule::Slots]);
    check(Mutant::MarkBeforeRows, &[Rule::Slots]);
    check(Mutant::Machine(In::LoadCountedTwice), &[Rule::Load]);
    check(Mutant::Machine(In::DoubtIsNotStarted), &[Rule::AtMostOnce, Rule::Overlap]);
    check(Mutant::Machine(In::LostAtOnceAfterRestart), &[Rule::Lost]);
    check(Mutant::Machine(In::BeatRaceClosesLive), &[Rule::Lost, Rule::Overlap]);
    check(Mutant::Machine(In::LateSuccessIgnored), &[Rule::Acknowledged, Rule::Terminal]);
    check(Mutant::Machine(In::ReleaseAtTimeout), &[Rule::Overlap]);
    check(Mutant::Machine(In::FiresWhileFrozen), &[Rule::Frozen]);
    check(Mutant::Machine(In::JitterIgnored), &[Rule::Slots]);
    check(Mutant::Machine(In::RateIgnored), &[Rule::Rate]);
    check(Mutant::Machine(In::OverlapIgnored), &[Rule::Overlap]);
    check(Mutant::Machine(In::WaitersBeginAtLoad), &[Rule::Overlap]);
    check(Mutant::Machine(In::VerdictForgotten), &[Rule::Misfire]);
    check(Mutant::Machine(In::PaceIgnored), &[Rule::Misfire]);
    check(Mutant::Machine(In::RetriesAnywhere), &[Rule::Shards]);
    check(Mutant::Machine(In::ShardKillForgotten), &[Rule::Acknowledged]);
    check(Mutant::Machine(In::BroadcastToAnyone), &[Rule::Shards]);
    check(Mutant::Machine(In::QuorumShort), &[Rule::Terminal]);
    check(Mutant::Machine(In::UpstreamIgnored), &[Rule::Upstream]);
    check(Mutant::Machine(In::BackfillCursorLost), &[Rule::Backfill]);
    check(Mutant::Machine(In::BackfillPaceIgnored), &[Rule::Backfill]);
    check(Mutant::Machine(In::NotesTakenTwice), &[Rule::Children]);
    check(Mutant::Machine(In::BlockedNoteDropped), &[Rule::Quiescence]);
    check(Mutant::StaleOwnerSends, &[Rule::SendRests]);
    check(Mutant::IdsFromRestoredCounter, &[Rule::Ids]);
    check(Mutant::StoreDoesNotFence, &[Rule::Term]);
    check(Mutant::WakeIsLost, &[Rule::Wakes]);
    check(Mutant::CallStaysOpen, &[Rule::Quiescence]);
    check(Mutant::ArmingIsForgotten, &[Rule::Armed]);
    check(Mutant::TokensLentTwice, &[Rule::Rate]);
}
