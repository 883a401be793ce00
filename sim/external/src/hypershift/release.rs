//! Release images and their tags.

/// The assumed version of a reference by digest: no registry is queried.
const BY_DIGEST: &str = "4.19.0";
const ARCHITECTURES: [&str; 7] = ["-multi", "-x86_64", "-amd64", "-arm64", "-aarch64", "-ppc64le", "-s390x"];

/// Returns the version of a release image; none if it is not a release image. An image with a tag that contains `bad` is not one.
pub(super) fn version(image: &str) -> Option<&str> {
    if image.contains('@') {
        return Some(BY_DIGEST);
    }
    let (_, tag) = image.rsplit('/').next()?.rsplit_once(':')?;
    let version = ARCHITECTURES.iter().find_map(|suffix| tag.strip_suffix(suffix)).unwrap_or(tag);
    (!tag.contains("bad") && minor(version).is_some()).then_some(version)
}

/// Returns major and minor of a version `x.y.z…`.
pub(super) fn minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.splitn(3, '.');
    let (major, minor) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next()?.starts_with(|digit: char| digit.is_ascii_digit()).then_some((major, minor))
}

/// Returns HyperShift's message if the registry of a release image is unreachable.
pub(super) fn unreachable(image: &str) -> String {
    format!("failed to lookup release image {image}: dial tcp: i/o timeout")
}

/// Returns major, minor and patch of a version, for ordering. A pre-release counts as the release that it precedes.
pub(super) fn order(version: &str) -> Option<(u32, u32, u32)> {
    let (major, minor) = minor(version)?;
    let patch = version.splitn(3, '.').nth(2)?;
    let digits = patch.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(patch.len());
    Some((major, minor, patch.get(..digits)?.parse().ok()?))
}

/// Returns the image as HyperShift writes it into histories: by its digest. No registry is queried: the digest follows from the
/// text.
pub(super) fn resolved(image: &str) -> String {
    if image.contains('@') {
        return image.to_owned();
    }
    let (path, tag) = image.rsplit_once(':').unwrap_or((image, "latest"));
    // FNV-1a: any digest is suitable that differs for different images.
    let hash = tag.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{path}@sha256:{}", format!("{hash:016x}").repeat(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_an_order() {
        assert!(order("4.20.4") > order("4.20.3") && order("4.20.10-rc.1") > order("4.20.9"));
        assert_eq!((order("4.20"), order("x.y.z")), (None, None));
    }

    #[test]
    fn images_are_resolved_to_digests() {
        let by_digest = "quay.io/ocp/release@sha256:00";
        assert_eq!(resolved(by_digest), by_digest);
        let resolved = ["quay.io/ocp/release:4.19.0-multi", "quay.io/ocp/release:4.20.0-multi"].map(resolved);
        assert!(resolved[0].starts_with("quay.io/ocp/release@sha256:") && resolved[0] != resolved[1]);
        assert_eq!(resolved[0].split_once(':').map(|(_, digest)| digest.len()), Some(64));
    }

    #[test]
    fn the_version_is_read_from_the_tag() {
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
