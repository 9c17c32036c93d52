//! Faults that are planted to see them caught: those of the machine, and those of its shell.

/// A planted fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// In the machine.
    #[cfg(feature = "mutants")]
    Machine(rota_core::partition::Mutant),
    /// A server goes on sending what it had queued, although it knows that its term is over.
    StaleOwnerSends,
    /// After a restart, ids come from an old copy of the counter.
    IdsFromRestoredCounter,
    /// The mark of a batch becomes durable before its rows.
    MarkBeforeRows,
    /// The store takes batches of terms that are over.
    StoreDoesNotFence,
    /// Wake-ups that a machine asked for never come.
    WakeIsLost,
    /// A call that nothing answers stays open for ever.
    CallStaysOpen,
    /// The next instant of a fixed-delay job does not become durable with the end of its run.
    ArmingIsForgotten,
    /// A server lends tokens of its rate again that were taken.
    TokensLentTwice,
}

impl Mutant {
    /// Every shell's fault, and every machine's if it is built with them.
    #[must_use]
    pub fn all() -> Vec<Mutant> {
        let mut all = vec![
            Mutant::StaleOwnerSends,
            Mutant::IdsFromRestoredCounter,
            Mutant::MarkBeforeRows,
            Mutant::StoreDoesNotFence,
            Mutant::WakeIsLost,
            Mutant::CallStaysOpen,
            Mutant::ArmingIsForgotten,
            Mutant::TokensLentTwice,
        ];
        #[cfg(feature = "mutants")]
        {
            use rota_core::partition::Mutant as In;
            let machine = [
                In::SendBeforeCommit,
                In::MarkBeforeRows,
                In::LoadCountedTwice,
                In::DoubtIsNotStarted,
                In::LostAtOnceAfterRestart,
                In::BeatRaceClosesLive,
                In::LateSuccessIgnored,
                In::ReleaseAtTimeout,
                In::FiresWhileFrozen,
                In::JitterIgnored,
                In::OverlapIgnored,
                In::RateIgnored,
                In::WaitersBeginAtLoad,
                In::VerdictForgotten,
                In::PaceIgnored,
                In::RetriesAnywhere,
                In::ShardKillForgotten,
                In::BroadcastToAnyone,
                In::QuorumShort,
                In::UpstreamIgnored,
                In::BackfillCursorLost,
                In::BackfillPaceIgnored,
                In::NotesTakenTwice,
                In::BlockedNoteDropped,
            ];
            all.extend(machine.map(Mutant::Machine));
        }
        all.sort_by_key(|mutant| format!("{mutant:?}"));
        all
    }

    /// The fault with this name, such as `StaleOwnerSends` or `Machine(SendBeforeCommit)`.
    #[must_use]
    pub fn named(name: &str) -> Option<Mutant> {
        Mutant::all().into_iter().find(|mutant| format!("{mutant:?}") == name)
    }
}
