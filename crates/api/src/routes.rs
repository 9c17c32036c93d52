//! Every entry of the API. The router and the OpenAPI document are both made from these.

mod access;
mod alerts;
mod backfills;
mod jobs;
mod past;
mod runs;
mod server;
mod workers;

use crate::endpoint::Endpoint;

/// All entries; those of one area stand together.
pub(crate) fn all() -> Vec<Endpoint> {
    [
        access::entries(),
        alerts::entries(),
        jobs::entries(),
        runs::entries(),
        past::entries(),
        backfills::entries(),
        workers::entries(),
        server::entries(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
