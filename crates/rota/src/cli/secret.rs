//! `rota secret`.

use std::io::{IsTerminal as _, Read as _};
use std::path::Path as File;

use rota_wire::rest::{Page, Secret, SecretPut, SecretRemoved};

use super::client::{Client, Path};
use super::out::{Out, note};
use super::shown;
use super::table::Table;
use crate::args::SecretCommand;
use crate::exit::Failure;

pub(crate) async fn run(client: &Client, out: Out, command: SecretCommand) -> Result<(), Failure> {
    match command {
        SecretCommand::Set { name, file } => {
            let put = SecretPut { value: read(file.as_deref())? };
            let set: Secret = client.put(Path::of(&["secrets", &name]), &put).await?;
            out.show(&set, say_set)
        }
        SecretCommand::List => {
            let page: Page<Secret> = client.get(Path::of(&["secrets"])).await?;
            out.show(&page, |page| list(&page.items))
        }
        SecretCommand::Rm { name, force } => {
            let path = Path::of(&["secrets", &name]).with("force", force.then_some("true"));
            let removed: SecretRemoved = client.delete(path).await?;
            out.show(&removed, say_removed)
        }
    }
}

/// A value, without the end of line that editors and `echo` leave behind it.
fn read(file: Option<&File>) -> Result<String, Failure> {
    let (mut text, from) = (String::new(), file.map_or("standard input".to_owned(), |file| file.display().to_string()));
    let done = match file {
        Some(file) => std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text)),
        None => {
            if std::io::stdin().is_terminal() {
                note("type the value, which shows, then Ctrl-D; or pipe it in\n");
            }
            std::io::stdin().read_to_string(&mut text)
        }
    };
    done.map_err(|error| Failure::usage(format!("{from}: {error}"), None))?;
    Ok(without_end(text))
}

fn without_end(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

fn say_set(secret: &Secret) -> String {
    let used = match &secret.used_by[..] {
        [] => "no job uses it yet".to_owned(),
        jobs => format!("used by {}", jobs.join(", ")),
    };
    let warning = secret.warning.as_ref().map(|warning| format!("note  {warning}\n")).unwrap_or_default();
    format!("{} is set; {used}\n{warning}use   {{{{secret.{}}}}}\n", secret.name, secret.name)
}

fn say_removed(removed: &SecretRemoved) -> String {
    match &removed.used_by[..] {
        [] => format!("{} is removed\n", removed.name),
        jobs => format!("{} is removed; attempts of {} fail from now on\n", removed.name, jobs.join(", ")),
    }
}

fn list(secrets: &[Secret]) -> String {
    let mut table = Table::new(&["SECRET", "SET", "BY", "USED BY"]);
    for secret in secrets {
        table.row([secret.name.clone(), shown::time(&secret.at), secret.by.clone(), secret.used_by.join(", ")]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_end_of_line_is_not_part_of_a_value() {
        for (text, expected) in [("a", "a"), ("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), (" a ", " a "), ("\n", "")]
        {
            assert_eq!(without_end(text.to_owned()), expected, "{text:?}");
        }
    }

    #[test]
    fn secrets_are_listed_without_values() {
        let secret = |name: &str, used_by: &[&str]| Secret {
            name: name.to_owned(),
            at: "2026-12-01T02:00:00Z".to_owned(),
            by: "admin".to_owned(),
            used_by: used_by.iter().map(|job| (*job).to_owned()).collect(),
            warning: None,
        };
        let expected = "\
SECRET   SET                    BY     USED BY
OLD      12-01 02:00:00 +00:00  admin  -
PARTNER  12-01 02:00:00 +00:00  admin  ping, pong
";
        assert_eq!(list(&[secret("OLD", &[]), secret("PARTNER", &["ping", "pong"])]), expected);
    }
}
