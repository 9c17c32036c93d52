//! Rates: in no window of a term do more dispatches of an app, or to a group of its workers, begin than its burst and
//! what the window brings; nor more of a server, between its start and its end. The model is the sentence itself, over the instants that the rows have.

use std::collections::BTreeMap;

use rota_core::id::{AppId, Epoch, PartitionId};
use rota_core::label::Selector;
use rota_core::rate::Limit;

use super::{Rule, Verdict};
use crate::store::{Changes, Part};

/// What has begun, by app and group, in the term of that part.
#[derive(Debug)]
pub struct Rate {
    begun: BTreeMap<(AppId, Option<String>), (Epoch, Vec<i64>)>,
    /// Which start of which server had a term.
    servers: BTreeMap<(PartitionId, Epoch), (usize, u32)>,
    begun_on: BTreeMap<(usize, u32), Vec<i64>>,
    /// Wall clocks are stepped: what rows say of instants proves nothing.
    is_blind: bool,
}

impl Rate {
    /// Checks unless wall clocks are stepped.
    #[must_use]
    pub fn new(is_blind: bool) -> Rate {
        Rate { begun: BTreeMap::new(), servers: BTreeMap::new(), begun_on: BTreeMap::new(), is_blind }
    }

    /// A server, in this start of it, begins a term.
    pub fn claims(&mut self, partition: PartitionId, epoch: Epoch, server: (usize, u32)) {
        self.servers.insert((partition, epoch), server);
    }

    /// Checks all that servers have begun, once nothing more begins.
    pub fn ended(&mut self, limit: Option<Limit>) -> Verdict {
        let Some(limit) = limit else { return Ok(()) };
        for (server, begun) in &mut self.begun_on {
            begun.sort_unstable();
            for (first, since) in begun.iter().enumerate() {
                for (last, at) in begun.iter().enumerate().skip(first) {
                    within(limit, &format!("server {server:?}"), last - first + 1, at - since)?;
                }
            }
        }
        Ok(())
    }

    /// Checks a batch that has just been applied.
    pub fn applied(&mut self, partition: PartitionId, part: &Part, changes: &Changes) -> Verdict {
        if self.is_blind {
            return Ok(());
        }
        for (run, attempt) in &changes.attempts_new {
            let row = &part.runs[run];
            let attempt = row.attempt(*attempt).expect("an attempt stays in its run");
            if let Some(server) = self.servers.get(&(partition, part.epoch)) {
                self.begun_on.entry(*server).or_default().push(attempt.at.0);
            }
            let rates = &part.apps[&row.run.app].rates;
            if let Some(limit) = rates.app {
                self.begins(part.epoch, (row.run.app, None), limit, attempt.at.0)?;
            }
            let Some((worker, _)) = part.workers.get(&attempt.worker) else { continue };
            for (text, limit) in &rates.groups {
                let is_of_it = Selector::parse(text).is_ok_and(|selector| selector.matches(&worker.labels));
                if is_of_it {
                    self.begins(part.epoch, (row.run.app, Some(text.clone())), *limit, attempt.at.0)?;
                }
            }
        }
        Ok(())
    }

    fn begins(&mut self, epoch: Epoch, whose: (AppId, Option<String>), limit: Limit, at: i64) -> Verdict {
        let (of, begun) = self.begun.entry(whose.clone()).or_insert((epoch, Vec::new()));
        if *of != epoch {
            (*of, *begun) = (epoch, Vec::new());
        }
        begun.push(at);
        for (first, since) in begun.iter().enumerate() {
            within(limit, &format!("{whose:?}"), begun.len() - first, at - since)?;
        }
        Ok(())
    }
}

fn within(limit: Limit, whose: &str, found: usize, window_ms: i64) -> Verdict {
    let window_ms = window_ms.max(0) as u64;
    let brings = window_ms * u64::from(limit.rate.count) / limit.rate.per_ms;
    if found as u64 > u64::from(limit.burst()) + brings {
        let text = format!("{found} dispatches of {whose} begin within {window_ms} ms, the limit is {limit:?}");
        return Err(Rule::Rate.broken(text));
    }
    Ok(())
}
