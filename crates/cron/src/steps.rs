//! How much work a search does, counted in builds with assertions only, so that tests bound it without a clock.
//!
//! This is telemetry: no answer depends on it.

#[cfg(debug_assertions)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// One step: a month looked at, a change of the clock halved in, a closed span passed.
pub(crate) fn step() {
    #[cfg(debug_assertions)]
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

/// The steps that this thread has taken, if this build counts them.
#[doc(hidden)]
pub fn steps() -> Option<u64> {
    #[cfg(debug_assertions)]
    return Some(STEPS.with(std::cell::Cell::get));
    #[cfg(not(debug_assertions))]
    None
}
