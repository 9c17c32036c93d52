//! What the measured server has to do: an app, its workers' token, and jobs.

use std::cell::Cell;
use std::rc::Rc;

use anyhow::{Context as _, Result};
use http::Method;
use rota_cron::UnixMs;
use rota_wire::rest::{App, AppPut, JobSaved, JobSpec, Route, TokenAsk, TokenMade};
use tokio::task::JoinSet;

use super::fleet::{APP, HANDLER};
use super::link::Link;
use super::process::Server;

/// Jobs that are being made at a time.
const LINKS: usize = 256;

/// When the jobs of a load fire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    /// So many runs a second together, spread evenly.
    Rate(u32),
    /// All at once.
    At(UnixMs),
    /// Hardly ever.
    Idle,
}

/// Jobs, each with the period whose multiples are its slots.
pub(super) type Jobs = Vec<(u32, i64)>;

/// Makes the app; returns its worker token.
pub(super) async fn app(server: &Server) -> Result<String> {
    let mut link = Link::open(&server.authority, &server.token).await?;
    let path = format!("/api/v1/apps/{APP}");
    let _: App = link.call(Method::PUT, &path, &AppPut::default()).await?;
    let made: TokenMade = link.call(Method::POST, &format!("{path}/token"), &TokenAsk::default()).await?;
    made.token.context("the server made no token")
}

/// Makes jobs, many at a time. Needs a `LocalSet`.
pub(super) async fn jobs(server: &Server, count: u32, when: When, strategy: Option<&'static str>) -> Result<Jobs> {
    let next = Rc::new(Cell::new(0));
    let mut makers: JoinSet<Result<Jobs>> = JoinSet::new();
    for _ in 0..LINKS.min(count as usize) {
        let mut link = Link::open(&server.authority, &server.token).await?;
        let next = Rc::clone(&next);
        makers.spawn_local(async move {
            let mut made = Jobs::new();
            loop {
                let number = next.get();
                if number >= count {
                    return Ok(made);
                }
                next.set(number + 1);
                let (mut spec, period) = spec(number, count, when);
                spec.route = strategy.map(|name| Route { strategy: Some(name.to_owned()), ..Route::default() });
                let saved: JobSaved = link.call(Method::POST, "/api/v1/jobs", &spec).await?;
                made.push((saved.id, period));
            }
        });
    }
    let mut all = Jobs::with_capacity(count as usize);
    while let Some(made) = makers.join_next().await {
        all.extend(made??);
    }
    Ok(all)
}

/// Jobs that a rate needs, each firing at most once a second.
pub(super) fn jobs_for(rate: u32) -> u32 {
    // Periods are spread evenly over one to two seconds, so that a job fires ln 2 times a second.
    u32::try_from(u64::from(rate) * 1_000_000 / LN2_PPM + 1).unwrap_or(u32::MAX)
}

/// ln 2, in millionths.
const LN2_PPM: u64 = 693_147;

fn spec(number: u32, count: u32, when: When) -> (JobSpec, i64) {
    let mut spec = JobSpec {
        name: format!("bench-{number}"),
        namespace: rota_wire::worker::default_namespace(),
        app: Some(APP.to_owned()),
        handler: Some(HANDLER.to_owned()),
        ..JobSpec::default()
    };
    let period = match when {
        When::Rate(rate) => {
            let ms = period_ms(number, count, rate);
            spec.every = Some(format!("{ms}ms"));
            ms
        }
        When::At(at) => {
            spec.at = Some(at.to_string());
            at.0
        }
        When::Idle => {
            spec.cron = Some("0 0 29 2 *".to_owned());
            i64::MAX
        }
    };
    (spec, period)
}

/// From a base to twice that, so that slots spread over each second whatever the clock says.
fn period_ms(number: u32, count: u32, rate: u32) -> i64 {
    let base = u64::from(count) * LN2_PPM / 1_000 / u64::from(rate.max(1));
    let base = base.max(1_000);
    let step = u64::from(number) * 617 % 1_000;
    i64::try_from(base + base * step / 1_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_fire_at_the_rate_together() {
        for (rate, count) in [(1_000, jobs_for(1_000)), (50_000, jobs_for(50_000)), (1_000, 10_000)] {
            let per_second: f64 = (0..count).map(|number| 1_000.0 / period_ms(number, count, rate) as f64).sum();
            let off = (per_second / f64::from(rate) - 1.0).abs();
            assert!(off < 0.01, "{rate}/s with {count} jobs: {per_second}");
        }
    }

    #[test]
    fn a_one_shot_has_one_slot_in_its_span() {
        use super::super::record::{Record, Span};
        let at = UnixMs(1_796_000_000_000);
        let (_, period) = spec(0, 1, When::At(at));
        let mut record = Record::new(Span { from_ms: at.0, to_ms: at.0 + 1 }, [(1, period)].into_iter());
        assert_eq!(record.figures().due, 1);
        record.start(1, at.0, 1, at.0 + 3);
        assert!(record.is_complete());
    }
}
