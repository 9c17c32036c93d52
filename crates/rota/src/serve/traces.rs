//! Whether runs are traced, and what watches for them.

use std::sync::Arc;

use rota_core::trace::Sampler;
use rota_port::query::Query;
use rota_port::store::Store;

use super::Plan;
use crate::exit::Failure;

/// Puts what makes spans around the store, if a collector is named.
#[cfg(feature = "otlp")]
pub(super) fn watch(
    plan: &Plan,
    store: Box<dyn Store>,
    query: &Arc<dyn Query>,
) -> Result<(Box<dyn Store>, Sampler), Failure> {
    use crate::trace::{Collector, Exporter, Traced};

    let Some(otlp) = &plan.telemetry.otlp else { return Ok((store, Sampler::NONE)) };
    let to = Collector::parse(otlp).ok_or_else(|| {
        let hint = "one that takes OTLP over plain HTTP, for example: http://127.0.0.1:4318".to_owned();
        Failure::usage(format!("telemetry.otlp: `{otlp}` is no address of a collector"), Some(hint))
    })?;
    let query = Arc::clone(query);
    let names = move |job| query.job(job).ok().flatten().map(|definition| definition.name);
    let exporter = Exporter::start(to, Box::new(names))?;
    let sampler = Sampler::new(salt(plan), plan.telemetry.per_million);
    Ok((Box::new(Traced::new(store, sampler, exporter)), sampler))
}

/// Nothing; a collector that is named all the same is a mistake that somebody should hear of.
#[cfg(not(feature = "otlp"))]
pub(super) fn watch(
    plan: &Plan,
    store: Box<dyn Store>,
    _query: &Arc<dyn Query>,
) -> Result<(Box<dyn Store>, Sampler), Failure> {
    if plan.telemetry.otlp.is_none() {
        return Ok((store, Sampler::NONE));
    }
    let hint = "build with: cargo build --release --package rota --features otlp".to_owned();
    Err(Failure::usage("telemetry.otlp: this binary was built without traces", Some(hint)))
}

/// The same at every start, and another one for each directory and host: ids of runs alone are not unique between stores.
#[cfg(feature = "otlp")]
fn salt(plan: &Plan) -> u64 {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let data = std::path::absolute(&plan.data).unwrap_or_else(|_| plan.data.clone());
    let bytes = host.bytes().chain(data.as_os_str().as_encoded_bytes().iter().copied());
    // FNV-1a, 64 bits (Fowler, Noll, Vo).
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
