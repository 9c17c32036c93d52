//! What the process tells its service manager, if one listens: that it takes requests, that it lives, that it stops.
//!
//! The protocol is sd_notify(3): datagrams to the socket that `NOTIFY_SOCKET` names. A sign of life is sent only while
//! `/livez` would answer well, so the manager restarts a process whose machines' thread is stuck.
//!
//! Absent on purpose: a dependency on libsystemd. Without the variable nothing is sent and nothing is opened.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::time::Duration;

use rota_engine::Handle;
use rota_port::intake::Intake as _;

/// The way to the service manager.
#[derive(Debug)]
pub(crate) struct Notify {
    to: Option<(UnixDatagram, UnixAddr)>,
    /// How often it wants to hear that the process lives.
    every: Option<Duration>,
}

impl Notify {
    /// Nobody listens.
    pub(crate) const NOBODY: Notify = Notify { to: None, every: None };

    /// Whom the environment names.
    pub(crate) fn of(environment: &BTreeMap<String, String>) -> std::io::Result<Notify> {
        let Some(name) = environment.get("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(Notify::NOBODY);
        };
        let address = match name.strip_prefix('@') {
            Some(hidden) => UnixAddr::from_abstract_name(hidden)?,
            None => UnixAddr::from_pathname(name)?,
        };
        let is_for_us = environment.get("WATCHDOG_PID").is_none_or(|pid| *pid == std::process::id().to_string());
        let within_us = environment.get("WATCHDOG_USEC").filter(|_| is_for_us).and_then(|us| us.parse::<u64>().ok());
        // Twice within the time, so that one that comes late does no harm.
        let every = within_us.filter(|us| *us > 0).map(|us| Duration::from_micros(us.div_ceil(2)));
        Ok(Notify { to: Some((UnixDatagram::unbound()?, address)), every })
    }

    /// It takes requests.
    pub(crate) fn ready(&self, address: SocketAddr) {
        self.tell(&format!("READY=1\nSTATUS=listening on http://{address}"));
    }

    /// It was asked to stop, and does.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=stopping");
    }

    /// Says that the process lives for as long as it does; never ends.
    pub(crate) async fn live(&self, handle: Handle) {
        let Some(every) = self.every else { return std::future::pending().await };
        loop {
            let stalled_ms = handle.health().stalled_ms;
            if rota_api::is_live(stalled_ms) {
                self.tell("WATCHDOG=1");
            } else {
                tracing::error!(stalled_ms, "machines_stalled");
            }
            tokio::time::sleep(every).await;
        }
    }

    /// A manager that does not listen any more is no reason to stop working.
    fn tell(&self, what: &str) {
        let Some((socket, to)) = &self.to else { return };
        if let Err(error) = socket.send_to_addr(what.as_bytes(), to) {
            tracing::warn!(%error, what, "notify_failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Notify {
        Notify::of(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()).unwrap()
    }

    #[test]
    fn without_the_variable_there_is_nobody() {
        assert!(of(&[("WATCHDOG_USEC", "1000000")]).to.is_none());
        assert!(of(&[("NOTIFY_SOCKET", "")]).to.is_none());
    }

    #[test]
    fn signs_of_life_come_twice_within_the_time_that_is_ours() {
        let every = |more: &[(&str, &str)]| of(&[&[("NOTIFY_SOCKET", "@rota-test")], more].concat()).every;
        assert_eq!(every(&[("WATCHDOG_USEC", "3000000")]), Some(Duration::from_millis(1_500)));
        let own = std::process::id().to_string();
        assert_eq!(every(&[("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", &own)]), Some(Duration::from_millis(1_500)));
        assert_eq!(every(&[("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", "1")]), None);
        assert_eq!(every(&[]), None);
    }
}
