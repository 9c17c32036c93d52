//! Whoever tells people of alerts, as the API needs them.

use std::collections::BTreeMap;

use rota_core::alert::{Channel, Key};
use rota_port::alerts::StoredAlert;
use rota_port::intake::Waiting;

/// What was told since the start of the process, by kind of channel, and what is open now. Test messages do not count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AlertCounts {
    /// Messages that their channel has taken.
    pub sent: BTreeMap<&'static str, u64>,
    /// Tries that failed.
    pub failed: BTreeMap<&'static str, u64>,
    /// Messages that were given up after a day of tries.
    pub given_up: BTreeMap<&'static str, u64>,
    /// Occurrences that got no message of their own: counted in another, or in a digest.
    pub suppressed: u64,
    /// Alarms that are open.
    pub open: u64,
    /// Messages on their way.
    pub waiting: u64,
}

/// Speaks through the channels of alerts.
pub trait Herald: Send + Sync {
    /// Judges a channel's address, as far as its secrets are set; a clause that says what is wrong.
    fn check(&self, namespace: &str, channel: &Channel) -> Result<(), String>;
    /// Rules were changed.
    fn changed(&self) -> Waiting<()>;
    /// Somebody cares for an alarm: it is not repeated while it is open. False if it is not open.
    fn acknowledge(&self, key: Key, by: &str) -> Waiting<bool>;
    /// What was told so far.
    fn counts(&self) -> AlertCounts;
    /// Sends a message that says that it is a test; a clause that says why it was not delivered.
    fn test(&self, alert: StoredAlert) -> Waiting<Result<(), String>>;
}
