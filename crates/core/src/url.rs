//! What the core has to know of a URL: whether it can be called at all, and the host whose credits it takes.
//!
//! Absent on purpose: everything else of a URL. Who calls it takes it apart.

/// The authority (host, and port if one is given) of an absolute `http` or `https` URL, or what is wrong with it.
pub(crate) fn authority(url: &str) -> Result<&str, &'static str> {
    let (scheme, rest) = url.split_once("://").ok_or("is not an absolute http or https URL")?;
    // Schemes are the same in any case (RFC 3986, section 3.1).
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err("is not an absolute http or https URL");
    }
    if url.contains(char::is_whitespace) {
        return Err("has a blank; it must be percent-encoded");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("carries a user name; send an Authorization header instead");
    }
    let host = match authority.rsplit_once(':') {
        // The colons of an IPv6 address stand in brackets.
        Some((_, after)) if after.ends_with(']') => authority,
        Some((host, port)) => {
            let is_digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let number = port.parse::<u16>().ok().filter(|number| is_digits && *number > 0);
            number.map(|_| host).ok_or("has a port outside 1 to 65535")?
        }
        None => authority,
    };
    if host.is_empty() { Err("names no host") } else { Ok(authority) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_can_be_called_names_its_host() {
        for (url, found) in [
            ("http://a.example", "a.example"),
            ("https://a.example:8443/x?y#z", "a.example:8443"),
            ("HTTP://A.example/", "A.example"),
            ("Https://[::1]:1/", "[::1]:1"),
            ("http://[fe80::1]/", "[fe80::1]"),
            ("http://h?q", "h"),
            ("http://h:65535/", "h:65535"),
        ] {
            assert_eq!(authority(url), Ok(found), "{url}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_called_says_why() {
        for (url, problem) in [
            ("ftp://a.example", "absolute"),
            ("a.example", "absolute"),
            ("", "absolute"),
            ("http:/a.example", "absolute"),
            ("http://", "no host"),
            ("http:///x", "no host"),
            ("http://:80/", "no host"),
            ("http://h:65536/", "port"),
            ("http://h:0/", "port"),
            ("http://h:/", "port"),
            ("http://h:+80/", "port"),
            ("http://h:x/", "port"),
            ("http://user@h/", "user name"),
            ("http://h/a b", "blank"),
        ] {
            assert!(authority(url).is_err_and(|found| found.contains(problem)), "{url}: {:?}", authority(url));
        }
    }
}
