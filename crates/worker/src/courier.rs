//! Carries results and log lines to the server, in lists, one at a time.
//!
//! A round takes the results that are there, pushes the log lines that came before them, then pushes
//! the results; so a log is complete before its attempt ends, unless the server does not take logs
//! just now, for which results wait a moment at most. A list of lines that timed out is pushed again,
//! so lines can be doubled, but not lost, by a network that fails. Results are pushed until they are acknowledged. While one
//! list is on its way the next one fills, and that, with [`SPACING`], is all the coalescing there is:
//! an idle worker's result leaves at once.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use rota_wire::worker::{Acknowledged, AttemptResult, Logs, Results};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::client::{CallError, Lane};
use crate::live::Live;

/// Between the starts of two lists of results.
const SPACING: Duration = Duration::from_millis(4);
/// How long lines wait for more of them.
const LOG_LINGER: Duration = Duration::from_millis(100);
const RESULTS_DEADLINE: Duration = Duration::from_secs(10);
const LOGS_DEADLINE: Duration = Duration::from_secs(2);
/// In one round no further list of lines is begun after this.
const LOG_ROUND: Duration = Duration::from_secs(1);
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_CAP: Duration = Duration::from_secs(2);
const LOG_BACKOFF_CAP: Duration = Duration::from_secs(30);

pub(crate) struct Courier {
    live: Arc<Live>,
    lane: Lane,
    seat: watch::Receiver<Option<u32>>,
    /// Everything has ended: push what is left, and end.
    finish: CancellationToken,
    backoff: Backoff,
    log_backoff: Backoff,
    /// No lines are pushed before this.
    logs_from: Instant,
    last_list: Option<Instant>,
}

impl Courier {
    pub(crate) fn new(
        live: Arc<Live>,
        lane: Lane,
        seat: watch::Receiver<Option<u32>>,
        finish: CancellationToken,
        seed: u64,
    ) -> Courier {
        Courier {
            live,
            lane,
            seat,
            finish,
            backoff: Backoff::new(BACKOFF_FIRST, BACKOFF_CAP, seed),
            log_backoff: Backoff::new(BACKOFF_FIRST, LOG_BACKOFF_CAP, seed.rotate_left(32)),
            logs_from: Instant::now(),
            last_list: None,
        }
    }

    /// Runs until it was told to finish and everything is delivered.
    pub(crate) async fn run(mut self) {
        while self.work().await {
            let Some(worker) = self.seated().await else { return };
            self.space().await;
            let results = self.live.reports();
            self.push_logs(worker).await;
            if !results.is_empty() {
                self.push_results(worker, results).await;
            }
        }
    }

    /// Waits for something to push; false when there will be nothing more.
    async fn work(&mut self) -> bool {
        loop {
            if self.live.has_reports() {
                return true;
            }
            let has_logs = !self.live.logs.is_empty();
            if self.finish.is_cancelled() {
                // Lines that the server does not take are not worth a worker that does not end.
                return has_logs && self.log_backoff.is_fresh();
            }
            let logs_at = self.logs_from.max(Instant::now() + LOG_LINGER);
            tokio::select! {
                // Results first: they do not linger.
                biased;
                () = self.live.results_ready.notified() => {}
                () = self.finish.cancelled() => {}
                () = sleep_until(logs_at), if has_logs => return true,
                () = self.live.logs.ready.notified(), if !has_logs => {}
            }
        }
    }

    /// The id under which the server knows this worker, once it does.
    async fn seated(&mut self) -> Option<u32> {
        // The session ends only together with the worker.
        self.seat.wait_for(Option::is_some).await.ok().and_then(|seat| *seat)
    }

    async fn space(&mut self) {
        if let Some(last_list) = self.last_list {
            sleep_until(last_list + SPACING).await;
        }
    }

    async fn push_logs(&mut self, worker: u32) {
        let begun = Instant::now();
        if begun < self.logs_from {
            return;
        }
        let path = format!("/api/v1/workers/{worker}/logs");
        while begun.elapsed() < LOG_ROUND {
            let logs = self.live.logs.take();
            if logs.is_empty() {
                return;
            }
            let body = Logs { incarnation: self.live.incarnation, logs };
            let answer: Result<serde_json::Value, CallError> =
                self.lane.call(Method::POST, &path, &body, LOGS_DEADLINE).await;
            match answer {
                Ok(_) => self.log_backoff.reset(),
                Err(error) => {
                    if self.log_backoff.is_fresh() {
                        tracing::warn!(%error, "logs_not_taken");
                    }
                    self.logs_from = Instant::now() + self.log_backoff.wait();
                    self.keep_logs(error, body);
                    return;
                }
            }
        }
    }

    /// Lines are kept for another try, unless the server will never take them.
    fn keep_logs(&self, error: CallError, body: Logs) {
        match error {
            CallError::Unavailable(_) => self.live.logs.restore(body.logs),
            CallError::Refused { .. } if error.is_unknown_worker() => {
                self.live.logs.restore(body.logs);
                self.live.is_unknown.notify_one();
            }
            CallError::Refused { .. } => {
                let lines: usize = body.logs.iter().map(|one| one.lines.len()).sum();
                tracing::error!(lines, %error, "log_lines_lost");
            }
        }
    }

    async fn push_results(&mut self, worker: u32, results: Vec<AttemptResult>) {
        self.last_list = Some(Instant::now());
        let count = results.len();
        let path = format!("/api/v1/workers/{worker}/results");
        let body = Results { incarnation: self.live.incarnation, results };
        let answer: Result<Acknowledged, CallError> =
            self.lane.call(Method::POST, &path, &body, RESULTS_DEADLINE).await;
        match answer {
            Ok(answer) => {
                self.live.settle(&answer.acknowledged);
                if answer.acknowledged.len() >= count {
                    self.backoff.reset();
                    return;
                }
                tracing::warn!(count, acknowledged = answer.acknowledged.len(), "results_partly_acknowledged");
            }
            Err(error) => {
                self.live.settle(&[]);
                if self.backoff.is_fresh() {
                    tracing::warn!(%error, count, "results_not_acknowledged");
                }
                if error.is_unknown_worker() {
                    self.live.is_unknown.notify_one();
                }
            }
        }
        sleep(self.backoff.wait()).await;
    }
}

/// Runs a courier to its end, but no longer than this; true if everything was delivered.
pub(crate) async fn finish_within(live: &Live, done: impl Future<Output = ()>, limit: Duration) -> bool {
    timeout(limit, done).await.is_ok() && live.unacknowledged() == 0
}
