//! The worker's standing with the server: registers, beats, drains, leaves.
//!
//! Level-triggered: each step looks at what holds now (registered or not, draining or not, told or not)
//! and the next step is the retry. Dropping [`Session::run`] at any await and running it again is harmless.

use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, StatusCode};
use rota_wire::worker::{Leave, Register, Registered, WorkerNow};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use crate::backoff::Backoff;
use crate::client::{CallError, Lane};
use crate::error::Error;
use crate::live::Live;
use crate::worker::Status;

/// The server dials back before it answers.
const REGISTER_DEADLINE: Duration = Duration::from_secs(15);
const BEAT_DEADLINE_MAX: Duration = Duration::from_secs(5);
const LEAVE_DEADLINE: Duration = Duration::from_secs(5);
const BEAT_MIN: Duration = Duration::from_millis(50);
const BACKOFF_FIRST: Duration = Duration::from_millis(250);
const BACKOFF_CAP: Duration = Duration::from_secs(10);

pub(crate) struct Session {
    live: Arc<Live>,
    lane: Lane,
    registration: Register,
    backoff: Backoff,
    /// The id under which the server knows this worker; none while it does not.
    seat: watch::Sender<Option<u32>>,
    status: watch::Sender<Status>,
    beat: Interval,
    beat_deadline: Duration,
    /// Before when not to register; with a seat, when to register again: the address could not be reached.
    again_at: Option<Instant>,
    is_drain_told: bool,
    /// What went wrong last, so that it is logged once and not with every try.
    trouble: Option<String>,
}

impl Session {
    pub(crate) fn new(
        live: Arc<Live>,
        lane: Lane,
        registration: Register,
        status: watch::Sender<Status>,
        seed: u64,
    ) -> Session {
        let (seat, _) = watch::channel(None);
        Session {
            live,
            lane,
            registration,
            backoff: Backoff::new(BACKOFF_FIRST, BACKOFF_CAP, seed),
            seat,
            status,
            beat: ticks(BEAT_DEADLINE_MAX),
            beat_deadline: BEAT_DEADLINE_MAX,
            again_at: None,
            is_drain_told: false,
            trouble: None,
        }
    }

    pub(crate) fn seat(&self) -> watch::Receiver<Option<u32>> {
        self.seat.subscribe()
    }

    /// Registers and beats, for ever; ends only if the server refuses this worker for good.
    pub(crate) async fn run(&mut self) -> Error {
        loop {
            let seat = *self.seat.borrow();
            let step = match seat {
                None => self.register().await,
                Some(worker) => self.stay(worker).await,
            };
            if let Err(error) = step {
                return error;
            }
        }
    }

    async fn register(&mut self) -> Result<(), Error> {
        if let Some(at) = self.again_at {
            sleep_until(at).await;
        }
        let answer: Result<Registered, CallError> =
            self.lane.call(Method::POST, "/api/v1/workers", &self.registration, REGISTER_DEADLINE).await;
        match answer {
            Ok(registered) => {
                self.sit_down(&registered);
                Ok(())
            }
            Err(CallError::Refused { status, error }) if status != StatusCode::CONFLICT => {
                self.seat.send_replace(None);
                Err(Error::Refused { status: status.as_u16(), error })
            }
            Err(error) => {
                // A name that is taken frees itself when its holder has been silent for the dead time.
                self.again_at = Some(Instant::now() + self.backoff.wait());
                self.complain("register_failed", error.to_string());
                Ok(())
            }
        }
    }

    fn sit_down(&mut self, registered: &Registered) {
        let every = Duration::from_millis(registered.beat_ms).max(BEAT_MIN);
        self.beat_deadline = every.min(BEAT_DEADLINE_MAX);
        self.beat = ticks(every);
        self.is_drain_told = false;
        self.seat.send_replace(Some(registered.worker));
        if registered.state == "unreachable" {
            let message = registered.message.clone().unwrap_or_else(|| "the server cannot reach it".to_owned());
            self.complain("worker_unreachable", message.clone());
            self.again_at = Some(Instant::now() + self.backoff.wait());
            self.show(Status::Unreachable { worker: registered.worker, message });
        } else {
            self.again_at = None;
            self.trouble = None;
            tracing::info!(
                worker = registered.worker,
                name = self.live.name,
                url = self.registration.url,
                "worker_online"
            );
            self.show(Status::Online { worker: registered.worker });
        }
    }

    /// A worker that drains shows nothing else any more.
    fn show(&self, status: Status) {
        if !self.live.is_draining() {
            self.status.send_replace(status);
        }
    }

    /// One step of a worker that is registered.
    async fn stay(&mut self, worker: u32) -> Result<(), Error> {
        if self.live.is_draining() && !self.is_drain_told {
            self.is_drain_told = self.tell_drain(worker).await;
        }
        let again_at = self.again_at;
        let again = async {
            match again_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Being unknown first: until that is healed, beats are wasted.
            biased;
            () = self.live.is_unknown.notified() => {
                self.lose_seat("the server does not know this worker");
                Ok(())
            }
            () = again => self.register().await,
            _ = self.beat.tick() => {
                self.send_beat(worker).await;
                Ok(())
            }
        }
    }

    async fn send_beat(&mut self, worker: u32) {
        let beat = self.live.beat();
        let path = format!("/api/v1/workers/{worker}/beat");
        let answer: Result<WorkerNow, CallError> = self.lane.call(Method::POST, &path, &beat, self.beat_deadline).await;
        match answer {
            Ok(now) if now.state == "offline" => self.lose_seat("the server counts this worker as offline"),
            Ok(now) if now.state == "unreachable" => {
                if self.again_at.is_none() {
                    self.again_at = Some(Instant::now() + self.backoff.wait());
                }
            }
            Ok(_) => self.recovered(),
            Err(error) if error.is_unknown_worker() => self.lose_seat("the server does not know this worker"),
            Err(error) => self.complain("beat_failed", error.to_string()),
        }
    }

    fn lose_seat(&mut self, reason: &'static str) {
        tracing::info!(reason, "registering_again");
        // Only a beat that is heard resets this backoff, so a server that forgets at once is not hammered.
        self.again_at = Some(Instant::now() + self.backoff.wait());
        self.seat.send_replace(None);
        self.show(Status::Connecting);
    }

    async fn tell_drain(&mut self, worker: u32) -> bool {
        let leave = Leave { incarnation: self.live.incarnation };
        let path = format!("/api/v1/workers/{worker}/drain");
        let answer: Result<WorkerNow, CallError> = self.lane.call(Method::POST, &path, &leave, LEAVE_DEADLINE).await;
        match answer {
            Ok(_) => true,
            Err(error) => {
                self.complain("drain_failed", error.to_string());
                false
            }
        }
    }

    /// The last call: this process runs nothing any more.
    pub(crate) async fn leave(&mut self) {
        let seat = *self.seat.borrow();
        let Some(worker) = seat else { return };
        let leave = Leave { incarnation: self.live.incarnation };
        let path = format!("/api/v1/workers/{worker}");
        let answer: Result<WorkerNow, CallError> = self.lane.call(Method::DELETE, &path, &leave, LEAVE_DEADLINE).await;
        if let Err(error) = answer {
            tracing::warn!(%error, "leave_failed");
        }
    }

    /// Logs what goes wrong when it begins or changes, not with every try.
    fn complain(&mut self, event: &'static str, reason: String) {
        if self.trouble.as_ref() != Some(&reason) {
            tracing::warn!(event, reason, "server_trouble");
            self.trouble = Some(reason);
        }
    }

    fn recovered(&mut self) {
        if self.again_at.is_none() {
            self.backoff.reset();
            if self.trouble.take().is_some() {
                tracing::info!("server_reached_again");
            }
        }
    }
}

/// Ticks at once, then every so often; missed ones are not made up for.
fn ticks(every: Duration) -> Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
