//! The release notes.

use anyhow::Context as _;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the section of this version in the changelog. Before the version is released, its section is `Unreleased`.
pub(crate) fn section(changelog: &str) -> anyhow::Result<String> {
    let sections = || changelog.split("\n## ").skip(1);
    let titled = |title: &str| {
        sections().find_map(|section| section.strip_prefix(title)?.strip_prefix('\n').map(str::trim))
    };
    let notes = titled(VERSION).or_else(|| titled("Unreleased"));
    let notes =
        notes.with_context(|| format!("CHANGELOG.md has no section \"{VERSION}\" or \"Unreleased\""))?;
    Ok(format!("# Lockstep {VERSION}\n\n{notes}\n"))
}

#[cfg(test)]
mod tests {
    use super::{VERSION, section};

    #[test]
    fn the_section_of_the_version_takes_precedence() {
        let unreleased = "# Changelog\n\n## Unreleased\n\n### Chart\n\n- One.\n";
        let notes = section(unreleased).unwrap();
        assert_eq!(notes, format!("# Lockstep {VERSION}\n\n### Chart\n\n- One.\n"));

        let released = format!("{unreleased}\n## {VERSION}\n\n- Two.\n\n## 0.0.1\n\n- Three.\n");
        assert_eq!(section(&released).unwrap(), format!("# Lockstep {VERSION}\n\n- Two.\n"));
        assert!(section("# Changelog\n\n## 0.0.1\n\n- Three.\n").is_err());
    }
}
