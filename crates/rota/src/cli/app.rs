//! `rota app`.

use std::collections::BTreeMap;

use rota_wire::rest::{App, AppPut, AppRate, Page, TokenAsk, TokenMade};

use super::client::{Client, Path};
use super::out::Out;
use super::table::{Table, grouped, one_line};
use crate::args::AppCommand;
use crate::exit::Failure;

pub(crate) async fn run(client: &Client, out: Out, command: AppCommand) -> Result<(), Failure> {
    match command {
        AppCommand::Add { name, pending_max, rate, burst, groups } => {
            let put = AppPut { pending_max, rate, burst, groups: read_groups(&groups)? };
            let app: App = client.put(Path::of(&["apps", &name]), &put).await?;
            out.show(&app, |app| {
                let next = format!("rota app token {}", app.name);
                let rate = app.rate.as_ref().map(|rate| format!("  rate {rate}")).unwrap_or_default();
                format!("{}  pending_max {}{rate}\ntry  {next}\n", app.name, grouped(u64::from(app.pending_max)))
            })
        }
        AppCommand::Show { name } => {
            let app: App = client.get(Path::of(&["apps", &name])).await?;
            out.show(&app, shown)
        }
        AppCommand::List => {
            let items: Vec<App> = client.all(Path::of(&["apps"]), usize::MAX).await?;
            let page = Page { items, next: None };
            out.show(&page, |page| list(&page.items))
        }
        AppCommand::Token { name, adopt } => {
            let adopt = adopt.map(|file| read_token(&file)).transpose()?;
            let made: TokenMade = client.post(Path::of(&["apps", &name, "token"]), &TokenAsk { adopt }).await?;
            // On a terminal and in a pipe alike, so that `rota app token etl > token` makes a token file.
            out.show(&made, |made| match &made.token {
                Some(token) => format!("{token}\n"),
                None => format!("the token is valid for app {} now\n", made.app),
            })
        }
    }
}

fn list(apps: &[App]) -> String {
    let mut table = Table::new(&["APP", "ID", "PENDING", "PENDING MAX", "RATE", "TOKENS", "HELD"]);
    for app in apps {
        table.row([
            app.name.clone(),
            app.id.to_string(),
            grouped(u64::from(app.valve.pending)),
            grouped(u64::from(app.pending_max)),
            app.rate.clone().unwrap_or_default(),
            app.valve.tokens.map(|tokens| grouped(u64::from(tokens))).unwrap_or_default(),
            held(app),
        ]);
    }
    table.text()
}

/// `cap 3, rate 12`.
fn held(app: &App) -> String {
    let parts = app.valve.held.iter().map(|(why, count)| format!("{why} {}", grouped(*count)));
    parts.collect::<Vec<_>>().join(", ")
}

/// What is known of an app, one fact a line.
fn shown(app: &App) -> String {
    let limit = |rate: &str, burst: Option<u32>, tokens: Option<&u32>| {
        let burst = burst.map(|burst| format!(", burst {}", grouped(u64::from(burst)))).unwrap_or_default();
        let tokens = tokens.map(|tokens| format!(", {} tokens", grouped(u64::from(*tokens)))).unwrap_or_default();
        format!("{rate}{burst}{tokens}")
    };
    let mut text = format!("app      {} (id {})\n", app.name, app.id);
    let (pending, most) = (u64::from(app.valve.pending), u64::from(app.pending_max));
    text.push_str(&format!("pending  {} of {}\n", grouped(pending), grouped(most)));
    if let Some(rate) = &app.rate {
        text.push_str(&format!("rate     {}\n", limit(rate, app.burst, app.valve.tokens.as_ref())));
    }
    for (selector, of) in &app.groups {
        let tokens = app.valve.groups.get(selector);
        text.push_str(&format!("group    {}: {}\n", one_line(selector), limit(&of.rate, of.burst, tokens)));
    }
    if !app.valve.held.is_empty() {
        text.push_str(&format!("held     {}\n", held(app)));
    }
    text
}

/// Groups as flags say them: `SELECTOR: RATE`, or `SELECTOR: RATE, BURST`; `none` for no groups.
fn read_groups(flags: &[String]) -> Result<Option<BTreeMap<String, AppRate>>, Failure> {
    if flags.is_empty() {
        return Ok(None);
    }
    let mut groups = BTreeMap::new();
    for flag in flags.iter().filter(|flag| *flag != "none") {
        let parts = flag.rsplit_once(':').and_then(|(selector, limit)| {
            let (rate, burst) = match limit.split_once(',') {
                Some((rate, burst)) => (rate, Some(burst.trim().parse().ok()?)),
                None => (limit, None),
            };
            Some((selector.trim().to_owned(), AppRate { rate: rate.trim().to_owned(), burst }))
        });
        let usage = || {
            Failure::usage(format!("--group: `{flag}` is not a group"), Some("for example: 'zone=a: 10/s'".to_owned()))
        };
        let (selector, rate) = parts.ok_or_else(usage)?;
        groups.insert(selector, rate);
    }
    Ok(Some(groups))
}

/// A token from its file, without the end of its line.
pub(crate) fn read_token(file: &std::path::Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("token file {}: {error}", file.display()), None))?;
    let token = text.trim();
    if token.is_empty() || token.contains(char::is_whitespace) {
        let message = format!("token file {}: a token is one word alone", file.display());
        return Err(Failure::usage(message, None));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_file_holds_one_word() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        for (text, expected) in [("abc\n", Some("abc")), ("", None), ("a b", None), ("\n", None)] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read_token(&file).ok().as_deref(), expected, "{text:?}");
        }
        assert!(read_token(&folder.path().join("none")).is_err());
    }
}
