//! Where a URL points: what to resolve, what to connect to, what to ask for.

use http::Uri;
use http::header::HeaderValue;

/// A URL that cannot be called, and why.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{url}` {problem}")]
pub struct BadUrl {
    /// The URL, shortened.
    pub url: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// The parts of an absolute `http` or `https` URL without user information.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Endpoint {
    /// Whether the connection is encrypted.
    pub(crate) is_tls: bool,
    /// A name or an address; lower case, without brackets and without a final dot.
    pub(crate) host: String,
    /// The port, also if the URL names none.
    pub(crate) port: u16,
    /// What the `Host` header says.
    pub(crate) authority: HeaderValue,
    /// Path and query, as a request's first line has them.
    pub(crate) target: Uri,
}

/// Longer URLs are refused; servers refuse them too.
const URL_BYTES_MAX: usize = 8 << 10;

impl Endpoint {
    /// Reads a URL.
    pub(crate) fn parse(url: &str) -> Result<Endpoint, BadUrl> {
        let bad = |problem| BadUrl { url: url.chars().take(120).collect(), problem };
        if url.len() > URL_BYTES_MAX {
            return Err(bad("is longer than 8 KiB"));
        }
        let uri: Uri =
            url.parse().map_err(|_| bad("is not a URL; blanks and control characters must be percent-encoded"))?;
        let is_tls = match uri.scheme_str() {
            Some(scheme) if scheme.eq_ignore_ascii_case("http") => false,
            Some(scheme) if scheme.eq_ignore_ascii_case("https") => true,
            Some(_) | None => return Err(bad("is not an absolute http or https URL")),
        };
        let authority = uri.authority().ok_or_else(|| bad("names no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("carries a user name; send an Authorization header instead"));
        }
        let bare = authority.host().trim_start_matches('[').trim_end_matches(']');
        let host = bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase();
        if host.is_empty() {
            return Err(bad("names no host"));
        }
        let port = match authority.as_str().rsplit_once(':') {
            Some((_, digits)) if !digits.ends_with(']') => {
                authority.port_u16().filter(|port| *port > 0).ok_or_else(|| bad("has a port outside 1 to 65535"))?
            }
            Some(_) | None if is_tls => 443,
            Some(_) | None => 80,
        };
        let target = uri.path_and_query().map_or("/", |p| p.as_str());
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Endpoint {
            is_tls,
            host,
            port,
            authority: HeaderValue::from_str(authority.as_str())
                .map_err(|_| bad("has a host that no header can carry"))?,
            target: target.parse().map_err(|_| bad("has a path that no request can carry"))?,
        })
    }

    /// Reads the base URL of a worker: no query, and a path only as a prefix.
    pub(crate) fn parse_base(url: &str) -> Result<Endpoint, BadUrl> {
        let endpoint = Endpoint::parse(url)?;
        if endpoint.target.query().is_some() {
            return Err(BadUrl {
                url: url.chars().take(120).collect(),
                problem: "has a query; expected http://host:port",
            });
        }
        Ok(endpoint)
    }

    /// The request target of a path below this base.
    pub(crate) fn join(&self, path: &str) -> Uri {
        let base = self.target.path().trim_end_matches('/');
        format!("{base}{path}").parse().expect("a path that was parsed, and a constant")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, is_tls, host, port, authority, target) in [
            ("http://10.0.3.7:9999", false, "10.0.3.7", 9999, "10.0.3.7:9999", "/"),
            ("https://Partner.Example", true, "partner.example", 443, "Partner.Example", "/"),
            ("http://partner.example./ping?x=1#here", false, "partner.example", 80, "partner.example.", "/ping?x=1"),
            ("http://[::1]:80/a", false, "::1", 80, "[::1]:80", "/a"),
            ("https://[fe80::1]", true, "fe80::1", 443, "[fe80::1]", "/"),
            ("HTTP://H/", false, "h", 80, "H", "/"),
            ("http://h?q", false, "h", 80, "h", "/?q"),
        ] {
            let endpoint = Endpoint::parse(url).unwrap();
            assert_eq!((endpoint.is_tls, endpoint.host.as_str(), endpoint.port), (is_tls, host, port), "{url}");
            assert_eq!(
                (endpoint.authority.to_str().unwrap(), endpoint.target.to_string().as_str()),
                (authority, target)
            );
        }
    }

    #[test]
    fn what_cannot_be_called_is_refused_with_its_reason() {
        for (url, problem) in [
            ("ftp://h/", "not an absolute"),
            ("/ping", "not an absolute"),
            ("h:80", "not an absolute"),
            ("http://user:secret@h/", "user name"),
            ("http://h:0/", "port"),
            ("http://h:70000/", "port"),
            ("http://h:/", "port"),
            ("http://h /", "not a URL"),
            ("http:///x", "not a URL"),
            ("", "not a URL"),
        ] {
            let bad = Endpoint::parse(url).unwrap_err();
            assert!(bad.problem.contains(problem), "{bad}");
        }
        assert!(Endpoint::parse(&format!("http://h/{}", "x".repeat(9_000))).is_err());
    }

    #[test]
    fn paths_join_below_a_base() {
        for (base, joined) in [
            ("http://h:1", "/internal/tasks/execute"),
            ("http://h:1/", "/internal/tasks/execute"),
            ("http://h:1/pay/v2/", "/pay/v2/internal/tasks/execute"),
        ] {
            assert_eq!(Endpoint::parse_base(base).unwrap().join("/internal/tasks/execute").to_string(), joined);
        }
        assert!(Endpoint::parse_base("http://h:1/?x").is_err());
    }
}
