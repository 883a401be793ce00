//! The addresses of MetalLB's pools.

use std::net::IpAddr;

/// A range of addresses of one family, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    last: IpAddr,
}

impl AddressRange {
    /// Parses an entry of `spec.addresses` of an `IPAddressPool` as MetalLB does. It is `192.0.2.0/24`, whose host bits do
    /// not matter, or `192.0.2.10-192.0.2.20`, with optional spaces beside the hyphen; IPv6 likewise.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |how: &str| format!("{text:?} is not a range of addresses: {how}");
        if let Some((first, last)) = text.split_once('-') {
            let address = |text: &str| text.trim().parse::<IpAddr>().ok();
            return match (address(first), address(last)) {
                (Some(first), Some(last)) if first.is_ipv4() == last.is_ipv4() && first <= last => {
                    Ok(Self { first, last })
                }
                (Some(_), Some(_)) => Err(wrong("its ends must be of one family, the lower one first")),
                _ => Err(wrong("write two addresses, such as 192.0.2.10-192.0.2.20")),
            };
        }
        let parts = text.split_once('/');
        let network = parts.and_then(|(address, length)| network(address.parse().ok()?, length));
        network.ok_or_else(|| wrong("write a network such as 192.0.2.0/24, or two addresses with a hyphen"))
    }

    /// Returns whether MetalLB may assign the address from this range. With `avoid_buggy` (`spec.avoidBuggyIPs` of the pool)
    /// it skips IPv4 addresses that end in 0 or 255. An IPv4-mapped IPv6 address is treated as the IPv4 address.
    pub fn contains(&self, address: IpAddr, avoid_buggy: bool) -> bool {
        let address = address.to_canonical();
        let is_buggy = matches!(address, IpAddr::V4(address) if matches!(address.octets()[3], 0 | 255));
        self.first <= address && address <= self.last && !(avoid_buggy && is_buggy)
    }
}

fn network(address: IpAddr, length: &str) -> Option<AddressRange> {
    if !length.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let length: u32 = length.parse().ok()?;
    let (first, last): (IpAddr, IpAddr) = match address {
        IpAddr::V4(address) => {
            let host = u32::MAX.checked_shr(length).unwrap_or(0);
            let bits = address.to_bits();
            ((bits & !host).to_be_bytes().into(), (bits | host).to_be_bytes().into())
        }
        IpAddr::V6(address) => {
            let host = u128::MAX.checked_shr(length).unwrap_or(0);
            let bits = address.to_bits();
            ((bits & !host).to_be_bytes().into(), (bits | host).to_be_bytes().into())
        }
    };
    let longest = if address.is_ipv4() { 32 } else { 128 };
    (length <= longest).then_some(AddressRange { first, last })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn contains(range: &str, address: &str, avoid_buggy: bool) -> bool {
        AddressRange::parse(range).unwrap().contains(address.parse().unwrap(), avoid_buggy)
    }

    #[test]
    fn what_metallb_reads_is_read() {
        let table = [
            ("192.0.2.5/24", "192.0.2.200", true),
            ("192.0.2.5/24", "192.0.3.0", false),
            ("192.0.2.7/32", "192.0.2.7", true),
            ("192.0.2.7/32", "192.0.2.6", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("192.0.2.10-192.0.2.20", "192.0.2.20", true),
            ("192.0.2.10 - 192.0.2.20", "192.0.2.21", false),
            ("192.0.2.0/24", "::ffff:192.0.2.1", true),
            ("2001:db8::/64", "2001:db8::ffff", true),
            ("2001:db8::/64", "2001:db8:0:1::", false),
            ("2001:db8::1-2001:db8::3", "2001:db8::2", true),
            ("::/0", "192.0.2.1", false),
        ];
        for (range, address, expected) in table {
            assert_eq!(contains(range, address, false), expected, "{range} {address}");
        }
        let wrong = "|192.0.2.1|192.0.2.1/|192.0.2.1/33|192.0.2.1/+8|192.0.2/24|::/129|192.0.2.1/99999999999|a-b|\
                     192.0.2.1-|192.0.2.9-192.0.2.1|192.0.2.1-::1|1.2.3.4-1.2.3.5-1.2.3.6|fe80::1%eth0/64| 1.2.3.4/8";
        for text in wrong.split('|') {
            let error = AddressRange::parse(text).unwrap_err();
            assert!(error.starts_with(&format!("{text:?} is not a range of addresses: ")), "{error}");
        }
    }

    #[test]
    fn buggy_addresses_are_left_out_where_the_pool_says_so() {
        for (address, expected) in [("192.0.2.0", false), ("192.0.2.255", false), ("192.0.2.1", true)] {
            assert!(contains("192.0.2.0/24", address, false));
            assert_eq!(contains("192.0.2.0/24", address, true), expected, "{address}");
        }
        assert!(
            contains("2001:db8::/64", "2001:db8::", true) && contains("2001:db8::/64", "2001:db8::ff", true)
        );
    }

    proptest! {
        #[test]
        fn a_network_holds_what_shares_its_leading_bits(
            network: u32, length in 0u32..=32, other: u32,
            near in 0u32..=32,
        ) {
            // Half of the addresses share some leading bits with the network.
            for address in [other, network ^ other.checked_shr(near).unwrap_or(0)] {
                let range = format!("{}/{length}", Ipv4Addr::from(network));
                let range = AddressRange::parse(&range).unwrap();
                let shared = (0..length).all(|bit| (network ^ address) >> (31 - bit) & 1 == 0);
                let ends = matches!(address % 256, 0 | 255);
                prop_assert_eq!(range.contains(Ipv4Addr::from(address).into(), false), shared);
                prop_assert_eq!(range.contains(Ipv4Addr::from(address).into(), true), shared && !ends);
            }
        }

        #[test]
        fn an_ipv6_network_holds_what_shares_its_leading_bits(
            network: u128, length in 0u32..=128, other: u128, near in 0u32..=128,
        ) {
            // An IPv4-mapped IPv6 address is of the other family.
            prop_assume!(network >> 32 != 0xffff);
            let range = format!("{}/{length}", Ipv6Addr::from(network));
            let range = AddressRange::parse(&range).unwrap();
            for address in [other, network ^ other.checked_shr(near).unwrap_or(0)] {
                let shared = (0..length).all(|bit| (network ^ address) >> (127 - bit) & 1 == 0);
                prop_assert_eq!(range.contains(Ipv6Addr::from(address).into(), true), shared);
            }
        }

        #[test]
        fn a_range_holds_what_is_counted_from_its_first_to_its_last(
            first: u32, count in 0u32..600, spaces in " {0,2}", beyond in 1u32..5,
        ) {
            let Some(last) = first.checked_add(count) else { return Ok(()) };
            let (start, end) = (Ipv4Addr::from(first), Ipv4Addr::from(last));
            let range = AddressRange::parse(&format!("{start}{spaces}-{spaces}{end}")).unwrap();
            for address in first..=last {
                prop_assert!(range.contains(Ipv4Addr::from(address).into(), false));
            }
            for outside in [first.checked_sub(beyond), last.checked_add(beyond)].into_iter().flatten() {
                prop_assert!(!range.contains(Ipv4Addr::from(outside).into(), false));
            }
        }

        #[test]
        fn nothing_panics(text in "[0-9a-f.:/ -]{0,30}|.{0,20}", address: IpAddr) {
            if let Ok(range) = AddressRange::parse(&text) {
                let _ = range.contains(address, true);
            }
        }
    }
}
