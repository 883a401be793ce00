//! IP addresses and address ranges.

use std::net::IpAddr;

use crate::builtin::field::Path;
use crate::cause::Cause;

/// Checks an address in a field with strict validation in all versions.
pub(super) fn ip(text: &str, path: &Path, causes: &mut Vec<Cause>) {
    if text.parse::<IpAddr>().is_err() {
        let message = if has_leading_zeros(text) {
            "must not have leading 0s"
        } else {
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        };
        causes.push(path.invalid(text, message));
    } else if is_mapped(text) {
        causes.push(path.invalid(text, "must not be an IPv4-mapped IPv6 address"));
    }
}

/// Checks a range such as `10.0.0.0/8`.
pub(super) fn cidr(text: &str, path: &Path, causes: &mut Vec<Cause>) {
    let Some(range) = Range::parse(text) else {
        let message = if has_leading_zeros(text) {
            "must not have leading 0s in IP or prefix length"
        } else {
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        };
        causes.push(path.invalid(text, message));
        return;
    };
    if is_mapped(text) {
        causes.push(path.invalid(text, "must not have an IPv4-mapped IPv6 address"));
    } else if range.bits & !range.mask() != 0 {
        causes.push(path.invalid(text, "must not have bits set beyond the prefix length"));
    }
}

/// Returns whether `inner` is within `outer` and smaller; a malformed range is reported elsewhere and accepted here.
pub(super) fn is_strict_subset(inner: &str, outer: &str) -> bool {
    match (Range::parse(inner), Range::parse(outer)) {
        (Some(inner), Some(outer)) => {
            inner.is_v4 == outer.is_v4
                && inner.prefix > outer.prefix
                && inner.bits & outer.mask() == outer.bits & outer.mask()
        }
        _ => true,
    }
}

struct Range {
    is_v4: bool,
    /// The address, aligned to the left.
    bits: u128,
    prefix: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let plain =
            prefix.bytes().all(|byte| byte.is_ascii_digit()) && (prefix == "0" || !prefix.starts_with('0'));
        let prefix = prefix.parse().ok().filter(|_| plain)?;
        let (is_v4, bits) = match address.parse().ok()? {
            IpAddr::V4(address) => (true, u128::from(address.to_bits()) << 96),
            IpAddr::V6(address) => (false, address.to_bits()),
        };
        (prefix <= if is_v4 { 32 } else { 128 }).then_some(Self { is_v4, bits, prefix })
    }

    fn mask(&self) -> u128 {
        u128::MAX.checked_shl(128 - self.prefix).unwrap_or(0)
    }
}

fn is_mapped(text: &str) -> bool {
    let address = text.split('/').next().unwrap_or_default();
    matches!(address.parse(), Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some())
}

/// Returns whether the text would be an address without leading zeros.
fn has_leading_zeros(text: &str) -> bool {
    let stripped = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        digits => digits.to_owned(),
    };
    let (address, prefix) =
        text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let plain: Vec<String> = address.split('.').map(stripped).collect();
    let is_address = plain.join(".").parse::<IpAddr>().is_ok();
    is_address
        && prefix.is_none_or(|prefix| stripped(prefix).parse::<u32>().is_ok_and(|length| length <= 128))
}
