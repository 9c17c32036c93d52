//! Dispatching to native workers over HTTP.
//!
//! A worker is pinned to a lane. There it has two lines, each with its own queue and connections: one for
//! sends, one for cancels and probes, which therefore never wait behind a send that hangs. A connection
//! takes the next call of its line when it is free; no task is made for a call. A line opens a few
//! connections as calls come, and more only while calls wait for slow answers. So a worker that answers
//! late, or never, costs its own connections and their timers, and nobody else's.
//!
//! A worker that registered with a `list_max` gets what waits for it when a connection is free as one call.
//!
//! What proves that an attempt did not start: no connection could be made, the call was still in the
//! queue, hyper gives the request back unwritten, or the worker refused it in type. A connection that
//! breaks after that, a kept-alive one above all, leaves it in doubt.

mod desk;
mod encode;
mod peer;
mod seat;
mod translate;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rota_core::id::PartitionId;
use rota_core::limits::Timing;
use rota_core::trace::Sampler;
use rota_core::worker::Protocol;
use rota_port::executor::{Executor, Outbound, Outcomes};
use rota_port::secrets::Secrets;
use tokio_rustls::rustls::ClientConfig;

use crate::Clock;
use crate::connect::Connector;
use crate::lane::Lane;
use crate::policy::{Policy, Purpose};

/// How workers are called. Times are milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Threads. Two on two cores cost a third more CPU than one.
    pub lanes: usize,
    /// Bounds resolving, connecting and the TLS handshake together.
    pub connect_ms: u64,
    /// From the first byte of a send to the end of its answer.
    pub exchange_ms: u64,
    /// From the submission of a cancel or a probe to its answer.
    pub enquiry_ms: u64,
    /// After this long without a call a connection is closed. Below the keep-alive of the peers (Node
    /// and uvicorn close after 5 s): a call that meets a close is in doubt.
    pub idle_ms: u64,
    /// Connections of a line of sends that are opened as calls come.
    pub connections: usize,
    /// Connections of a line of sends at most, while answers are slow.
    pub connections_max: usize,
    /// Whose sends carry `traceparent`.
    pub sampler: Sampler,
}

impl Config {
    /// For native workers with the default timing.
    pub const NATIVE: Config = Config {
        lanes: 1,
        connect_ms: 3_000,
        exchange_ms: Timing::NATIVE.send_ms,
        enquiry_ms: 5_000,
        idle_ms: 4_000,
        connections: 8,
        // As many as a worker has send credits: then no call waits for the answer to another.
        connections_max: 64,
        sampler: Sampler::NONE,
    };
}

/// Calls native workers over HTTP.
pub struct HttpExecutor {
    lanes: Vec<Lane>,
}

impl HttpExecutor {
    /// Starts the lanes.
    pub fn start(
        config: Config,
        policy: Arc<Policy>,
        tls: Arc<ClientConfig>,
        clock: Clock,
        outcomes: Arc<dyn Outcomes>,
        secrets: Arc<Secrets>,
    ) -> io::Result<HttpExecutor> {
        assert!(config.lanes > 0 && config.connections > 0, "an executor needs a lane, and a worker a connection");
        let lane = |index: usize| {
            let (policy, tls, clock) = (policy.clone(), tls.clone(), clock.clone());
            Lane::start(format!("lane-http-{index}"), outcomes.clone(), secrets.clone(), move |outbox| {
                let timeout = Duration::from_millis(config.connect_ms);
                let connector = Connector { policy, tls, purpose: Purpose::Worker, timeout };
                desk::Desk::new(peer::Context { config, clock, connector, outbox })
            })
        };
        Ok(HttpExecutor { lanes: (0..config.lanes).map(lane).collect::<io::Result<_>>()? })
    }
}

impl Executor for HttpExecutor {
    fn protocol(&self) -> Protocol {
        Protocol::Http
    }

    fn submit(&self, calls: Vec<(PartitionId, Outbound)>) {
        if let [lane] = &*self.lanes {
            return lane.submit(calls.into_iter());
        }
        let mut shares: Vec<Vec<_>> = self.lanes.iter().map(|_| Vec::new()).collect();
        for (partition, call) in calls {
            let lane = peer::registration(&call).id.0 as usize % self.lanes.len();
            shares[lane].push((partition, call));
        }
        for (lane, share) in self.lanes.iter().zip(shares) {
            if !share.is_empty() {
                lane.submit(share.into_iter());
            }
        }
    }
}
