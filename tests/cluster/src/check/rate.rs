//! Rates: in no window of a term do more dispatches of an app, or to a group of its workers, begin than its burst and
//! what the window brings. The model is the sentence itself, over the instants that the rows have.

use std::collections::BTreeMap;

use rota_core::id::{AppId, Epoch};
use rota_core::label::Selector;
use rota_core::rate::Limit;

use super::{Rule, Verdict};
use crate::store::{Changes, Part};

/// What has begun, by app and group, in the term of that part.
#[derive(Debug)]
pub struct Rate {
    begun: BTreeMap<(AppId, Option<String>), (Epoch, Vec<i64>)>,
    /// Wall clocks are stepped: what rows say of instants proves nothing.
    is_blind: bool,
}

impl Rate {
    /// Checks unless wall clocks are stepped.
    #[must_use]
    pub fn new(is_blind: bool) -> Rate {
        Rate { begun: BTreeMap::new(), is_blind }
    }

    /// Checks a batch that has just been applied.
    pub fn applied(&mut self, part: &Part, changes: &Changes) -> Verdict {
        if self.is_blind {
            return Ok(());
        }
        for (run, attempt) in &changes.attempts_new {
            let row = &part.runs[run];
            let attempt = row.attempt(*attempt).expect("an attempt stays in its run");
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
            let window_ms = (at - since).max(0) as u64;
            let brings = window_ms * u64::from(limit.rate.count) / limit.rate.per_ms;
            let found = (begun.len() - first) as u64;
            if found > u64::from(limit.burst()) + brings {
                let text =
                    format!("{found} dispatches of {whose:?} begin within {window_ms} ms, the limit is {limit:?}");
                return Err(Rule::Rate.broken(text));
            }
        }
        Ok(())
    }
}
