//! What happens to a slot when the wall clock jumps.
//!
//! A *gap* is wall time that never happens (clocks go forward), an *overlap* is wall time that happens twice (clocks go
//! back). The policy decides which instants a matching wall time stands for; everything else follows from that.

/// What becomes of wall times inside a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gap {
    /// However many slots fall into the gap, one slot at the first valid instant after it.
    RunAfter,
    /// They have no slot.
    Skip,
}

impl Gap {
    /// Every rule.
    pub const ALL: [Gap; 2] = [Gap::RunAfter, Gap::Skip];

    /// The word that users write and read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunAfter => "run_after",
            Self::Skip => "skip",
        }
    }

    /// The rule with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }
}

/// Which pass of an overlap has the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Overlap {
    /// The first pass, before the clocks go back.
    First,
    /// The second pass.
    Last,
    /// Both.
    Both,
}

impl Overlap {
    /// Every rule.
    pub const ALL: [Overlap; 3] = [Overlap::First, Overlap::Last, Overlap::Both];

    /// The word that users write and read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
            Self::Both => "both",
        }
    }

    /// The rule with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }
}

/// An explicit rule, obeyed literally by every expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dst {
    /// What becomes of wall times inside a gap.
    pub gap: Gap,
    /// Which pass of an overlap has the slot.
    pub overlap: Overlap,
}

/// How a cron schedule meets a jump of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DstPolicy {
    /// No tick lost, none doubled. A fixed-time expression (`30 2 * * *`) runs once: at the first valid instant after a
    /// gap, in the first pass of an overlap. An interval expression, one with a `*` or an open step in its second,
    /// minute or hour field (`*/15 * * * *`), goes on in real time: nothing extra at a gap, both passes of an overlap.
    Standard,
    /// This rule, for interval expressions too.
    Custom(Dst),
    /// As Quartz 2.3.2 does it, for imported jobs: gap skipped, second pass of an overlap.
    Quartz,
}

impl DstPolicy {
    /// The default with one half of it, or both, replaced; what is not given is as the expression has it by default.
    pub fn replaced(gap: Option<Gap>, overlap: Option<Overlap>, is_interval: bool) -> Self {
        if gap.is_none() && overlap.is_none() {
            return Self::Standard;
        }
        let standard = Self::Standard.rule(is_interval);
        Self::Custom(Dst { gap: gap.unwrap_or(standard.gap), overlap: overlap.unwrap_or(standard.overlap) })
    }

    /// The rule that an expression follows.
    pub(crate) fn rule(self, is_interval: bool) -> Dst {
        match self {
            Self::Standard if is_interval => Dst { gap: Gap::Skip, overlap: Overlap::Both },
            Self::Standard => Dst { gap: Gap::RunAfter, overlap: Overlap::First },
            Self::Custom(dst) => dst,
            Self::Quartz => Dst { gap: Gap::Skip, overlap: Overlap::Last },
        }
    }
}
