//! The contracts at which Rota's parts meet.
//!
//! [`store::Store`] makes batches durable, [`query::Query`] reads what is durable, [`history::History`] the past,
//! [`executor::Executor`] carries dispatches out, [`intake::Intake`] carries requests in,
//! [`logs::Logs`] keeps what attempts print, [`secrets::Secrets`] what jobs may use and nobody may see,
//! [`upstream`] reads what slots wait for, [`child`] the ends that fire jobs, [`backup::Backup`] copies all of it.
//!
//! Absent on purpose: SQL, HTTP, threads. [`memory`] is the reference implementation of store and query.
#![deny(missing_docs)]

pub mod alerts;
pub mod backup;
pub mod child;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod executor;
pub mod history;
pub mod intake;
pub mod logs;
pub mod memory;
pub mod query;
pub mod secrets;
pub mod store;
pub mod tap;
pub mod upstream;
