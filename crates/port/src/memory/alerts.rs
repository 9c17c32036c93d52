//! Alert rules, alarms and messages.

use rota_core::alert::{Alarm, AlertId, Key};
use rota_core::id::RunId;

use super::state::State;
use crate::alerts::{StoredAlert, StoredNotice, Tried, Work};
use crate::store::{Reservation, Reserved};

impl State {
    pub(super) fn alert(&mut self, what: &Reservation) -> Reserved {
        match what {
            Reservation::Alert { namespace, name, rule, at, by } => {
                let key = (namespace.clone(), name.clone());
                let next = AlertId(self.alerts_next);
                let former = self.alerts.get(&key);
                let (id, undelivered) = former.map_or((next, 0), |former| (former.id, former.undelivered));
                let last_error = former.and_then(|former| former.last_error.clone());
                if id == next {
                    self.alerts_next += 1;
                }
                let (namespace, name, rule, by) = (namespace.clone(), name.clone(), (**rule).clone(), by.clone());
                self.alerts
                    .insert(key, StoredAlert { id, namespace, name, rule, at: *at, by, undelivered, last_error });
                Reserved::Done
            }
            Reservation::AlertBack { namespace, name } => {
                let Some(alert) = self.alerts.remove(&(namespace.clone(), name.clone())) else {
                    return Reserved::Unknown;
                };
                self.alarms.retain(|key, _| key.alert != alert.id);
                self.notices.retain(|_, notice| notice.notice.key.alert != alert.id);
                Reserved::Done
            }
            Reservation::AlertWork(work) => {
                self.work(work);
                Reserved::Done
            }
            Reservation::App { .. }
            | Reservation::JobName { .. }
            | Reservation::JobNameBack { .. }
            | Reservation::WorkerName { .. }
            | Reservation::Request { .. }
            | Reservation::RequestBack { .. }
            | Reservation::Token(_)
            | Reservation::TokensBack { .. }
            | Reservation::Secret(_)
            | Reservation::Upstreams { .. }
            | Reservation::UpstreamsBack { .. }
            | Reservation::SecretBack { .. } => unreachable!("only reservations of alerts are handed on"),
        }
    }

    fn work(&mut self, work: &Work) {
        for run in &work.heard {
            self.alert_ends.remove(run);
        }
        let has_rule = |id: AlertId| self.alerts.values().any(|alert| alert.id == id);
        for (key, alarm) in &work.alarms {
            match alarm {
                Some(alarm) if has_rule(key.alert) => drop(self.alarms.insert(*key, alarm.clone())),
                Some(_) | None => drop(self.alarms.remove(key)),
            }
        }
        for notice in work.notices.iter().filter(|notice| has_rule(notice.notice.key.alert)) {
            self.notices.insert(notice.id, notice.clone());
        }
        for (id, tried) in &work.tried {
            match tried {
                Tried::Delivered => drop(self.notices.remove(id)),
                Tried::Again { next_at, error } => {
                    if let Some(notice) = self.notices.get_mut(id) {
                        notice.tries += 1;
                        (notice.next_at, notice.error) = (*next_at, Some(error.clone()));
                    }
                }
                Tried::GivenUp { error } => {
                    let Some(notice) = self.notices.remove(id) else { continue };
                    let rule = self.alerts.values_mut().find(|alert| alert.id == notice.notice.key.alert);
                    if let Some(rule) = rule {
                        rule.undelivered += 1;
                        rule.last_error = Some(error.clone());
                    }
                }
            }
        }
    }

    pub(super) fn read_alarms(&self) -> Vec<(Key, Alarm)> {
        self.alarms.iter().map(|(key, alarm)| (*key, alarm.clone())).collect()
    }

    pub(super) fn read_notices(&self) -> Vec<StoredNotice> {
        self.notices.values().cloned().collect()
    }

    pub(super) fn read_ends(&self, limit: u32) -> Vec<RunId> {
        self.alert_ends.iter().take(limit as usize).copied().collect()
    }
}
