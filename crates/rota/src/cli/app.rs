//! `rota app`.

use rota_wire::rest::{App, AppPut, Page, TokenAsk, TokenMade};

use super::client::{Client, Path};
use super::out::Out;
use super::table::{Table, grouped};
use crate::args::AppCommand;
use crate::exit::Failure;

pub(crate) async fn run(client: &Client, out: Out, command: AppCommand) -> Result<(), Failure> {
    match command {
        AppCommand::Add { name, pending_max } => {
            let app: App = client.put(Path::of(&["apps", &name]), &AppPut { pending_max }).await?;
            out.show(&app, |app| {
                let next = format!("rota app token {}", app.name);
                format!("{}  pending_max {}\ntry  {next}\n", app.name, grouped(u64::from(app.pending_max)))
            })
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
    let mut table = Table::new(&["APP", "ID", "PENDING MAX"]);
    for app in apps {
        table.row([app.name.clone(), app.id.to_string(), grouped(u64::from(app.pending_max))]);
    }
    table.text()
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
