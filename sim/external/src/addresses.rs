//! Address ranges, in the notation of pools and networks.

use std::net::IpAddr;

/// The addresses of one family from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    first: IpAddr,
    last: IpAddr,
}

impl Range {
    /// Parses `192.0.2.0/24` (with any host bits) or `192.0.2.1 - 192.0.2.9`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some((address, bits)) = text.split_once('/') {
            let (address, bits): (IpAddr, u32) = (address.trim().parse().ok()?, bits.trim().parse().ok()?);
            return match address {
                IpAddr::V4(address) => {
                    let hosts = u32::MAX.checked_shr(bits).unwrap_or(0);
                    let first = address.to_bits() & !hosts;
                    let last = first | hosts;
                    (bits <= u32::BITS).then(|| Self { first: v4(first), last: v4(last) })
                }
                IpAddr::V6(address) => {
                    let hosts = u128::MAX.checked_shr(bits).unwrap_or(0);
                    let first = address.to_bits() & !hosts;
                    (bits <= u128::BITS).then(|| Self { first: v6(first), last: v6(first | hosts) })
                }
            };
        }
        let (first, last) = text.split_once('-')?;
        let (first, last): (IpAddr, IpAddr) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(Self { first, last })
    }

    /// Returns whether it contains an address.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && (self.first..=self.last).contains(&address)
    }

    /// Returns whether the addresses are IPv4.
    pub(super) fn is_v4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// Returns the number of addresses, up to the maximum of the type.
    pub(super) fn size(&self) -> u64 {
        u64::try_from(bits(self.last) - bits(self.first)).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Returns whether both contain the same address.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.is_v4() == other.is_v4() && self.first <= other.last && other.first <= self.last
    }

    /// Returns all addresses, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let is_v4 = self.first.is_ipv4();
        let make = move |bits: u128| match u32::try_from(bits) {
            Ok(bits) if is_v4 => v4(bits),
            _ => v6(bits),
        };
        (bits(self.first)..=bits(self.last)).map(make)
    }
}

fn v4(bits: u32) -> IpAddr {
    IpAddr::V4(bits.into())
}

fn v6(bits: u128) -> IpAddr {
    IpAddr::V6(bits.into())
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_pools_write_them() {
        let table = [
            ("192.0.2.5/24", "192.0.2.0", "192.0.2.255", 256),
            ("192.0.2.7/32", "192.0.2.7", "192.0.2.7", 1),
            ("192.0.2.1-192.0.2.9", "192.0.2.1", "192.0.2.9", 9),
            ("192.0.2.1 - 192.0.2.2", "192.0.2.1", "192.0.2.2", 2),
            ("2001:db8::/126", "2001:db8::", "2001:db8::3", 4),
        ];
        for (text, first, last, count) in table {
            let range = Range::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((range.first, range.last), (first.parse().unwrap(), last.parse().unwrap()), "{text}");
            assert_eq!((range.iter().count(), range.size()), (count, count as u64), "{text}");
            assert!(range.iter().all(|address| range.contains(address)), "{text}");
        }
    }

    #[test]
    fn ranges_overlap_within_a_family() {
        let range = |text| Range::parse(text).expect("a range");
        let table = [
            ("192.0.2.0/24", "192.0.2.9-192.0.3.1", true),
            ("192.0.2.0/25", "192.0.2.128/25", false),
            ("0.0.0.0/0", "::/0", false),
        ];
        for (one, other, expected) in table {
            assert_eq!(range(one).overlaps(&range(other)), expected, "{one} {other}");
            assert_eq!(range(other).overlaps(&range(one)), expected, "{other} {one}");
        }
        assert_eq!(range("::/0").size(), u64::MAX);
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "192.0.2.1",
            "192.0.2.0/33",
            "2001:db8::/129",
            "192.0.2.9-192.0.2.1",
            "192.0.2.1-::1",
            "",
            "-",
            "/",
        ] {
            assert_eq!(Range::parse(text), None, "{text}");
        }
        let range = Range::parse("0.0.0.0/0").expect("a range");
        assert!(!range.contains("::1".parse().unwrap()));
    }
}
