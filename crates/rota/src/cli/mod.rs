//! The commands: what was asked becomes a call, the answer a table or JSON. Only `cron` needs no server.

pub(crate) mod alert;
pub(crate) mod app;
pub(crate) mod backfill;
pub(crate) mod backup;
pub(crate) mod client;
pub(crate) mod credentials;
pub(crate) mod cron;
pub(crate) mod events;
pub(crate) mod file;
pub(crate) mod freeze;
pub(crate) mod health;
pub(crate) mod job;
pub(crate) mod logs;
mod narrow;
pub(crate) mod out;
mod overlap;
pub(crate) mod past;
mod route;
pub(crate) mod run;
pub(crate) mod secret;
pub(crate) mod shown;
mod sources;
mod split;
pub(crate) mod table;
pub(crate) mod token;
mod upstream;
pub(crate) mod worker;
