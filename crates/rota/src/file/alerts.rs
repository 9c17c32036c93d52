//! The alert rules of a job file: read, and compared with those that are there. None is ever deleted by a file.

use std::collections::BTreeMap;

use rota_wire::rest::{self, AlertSpec};
use serde::Serialize;

use super::diff::{KeyChange, differences};
use super::mistake::Mistake;
use super::node::{Key, Node};
use super::plan::Does;
use super::reader::read;

/// A rule that a file wants, as a server would show it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Alert {
    pub(crate) name: String,
    pub(crate) spec: AlertSpec,
}

/// A rule that is made or changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct AlertStep {
    pub(crate) alert: String,
    pub(crate) does: Does,
    pub(crate) changes: Vec<KeyChange>,
    #[serde(skip)]
    pub(crate) put: AlertSpec,
}

/// Reads the entries of `alerts`.
pub(super) fn wanted(entries: &[(Key, Node)], mistakes: &mut Vec<Mistake>) -> Vec<Alert> {
    let mut alerts = Vec::new();
    for (key, node) in entries {
        match one(key, node) {
            Ok(alert) => alerts.push(alert),
            Err(mistake) => mistakes.push(mistake.under(&key.text, key.mark).under("alerts", key.mark)),
        }
    }
    alerts
}

fn one(key: &Key, node: &Node) -> Result<Alert, Mistake> {
    rota_core::job::check_name("name", &key.text)
        .map_err(|invalid| Mistake::new(key.mark, invalid.message).maybe_hint(invalid.hint))?;
    let spec: AlertSpec = read(node)?;
    let spec = rota_api::canonical_alert(&spec).map_err(|error| {
        let field = error.field.unwrap_or_default();
        let mut mistake = Mistake::new(node.place(&field), error.message).code("invalid").maybe_hint(error.hint);
        mistake.path = field.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        mistake
    })?;
    Ok(Alert { name: key.text.clone(), spec })
}

/// What has to be done for the rules to be as a file has them.
pub(super) fn steps(wanted: &[Alert], there: &[rest::Alert]) -> Vec<AlertStep> {
    let there: BTreeMap<&str, &AlertSpec> = there.iter().map(|alert| (alert.name.as_str(), &alert.spec)).collect();
    let step = |alert: &Alert| {
        let before = there.get(alert.name.as_str()).copied();
        let does = if before.is_some() { Does::Edit } else { Does::Create };
        let changes = differences(before.unwrap_or(&AlertSpec::default()), &alert.spec);
        let is_same = before.is_some() && changes.is_empty();
        (!is_same).then(|| AlertStep { alert: alert.name.clone(), does, changes, put: alert.spec.clone() })
    };
    wanted.iter().filter_map(step).collect()
}
