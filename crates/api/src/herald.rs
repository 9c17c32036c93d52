//! Whoever tells people of alerts, as the API needs them.

use rota_core::alert::{Channel, Key};
use rota_port::alerts::StoredAlert;
use rota_port::intake::Waiting;

/// Speaks through the channels of alerts.
pub trait Herald: Send + Sync {
    /// Judges a channel's address, as far as its secrets are set; a clause that says what is wrong.
    fn check(&self, namespace: &str, channel: &Channel) -> Result<(), String>;
    /// Rules were changed.
    fn changed(&self) -> Waiting<()>;
    /// Somebody cares for an alarm: it is not repeated while it is open. False if it is not open.
    fn acknowledge(&self, key: Key, by: &str) -> Waiting<bool>;
    /// Sends a message that says that it is a test; a clause that says why it was not delivered.
    fn test(&self, alert: StoredAlert) -> Waiting<Result<(), String>>;
}
