//! What stops and starts everything: `rota freeze`, `rota thaw` and `rota confirm-clock`.

use rota_wire::rest::{FreezeAsk, Frozen, FrozenNow, Server, ThawAsk};

use super::client::{Client, Path};
use super::out::Out;
use super::shown;
use super::table::one_line;
use crate::args::{FreezeArgs, ThawArgs};
use crate::exit::Failure;

pub(crate) async fn freeze(client: &Client, out: Out, args: FreezeArgs) -> Result<(), Failure> {
    let ask = FreezeAsk { reason: args.reason, app: args.app };
    let now: FrozenNow = client.post(Path::of(&["freeze"]), &ask).await?;
    out.show(&now, |now| {
        let again = if now.is_changed { "" } else { "it was frozen already\n" };
        let thaw = ask.app.as_ref().map_or_else(|| "rota thaw".to_owned(), |app| format!("rota thaw --app {app}"));
        format!("{again}{}try  {thaw} [--missed fire_once]\n", list(&now.frozen))
    })
}

pub(crate) async fn thaw(client: &Client, out: Out, args: ThawArgs) -> Result<(), Failure> {
    let ask = ThawAsk { missed: Some(args.missed.clone()), app: args.app };
    let now: FrozenNow = client.post(Path::of(&["thaw"]), &ask).await?;
    out.show(&now, |now| {
        let what = match (now.is_changed, args.missed.as_str()) {
            (false, _) => "nothing was frozen here",
            (true, "fire_once") => "thawed; the newest missed slot of each job fires, a few at a time",
            (true, _) => "thawed; one row per job says that its missed slots were skipped",
        };
        format!("{what}\n{}", list(&now.frozen))
    })
}

pub(crate) async fn confirm_clock(client: &Client, out: Out) -> Result<(), Failure> {
    let server: Server = client.post(Path::of(&["server", "confirm-clock"]), &serde_json::json!({})).await?;
    out.show(&server, |server| format!("the clock is taken as right: it is {}\n", server.now))
}

/// One line for each open freeze.
fn list(frozen: &[Frozen]) -> String {
    let line = |freeze: &Frozen| {
        let scope = freeze.app.as_ref().map_or_else(|| "everything".to_owned(), |app| format!("app {app}"));
        let part = if freeze.is_partial { ", in part only: ask again" } else { "" };
        let (since, by, reason) = (shown::time(&freeze.since), one_line(&freeze.by), one_line(&freeze.reason));
        format!("{scope} is frozen since {since} by {by}: {reason}{part}\n")
    };
    frozen.iter().map(line).collect()
}
