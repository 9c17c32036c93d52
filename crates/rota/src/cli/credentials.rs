//! Which server, and with which token: flags and environment, else what `rota dev` left in `.rota/cli.toml`.

use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::args::Common;
use crate::exit::Failure;

/// Where `rota dev` leaves them, in the folder in which it runs.
pub(crate) const FILE: &str = ".rota/cli.toml";
const SERVER: &str = "http://127.0.0.1:7654";

/// A server and a token of it. It has no Debug, because the token is a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Credentials {
    pub(crate) server: String,
    pub(crate) token: String,
}

impl Credentials {
    /// What was given, and what is left open from the file.
    pub(crate) fn find(common: &Common, file: &Path) -> Result<Credentials, Failure> {
        Credentials::choose(common.server.as_deref(), common.token.as_deref(), Credentials::load(file)?)
    }

    fn choose(server: Option<&str>, token: Option<&str>, stored: Option<Credentials>) -> Result<Credentials, Failure> {
        let server = match (server, &stored) {
            (Some(server), _) => server.trim_end_matches('/').to_owned(),
            (None, Some(stored)) => stored.server.clone(),
            (None, None) => SERVER.to_owned(),
        };
        // A token never goes to another server than the one that made it.
        let stored = stored.filter(|stored| stored.server == server).map(|stored| stored.token);
        match token.map(str::to_owned).or(stored) {
            Some(token) => Ok(Credentials { server, token: token.trim().to_owned() }),
            None => Err(Failure::usage(
                format!("no token for {server}"),
                Some(format!("set ROTA_TOKEN, or go to the folder of `rota dev`, which leaves one in {FILE}")),
            )),
        }
    }

    /// What the file says; nothing if there is none.
    pub(crate) fn load(file: &Path) -> Result<Option<Credentials>, Failure> {
        match std::fs::read_to_string(file) {
            Ok(text) => toml::from_str(&text).map(Some).map_err(|error| {
                // The message could quote the token; the position is enough.
                let at = error.span().map_or(0, |span| text[..span.start].lines().count().max(1));
                Failure::usage(format!("{}: line {at} cannot be read", file.display()), None)
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::usage(format!("{}: {error}", file.display()), None)),
        }
    }

    /// Writes the file so that only its owner can read it.
    pub(crate) fn save(&self, file: &Path) -> std::io::Result<()> {
        let text = toml::to_string(self).expect("two texts are TOML");
        write_private(file, text.as_bytes())
    }
}

/// The server of whoever names none.
pub(crate) fn server(file: &Path) -> Result<String, Failure> {
    Ok(Credentials::load(file)?.map_or_else(|| SERVER.to_owned(), |stored| stored.server))
}

/// Replaces a file by one that only its owner can read, in one step.
pub(crate) fn write_private(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    let new = Path::new(&name);
    if let Err(error) = std::fs::remove_file(new)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
    opened.write_all(bytes)?;
    opened.sync_all()?;
    std::fs::rename(new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Option<Credentials> {
        Some(Credentials { server: "http://a:1".to_owned(), token: "secret".to_owned() })
    }

    fn check(server: Option<&str>, token: Option<&str>, stored: Option<Credentials>, expected: Option<(&str, &str)>) {
        let found = Credentials::choose(server, token, stored).ok();
        assert_eq!(found.as_ref().map(|c| (c.server.as_str(), c.token.as_str())), expected);
    }

    #[test]
    fn what_is_given_wins() {
        check(None, None, stored(), Some(("http://a:1", "secret")));
        check(Some("http://a:1/"), None, stored(), Some(("http://a:1", "secret")));
        check(None, Some("other\n"), stored(), Some(("http://a:1", "other")));
        check(None, Some("t"), None, Some((SERVER, "t")));
        check(None, None, None, None);
    }

    #[test]
    fn a_token_never_goes_to_another_server() {
        check(Some("http://b:2"), None, stored(), None);
    }

    #[test]
    fn the_file_is_private_and_reads_back() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cli.toml");
        stored().unwrap().save(&file).unwrap();
        stored().unwrap().save(&file).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Credentials::load(&file).ok().flatten() == stored());
        assert!(Credentials::load(&folder.path().join("none")).ok().flatten().is_none());
    }
}
