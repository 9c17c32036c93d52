//! Workers: the list for people, and the calls of the native worker protocol.

use rota_wire::{rest, worker};
use serde_json::json;

use crate::code::Code;
use crate::cursor::AFTER;
use crate::endpoint::{APP, Arg, Content, Endpoint, LIMIT, Opens, Shape, body, delete, get, page, post};
use crate::{fleet, protocol, register};

const INCARNATION: Arg =
    Arg::new("incarnation", Shape::Number { min: 1, max: (1 << 53) - 1 }, "for clients that send no body with DELETE");

pub(super) fn entries() -> Vec<Endpoint> {
    vec![
        get("list_workers", "/workers", fleet::list)
            .says("Lists workers: what they registered, and what is known of them now.")
            .opens(Opens::Readers)
            .args(&[APP, AFTER, LIMIT])
            .refuses(&[Code::AppUnknown])
            .answers(200, "the workers", page::<rest::Worker>()),
        post("register_worker", "/workers", register::register)
            .says("A worker registers: at its start, and whenever it is answered `worker_unknown`. Its address is dialled back.")
            .opens(Opens::Workers)
            .takes::<worker::Register>(json!({
                "app": "etl", "name": "etl-1", "incarnation": 1_796_054_400_000_u64, "url": "http://10.0.3.7:9999",
                "callback_secret": "b2f5c8a1e07d4936", "handlers": ["report"], "labels": {"disk": "ssd"}, "capacity": 4
            }))
            .refuses(&[Code::WorkerIdTaken, Code::Refused])
            .answers(200, "it is registered", body::<worker::Registered>()),
        post("beat", "/workers/{worker}/beat", protocol::beat)
            .says("A worker says that it is alive, and what it holds.")
            .opens(Opens::Workers)
            .takes::<worker::Beat>(json!({"incarnation": 1_796_054_400_000_u64, "no": 1, "running": []}))
            .refuses(&[Code::WorkerUnknown])
            .answers(200, "its state", body::<worker::WorkerNow>()),
        post("report_results", "/workers/{worker}/results", protocol::results)
            .says("A worker reports finished attempts, again and again until they are acknowledged.")
            .opens(Opens::Workers)
            .takes::<worker::Results>(json!({"incarnation": 1_796_054_400_000_u64, "results": []}))
            .refuses(&[Code::WorkerUnknown])
            .answers(200, "what is durable", body::<worker::Acknowledged>()),
        post("append_logs", "/workers/{worker}/logs", protocol::logs)
            .says("A worker sends what its attempts printed.")
            .opens(Opens::Workers)
            .takes::<worker::Logs>(json!({"incarnation": 1_796_054_400_000_u64, "logs": []}))
            .refuses(&[Code::WorkerUnknown])
            .answers_with(204, "the lines are taken", Content::Nothing),
        post("drain_worker", "/workers/{worker}/drain", protocol::drain)
            .says("A worker takes no new attempts.")
            .opens(Opens::Workers)
            .takes::<worker::Leave>(json!({"incarnation": 1_796_054_400_000_u64}))
            .refuses(&[Code::WorkerUnknown])
            .answers(200, "its state", body::<worker::WorkerNow>()),
        delete("leave", "/workers/{worker}", protocol::leave)
            .says("A worker leaves.")
            .opens(Opens::Workers)
            .args(&[INCARNATION])
            .takes::<worker::Leave>(json!({"incarnation": 1_796_054_400_000_u64}))
            .refuses(&[Code::WorkerUnknown])
            .answers(200, "its state", body::<worker::WorkerNow>()),
    ]
}
