//! Whom encrypted connections trust.

use std::sync::Arc;

use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

pub use tokio_rustls::rustls::pki_types::CertificateDer;

/// The certificate authorities that Mozilla trusts, and `extra` ones, such as a company's own.
///
/// The provider is named here rather than installed for the process: two parts that install one each
/// would make the second panic.
pub fn roots(extra: &[CertificateDer<'static>]) -> Result<Arc<ClientConfig>, BadRoot> {
    let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    for (index, root) in extra.iter().enumerate() {
        roots.add(root.clone()).map_err(|source| BadRoot { index, source })?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// An extra certificate authority that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("certificate {index} cannot be used as a certificate authority")]
pub struct BadRoot {
    /// Its place among the extra ones, from 0.
    pub index: usize,
    /// Why.
    pub source: tokio_rustls::rustls::Error,
}
