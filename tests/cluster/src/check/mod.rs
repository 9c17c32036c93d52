//! The invariants, each stated over what is durable, what the workers recorded, and what crossed a boundary.
//!
//! But for its own recount, nothing here asks a machine whether it is right. Checks look at what an event changed; only
//! [`coverage`] keeps a model of its own, and is recomputed from scratch at the end.

pub mod backfill;
pub mod children;
pub mod coverage;
pub mod life;
pub mod load;
pub mod loss;
pub mod misfire;
pub mod places;
pub mod rate;
pub mod reply;
pub mod send;
pub mod shards;
pub mod upstream;
pub mod wait;

use std::fmt;

/// The invariants of the semantics page, with their numbers there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rule {
    /// 1: slots up to the mark are covered exactly once; the mark is monotone.
    Slots,
    /// 2: a send is of a committed, living attempt, in a term not known to have ended.
    SendRests,
    /// 3: a native worker starts an attempt at most once.
    StartsOnce,
    /// 4: at most once means that, and "not started" is true.
    AtMostOnce,
    /// 5: no more runs of a job hold a place than its overlap policy gives, and places are given away only when
    /// nothing runs.
    Overlap,
    /// 6: load is the set of unreleased attempts.
    Load,
    /// 7: terminal rows stay; success means that every shard succeeded.
    Terminal,
    /// 8: what is acknowledged is durable.
    Acknowledged,
    /// 9: lost means silent for the dead time in this term, dead, or doubted for long enough.
    Lost,
    /// 11: an enabled fixed-delay job is armed or open, never both.
    Armed,
    /// 12: whatever waits has a wake-up.
    Wakes,
    /// 13: ids are unique and grow.
    Ids,
    /// 14: a batch is of the term of its writer, and next in line.
    Term,
    /// 16: when inputs stop, everything ends, or waits visibly.
    Quiescence,
    /// Shards are their workers', stay killed, and make their run what its job says.
    Shards,
    /// What waits for upstream jobs fires once they are done, and not before.
    Upstream,
    /// 10: each end fires each child that asks for it once.
    Children,
    /// Nothing is started while it is frozen, and what was frozen is covered as its thaw says.
    Frozen,
    /// What is missed is covered as its job says, and judged once.
    Misfire,
    /// Each slot of a backfill has one run, and a backfill stands where its rows end.
    Backfill,
    /// No more dispatches begin in a window than rates let begin.
    Rate,
    /// A batch makes sense by itself.
    Batch,
    /// What a machine keeps beside what it is derived from is the same.
    Recount,
    /// A machine's own assertion failed.
    Panic,
}

impl Rule {
    /// Its number on the semantics page; 0 for what holds for any batch and any machine.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Rule::Slots => 1,
            Rule::SendRests => 2,
            Rule::StartsOnce => 3,
            Rule::AtMostOnce => 4,
            Rule::Overlap => 5,
            Rule::Load => 6,
            Rule::Terminal => 7,
            Rule::Acknowledged => 8,
            Rule::Lost => 9,
            Rule::Children => 10,
            Rule::Armed => 11,
            Rule::Wakes => 12,
            Rule::Ids => 13,
            Rule::Term => 14,
            Rule::Quiescence => 16,
            Rule::Shards | Rule::Upstream | Rule::Frozen | Rule::Misfire | Rule::Backfill | Rule::Rate => 0,
            Rule::Batch | Rule::Recount | Rule::Panic => 0,
        }
    }

    /// This rule is broken, thus.
    #[must_use]
    pub fn broken(self, what: String) -> Broken {
        Broken { rule: self, what }
    }
}

/// An invariant that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    /// Which.
    pub rule: Rule,
    /// How.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {} ({:?}): {}", self.rule.number(), self.rule, self.what)
    }
}

/// What a check says.
pub type Verdict = Result<(), Broken>;
