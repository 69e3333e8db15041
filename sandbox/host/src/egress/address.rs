//! Which addresses a sandbox may never reach.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::str::FromStr;

/// A range of addresses, written as `10.0.0.0/8` or `fd00::/8`; an address alone is a range of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    prefix_bits: u8,
}

/// Not a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a range of addresses such as 10.0.0.0/8, fd00::/8 or 192.168.1.7")]
pub struct AddressRangeError {
    text: String,
}

impl AddressRange {
    const fn v4(octets: [u8; 4], prefix_bits: u8) -> Self {
        let [a, b, c, d] = octets;
        Self { first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix_bits }
    }

    const fn v6(segments: [u16; 8], prefix_bits: u8) -> Self {
        let [a, b, c, d, e, f, g, h] = segments;
        Self { first: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), prefix_bits }
    }

    /// Whether an address lies in it.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix_bits)).unwrap_or(0);
                first.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix_bits)).unwrap_or(0);
                first.to_bits() & mask == address.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || AddressRangeError { text: text.to_owned() };
        let (first, prefix) = match text.split_once('/') {
            Some((first, prefix)) => (first, Some(prefix)),
            None => (text, None),
        };
        let first: IpAddr = first.parse().map_err(|_| error())?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let prefix_bits = prefix.map_or(Ok(most), |prefix| prefix.parse().map_err(|_| error()))?;
        if prefix_bits > most { Err(error()) } else { Ok(Self { first, prefix_bits }) }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.first, self.prefix_bits)
    }
}

/// IPv4 ranges that are not the public internet: the IANA special-purpose registry, and addresses that clouds give
/// their metadata services outside of it.
const REFUSED_V4: [(AddressRange, &str); 18] = [
    (AddressRange::v4([169, 254, 169, 254], 32), "a cloud's metadata service"),
    (AddressRange::v4([100, 100, 100, 200], 32), "a cloud's metadata service"),
    (AddressRange::v4([168, 63, 129, 16], 32), "a cloud's metadata service"),
    (AddressRange::v4([0, 0, 0, 0], 8), "an unspecified address"),
    (AddressRange::v4([10, 0, 0, 0], 8), "a private address"),
    (AddressRange::v4([100, 64, 0, 0], 10), "a carrier's private address"),
    (AddressRange::v4([127, 0, 0, 0], 8), "a loopback address"),
    (AddressRange::v4([169, 254, 0, 0], 16), "a link-local address"),
    (AddressRange::v4([172, 16, 0, 0], 12), "a private address"),
    (AddressRange::v4([192, 0, 0, 0], 24), "a reserved address"),
    (AddressRange::v4([192, 0, 2, 0], 24), "a reserved address"),
    (AddressRange::v4([192, 88, 99, 0], 24), "a reserved address"),
    (AddressRange::v4([192, 168, 0, 0], 16), "a private address"),
    (AddressRange::v4([198, 18, 0, 0], 15), "a reserved address"),
    (AddressRange::v4([198, 51, 100, 0], 24), "a reserved address"),
    (AddressRange::v4([203, 0, 113, 0], 24), "a reserved address"),
    (AddressRange::v4([224, 0, 0, 0], 4), "a multicast address"),
    (AddressRange::v4([240, 0, 0, 0], 4), "a reserved address"),
];

/// Of IPv6 only global unicast is public at all; these parts of it are not.
const REFUSED_V6: [(AddressRange, &str); 4] = [
    // Teredo, ORCHID, benchmarking and the like.
    (AddressRange::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "a reserved address"),
    (AddressRange::v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "a reserved address"),
    // 6to4, which carries any IPv4 address in it.
    (AddressRange::v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), "a reserved address"),
    (AddressRange::v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "a reserved address"),
];
const GLOBAL_UNICAST: AddressRange = AddressRange::v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
const METADATA_V6: AddressRange = AddressRange::v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128);
/// NAT64 (RFC 6052): the last 32 bits are an IPv4 address.
const NAT64: AddressRange = AddressRange::v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);

/// What an address is, when it is no public one and in none of the ranges that are allowed nevertheless.
pub fn why_refused(address: IpAddr, allowed: &[AddressRange]) -> Option<&'static str> {
    // ::ffff:a.b.c.d is that IPv4 address for the kernel, too.
    let address = address.to_canonical();
    if allowed.iter().any(|range| range.contains(address)) {
        return None;
    }
    why_not_public(address).or_else(|| is_own(address).then_some("an address of the sandbox's host"))
}

fn why_not_public(address: IpAddr) -> Option<&'static str> {
    let listed = |ranges: &[(AddressRange, &'static str)]| {
        ranges.iter().find(|(range, _)| range.contains(address)).map(|(_, what)| *what)
    };
    let IpAddr::V6(v6) = address else { return listed(&REFUSED_V4) };
    let embedded = || why_not_public(IpAddr::V4(Ipv4Addr::from_bits(v6.to_bits() as u32)));
    if NAT64.contains(address) {
        return embedded();
    }
    if !GLOBAL_UNICAST.contains(address) {
        return Some(match v6 {
            _ if METADATA_V6.contains(address) => "a cloud's metadata service",
            _ if v6.is_loopback() => "a loopback address",
            _ if v6.is_unspecified() => "an unspecified address",
            _ if v6.is_multicast() => "a multicast address",
            _ if v6.is_unicast_link_local() => "a link-local address",
            _ if v6.is_unique_local() => "a private address",
            _ => "a reserved address",
        });
    }
    // ISATAP (RFC 5214): so marked, the last 32 bits are an IPv4 address, too.
    let [.., mark, marked, _, _] = v6.segments();
    let is_isatap = matches!(mark, 0 | 0x200) && marked == 0x5efe;
    listed(&REFUSED_V6).or_else(|| if is_isatap { embedded() } else { None })
}

/// Whether an address is one of this machine, whose services must stay out of reach also by its public name. Binding
/// tells without sending anything.
fn is_own(address: IpAddr) -> bool {
    let can_bind = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    // Where foreign addresses can be bound (`ip_nonlocal_bind`), it tells nothing. This one is nobody's (RFC 5737).
    can_bind(address) && !can_bind(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> Option<&'static str> {
        why_refused(text.parse().unwrap(), &[])
    }

    #[test]
    fn what_is_not_public_is_refused_in_every_spelling() {
        for (address, what) in [
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "unspecified"),
            ("10.0.0.1", "private"),
            ("10.255.255.255", "private"),
            ("100.64.0.1", "carrier"),
            ("100.127.255.255", "carrier"),
            ("100.100.100.200", "metadata"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("168.63.129.16", "metadata"),
            ("169.254.0.1", "link-local"),
            ("169.254.169.254", "metadata"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.0.0.8", "reserved"),
            ("192.0.2.1", "reserved"),
            ("192.88.99.1", "reserved"),
            ("192.168.0.1", "private"),
            ("198.18.0.1", "reserved"),
            ("198.19.255.255", "reserved"),
            ("198.51.100.1", "reserved"),
            ("203.0.113.1", "reserved"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.255", "reserved"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::7f00:1", "reserved"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:169.254.169.254", "metadata"),
            ("::ffff:10.0.0.1", "private"),
            ("::ffff:0:10.0.0.1", "reserved"),
            ("64:ff9b::10.0.0.1", "private"),
            ("64:ff9b::169.254.169.254", "metadata"),
            ("64:ff9b:1::8.8.8.8", "reserved"),
            ("100::1", "reserved"),
            ("2001::1", "reserved"),
            ("2001:db8::1", "reserved"),
            ("2002:7f00:1::1", "reserved"),
            ("3fff::1", "reserved"),
            ("2606:4700::5efe:10.0.0.1", "private"),
            ("2606:4700::200:5efe:127.0.0.1", "loopback"),
            ("fc00::1", "private"),
            ("fd00:ec2::254", "metadata"),
            ("fe80::1", "link-local"),
            ("fec0::1", "reserved"),
            ("ff02::1", "multicast"),
        ] {
            let found = refused(address).unwrap_or_else(|| panic!("{address} is let through"));
            assert!(found.contains(what), "{address}: {found}");
        }
    }

    #[test]
    fn what_is_public_is_not() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450:4001::200e",
            "64:ff9b::8.8.8.8",
            "::ffff:8.8.8.8",
        ] {
            assert_eq!(refused(address), None, "{address}");
        }
    }

    #[test]
    fn a_range_that_is_allowed_opens_itself_only() {
        let allowed = ["127.0.0.0/8".parse().unwrap(), "fd12::/16".parse().unwrap()];
        for address in ["127.0.0.1", "::ffff:127.9.9.9", "fd12::1"] {
            assert_eq!(why_refused(address.parse().unwrap(), &allowed), None, "{address}");
        }
        for address in ["::1", "10.0.0.1", "fd13::1", "64:ff9b::127.0.0.1"] {
            assert!(why_refused(address.parse().unwrap(), &allowed).is_some(), "{address}");
        }
    }

    #[test]
    fn ranges_are_read_as_people_write_them() {
        let range: AddressRange = "10.1.2.3/8".parse().unwrap();
        assert!(
            range.contains("10.200.0.1".parse().unwrap()) && !range.contains("11.0.0.1".parse().unwrap())
        );
        let everything: AddressRange = "0.0.0.0/0".parse().unwrap();
        assert!(
            everything.contains("255.1.1.1".parse().unwrap()) && !everything.contains("::1".parse().unwrap())
        );
        let one: AddressRange = "::1".parse().unwrap();
        assert!(one.contains("::1".parse().unwrap()) && !one.contains("::2".parse().unwrap()));
        for wrong in ["", "10", "10.0.0.0/33", "::/129", "10.0.0.0/x", "localhost", "10.0.0.0/"] {
            let error = wrong.parse::<AddressRange>().unwrap_err();
            assert!(error.to_string().contains(&format!("`{wrong}`")), "{error}");
        }
    }

    #[test]
    fn own_addresses_are_known() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("192.0.2.77".parse().unwrap()));
    }

    proptest! {
        /// The same verdict for an IPv4 address and for it in each IPv6 dress.
        #[test]
        fn dressing_an_address_up_changes_nothing(bits in any::<u32>()) {
            let plain = Ipv4Addr::from_bits(bits);
            let verdict = why_not_public(IpAddr::V4(plain));
            prop_assert_eq!(why_refused(IpAddr::V6(plain.to_ipv6_mapped()), &[]).is_some(), verdict.is_some() || is_own(plain.into()));
            let nat64 = Ipv6Addr::from_bits((0x64_ff9b_u128 << 96) | u128::from(bits));
            prop_assert_eq!(why_not_public(IpAddr::V6(nat64)), verdict);
        }

        /// The standard library's notions are a second opinion.
        #[test]
        fn nothing_special_is_public(bits in any::<u128>()) {
            let address = Ipv6Addr::from_bits(bits);
            if address.is_loopback() || address.is_multicast() || address.is_unicast_link_local() || address.is_unique_local() {
                prop_assert!(why_not_public(IpAddr::V6(address)).is_some());
            }
            let address = Ipv4Addr::from_bits(bits as u32);
            if address.is_private() || address.is_loopback() || address.is_link_local() || address.is_multicast()
                || address.is_broadcast() || address.is_documentation() || address.is_unspecified() {
                prop_assert!(why_not_public(IpAddr::V4(address)).is_some());
            }
        }
    }
}
