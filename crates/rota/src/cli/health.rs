//! `rota health`: for whoever watches a process from outside, such as a container's health check.

use http::StatusCode;

use super::client::Client;
use super::credentials::Credentials;
use super::out::Out;
use crate::exit::Failure;

/// Asks `/livez`, or `/readyz`; no token is needed.
pub(crate) async fn ask(server: String, is_ready: bool, out: Out) -> Result<(), Failure> {
    let client = Client::new(Credentials { server, token: String::new() }, "default")?;
    let (status, text) = client.open(if is_ready { "/readyz" } else { "/livez" }).await?;
    let text = text.trim().to_owned();
    if status == StatusCode::OK {
        return out.show(&serde_json::json!({"is_well": true, "says": text}), |_| format!("{text}\n"));
    }
    Err(Failure::failed("not_well", text))
}
