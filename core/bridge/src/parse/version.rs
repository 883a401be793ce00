//! OpenShift versions, and which of them HyperShift supports.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

/// The major and minor numbers of an OpenShift version, which decide about compatibility. 5.0 is another name of 4.23, and so
/// forth: they compare as equal.
#[derive(Debug, Clone, Copy)]
pub struct ReleaseVersion {
    /// The major version.
    pub major: u64,
    /// The minor version.
    pub minor: u64,
}

/// The architecture suffixes in the tags of release images; the version contains none of them.
const ARCHITECTURES: [&str; 7] = ["-multi", "-x86_64", "-amd64", "-arm64", "-aarch64", "-ppc64le", "-s390x"];

impl ReleaseVersion {
    /// Parses the tag of a release image, such as `4.19.3-multi` or `4.20.0-rc.1-x86_64`. `None` if it contains no version.
    pub fn of_tag(tag: &str) -> Option<Self> {
        Self::of_release(ARCHITECTURES.iter().find_map(|end| tag.strip_suffix(end)).unwrap_or(tag))
    }

    /// Parses a version in the form of [Semantic Versioning](https://semver.org), as in the label `io.openshift.release` of a
    /// release image. A pre-release counts as the release that it precedes.
    pub fn of_release(text: &str) -> Option<Self> {
        let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
        let (text, before) = text.split_once('-').map_or((text, None), |(text, before)| (text, Some(before)));
        let (version, patch) = text.rsplit_once('.')?;
        number(patch)?;
        let is_list = |text: &str| {
            let is_inside = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
            text.split('.').all(|part| !part.is_empty() && part.bytes().all(is_inside))
        };
        let version = Self::of_pair(version)?;
        (build.is_none_or(is_list) && before.is_none_or(is_list)).then_some(version)
    }

    /// Parses `major.minor`.
    fn of_pair(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        Some(Self { major: number(major)?, minor: number(minor)? })
    }

    /// Returns the equivalent version that begins with 4, for comparison.
    const fn rank(self) -> (u64, u64) {
        match self {
            Self { major: 5, minor } => (4, minor.saturating_add(23)),
            Self { major, minor } => (major, minor),
        }
    }
}

impl Ord for ReleaseVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for ReleaseVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ReleaseVersion {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for ReleaseVersion {}

impl fmt::Display for ReleaseVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Returns the version in the tag of a release image, without the architecture. `None` if there is none.
pub fn named_by(tag: &str) -> Option<&str> {
    let version = ARCHITECTURES.iter().find_map(|end| tag.strip_suffix(end)).unwrap_or(tag);
    ReleaseVersion::of_release(version).map(|_| version)
}

/// Returns whether a version is the one in a tag. `None` if only the text after the numbers differs: a tag may have more, or
/// less.
pub fn is_release(version: &str, named: &str) -> Option<bool> {
    let numbers = |text: &str| text.split(['-', '+']).next().map(str::to_owned);
    match (version == named, numbers(version) == numbers(named)) {
        (true, _) => Some(true),
        (false, false) => Some(false),
        (false, true) => None,
    }
}

/// Parses the versions that HyperShift supports, from the key `supported-versions` of the `ConfigMap` of that name. Their
/// order is kept: `{"versions":["4.20","4.19"]}`.
pub fn supported_versions(text: &str) -> Result<Vec<ReleaseVersion>, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let Some(Value::Array(versions)) = document.get("versions") else {
        return Err("it has no list `versions`".to_owned());
    };
    let read = |(index, version): (usize, &Value)| {
        let version = version.as_str().and_then(ReleaseVersion::of_pair);
        version.ok_or_else(|| format!("versions[{index}] is not a version such as \"4.19\""))
    };
    versions.iter().enumerate().map(read).collect()
}

/// Parses a number without leading zeros.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|c| c.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    is_plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(major: u64, minor: u64) -> ReleaseVersion {
        ReleaseVersion { major, minor }
    }

    #[test]
    fn versions_are_read_from_tags() {
        let table = [
            ("4.15.0", Some("4.15")),
            ("4.15.0-x86_64", Some("4.15")),
            ("4.19.3-multi", Some("4.19")),
            ("4.16.0-multi-x86_64", Some("4.16")),
            ("4.20.0-rc.1", Some("4.20")),
            ("4.20.0-ec.5-aarch64", Some("4.20")),
            ("4.21.0-0.nightly-2025-10-01-021500-s390x", Some("4.21")),
            ("5.0.1-ppc64le", Some("5.0")),
            ("latest", None),
            ("", None),
            ("4", None),
            ("4.15", None),
            ("4.15.0.1", None),
            ("v4.15.0", None),
            ("4.015.0", None),
            ("4.15.x", None),
            ("4.15.0-", None),
            ("4.15.0-rc..1", None),
            ("4.15.0-riscv_64", None),
            ("-4.15.0", None),
            ("4.99999999999999999999.0", None),
        ];
        for (tag, expected) in table {
            let shown = ReleaseVersion::of_tag(tag).map(|version| version.to_string());
            assert_eq!(shown.as_deref(), expected, "{tag}");
        }
        assert_eq!(ReleaseVersion::of_release("4.15.0-x86_64"), None);
        assert_eq!(ReleaseVersion::of_release("4.15.0-rc.1+build.7"), Some(version(4, 15)));
    }

    #[test]
    fn five_follows_four_twenty_two() {
        let order = [(4, 9), (4, 10), (4, 22), (5, 0), (5, 1), (6, 0)];
        assert!(order.is_sorted_by(|a, b| version(a.0, a.1) < version(b.0, b.1)));
        assert_eq!(version(5, 0), version(4, 23));
        assert_eq!(version(5, 0).to_string(), "5.0");
    }

    #[test]
    fn what_hypershift_supports_is_read() {
        let text = r#"{"versions":["5.1","5.0","4.23","4.22","4.14"]}"#;
        let supported = supported_versions(text).unwrap();
        assert_eq!(
            supported.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            "5.1 5.0 4.23 4.22 4.14"
        );
        assert_eq!(supported_versions(r#"{"versions":[]}"#), Ok(vec![]));
        let table = [
            ("", "not JSON"),
            ("{\"versions\"", "not JSON"),
            ("[]", "no list `versions`"),
            ("{}", "no list `versions`"),
            (r#"{"versions":"4.19"}"#, "no list `versions`"),
            (r#"{"versions":["4.19","4.19.0"]}"#, "versions[1]"),
            (r#"{"versions":[4.19]}"#, "versions[0]"),
        ];
        for (text, expected) in table {
            let error = supported_versions(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(
            major: u64, minor: u64, patch: u64,
            before in proptest::option::of("(rc|ec)\\.[0-9]{1,2}|0\\.nightly-[0-9-]{1,15}"),
            architecture in proptest::option::of(prop::sample::select(&ARCHITECTURES[..])),
        ) {
            let before = before.map(|before| format!("-{before}")).unwrap_or_default();
            let tag = format!("{major}.{minor}.{patch}{before}{}", architecture.unwrap_or_default());
            let read = ReleaseVersion::of_tag(&tag).map(|version| (version.major, version.minor));
            prop_assert_eq!(read, Some((major, minor)));
        }

        #[test]
        fn the_order_agrees_with_equality(a in (3u64..7, 0u64..30), b in (3u64..7, 0u64..30)) {
            let key = |(major, minor)| if major == 5 { (4, minor + 23) } else { (major, minor) };
            let (one, other) = (version(a.0, a.1), version(b.0, b.1));
            prop_assert_eq!(one.cmp(&other), key(a).cmp(&key(b)));
            prop_assert_eq!(one == other, one.cmp(&other).is_eq());
        }

        #[test]
        fn nothing_panics(text in "[0-9.a-z_+-]{0,20}|.{0,20}") {
            let _ = ReleaseVersion::of_tag(&text);
            let _ = supported_versions(&text);
            let _ = supported_versions(&format!("{{\"versions\":[{text:?}]}}"));
        }
    }
}
