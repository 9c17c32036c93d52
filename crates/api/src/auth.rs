//! Who asks. Bearer tokens, known by their SHA-256 only.
//!
//! A presented token is hashed and its digest looked up. The look-up's time may depend on the stored digests, which
//! is of no use to anyone who cannot choose digests; the token itself is never compared byte by byte.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use axum::extract::FromRequestParts;
use http::header::AUTHORIZATION;
use http::request::Parts;
use rota_core::id::AppId;
use rota_port::store::{Scope, Token};
use sha2::{Digest, Sha256};

use crate::code::Code;
use crate::refusal::Refusal;
use crate::state::State;

/// Worker tokens of one app, and read tokens, that are valid at a time, so that they can be rotated.
pub(crate) const TOKENS_MAX: usize = 2;

/// The valid tokens.
#[derive(Default)]
pub(crate) struct Tokens {
    table: RwLock<BTreeMap<[u8; 32], Scope>>,
    /// Held while the table is read anew, so that what was read last is what stays.
    loading: Mutex<()>,
}

impl Tokens {
    /// Replaces the table by what is durable, which `read` gives. Of each app's worker tokens, and of the read tokens, the newest [`TOKENS_MAX`] are valid.
    pub(crate) fn load<E>(&self, read: impl FnOnce() -> Result<Vec<Token>, E>) -> Result<(), E> {
        let _turn = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tokens = read()?;
        tokens.sort_by_key(|token| std::cmp::Reverse(token.at));
        let mut of_scope: BTreeMap<Scope, usize> = BTreeMap::new();
        let mut table = BTreeMap::new();
        for token in tokens {
            let seen = of_scope.entry(token.scope.clone()).or_default();
            *seen += 1;
            // Which admin tokens there are is for the composition root to say.
            if token.scope == Scope::Admin || *seen <= TOKENS_MAX {
                table.insert(token.hash, token.scope);
            }
        }
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
        Ok(())
    }

    fn scope(&self, token: &str) -> Option<Scope> {
        self.scope_of(&hash(token))
    }

    /// What the token with this digest opens.
    pub(crate) fn scope_of(&self, hash: &[u8; 32]) -> Option<Scope> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).get(hash).cloned()
    }
}

/// What the store keeps of a token.
#[must_use]
pub fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// A new token from 32 bytes that nobody can guess: `rota_w_` for workers, `rota_r_` for reading, `rota_` for everything.
#[must_use]
pub fn mint(scope: &Scope, entropy: [u8; 32]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let prefix = match scope {
        Scope::Admin => "rota_",
        Scope::Read => "rota_r_",
        Scope::Worker(_) => "rota_w_",
    };
    // Six bits a byte: 192 bits are more than enough, and need no padding.
    let letters = entropy.iter().map(|byte| char::from(LETTERS[usize::from(byte % 64)]));
    prefix.chars().chain(letters).collect()
}

/// Tokens that stand in examples, so that everybody knows them.
const WELL_KNOWN: [&str; 16] = [
    "default_token",
    "changeme",
    "change_me",
    "password",
    "secret",
    "token",
    "admin",
    "test",
    "example",
    "xxl-job",
    "xxl_job",
    "rota",
    "accesstoken",
    "access_token",
    "123456",
    "letmein",
];

/// Refuses a token that could be guessed.
pub(crate) fn check_strength(token: &str) -> Result<(), Refusal> {
    let weak = |message: &str| {
        let hint = "at least 16 characters that nobody can guess, for example from: openssl rand -hex 32";
        Refusal::new(Code::WeakToken, message).field("adopt").hint(hint)
    };
    if token.is_empty() {
        return Err(weak("the token is empty"));
    }
    // A well-known word stays one with digits, marks or itself behind it.
    let mut letters: String = token.to_lowercase();
    while let Some(known) = WELL_KNOWN.iter().find(|known| letters.starts_with(**known)) {
        letters.drain(..known.len());
        let rest = letters.trim_start_matches(|c: char| c.is_ascii_digit() || c.is_ascii_punctuation());
        letters = rest.to_owned();
        if letters.is_empty() {
            return Err(weak("everybody knows this token"));
        }
    }
    if token.chars().count() < 16 {
        return Err(weak("the token has fewer than 16 characters"));
    }
    if token.len() > 1_024 || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(weak("a token is at most 1,024 visible ASCII characters"));
    }
    let kinds: std::collections::BTreeSet<char> = token.chars().collect();
    if kinds.len() < 5 {
        return Err(weak("the token repeats a few characters"));
    }
    Ok(())
}

/// A caller that may do everything.
pub(crate) struct Admin;

/// A caller that may read.
#[derive(Clone, Copy)]
pub(crate) struct Reader {
    /// Whether it is also shown the values that open other systems.
    pub(crate) sees_secrets: bool,
}

/// A caller that may act for the workers of one app.
pub(crate) struct WorkerOf(pub(crate) AppId);

/// Whether a connection has shown a valid token. The accept loop gives it to each request of the connection.
#[derive(Clone)]
pub(crate) struct Known(pub(crate) Arc<AtomicBool>);

fn scope_of(parts: &Parts, state: &State) -> Result<Scope, Refusal> {
    let found = read_scope(parts, state);
    if found.is_err() {
        state.counts.refused_token();
    } else if let Some(Known(is_known)) = parts.extensions.get() {
        is_known.store(true, Ordering::Relaxed);
    }
    found
}

fn read_scope(parts: &Parts, state: &State) -> Result<Scope, Refusal> {
    let hint = "send the header `Authorization: Bearer TOKEN`; the CLI reads ROTA_TOKEN";
    let header = parts.headers.get(AUTHORIZATION);
    let Some(header) = header else { return Err(Refusal::new(Code::TokenMissing, "no token was sent").hint(hint)) };
    let token = header.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    let Some(token) = token else {
        return Err(Refusal::new(Code::TokenMissing, "the Authorization header is not a bearer token").hint(hint));
    };
    state.tokens.scope(token).ok_or_else(|| {
        Refusal::new(Code::TokenUnknown, "this token is not valid here")
            .hint("it may be of another server, or have been replaced by two newer ones")
    })
}

fn forbidden(state: &State, message: &str, hint: &str) -> Refusal {
    state.counts.refused_token();
    Refusal::new(Code::Forbidden, message).hint(hint)
}

impl FromRequestParts<Arc<State>> for Admin {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Admin, Refusal> {
        match scope_of(parts, state)? {
            Scope::Admin => Ok(Admin),
            Scope::Read => Err(forbidden(state, "a read token changes nothing", "use the admin token")),
            Scope::Worker(_) => Err(forbidden(state, "a worker token is for workers only", "use the admin token")),
        }
    }
}

impl FromRequestParts<Arc<State>> for Reader {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Reader, Refusal> {
        match scope_of(parts, state)? {
            Scope::Admin => Ok(Reader { sees_secrets: true }),
            Scope::Read => Ok(Reader { sees_secrets: false }),
            Scope::Worker(_) => {
                Err(forbidden(state, "a worker token is for workers only", "use a read token or the admin token"))
            }
        }
    }
}

impl FromRequestParts<Arc<State>> for WorkerOf {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<WorkerOf, Refusal> {
        match scope_of(parts, state)? {
            Scope::Worker(app) => Ok(WorkerOf(app)),
            Scope::Admin | Scope::Read => {
                Err(forbidden(state, "workers act with their app's token", "make one: rota app token APP"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rota_core::time::UnixMs;

    use super::*;

    #[test]
    fn guessable_tokens_are_refused() {
        for token in [
            "",
            "short",
            "default_token",
            "DEFAULT_TOKEN",
            "default_token_default_token",
            "changeme",
            "changeme-1234567890123",
            "aaaaaaaaaaaaaaaaaaaaaaaa",
            "fifteen-chars-x",
            "sixteen characters and spaces",
        ] {
            let refusal = check_strength(token).unwrap_err();
            assert_eq!(refusal.code, Code::WeakToken, "{token}");
            assert_eq!(refusal.field.as_deref(), Some("adopt"));
            assert!(refusal.hint.is_some());
        }
        assert_eq!(check_strength("b2f5c8a1e07d4936"), Ok(()));
        assert_eq!(check_strength("rota_w_Jd72hsKq0PzT5vYx"), Ok(()));
    }

    #[test]
    fn minted_tokens_say_what_they_are_and_pass_their_own_check() {
        let entropy: [u8; 32] = std::array::from_fn(|at| u8::try_from(at * 7).unwrap());
        let worker = mint(&Scope::Worker(AppId(1)), entropy);
        assert!(worker.starts_with("rota_w_") && worker.len() == 39, "{worker}");
        assert_eq!(check_strength(&worker), Ok(()));
        assert_ne!(mint(&Scope::Admin, entropy), mint(&Scope::Read, entropy));
    }

    #[test]
    fn the_newest_two_tokens_of_a_scope_are_valid() {
        let tokens = Tokens::default();
        let token = |text: &str, scope: Scope, at| Token { hash: hash(text), scope, at: UnixMs(at) };
        let durable = vec![
            token("oldest", Scope::Worker(AppId(1)), 1),
            token("newest", Scope::Worker(AppId(1)), 3),
            token("middle", Scope::Worker(AppId(1)), 2),
            token("other", Scope::Worker(AppId(2)), 0),
            token("first", Scope::Read, 1),
            token("second", Scope::Read, 2),
            token("third", Scope::Read, 3),
            token("admin", Scope::Admin, 0),
        ];
        assert_eq!(tokens.load(|| Ok::<_, ()>(durable)), Ok(()));
        assert_eq!(tokens.scope("oldest"), None);
        assert_eq!(tokens.scope("middle"), Some(Scope::Worker(AppId(1))));
        assert_eq!(tokens.scope("newest"), Some(Scope::Worker(AppId(1))));
        assert_eq!(tokens.scope("other"), Some(Scope::Worker(AppId(2))));
        assert_eq!(tokens.scope("first"), None);
        assert_eq!(tokens.scope("second"), Some(Scope::Read));
        assert_eq!(tokens.scope("third"), Some(Scope::Read));
        assert_eq!(tokens.scope("admin"), Some(Scope::Admin));
        assert_eq!(tokens.scope(""), None);
    }
}
