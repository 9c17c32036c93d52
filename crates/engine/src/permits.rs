//! The server's cap on shards that are admitted and not yet sent, lent to its machines.
//!
//! A machine may have what the others leave. It is told so before it admits anything, so the sum stays
//! within the cap, but for a run that is wider than the cap and enters alone.

#[derive(Debug)]
pub(crate) struct Permits {
    cap: u32,
    pending: u32,
}

impl Permits {
    pub(crate) fn new(cap: u32) -> Permits {
        Permits { cap, pending: 0 }
    }

    /// One machine's number changed.
    pub(crate) fn change(&mut self, before: u32, after: u32) {
        self.pending = self.pending.checked_sub(before).expect("a part is not above its sum");
        self.pending = self.pending.saturating_add(after);
    }

    /// What a machine with `own` pending shards may have.
    pub(crate) fn for_machine(&self, own: u32) -> u32 {
        self.cap.saturating_sub(self.pending.saturating_sub(own))
    }

    /// Whether so few are lent that its machine may wait for others to send.
    pub(crate) fn is_short(&self, lent: u32) -> bool {
        lent < self.cap.div_ceil(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_may_have_what_the_others_leave() {
        let mut permits = Permits::new(1_000);
        assert_eq!(permits.for_machine(0), 1_000);
        permits.change(0, 700);
        assert_eq!(permits.for_machine(700), 1_000);
        assert_eq!(permits.for_machine(0), 300);
        assert!(permits.is_short(300) && !permits.is_short(500));
        permits.change(0, 1_500);
        assert_eq!(permits.for_machine(700), 0, "a wide run entered alone elsewhere");
        permits.change(700, 0);
        permits.change(1_500, 1);
        assert_eq!(permits.for_machine(0), 999);
    }
}
