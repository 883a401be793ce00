//! Container images: their references, and what a registry returns for one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An image reference: `[registry/]repository[:tag][@digest]`.
///
/// Each component has only the characters that the [grammar of references](https://github.com/distribution/reference)
/// permits, so a URL can contain it without escaping.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageReference {
    /// The host of the registry, with the port if it has one; [`DOCKER_HUB`] if the text names none.
    pub registry: String,
    /// The path within the registry, such as `openshift-release-dev/ocp-release`.
    pub repository: String,
    /// The text after the colon, such as `4.19.0-multi`.
    pub tag: Option<String>,
    /// The text after the `@`, such as `sha256:…`. If there is a tag as well, the digest is used.
    pub digest: Option<String>,
}

/// The default registry of references that name none.
pub const DOCKER_HUB: &str = "docker.io";

/// The maximum length of a repository's path, in bytes.
const REPOSITORY_MAX: usize = 255;

/// An image that a registry has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundImage {
    /// The digest of its manifest, such as `sha256:…`.
    pub digest: String,
    /// The OpenShift version from its label `io.openshift.release`; read only if the reference has no tag.
    pub release: Option<String>,
}

impl ImageReference {
    /// Parses a reference as container tools do. An error message states what is wrong and how to fix it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{text:?} is not the name of an image: {what}");
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (text, None),
        };
        let (registry, path) = match name.split_once('/') {
            Some((first, rest)) if first == "localhost" || first.contains(['.', ':']) => (first, rest),
            _ => (DOCKER_HUB, name),
        };
        let registry = if registry == "index.docker.io" { DOCKER_HUB } else { registry };
        let (path, tag) = match path.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (path, None),
        };
        let official = registry == DOCKER_HUB && !path.contains('/');
        let repository = if official { format!("library/{path}") } else { path.to_owned() };
        if !is_registry(registry) {
            return Err(wrong("its registry must be a host, with a port if need be"));
        }
        if repository.len() > REPOSITORY_MAX || !repository.split('/').all(is_component) {
            return Err(wrong(
                "its repository must be of lowercase letters and digits, with single separators between them",
            ));
        }
        if !tag.is_none_or(is_tag) {
            return Err(wrong("its tag must be of letters, digits, and after the first one also . and -"));
        }
        if !digest.is_none_or(is_digest) {
            return Err(wrong("its digest must be such as sha256: with 64 hexadecimal digits"));
        }
        Ok(Self {
            registry: registry.to_owned(),
            repository,
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }
}

impl fmt::Display for ImageReference {
    /// Writes the full form: it always names the registry.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// Returns whether a text is a digest such as `sha256:…`, with all of its digits.
pub fn is_digest(text: &str) -> bool {
    let Some((algorithm, hash)) = text.split_once(':') else { return false };
    let is_hexadecimal = hash.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    match algorithm {
        "sha256" => is_hexadecimal && hash.len() == 64,
        "sha512" => is_hexadecimal && hash.len() == 128,
        _ => false,
    }
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        // The last colon of an IPv6 address without a port is inside its brackets.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_port = |port: &str| is_digits(port) && port.parse::<u16>().is_ok();
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.split('.').all(|label| {
            let is_inside = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
            !label.is_empty()
                && label.bytes().all(is_inside)
                && !label.starts_with('-')
                && !label.ends_with('-')
        }),
    };
    is_host && port.is_none_or(is_port)
}

/// Returns whether a text consists of lowercase letters and digits, which may be separated by `.`, `_`, `__` or any number of
/// `-`.
fn is_component(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separators = text.split(is_plain).filter(|separator| !separator.is_empty());
    text.starts_with(is_plain)
        && text.ends_with(is_plain)
        && separators.into_iter().all(|s| matches!(s, "." | "_" | "__") || s.bytes().all(|c| c == b'-'))
}

fn is_tag(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= 128
        && text.starts_with(is_word)
        && text.chars().all(|c| is_word(c) || matches!(c, '.' | '-'))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(text: &str) -> (String, String, Option<String>, bool) {
        let reference = ImageReference::parse(text).unwrap_or_else(|error| panic!("{error}"));
        (reference.registry, reference.repository, reference.tag, reference.digest.is_some())
    }

    #[test]
    fn names_are_read_as_container_tools_read_them() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let table = [
            ("busybox", DOCKER_HUB, "library/busybox", None, false),
            ("busybox:1.36", DOCKER_HUB, "library/busybox", Some("1.36"), false),
            ("index.docker.io/busybox", DOCKER_HUB, "library/busybox", None, false),
            ("grafana/grafana:11.0.0", DOCKER_HUB, "grafana/grafana", Some("11.0.0"), false),
            ("localhost:5000", DOCKER_HUB, "library/localhost", Some("5000"), false),
            ("localhost/repo", "localhost", "repo", None, false),
            ("host:5000/repo", "host:5000", "repo", None, false),
            ("host:5000/a/b__c/d--e:4.15.0-x86_64", "host:5000", "a/b__c/d--e", Some("4.15.0-x86_64"), false),
            ("[2001:db8::1]/repo:v1", "[2001:db8::1]", "repo", Some("v1"), false),
            ("[2001:db8::1]:443/repo", "[2001:db8::1]:443", "repo", None, false),
            ("quay.io/ocp/release@DIGEST", "quay.io", "ocp/release", None, true),
            ("quay.io/ocp/release:4.15@DIGEST", "quay.io", "ocp/release", Some("4.15"), true),
        ];
        for (text, registry, repository, tag, by_digest) in table {
            let text = text.replace("DIGEST", &digest);
            let expected = (registry.to_owned(), repository.to_owned(), tag.map(str::to_owned), by_digest);
            assert_eq!(parts(&text), expected, "{text}");
        }
    }

    #[test]
    fn invalid_names_are_reported() {
        let short = format!("quay.io/a@sha256:{}", "0".repeat(63));
        let capital = format!("quay.io/a@sha256:{}", "A".repeat(64));
        let long_tag = format!("quay.io/a:{}", "t".repeat(129));
        let long_path = format!("quay.io/{}", "a".repeat(256));
        let table = [
            (
                "registry",
                "quay..io/a -quay.io/a quay.io:/a quay.io:65536/a [::1/a [1.2.3.4]/a user:pw/x/a https://quay.io/a",
            ),
            (
                "repository",
                "Quay/a quay.io/A quay.io/ quay.io//a quay.io/a/ quay.io/../a quay.io/a___b quay.io/a..b",
            ),
            ("repository", "/a quay.io/a?b quay.io/a%2fb quay.io/a\u{e4}"),
            ("repository", &long_path),
            ("tag", "quay.io/a: quay.io/a:.b quay.io/a:-b quay.io/a:b:c quay.io/a:b/c quay.io/a:b+c"),
            ("tag", &long_tag),
            ("digest", "quay.io/a@ quay.io/a@sha256 quay.io/a@md5:00 quay.io/a@sha256:@"),
            ("digest", &short),
            ("digest", &capital),
        ];
        for (part, texts) in table {
            for text in texts.split(' ') {
                let error = ImageReference::parse(text).unwrap_err();
                assert!(error.contains(&format!("its {part} must")), "{error}");
            }
        }
        assert!(ImageReference::parse("").is_err());
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(
            registry in r"(localhost|[a-z0-9]{1,8}(\.[A-Za-z0-9]{1,5}){1,3})(:[1-9][0-9]{0,3})?",
            repository in r"[a-z0-9]{1,5}((\.|_|__|-{1,3}|/)[a-z0-9]{1,5}){0,4}",
            tag in proptest::option::of(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}"),
            digest in proptest::option::of("sha256:[0-9a-f]{64}"),
        ) {
            let reference = ImageReference { registry, repository, tag, digest };
            let read = ImageReference::parse(&reference.to_string());
            // Only the public registry has special names.
            prop_assume!(!reference.registry.ends_with(DOCKER_HUB));
            prop_assert_eq!(read, Ok(reference));
        }

        #[test]
        fn nothing_panics_and_all_that_is_read_reads_back(text in r"[a-z.:/@\[\]_-]{0,20}|.{0,30}") {
            if let Ok(reference) = ImageReference::parse(&text) {
                prop_assert_eq!(ImageReference::parse(&reference.to_string()), Ok(reference));
            }
        }
    }
}
