//! Secrets at rest: sealed under a key that lies beside the database and is not in it, so that a copy
//! of the database alone gives none away.
//!
//! XChaCha20-Poly1305 with a random nonce; its 192 bits make chance repeats impossible. A sealed secret
//! is bound to the row that it belongs to, so it cannot be moved to another.

use std::io::{Read, Write};
use std::path::Path;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use rota_port::store::Error;

use crate::dir::private;
use crate::open::OpenError;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;

/// The key of a data directory.
#[derive(Clone)]
pub(crate) struct Key {
    cipher: XChaCha20Poly1305,
}

impl Key {
    /// Reads the key; makes one if `may_make` (the database is new).
    pub(crate) fn open(path: &Path, may_make: bool) -> Result<Key, OpenError> {
        if !path.exists() {
            if !may_make {
                return Err(OpenError::KeyMissing { path: path.to_owned() });
            }
            make(path)?;
        }
        let mut bytes = Vec::new();
        let read = private().create(false).open(path).and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(|source| OpenError::file("read", path, source))?;
        let cipher = XChaCha20Poly1305::new_from_slice(&bytes).ok().filter(|_| bytes.len() == KEY_BYTES);
        cipher.map(|cipher| Key { cipher }).ok_or_else(|| OpenError::KeyWrong { path: path.to_owned() })
    }

    /// Seals a secret for the row that `context` names.
    pub(crate) fn seal(&self, secret: &str, context: &str) -> Result<Vec<u8>, Error> {
        let mut sealed = vec![0; NONCE_BYTES];
        getrandom::fill(&mut sealed).map_err(|e| Error::Unavailable(format!("no randomness: {e}").into()))?;
        let nonce: [u8; NONCE_BYTES] = sealed[..].try_into().expect("made of that length");
        let payload = Payload { msg: secret.as_bytes(), aad: context.as_bytes() };
        let text = self.cipher.encrypt(&XNonce::from(nonce), payload).expect("secrets are short");
        sealed.extend_from_slice(&text);
        Ok(sealed)
    }

    /// Opens what was sealed for the same row; none if it was not, or under another key.
    pub(crate) fn unseal(&self, sealed: &[u8], context: &str) -> Option<String> {
        let (nonce, text) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload { msg: text, aad: context.as_bytes() };
        let plain = self.cipher.decrypt(&XNonce::from(*nonce), payload).ok()?;
        String::from_utf8(plain).ok()
    }
}

/// Makes a key. It is written in full under another name first: a crash never leaves half a key.
pub(crate) fn make(path: &Path) -> Result<(), OpenError> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(|e| OpenError::file("fill", path, std::io::Error::other(e.to_string())))?;
    let fresh = path.with_extension("key.new");
    let written = private()
        .truncate(true)
        .open(&fresh)
        .and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&fresh, path));
    written.map_err(|source| OpenError::file("write", path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_only_in_its_own_row_and_under_its_own_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rota.key");
        assert!(matches!(Key::open(&path, false), Err(OpenError::KeyMissing { .. })));
        let key = Key::open(&path, true).unwrap();
        let sealed = key.seal("s3cret", "worker 1").unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"s3cret"));
        assert_eq!(Key::open(&path, false).unwrap().unseal(&sealed, "worker 1").as_deref(), Some("s3cret"));
        assert_eq!(key.unseal(&sealed, "worker 2"), None);
        let other = Key::open(&dir.path().join("other.key"), true).unwrap();
        assert_eq!(other.unseal(&sealed, "worker 1"), None);
        std::fs::write(&path, b"short").unwrap();
        assert!(matches!(Key::open(&path, false), Err(OpenError::KeyWrong { .. })));
    }
}
