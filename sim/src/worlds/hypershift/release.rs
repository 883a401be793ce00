//! Release images: what their tags tell.

/// What a reference by digest is taken for: the registry that would know is not asked.
const BY_DIGEST: &str = "4.19.0";
const ARCHITECTURES: [&str; 7] = ["-multi", "-x86_64", "-amd64", "-arm64", "-aarch64", "-ppc64le", "-s390x"];

/// The version of a release image; none if it is no release image. One whose tag contains `bad` is none.
pub(super) fn version(image: &str) -> Option<&str> {
    if image.contains('@') {
        return Some(BY_DIGEST);
    }
    let (_, tag) = image.rsplit('/').next()?.rsplit_once(':')?;
    let version = ARCHITECTURES.iter().find_map(|suffix| tag.strip_suffix(suffix)).unwrap_or(tag);
    (!tag.contains("bad") && minor(version).is_some()).then_some(version)
}

/// Major and minor of a version `x.y.z…`.
pub(super) fn minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.splitn(3, '.');
    let (major, minor) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next()?.starts_with(|digit: char| digit.is_ascii_digit()).then_some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_tells_the_version() {
        let table = [
            ("quay.io/ocp/release:4.19.0-multi", Some("4.19.0")),
            ("registry.example.com:5000/ocp:4.20.1-rc.2-x86_64", Some("4.20.1-rc.2")),
            ("quay.io/ocp/release@sha256:00", Some(BY_DIGEST)),
            ("registry.example.com:5000/ocp", None),
            ("quay.io/ocp/release:latest", None),
            ("quay.io/ocp/release:4.19", None),
            ("quay.io/ocp/release:4.19.0-bad", None),
        ];
        for (image, expected) in table {
            assert_eq!(version(image), expected, "{image}");
        }
    }
}
