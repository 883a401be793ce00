//! The version of a chart: one version, or a range from which Argo CD takes the newest.

/// Returns whether it is a range, such as `1.x`, `^1.2` or `>=1.2 <2`. Helm completes a version with fewer than three numbers, so that
/// is a range as well.
///
/// Source: `spec.source.version` in the CRD (decision 40).
pub fn is_range(version: &str) -> bool {
    let is_of_version = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '+');
    let version = version.trim_start_matches('=').trim_start();
    let version = version.strip_prefix('v').unwrap_or(version);
    let numbers = version.split(['-', '+']).next().unwrap_or_default();
    let are_numbers = numbers.split('.').all(|number| number.bytes().all(|digit| digit.is_ascii_digit()));
    !version.chars().all(is_of_version) || !are_numbers || numbers.split('.').count() != 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_version_has_three_numbers_and_no_comparison() {
        for one in ["1.2.3", "v1.2.3", "1.2.3-rc.1", "1.2.3-x", "1.2.3+linux.x", "=1.2.3", "= v1.2.3"] {
            assert!(!is_range(one), "{one}");
        }
        for range in [
            "1.x",
            "1.2.*",
            "v1.X",
            "x",
            "*",
            "1",
            "1.2",
            "=1.2",
            "1.2-rc",
            "^1.2.3",
            "~1.2.3",
            ">=1.2.3",
            "!=1.2.3",
            "1.2.3 - 1.4.0",
            "1.2.3 || 1.4.0",
            "1.2.3, 1.4.0",
            "1.2.3-rc || 1.4.0",
        ] {
            assert!(is_range(range), "{range}");
        }
    }
}
