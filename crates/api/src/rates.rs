//! Rates of apps, as users write them and as they are shown.

use std::collections::BTreeMap;

use rota_core::id::AppId;
use rota_core::rate::{Limit, Rate, Rates};
use rota_wire::rest;

use crate::refusal::Refusal;
use crate::state::State;

/// What takes a rate away.
const NONE: &str = "none";

/// Lays what was asked for over the rates that an app has.
pub(crate) fn read(put: &rest::AppPut, before: Rates) -> Result<Rates, Refusal> {
    let mut rates = before;
    match (put.rate.as_deref(), put.burst) {
        (None, None) => {}
        (Some(NONE), None) => rates.app = None,
        (Some(NONE), Some(_)) => {
            return Err(Refusal::invalid("burst", "there is no rate for it").hint("give a rate, for example 50/s"));
        }
        (Some(text), burst) => rates.app = Some(Limit { rate: rate("rate", text)?, burst }),
        (None, Some(burst)) => match &mut rates.app {
            Some(limit) => limit.burst = Some(burst),
            None => {
                let refusal = Refusal::invalid("burst", "the app has no rate");
                return Err(refusal.hint("give it one, for example 50/s"));
            }
        },
    }
    if let Some(groups) = &put.groups {
        rates.groups.clear();
        for (selector, group) in groups {
            let limit = Limit { rate: rate("groups", &group.rate)?, burst: group.burst };
            rates.groups.insert(selector.trim().to_owned(), limit);
        }
    }
    rates.check()?;
    Ok(rates)
}

fn rate(field: &str, text: &str) -> Result<Rate, Refusal> {
    let invalid =
        || Refusal::invalid(field, format!("`{text}` is not a rate")).hint("for example 50/s, 10/m, 3/h or 1/10s");
    Rate::parse(text).ok_or_else(invalid)
}

/// The rates of an app's groups, as a user writes them.
pub(crate) fn groups(rates: &Rates) -> BTreeMap<String, rest::AppRate> {
    let shown = |limit: &Limit| rest::AppRate { rate: limit.rate.to_string(), burst: limit.burst };
    rates.groups.iter().map(|(selector, limit)| (selector.clone(), shown(limit))).collect()
}

/// Where an app stands, by what its machine last published.
pub(crate) fn valve(state: &State, app: AppId) -> rest::Valve {
    let snapshots = state.intake.snapshots();
    let mut shown = rest::Valve::default();
    for valve in snapshots.iter().flat_map(|snapshot| &snapshot.valves).filter(|valve| valve.app == app) {
        shown.pending = valve.pending;
        shown.tokens = valve.tokens;
        shown.groups = valve.groups.iter().cloned().collect();
    }
    let held = snapshots.iter().flat_map(|snapshot| &snapshot.held_counts).filter(|(of, ..)| *of == app);
    for (_, why, count) in held {
        *shown.held.entry(why.word().to_owned()).or_default() += count;
    }
    shown
}
