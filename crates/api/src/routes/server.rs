//! The server itself, and what stands beside the API.

use rota_wire::rest;

use crate::code::Code;
use crate::endpoint::{Arg, Content, Endpoint, Opens, Shape, body, get, post};
use crate::{backup, metrics, openapi, status};

const PLAIN: &str = "text/plain; charset=utf-8";

pub(super) fn entries() -> Vec<Endpoint> {
    vec![
        get("get_server", "/server", status::get)
            .says("Shows the server, and whether it takes work.")
            .opens(Opens::Readers)
            .answers(200, "the server", body::<rest::Server>()),
        post("confirm_clock", "/server/confirm-clock", status::confirm_clock)
            .says("Says that the clock is right after it jumped by more than a day.")
            .opens(Opens::Admins)
            .answers(200, "the server", body::<rest::Server>()),
        get("get_backup", "/server/backup", backup::get)
            .says("Copies everything durable into a tar archive, as it is at one moment. See `rota backup`.")
            .opens(Opens::Admins)
            .args(&[
                Arg::new(
                    "key",
                    Shape::Word(&["true", "false"]),
                    "whether the key of the secrets is in it; no if absent",
                ),
                Arg::new(
                    "logs",
                    Shape::Word(&["true", "false"]),
                    "whether what attempts printed is in it; no if absent",
                ),
            ])
            .answers_with(200, "the archive", Content::Text("application/x-tar")),
        get("get_live", "/live", status::live)
            .says("Shows the live state that has no row, as the server last published it.")
            .opens(Opens::Readers)
            .answers(200, "the live state", body::<rest::Live>()),
        Endpoint::beside("get_metrics", "/metrics", metrics::get)
            .says("Metrics in Prometheus' text format.")
            .opens(Opens::Readers)
            .refuses(&[Code::Overloaded, Code::Internal])
            .answers_with(200, "metrics", Content::Text("text/plain; version=0.0.4; charset=utf-8")),
        Endpoint::beside("livez", "/livez", status::livez)
            .says("Whether the process should be restarted.")
            .answers_with(200, "it lives", Content::Text(PLAIN))
            .answers_with(503, "it stalls", Content::Text(PLAIN)),
        Endpoint::beside("readyz", "/readyz", status::readyz)
            .says("Whether the server takes work.")
            .answers_with(200, "it does", Content::Text(PLAIN))
            .answers_with(503, "it does not, and why", Content::Text(PLAIN)),
        Endpoint::beside("get_openapi", "/api/openapi.json", openapi::get).says("This document.").answers_with(
            200,
            "an OpenAPI document",
            Content::Text("application/json"),
        ),
    ]
}
