//! `rota token`.

use rota_wire::rest::{Page, Token, TokenNew, TokenShown};

use super::client::{Client, Path};
use super::out::Out;
use super::shown;
use super::table::Table;
use crate::args::TokenCommand;
use crate::exit::Failure;

pub(crate) async fn run(client: &Client, out: Out, command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Add { read: _ } => {
            let new = TokenNew { scope: "read".to_owned() };
            let made: TokenShown = client.post(Path::of(&["tokens"]), &new).await?;
            // On a terminal and in a pipe alike, so that `rota token add --read > token` makes a token file.
            out.show(&made, |made| format!("{}\n", made.token))
        }
        TokenCommand::List => {
            let items: Vec<Token> = client.all(Path::of(&["tokens"]), usize::MAX).await?;
            let page = Page { items, next: None };
            out.show(&page, |page| list(&page.items))
        }
    }
}

fn list(tokens: &[Token]) -> String {
    let mut table = Table::new(&["SCOPE", "APP", "MADE", "SHA-256"]);
    for token in tokens {
        let app = token.app.clone().unwrap_or_default();
        table.row([token.scope.clone(), app, shown::time(&token.at), format!("{}…", token.digest)]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_listed_by_what_they_open() {
        let token = |scope: &str, app: Option<&str>| Token {
            scope: scope.to_owned(),
            app: app.map(str::to_owned),
            at: "2026-12-01T02:00:00Z".to_owned(),
            digest: "0a1b2c3d".to_owned(),
        };
        let expected = "\
SCOPE   APP  MADE                   SHA-256
read    -    12-01 02:00:00 +00:00  0a1b2c3d…
worker  etl  12-01 02:00:00 +00:00  0a1b2c3d…
";
        assert_eq!(list(&[token("read", None), token("worker", Some("etl"))]), expected);
    }
}
