//! The job file: what is read from it ([`wanted`]), what has to be done for it ([`plan`]), and how it is written
//! ([`emit`]).
//!
//! Everything here is pure. Asking a server, and carrying a plan out, is the command's part (`cli::file`).

pub(crate) mod alerts;
pub(crate) mod calendars;
mod diff;
pub(crate) mod emit;
mod later;
pub(crate) mod mistake;
pub(crate) mod node;
pub(crate) mod order;
pub(crate) mod plan;
mod reader;
#[cfg(test)]
mod round_trip;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod wanted;
mod yaml;

pub(crate) use yaml::BYTES_MAX;
