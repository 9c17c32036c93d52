//! Dials workers back, for the API.

use std::sync::Arc;
use std::time::Duration;

use rota_api::{Dialer, Unanswered};
use rota_net::dial::{DialError, identify};
use rota_net::policy::Policy;
use rota_port::intake::Waiting;
use rota_wire::worker::Identity;
use tokio_rustls::rustls::ClientConfig;

const WITHIN: Duration = Duration::from_secs(3);

/// Dials over the outbound stack.
pub(super) struct NetDialer {
    pub(super) policy: Arc<Policy>,
    pub(super) tls: Arc<ClientConfig>,
}

impl Dialer for NetDialer {
    fn identify(&self, url: &str) -> Waiting<Result<Identity, Unanswered>> {
        let (url, policy, tls) = (url.to_owned(), Arc::clone(&self.policy), Arc::clone(&self.tls));
        Box::pin(async move {
            identify(&url, &policy, &tls, WITHIN).await.map_err(|error| {
                // Whoever shows it names the address and what would help; this is the clause between the two.
                let clause = clause(&error);
                match error {
                    DialError::Refused { .. } => Unanswered::Refused(clause),
                    DialError::BadUrl(_)
                    | DialError::Forbidden { .. }
                    | DialError::Unresolved { .. }
                    | DialError::TimedOut { .. }
                    | DialError::Unreachable { .. }
                    | DialError::NotAWorker { .. } => Unanswered::Silent(clause),
                }
            })
        })
    }
}

fn clause(error: &DialError) -> String {
    match error {
        DialError::BadUrl(bad) => format!("is no address: {bad}"),
        DialError::Forbidden { forbidden, .. } => format!("is not called: {forbidden}"),
        DialError::Unresolved { .. } => "has no address".to_owned(),
        DialError::Refused { .. } => "refused the connection".to_owned(),
        DialError::TimedOut { ms, .. } => format!("did not answer within {ms} ms"),
        DialError::Unreachable { problem, .. } => format!("did not answer ({problem})"),
        DialError::NotAWorker { problem, .. } => format!("is not a Rota worker ({problem})"),
    }
}
