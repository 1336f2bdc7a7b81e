//! Checks the targets of push notifications: addresses of the public internet, unless the policy allows others.
//!
//! A push URL is chosen by a client, and the request is sent by the server: without a check it reaches whatever the
//! server can reach (spec 13.2). A URL is checked when it is configured and again at every delivery, by the address
//! that is then connected to, because a name can be pointed elsewhere in between.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The parts of a push URL that determine the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// The host in lower case, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// The host, if it is a literal address.
    pub(super) address: Option<IpAddr>,
}

/// Parses a URL as strictly as the strictest client: a URL that two parsers could resolve to two targets is
/// refused.
///
/// ```text
/// https://Example.org/hook       ►  host example.org, port 443
/// http://8.8.8.8:8080            ►  host 8.8.8.8, port 8080, a literal address
/// http://example.org@127.0.0.1/  ►  refused: a parser may take either side of the @ for the host
/// http://2130706433/             ►  refused: 127.0.0.1 to some parsers, a name to others
/// ```
///
/// # Errors
///
/// Returns the words for the refusal, which complete the sentence "`url` …".
pub(super) fn target(url: &str) -> Result<Target, &'static str> {
    if url.len() > 2_048 || !url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
        return Err("must be at most 2048 letters of a URL, others percent-encoded");
    }
    let (scheme, rest) = url.split_once("://").ok_or("must begin with http:// or https://")?;
    let default_port = match scheme.to_ascii_lowercase().as_str() {
        "http" => 80,
        "https" => 443,
        _ => return Err("must begin with http:// or https://"),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("must not hold a user name: send credentials as `authentication`");
    }
    let (host, port) = split_port(authority)?;
    let port = match port {
        None => default_port,
        Some(port) => port.parse::<u16>().ok().filter(|port| *port > 0).ok_or("has a port that is none")?,
    };
    let (host, address) = read_host(host)?;
    Ok(Target { host, port, address })
}

/// Splits an authority into host and port. Brackets are allowed around IPv6 addresses only.
fn split_port(authority: &str) -> Result<(&str, Option<&str>), &'static str> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("has an address without its bracket")?;
        host.parse::<Ipv6Addr>().map_err(|_| "has brackets around what is no IPv6 address")?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err("has something after its address"),
        };
    }
    Ok(authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))))
}

/// Returns the host in lower case, and its address if it is a literal one.
fn read_host(host: &str) -> Result<(String, Option<IpAddr>), &'static str> {
    let host = host.to_ascii_lowercase();
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok((host, Some(address)));
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if host.is_empty() || !host.bytes().all(is_name) || host.starts_with('.') || host.ends_with('.') {
        return Err("must name a host, without a dot at its end");
    }
    // `127.1`, `0x7f000001`, `2130706433`: addresses to some parsers, names to others.
    let last = host.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x") {
        return Err("must write an address as four numbers");
    }
    Ok((host, None))
}

/// Returns `true` for names that mean this machine wherever they are resolved.
pub(super) fn is_local_name(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}

/// Returns `true` for addresses of the public internet (IANA special-purpose registries).
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_unspecified()
        || a == 0
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        // Carrier-grade NAT.
        || (a == 100 && (64..128).contains(&b))
        // Protocol assignments, 6to4 relays, benchmarks.
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240;
    !is_special
}

/// Returns `true` for global unicast addresses that do not lead to a special IPv4 address.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        // Embedded IPv4; NAT64 and 6to4 lead to IPv4 too.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => is_public_v4(v4(high, low)),
        // Teredo and other protocol assignments, documentation.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // Global unicast; all else is local, reserved or multicast.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for address in
            ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
        {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.1",
            "198.18.0.1",
            "198.19.255.255",
            "192.88.99.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn urls_that_could_be_read_in_two_ways_are_refused() {
        for url in [
            "",
            "example.org",
            "ftp://example.org",
            "file:///etc/passwd",
            "gopher://x/",
            "http:/example.org",
            "http://",
            "http://user@example.org/",
            "http://user:pw@example.org/",
            "http://example.org@127.0.0.1/",
            "http://127.1/",
            "http://0x7f000001/",
            "http://2130706433/",
            "http://0177.0.0.1/",
            "http://127.0.0.1./",
            "http://localhost./",
            "http://example.org./",
            "http://.example.org/",
            "http://exa mple.org/",
            "http://example.org\\@127.0.0.1/",
            "http://example.org/\r\nx: y",
            "http://exämple.org/",
            "http://[::1/",
            "http://[example.org]/",
            "http://[::1]x/",
            "http://example.org:0/",
            "http://example.org:99999/",
            "http://example.org:80:80/",
            "http://[fe80::1%25eth0]/",
            "http://%31%32%37.0.0.1/",
        ] {
            assert!(target(url).is_err(), "{url}");
        }
        let read = |url: &str| target(url).map(|target| (target.host, target.port, target.address.is_some()));
        assert_eq!(read("https://Example.org/hook?x=1#y"), Ok(("example.org".to_owned(), 443, false)));
        assert_eq!(read("HTTP://8.8.8.8:8080"), Ok(("8.8.8.8".to_owned(), 8080, true)));
        assert_eq!(read("http://[2606:4700::1111]:81/"), Ok(("2606:4700::1111".to_owned(), 81, true)));
        assert!(
            is_local_name("localhost")
                && is_local_name("x.localhost")
                && !is_local_name("localhost.example.org")
        );
    }
}
