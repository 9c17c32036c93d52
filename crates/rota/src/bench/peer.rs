//! The light worker's side of the protocol: requests read by hyper's parser and answered by hand, since what the
//! workers use of the two cores is taken from the server that is measured.

use serde::Deserialize;

/// What a server asked of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ask<'a> {
    Identity,
    Execute(&'a [u8]),
    ExecuteList(&'a [u8]),
    Cancel(&'a [u8]),
    Probe(&'a [u8]),
    /// Something that this worker does not know.
    Other,
}

/// The fields of a dispatch that are recorded; the others are passed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub(super) struct Execute<'a> {
    pub(super) incarnation: u64,
    pub(super) attempt: u64,
    pub(super) run: u64,
    pub(super) shard: u32,
    pub(super) no: u32,
    pub(super) job: u32,
    #[serde(borrow)]
    pub(super) slot: &'a str,
}

/// Several dispatches in one call.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(super) struct ExecuteList<'a> {
    #[serde(borrow)]
    pub(super) tasks: Vec<Execute<'a>>,
}

/// Why bytes are no request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Broken;

/// The first whole request of what was received, and its length; nothing if more has to come.
pub(super) fn request(received: &[u8]) -> Result<Option<(Ask<'_>, usize)>, Broken> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(received).map_err(|_| Broken)? {
        httparse::Status::Complete(head) => head,
        httparse::Status::Partial if received.len() > 16 << 10 => return Err(Broken),
        httparse::Status::Partial => return Ok(None),
    };
    let mut length = 0;
    for header in request.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let value = std::str::from_utf8(header.value).map_err(|_| Broken)?;
            length = value.trim().parse().map_err(|_| Broken)?;
        }
    }
    if length > 4 << 20 {
        return Err(Broken);
    }
    let end = head + length;
    if received.len() < end {
        return Ok(None);
    }
    let body = &received[head..end];
    let ask = match request.path {
        Some("/internal/identity") => Ask::Identity,
        Some("/internal/tasks/execute") => Ask::Execute(body),
        Some("/internal/tasks/execute-list") => Ask::ExecuteList(body),
        Some("/internal/tasks/cancel") => Ask::Cancel(body),
        Some("/internal/tasks/probe") => Ask::Probe(body),
        Some(_) | None => Ask::Other,
    };
    Ok(Some((ask, end)))
}

/// Appends a response.
pub(super) fn respond(out: &mut Vec<u8>, status: &str, body: &[u8]) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_bytes());
    out.extend_from_slice(b"\r\ncontent-type: application/json\r\ncontent-length: ");
    out.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_cut_where_they_end() {
        let text =
            b"POST /internal/tasks/execute HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}GET /internal/identity";
        let (ask, end) = request(text).unwrap().unwrap();
        assert_eq!(ask, Ask::Execute(b"{}"));
        assert_eq!(&text[end..], b"GET /internal/identity");
        assert_eq!(request(&text[..end - 1]), Ok(None));
        assert_eq!(request(&text[end..]), Ok(None));
        assert_eq!(request(b"GET /x HTTP/1.1\r\n\r\n"), Ok(Some((Ask::Other, 19))));
        assert_eq!(request(b"GET\r\n\r\n"), Err(Broken));
    }

    #[test]
    fn a_dispatch_is_read_past_what_is_not_recorded() {
        let body = serde_json::to_vec(&rota_wire::worker::Execute {
            incarnation: 1,
            epoch: 2,
            attempt: 3,
            run: 4,
            shard: 0,
            shards: 1,
            no: 1,
            idempotency_key: "4/0".to_owned(),
            job: 5,
            job_name: "j".to_owned(),
            version: 1,
            origin: "schedule".to_owned(),
            slot: "2026-12-01T02:00:00Z".to_owned(),
            zone: "UTC".to_owned(),
            handler: "bench".to_owned(),
            param: "\"\\".to_owned(),
            timeout_ms: None,
            traceparent: None,
        })
        .unwrap();
        let read: Execute<'_> = serde_json::from_slice(&body).unwrap();
        assert_eq!((read.attempt, read.run, read.job, read.slot), (3, 4, 5, "2026-12-01T02:00:00Z"));
    }
}
