//! The body of a send, as [`rota_wire::worker::Execute`] has it, without making one.
//!
//! Numbers and texts go straight into one text, in the order of that struct's fields; nothing is copied before.
//!
//! Absent on purpose: a cache of encoded bodies by job and version. A body of usual size is written in less time than
//! its place in a table of a hundred thousand jobs is found, which lies in memory that no processor cache holds.

use bytes::Bytes;
use itoa::{Buffer, Integer};
use rota_core::job::Target;
use rota_core::partition::Dispatch;
use rota_core::trace::Sampler;

/// What a body has beside its parameter fits into this, so that it is seldom moved while it grows.
const REST_BYTES: usize = 512;

/// The body of a send over HTTP.
pub(super) fn execute(send: &Dispatch) -> Bytes {
    let mut out = Writer { out: Vec::with_capacity(REST_BYTES + param(send).len()) };
    out.execute(send, None);
    Bytes::from(out.out)
}

/// The body of several sends in one call, as [`rota_wire::worker::ExecuteList`] has it.
pub(super) fn execute_list<'s>(sends: impl Iterator<Item = &'s Dispatch> + Clone, sampler: Sampler) -> Bytes {
    let bytes: usize = sends.clone().map(|send| REST_BYTES + param(send).len()).sum();
    let mut out = Writer { out: Vec::with_capacity(bytes) };
    let mut before = "{\"tasks\":[";
    for send in sends {
        out.raw(before);
        let traceparent = sampler.traceparent(send.run, send.attempt, send.parent.as_deref());
        out.execute(send, traceparent.as_deref());
        before = ",";
    }
    out.raw("]}");
    Bytes::from(out.out)
}

/// The parameter of a send.
pub(super) fn param(send: &Dispatch) -> &str {
    send.param.as_deref().unwrap_or_else(|| handler(send).1)
}

fn handler(send: &Dispatch) -> (&str, &str) {
    let Target::Handler { name, param } = &send.body.target else {
        unreachable!("the machine sends URL jobs to the URL executor");
    };
    (name, param)
}

/// Writes pieces of JSON behind one another.
struct Writer {
    out: Vec<u8>,
}

// Inlined, so that the pieces between the values are of known length.
impl Writer {
    fn execute(&mut self, send: &Dispatch, traceparent: Option<&str>) {
        let worker = send.worker.as_ref().expect("a call over HTTP names its worker");
        self.number("{\"incarnation\":", worker.incarnation.0);
        self.number(",\"epoch\":", send.epoch.0);
        self.number(",\"attempt\":", send.attempt.0);
        self.number(",\"run\":", send.run.0);
        self.number(",\"shard\":", send.shard);
        self.number(",\"shards\":", send.shards);
        self.number(",\"no\":", send.no);
        // The same as `crate::idempotency_key`, whose letters need no escapes.
        self.number(",\"idempotency_key\":\"", send.run.0);
        self.number("/", send.shard);
        self.number("\",\"job\":", send.job.0);
        self.text(",\"job_name\":", &send.body.name);
        self.number(",\"version\":", send.version.0);
        self.text(",\"origin\":", send.origin.word());
        self.text(",\"slot\":", &send.body.zone.format(send.slot));
        self.text(",\"zone\":", send.body.zone.name());
        self.text(",\"handler\":", handler(send).0);
        self.text(",\"param\":", param(send));
        if let Some(timeout_ms) = send.timeout_ms {
            self.number(",\"timeout_ms\":", timeout_ms);
        }
        if let Some(traceparent) = traceparent {
            self.text(",\"traceparent\":", traceparent);
        }
        self.raw("}");
    }

    #[inline]
    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    #[inline]
    fn number(&mut self, before: &str, number: impl Integer) {
        self.raw(before);
        self.raw(Buffer::new().format(number));
    }

    #[inline]
    fn text(&mut self, before: &str, text: &str) {
        self.raw(before);
        self.quoted(text);
    }

    fn quoted(&mut self, text: &str) {
        // The letters that JSON does not let stand as they are. Counted to the end, without a branch, since that goes
        // many letters at a time.
        let escapes = text.bytes().filter(|byte| *byte < b' ' || *byte == b'"' || *byte == b'\\').count();
        if escapes > 0 {
            return serde_json::to_writer(&mut self.out, text).expect("memory takes all");
        }
        self.raw("\"");
        self.raw(text);
        self.raw("\"");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rota_core::batch::Origin;
    use rota_core::id::{AppId, AttemptId, Epoch, Incarnation, JobId, RunId, Version, WorkerId};
    use rota_core::job::Body;
    use rota_core::time::{Mono, UnixMs};
    use rota_core::trace::Parent;
    use rota_core::worker::{Protocol, Registration, Secret};
    use rota_cron::Zone;
    use rota_wire::worker as wire;

    use super::*;

    fn registration(incarnation: u64) -> Arc<Registration> {
        Arc::new(Registration {
            id: WorkerId(1),
            app: AppId(1),
            name: "etl".to_owned(),
            incarnation: Incarnation(incarnation),
            url: "http://etl".to_owned(),
            protocol: Protocol::Http,
            handlers: Vec::new(),
            labels: std::collections::BTreeMap::new(),
            capacity: 0,
            list_max: 0,
            secret: Secret(String::new()),
            at: UnixMs(0),
        })
    }

    /// What the protocol's own struct makes of a send.
    fn expected(send: &Dispatch) -> wire::Execute {
        let Target::Handler { name, param } = &send.body.target else { panic!("no handler") };
        wire::Execute {
            incarnation: send.worker.as_ref().map_or(0, |worker| worker.incarnation.0),
            epoch: send.epoch.0,
            attempt: send.attempt.0,
            run: send.run.0,
            shard: send.shard,
            shards: send.shards,
            no: send.no,
            idempotency_key: crate::idempotency_key(send.run, send.shard),
            job: send.job.0,
            job_name: send.body.name.clone(),
            version: send.version.0,
            origin: send.origin.word().to_owned(),
            slot: send.body.zone.format(send.slot),
            zone: send.body.zone.name().to_owned(),
            handler: name.clone(),
            param: send.param.as_deref().unwrap_or(param).to_owned(),
            timeout_ms: send.timeout_ms,
            traceparent: None,
        }
    }

    fn zone() -> impl Strategy<Value = Zone> {
        let names = ["UTC", "Asia/Shanghai", "America/St_Johns", "+05:45", "UTC-3"];
        (0..names.len()).prop_map(move |at| Zone::parse(names[at]).unwrap())
    }

    /// Texts of which many need escapes.
    fn text() -> impl Strategy<Value = String> {
        let letter =
            prop_oneof![8 => any::<char>(), 1 => Just('"'), 1 => Just('\\'), 2 => (0u8..0x30).prop_map(char::from)];
        prop_oneof![proptest::collection::vec(letter, 0..40).prop_map(String::from_iter), "[a-z0-9/ {}:é月]{0,700}"]
    }

    prop_compose! {
        fn target()(name in text(), param in text()) -> Target {
            Target::Handler { name, param }
        }
    }

    prop_compose! {
        fn send()(
            (attempt, run, epoch, incarnation) in any::<(u64, u64, u64, u64)>(),
            (shard, shards, no, job, version) in any::<(u32, u32, u32, u32, u32)>(),
            origin in prop_oneof![Just(Origin::Schedule), Just(Origin::Manual), Just(Origin::Api), Just(Origin::Rerun), Just(Origin::Backfill)],
            slot in -4_000_000_000_000i64..40_000_000_000_000,
            zone in zone(),
            name in text(),
            target in target(),
            param in proptest::option::of(text()),
            timeout_ms in any::<Option<u64>>(),
            parent in proptest::option::of(Just("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")),
        ) -> Dispatch {
            Dispatch {
                attempt: AttemptId(attempt),
                run: RunId(run),
                shard,
                shards,
                no,
                app: AppId(1),
                job: JobId(job),
                version: Version(version),
                origin,
                slot: UnixMs(slot),
                epoch: Epoch(epoch),
                worker: Some(registration(incarnation)),
                body: Arc::new(Body::literal(name, zone, target)),
                param: param.map(Arc::from),
                timeout_ms,
                parent: parent.and_then(Parent::parse).map(Arc::new),
                send_by: Mono(0),
            }
        }
    }

    proptest! {
        #[test]
        fn bodies_are_byte_for_byte_what_the_protocols_struct_makes(send in send()) {
            let expected = serde_json::to_string(&expected(&send)).unwrap();
            let body = execute(&send);
            prop_assert_eq!(std::str::from_utf8(&body).unwrap(), &expected);
        }

        #[test]
        fn a_list_is_byte_for_byte_what_the_protocols_struct_makes(
            sends in proptest::collection::vec(send(), 1..4),
            is_traced in any::<bool>(),
        ) {
            let sampler = if is_traced { Sampler::new(7, 1_000_000) } else { Sampler::NONE };
            let task = |send: &Dispatch| {
                let traceparent = sampler.traceparent(send.run, send.attempt, send.parent.as_deref());
                wire::Execute { traceparent, ..expected(send) }
            };
            let expected = serde_json::to_string(&wire::ExecuteList { tasks: sends.iter().map(task).collect() }).unwrap();
            let body = execute_list(sends.iter(), sampler);
            prop_assert_eq!(std::str::from_utf8(&body).unwrap(), &expected);
        }
    }
}
