//! [`Network`]: addresses that share a prefix.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address, or all addresses with a prefix: `192.0.2.7`, `10.0.0.0/8`, `fd00::/8`.
///
/// # Examples
///
/// ```
/// use aqueduct_transport_http::Network;
///
/// let network: Network = "10.0.0.0/8".parse().unwrap();
/// assert!(network.contains("10.1.2.3".parse().unwrap()));
/// assert!(!network.contains("11.1.2.3".parse().unwrap()));
/// assert!("10.0.0.0/33".parse::<Network>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Returns `true` if the address is of the network. An IPv4 address that is written as IPv6 is what it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let shift = Ipv4Addr::BITS - self.bits;
                (network.to_bits() ^ address.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let shift = Ipv6Addr::BITS - self.bits;
                (network.to_bits() ^ address.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| "not an IP address")?;
        let most = if address.is_ipv4() { Ipv4Addr::BITS } else { Ipv6Addr::BITS };
        let bits =
            bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| "the length of a prefix is a number"))?;
        if bits <= most { Ok(Self { address, bits }) } else { Err("the prefix is longer than the address") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_with_its_prefix() {
        for (network, address, expected) in [
            ("0.0.0.0/0", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.0/31", "192.0.2.1", true),
            ("192.0.2.0/31", "192.0.2.2", false),
            ("127.0.0.0/8", "::ffff:127.0.0.1", true),
            ("::1", "::1", true),
            ("::1", "127.0.0.1", false),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
            ("::/0", "2001:db8::1", true),
        ] {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), expected, "{network:?} {address}");
        }
        for bad in ["", "localhost", "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/33", "::/129", "10.0.0.1/8/8"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
