//! The admin token: made at the first start, shown once, kept as a hash.
//!
//! With a token file the file rules: what it holds is the admin token from this start on, and no other is. Without
//! one, the first start makes a token and shows it; later starts leave it alone.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use rota_core::time::UnixMs;
use rota_port::store::{Reservation, Scope, Store, Token};

use crate::cli::credentials::write_private;

/// Sees to it that there is an admin token; gives it back if it was made now and is in no file.
pub(super) fn ensure(
    store: &mut dyn Store,
    stored: &[Token],
    file: Option<&Path>,
    now: UnixMs,
    entropy: impl Fn() -> [u8; 32],
) -> Result<Option<String>> {
    let admins: Vec<&Token> = stored.iter().filter(|token| token.scope == Scope::Admin).collect();
    let Some(file) = file else {
        if !admins.is_empty() {
            return Ok(None);
        }
        let token = rota_api::mint(&Scope::Admin, entropy());
        keep(store, &token, now)?;
        return Ok(Some(token));
    };
    let token = match read(file)? {
        Some(token) => token,
        None => {
            let token = rota_api::mint(&Scope::Admin, entropy());
            // The file first: a token that is stored and nowhere to be read would be lost.
            write_private(file, format!("{token}\n").as_bytes())
                .with_context(|| format!("writing {}", file.display()))?;
            token
        }
    };
    let hash = rota_api::hash(&token);
    if admins.iter().any(|admin| admin.hash == hash) && admins.len() == 1 {
        return Ok(None);
    }
    // It must be the newest, so that it is the one that stays.
    let newest = admins.iter().map(|admin| admin.at.plus_ms(1)).max();
    keep(store, &token, newest.map_or(now, |at| at.max(now)))?;
    store.reserve(&Reservation::TokensBack { scope: Scope::Admin })?;
    Ok(None)
}

fn keep(store: &mut dyn Store, token: &str, at: UnixMs) -> Result<()> {
    let token = Token { hash: rota_api::hash(token), scope: Scope::Admin, at };
    store.reserve(&Reservation::Token(token)).context("storing the admin token")?;
    Ok(())
}

fn read(file: &Path) -> Result<Option<String>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("admin token file {}", file.display())),
    };
    let token = text.trim();
    // What can be guessed protects nothing; the same bound as for tokens that are taken over.
    if token.len() < 16 || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!(
            "admin token file {}: a token is one word of at least 16 characters; remove the file to have one made",
            file.display()
        );
    }
    Ok(Some(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store in a folder, and what it holds.
    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn ensure(&self, file: Option<&Path>, seed: u8) -> Result<(Option<String>, Vec<[u8; 32]>)> {
            let (mut store, query) = rota_store::open(&self.folder.path().join("data"), 1)?;
            let tokens = |query: &dyn rota_port::query::Query| query.tokens();
            let made = ensure(&mut store, &tokens(&query)?, file, UnixMs(1_000), || [seed; 32])?;
            let admins = tokens(&query)?.into_iter().filter(|token| token.scope == Scope::Admin);
            Ok((made, admins.map(|token| token.hash).collect()))
        }
    }

    fn place() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    #[test]
    fn the_first_start_makes_one_and_later_starts_leave_it() {
        let place = place();
        let (made, kept) = place.ensure(None, 1).unwrap();
        assert_eq!(kept, [rota_api::hash(&made.unwrap())]);
        let (made, kept_later) = place.ensure(None, 2).unwrap();
        assert_eq!((made, kept_later), (None, kept));
    }

    #[test]
    fn a_file_is_made_once_and_rules_from_then_on() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = place();
        let file = place.folder.path().join("token");
        place.ensure(None, 1).unwrap();
        let (made, kept) = place.ensure(Some(&file), 2).unwrap();
        let written = std::fs::read_to_string(&file).unwrap();
        assert_eq!((made, kept), (None, vec![rota_api::hash(written.trim())]));
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

        std::fs::write(&file, "another-token-of-mine\n").unwrap();
        let (_, kept) = place.ensure(Some(&file), 3).unwrap();
        assert_eq!(kept, [rota_api::hash("another-token-of-mine")]);
    }

    #[test]
    fn a_token_that_could_be_guessed_is_refused() {
        let place = place();
        let file = place.folder.path().join("token");
        for text in ["", "short", "two words of many letters"] {
            std::fs::write(&file, text).unwrap();
            assert!(place.ensure(Some(&file), 1).is_err(), "{text}");
        }
    }
}
