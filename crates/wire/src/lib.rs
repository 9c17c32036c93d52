//! What crosses a process boundary. Shapes only, no logic.
//!
//! [`worker`] is the native worker protocol over HTTP; [`rest`] is what people and programs use;
//! [`error`] is the one shape of every refusal.
#![deny(missing_docs)]

pub mod error;
pub mod rest;
pub mod worker;
