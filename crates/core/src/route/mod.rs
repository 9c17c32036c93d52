//! Choosing a worker. A [`Pool`] holds those that may be chosen with what they carry; a [`Rule`] says how one of them is
//! chosen for a [`Task`]. What it costs is a logarithm of their number, and what is chosen follows from what went before
//! and a seed, nothing else.
//!
//! Tasks that are due together are routed in the order that fills machines best, biggest first: by [`order`] where all of
//! it is known at once, and by [`Routing::turn`], a part of it, on the machine's timeline.

mod draw;
mod fit;
pub mod learn;
pub mod order;
mod places;
mod pool;
mod ring;
mod rule;
mod spec;
mod tree;
mod usage;

pub use draw::Draw;
pub use fit::{Amounts, Room, Score};
pub use pool::{Load, Member, NOTHING, Nobody, Pool, Seat, Task};
pub use ring::Hash;
pub use rule::{Bound, OnBusy, Rule, Scope, Unit};
pub use spec::{Options, Route, Routing, Strategy};
