//! When no server was there, from the terms of its processes.

use rota_core::time::UnixMs;
use rota_port::history::Term;

/// A time in which no process had the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Downtime {
    pub(crate) from: UnixMs,
    pub(crate) to: UnixMs,
    /// Whether its begin is known: a process that was cut off may have lived on for a minute.
    pub(crate) is_exact: bool,
}

/// The downtime in which an instant lies. `terms` stand newest first.
pub(crate) fn around(terms: &[Term], at: UnixMs) -> Option<Downtime> {
    let after = terms.iter().rposition(|term| term.started_at > at)?;
    let before = terms.get(after + 1)?;
    let (from, to) = (before.last_at(), terms[after].started_at);
    (at > from).then_some(Downtime { from, to, is_exact: before.stopped_at.is_some() })
}

/// The term in which something was decided.
pub(crate) fn term_at(terms: &[Term], at: UnixMs) -> Option<&Term> {
    terms.iter().find(|term| term.started_at <= at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downtimes_lie_between_terms() {
        let term = |started_at: i64, alive_at: i64, stopped: bool| Term {
            started_at: UnixMs(started_at),
            alive_at: UnixMs(alive_at),
            stopped_at: stopped.then_some(UnixMs(alive_at)),
            version: "1".to_owned(),
            tzdb: format!("db{started_at}"),
        };
        let terms = [term(500, 600, false), term(200, 300, false), term(100, 150, true)];
        let down = |at| around(&terms, UnixMs(at)).map(|down| (down.from.0, down.to.0, down.is_exact));
        assert_eq!(down(50), None, "nothing is known of what was before the first");
        assert_eq!(down(120), None);
        assert_eq!(down(160), Some((150, 200, true)));
        assert_eq!(down(250), None);
        assert_eq!(down(400), Some((300, 500, false)));
        assert_eq!(down(550), None);
        assert_eq!(down(900), None, "this one goes on");
        assert_eq!(term_at(&terms, UnixMs(450)).map(|term| term.tzdb.as_str()), Some("db200"));
        assert_eq!(term_at(&terms, UnixMs(50)), None);
    }
}
