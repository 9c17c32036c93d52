//! Reserving names, ids and requests.

use rota_core::id::{AppId, JobId, WorkerId, partition_of};
use rota_core::job::JobState;
use rota_core::limits;
use rota_core::rate::Rates;
use rota_core::time::UnixMs;
use rota_core::upstream;
use rota_core::worker::App;

use super::state::{Request, State, TakenName};
use crate::store::{Error, JOB_NAME_UNUSED_MS, REQUEST_KEPT_MS, Reservation, Reserved, Token};

impl State {
    pub(super) fn reserve_ids(&mut self, floor: u64, count: u64) -> Result<u64, Error> {
        let first = self.ids_next.max(floor);
        let next = first.checked_add(count).filter(|next| *next < 1 << 53);
        self.ids_next = next.ok_or_else(|| Error::Corrupt("no ids are left below 2^53".into()))?;
        Ok(first)
    }

    pub(super) fn reserve(&mut self, what: &Reservation) -> Reserved {
        match what {
            Reservation::App { namespace, name, pending_max, rates } => {
                self.reserve_app(namespace, name, *pending_max, rates.as_ref())
            }
            Reservation::JobName { app, name, at } => self.reserve_job(*app, name, *at),
            Reservation::JobNameBack { job } => self.give_job_back(*job),
            Reservation::WorkerName { app, name } => self.reserve_worker(*app, name),
            Reservation::Request { job, request_id, body_hash, at } => {
                self.reserve_request(*job, request_id, *body_hash, *at)
            }
            Reservation::RequestBack { job, request_id } => {
                self.requests.remove(&(*job, request_id.clone()));
                Reserved::Done
            }
            Reservation::Upstreams { job, upstreams, token } => self.reserve_upstreams(*job, upstreams, *token),
            Reservation::UpstreamsBack { job, token } => {
                self.upstreams.retain(|(of, _, given)| of != job || given != token);
                Reserved::Done
            }
            Reservation::Token(token) => self.keep_token(token),
            Reservation::TokensBack { scope } => {
                let newest = self.tokens.iter().rposition(|token| token.scope == *scope);
                let mut at = 0..;
                self.tokens.retain(|token| at.next() == newest || token.scope != *scope);
                Reserved::Done
            }
            Reservation::Secret(secret) => {
                let before = self.secrets.insert((secret.namespace.clone(), secret.name.clone()), secret.clone());
                if let Some(before) = before.filter(|before| before.value != secret.value) {
                    self.retire(before, secret.at);
                }
                Reserved::Done
            }
            Reservation::Alert { .. } | Reservation::AlertBack { .. } | Reservation::AlertWork(_) => self.alert(what),
            Reservation::SecretBack { namespace, name, at } => {
                let removed = self.secrets.remove(&(namespace.clone(), name.clone()));
                removed.map_or(Reserved::Unknown, |secret| {
                    self.retire(secret, *at);
                    Reserved::Done
                })
            }
        }
    }

    fn reserve_app(
        &mut self,
        namespace: &str,
        name: &str,
        pending_max: Option<u32>,
        rates: Option<&Rates>,
    ) -> Reserved {
        let found = self.apps.values_mut().find(|(app, _)| app.namespace == namespace && app.name == name);
        if let Some((app, _)) = found {
            app.pending_max = pending_max.unwrap_or(app.pending_max);
            if let Some(rates) = rates {
                app.rates.clone_from(rates);
            }
            return Reserved::App(app.clone());
        }
        let id = AppId(self.apps.keys().next_back().map_or(1, |last| last.0 + 1));
        let app = App {
            id,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            pending_max: pending_max.unwrap_or(limits::PENDING_MAX),
            rates: rates.cloned().unwrap_or_default(),
        };
        self.apps.insert(id, (app.clone(), partition_of(namespace, name, self.partitions())));
        Reserved::App(app)
    }

    fn reserve_job(&mut self, app: AppId, name: &str, at: UnixMs) -> Reserved {
        let Some((app, _)) = self.apps.get(&app) else { return Reserved::Unknown };
        let key = (app.namespace.clone(), name.to_owned());
        if let Some(taken) = self.job_names.get(&key) {
            return Reserved::Taken(taken.job);
        }
        let job = self.jobs_next;
        self.jobs_next.0 += 1;
        self.job_names.insert(key, TakenName { job, at, is_used: false });
        Reserved::Job(job)
    }

    fn give_job_back(&mut self, job: JobId) -> Reserved {
        if self.current(job).is_some_and(|current| current.state != JobState::Deleted) {
            return Reserved::Taken(job);
        }
        self.job_names.retain(|_, taken| taken.job != job);
        Reserved::Done
    }

    fn reserve_worker(&mut self, app: AppId, name: &str) -> Reserved {
        if !self.apps.contains_key(&app) {
            return Reserved::Unknown;
        }
        let next = WorkerId(u32::try_from(self.worker_names.len()).expect("below 2^32 names") + 1);
        Reserved::Worker(*self.worker_names.entry((app, name.to_owned())).or_insert(next))
    }

    fn reserve_request(&mut self, job: JobId, request_id: &str, body_hash: [u8; 32], at: UnixMs) -> Reserved {
        if !self.jobs.contains_key(&job) {
            return Reserved::Unknown;
        }
        let key = (job, request_id.to_owned());
        match self.requests.get(&key) {
            Some(request) if at.since_ms(request.at) < REQUEST_KEPT_MS => {
                if request.body_hash == body_hash {
                    Reserved::Answered(request.run)
                } else {
                    Reserved::OtherBody
                }
            }
            Some(_) | None => {
                self.requests.insert(key, Request { body_hash, at, run: None });
                Reserved::New
            }
        }
    }

    fn reserve_upstreams(&mut self, job: JobId, upstreams: &[JobId], token: u64) -> Reserved {
        let of = |job: JobId| {
            let first = (job, JobId(0), 0);
            let edges = self.upstreams.range(first..).take_while(|(of, _, _)| *of == job);
            Ok::<_, std::convert::Infallible>(edges.map(|(_, upstream, _)| *upstream).collect())
        };
        if let Ok(Some(cycle)) = upstream::cycle(job, upstreams, of) {
            return Reserved::Cycle(cycle);
        }
        self.upstreams.extend(upstreams.iter().map(|upstream| (job, *upstream, token)));
        Reserved::Done
    }

    fn keep_token(&mut self, token: &Token) -> Reserved {
        if !self.tokens.iter().any(|kept| kept.hash == token.hash) {
            self.tokens.push(token.clone());
        }
        Reserved::Done
    }

    pub(super) fn expire(&mut self, now: UnixMs) {
        self.requests.retain(|_, request| now.since_ms(request.at) < REQUEST_KEPT_MS);
        self.job_names.retain(|_, taken| taken.is_used || now.since_ms(taken.at) < JOB_NAME_UNUSED_MS);
    }
}
