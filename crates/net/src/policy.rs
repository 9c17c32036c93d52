//! Which addresses Rota calls.
//!
//! A URL job may only call hosts that an operator listed; a worker may be called wherever it
//! registered. Neither may ever reach link-local or cloud metadata addresses, from which a server's
//! own credentials can be read. Names are judged as text and their addresses again after resolution,
//! and the connection goes to the very address that was judged: a name that resolves differently the
//! second time gains nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a call is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A worker at the address that it registered.
    Worker,
    /// The request of a URL job.
    UrlJob,
    /// A message to the channel of an alert, whose address an operator gave.
    Alert,
}

/// Why a call may not go where it would.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Forbidden {
    /// The host of a URL job is not listed.
    #[error("{0} is not in outbound.allow")]
    NotListed(String),
    /// The host's address is of a kind that is never called, or only if it is listed.
    #[error("{address} is {kind}")]
    Address {
        /// The address.
        address: IpAddr,
        /// Its kind.
        kind: Kind,
    },
}

/// Kinds of addresses that are not simply called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Of this host itself.
    Loopback,
    /// Of one link; cloud metadata services live there.
    LinkLocal,
    /// Of a cloud's metadata service.
    Metadata,
    /// No address of a host at all: unspecified, multicast, broadcast, reserved.
    NoHost,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Loopback => "a loopback address, which is called only if outbound.allow lists it",
            Kind::LinkLocal => "a link-local address, which is never called",
            Kind::Metadata => "the address of a cloud metadata service, which is never called",
            Kind::NoHost => "not the address of a host",
        })
    }
}

/// An entry of `outbound.allow` that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("outbound.allow: `{0}` is not of the form host, host:port or *.suffix")]
pub struct BadPattern(pub String);

/// The outbound address policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    allow: Vec<Pattern>,
    is_dev: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Pattern {
    host: Host,
    port: Option<u16>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Host {
    /// Exactly this name or address.
    Is(String),
    /// A name that ends with this, which begins with a dot.
    Below(String),
}

impl Policy {
    /// A policy with the entries of `outbound.allow`. With `is_dev`, URL jobs may also call loopback.
    pub fn new<S: AsRef<str>>(allow: &[S], is_dev: bool) -> Result<Policy, BadPattern> {
        let parse = |text: &S| Pattern::parse(text.as_ref()).ok_or_else(|| BadPattern(text.as_ref().to_owned()));
        Ok(Policy { allow: allow.iter().map(parse).collect::<Result<_, _>>()?, is_dev })
    }

    /// Judges a host by its text, before it is resolved.
    pub fn check_host(&self, purpose: Purpose, host: &str, port: u16) -> Result<(), Forbidden> {
        let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        match purpose {
            Purpose::Worker => Ok(()),
            // Whoever may set a channel may list a host; what it must not reach unlisted is this host itself.
            Purpose::Alert if !is_local => Ok(()),
            Purpose::UrlJob | Purpose::Alert if self.is_dev && is_local => Ok(()),
            Purpose::UrlJob | Purpose::Alert if self.allow.iter().any(|pattern| pattern.covers(host, port)) => Ok(()),
            Purpose::UrlJob | Purpose::Alert => Err(Forbidden::NotListed(join(host, port))),
        }
    }

    /// Judges one of the addresses that a host, which [`Policy::check_host`] let pass, resolved to.
    pub fn check_address(&self, purpose: Purpose, host: &str, address: IpAddr) -> Result<(), Forbidden> {
        let Some(kind) = kind_of(address) else { return Ok(()) };
        let is_let_through = match (kind, purpose) {
            (Kind::Loopback, Purpose::Worker) => true,
            // A listed public name that resolves to loopback was not meant by whoever listed it.
            (Kind::Loopback, Purpose::UrlJob | Purpose::Alert) => {
                self.is_dev || host == "localhost" || host.parse::<IpAddr>().is_ok()
            }
            (Kind::LinkLocal | Kind::Metadata | Kind::NoHost, _) => false,
        };
        if is_let_through { Ok(()) } else { Err(Forbidden::Address { address, kind }) }
    }
}

impl Pattern {
    fn parse(text: &str) -> Option<Pattern> {
        let text = text.trim().to_ascii_lowercase();
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Some(Pattern { host: Host::Is(address.to_string()), port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse::<u16>().ok().filter(|port| *port > 0)?)),
            None => (text.as_str(), None),
        };
        if let Some(inner) = host.strip_prefix('[') {
            let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
            return Some(Pattern { host: Host::Is(address.to_string()), port });
        }
        let host = host.strip_suffix('.').unwrap_or(host);
        let name = host.strip_prefix("*.").unwrap_or(host);
        let is_label = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        if !name.split('.').all(is_label) {
            return None;
        }
        let host = if name.len() < host.len() { Host::Below(format!(".{name}")) } else { Host::Is(name.to_owned()) };
        Some(Pattern { host, port })
    }

    fn covers(&self, host: &str, port: u16) -> bool {
        let is_host = match &self.host {
            // An address has many spellings; both sides are compared in the canonical one.
            Host::Is(listed) => match host.parse::<IpAddr>() {
                Ok(address) => *listed == address.to_string(),
                Err(_) => listed == host,
            },
            Host::Below(suffix) => {
                host.len() > suffix.len() && host.ends_with(suffix) && host.parse::<IpAddr>().is_err()
            }
        };
        is_host && self.port.is_none_or(|listed| listed == port)
    }
}

/// `host:port`, with brackets where they are needed.
fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The kind of an address that is not simply called; none for all others.
fn kind_of(address: IpAddr) -> Option<Kind> {
    match address {
        IpAddr::V4(v4) => kind_of_v4(v4),
        IpAddr::V6(v6) => kind_of_v6(v6),
    }
}

/// Metadata services outside the link-local range: Alibaba Cloud, Azure's platform address, Oracle Cloud.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];
/// The same over IPv6: Amazon EC2, Google Compute Engine, Scaleway.
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254),
    Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254),
    Ipv6Addr::new(0xfd00, 0x0042, 0, 0, 0, 0, 0, 0x0042),
];

fn kind_of_v4(address: Ipv4Addr) -> Option<Kind> {
    let [first, ..] = address.octets();
    if METADATA_V4.contains(&address) || address == Ipv4Addr::new(169, 254, 169, 254) {
        Some(Kind::Metadata)
    } else if address.is_link_local() {
        Some(Kind::LinkLocal)
    } else if address.is_loopback() {
        Some(Kind::Loopback)
    } else if first == 0 || first >= 224 {
        // "This network" (RFC 1122), multicast, reserved, broadcast.
        Some(Kind::NoHost)
    } else {
        None
    }
}

fn kind_of_v6(address: Ipv6Addr) -> Option<Kind> {
    if address.is_loopback() {
        return Some(Kind::Loopback);
    }
    if METADATA_V6.contains(&address) {
        return Some(Kind::Metadata);
    }
    let [first, second, third, ..] = address.segments();
    if address.is_unspecified() || first >> 8 == 0xff {
        return Some(Kind::NoHost);
    }
    if first & 0xffc0 == 0xfe80 {
        return Some(Kind::LinkLocal);
    }
    // Forms that carry an IPv4 address, to which a network may forward them.
    let [.., a, b, c, d] = address.octets();
    let is_mapped_or_compatible = address.segments()[..5] == [0; 5] && matches!(address.segments()[5], 0 | 0xffff);
    let is_nat64 = (first, second) == (0x0064, 0xff9b);
    if is_mapped_or_compatible || is_nat64 {
        kind_of_v4(Ipv4Addr::new(a, b, c, d))
    } else if first == 0x2002 {
        // 6to4, RFC 3056.
        let [a, b] = second.to_be_bytes();
        let [c, d] = third.to_be_bytes();
        kind_of_v4(Ipv4Addr::new(a, b, c, d))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allow: &[&str], is_dev: bool, host: &str, port: u16, address: &str, expected: Result<(), &str>) {
        let policy = Policy::new(allow, is_dev).unwrap();
        let outcome = policy
            .check_host(Purpose::UrlJob, host, port)
            .and_then(|()| policy.check_address(Purpose::UrlJob, host, address.parse().unwrap()));
        match (outcome, expected) {
            (Ok(()), Ok(())) => {}
            (Err(forbidden), Err(text)) if forbidden.to_string().contains(text) => {}
            (outcome, expected) => panic!("{allow:?} {host}:{port} at {address}: {outcome:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn url_jobs_call_listed_hosts_only() {
        let public = "93.184.215.14";
        check(&[], false, "partner.example", 443, public, Err("partner.example:443 is not in outbound.allow"));
        check(&["partner.example"], false, "partner.example", 443, public, Ok(()));
        check(&["Partner.Example."], false, "partner.example", 8080, public, Ok(()));
        check(&["partner.example:443"], false, "partner.example", 443, public, Ok(()));
        check(&["partner.example:443"], false, "partner.example", 80, public, Err("not in"));
        check(&["partner.example"], false, "evil-partner.example", 443, public, Err("not in"));
        check(&["partner.example"], false, "api.partner.example", 443, public, Err("not in"));
        check(&["*.partner.example"], false, "api.partner.example", 443, public, Ok(()));
        check(&["*.partner.example"], false, "a.b.partner.example", 443, public, Ok(()));
        check(&["*.partner.example"], false, "partner.example", 443, public, Err("not in"));
        check(&["*.partner.example"], false, "evilpartner.example", 443, public, Err("not in"));
        check(&["*.partner.example:8443"], false, "api.partner.example", 443, public, Err("not in"));
        check(&["*.5"], false, "10.0.0.5", 80, "10.0.0.5", Err("not in"));
        check(&["10.0.0.5"], false, "10.0.0.5", 80, "10.0.0.5", Ok(()));
        check(&["intra"], false, "intra", 80, "10.0.0.5", Ok(()));
        check(&["[2001:db8::5]:80"], false, "2001:db8:0::5", 80, "2001:db8::5", Ok(()));
    }

    #[test]
    fn url_jobs_call_loopback_if_it_is_listed_or_in_dev() {
        check(&[], false, "127.0.0.1", 80, "127.0.0.1", Err("not in"));
        check(&["127.0.0.1:80"], false, "127.0.0.1", 80, "127.0.0.1", Ok(()));
        check(&["localhost"], false, "localhost", 80, "::1", Ok(()));
        check(&["[::1]"], false, "::1", 80, "::1", Ok(()));
        check(&["::1"], false, "::1", 80, "::1", Ok(()));
        check(&["partner.example"], false, "partner.example", 80, "127.0.0.1", Err("loopback"));
        check(&[], true, "127.0.0.1", 80, "127.0.0.1", Ok(()));
        check(&[], true, "localhost", 80, "::1", Ok(()));
        check(&["partner.example"], true, "partner.example", 80, "127.0.0.1", Ok(()));
        check(&[], true, "partner.example", 80, "93.184.215.14", Err("not in"));
    }

    #[test]
    fn some_addresses_are_never_called() {
        for (address, kind) in [
            ("169.254.169.254", Kind::Metadata),
            ("169.254.0.1", Kind::LinkLocal),
            ("100.100.100.200", Kind::Metadata),
            ("168.63.129.16", Kind::Metadata),
            ("fd00:ec2::254", Kind::Metadata),
            ("fe80::1", Kind::LinkLocal),
            ("febf::1", Kind::LinkLocal),
            ("::ffff:169.254.169.254", Kind::Metadata),
            ("::169.254.169.254", Kind::Metadata),
            ("64:ff9b::a9fe:a9fe", Kind::Metadata),
            ("2002:a9fe:a9fe::1", Kind::Metadata),
            ("0.0.0.0", Kind::NoHost),
            ("0.1.2.3", Kind::NoHost),
            ("::", Kind::NoHost),
            ("224.0.0.1", Kind::NoHost),
            ("ff02::1", Kind::NoHost),
            ("255.255.255.255", Kind::NoHost),
        ] {
            let at: IpAddr = address.parse().unwrap();
            let policy = Policy::new(&[address, "listed.example"], true).unwrap();
            for (purpose, host) in
                [(Purpose::Worker, address), (Purpose::UrlJob, address), (Purpose::UrlJob, "listed.example")]
            {
                assert_eq!(policy.check_address(purpose, host, at), Err(Forbidden::Address { address: at, kind }));
            }
        }
    }

    #[test]
    fn workers_may_live_on_loopback_and_private_addresses() {
        let policy = Policy::new::<&str>(&[], false).unwrap();
        for address in
            ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.3.7", "192.168.1.9", "172.17.0.3", "fd12::9", "8.8.8.8"]
        {
            assert_eq!(policy.check_host(Purpose::Worker, address, 9999), Ok(()));
            assert_eq!(policy.check_address(Purpose::Worker, address, address.parse().unwrap()), Ok(()), "{address}");
        }
    }

    #[test]
    fn entries_that_say_nothing_are_refused() {
        for text in ["", "*", "*.", "http://h", "h/x", "h:0", "h:99999", "h:", "a..b", "[::1", "*.*.h", "a b"] {
            assert_eq!(Policy::new(&[text], false), Err(BadPattern(text.to_owned())), "{text}");
        }
    }
}
