//! Tests that the README of the chart lists all values, and generates the list.

use std::fs;

use anyhow::{Context as _, ensure};
use lockstep_tests::program::workspace;

/// The variable that makes the test write the file instead of comparing it.
const REGENERATE: &str = "LOCKSTEP_REGENERATE";
/// The line of the README after which the text is generated.
const MARKER: &str = "<!-- Generated from values.yaml by a test; see CONTRIBUTING.md. -->\n";
/// Top-level values before which a table starts, with its heading.
const SECTIONS: [(&str, &str); 6] = [
    ("global", "Shared values"),
    ("namespaceclass", "NamespaceClass operator"),
    ("bridge", "DPF-HCP Bridge"),
    ("dpuservice", "DPUService controller"),
    ("sentinels", "HyperFleet Sentinels, by shard"),
    ("sentinel", "All HyperFleet Sentinels"),
];

/// A value of the chart.
struct Entry {
    path: String,
    kind: &'static str,
    /// The default in YAML; empty for a value that contains other values.
    default: String,
    description: String,
}

/// Returns the first paragraph of a comment. An indented line is an example and ends the paragraph.
fn first_paragraph(comment: &[&str]) -> String {
    let lines = comment.iter().take_while(|line| !line.is_empty() && !line.starts_with(' '));
    lines.copied().collect::<Vec<_>>().join(" ")
}

/// Returns the type of a value with this default.
fn kind(default: &str) -> &'static str {
    match default {
        "true" | "false" => "bool",
        _ if default.is_empty() || default.starts_with('{') => "object",
        _ if default.starts_with('[') => "list",
        _ if default.bytes().all(|byte| byte.is_ascii_digit()) => "int",
        _ => "string",
    }
}

/// Returns the values in their order. Values that contain others are included if they have a description.
///
/// It reads lines, because a YAML parser drops comments. A comment describes the value on the next line.
fn entries(values: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut parents: Vec<(usize, &str)> = Vec::new();
    let mut comment = Vec::new();
    for line in values.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if let Some(words) = text.strip_prefix('#') {
            comment.push(words.strip_prefix(' ').unwrap_or(words));
            continue;
        }
        let description = first_paragraph(&comment);
        comment.clear();
        let Some((key, default)) = text.split_once(':') else { continue };
        while parents.last().is_some_and(|parent| parent.0 >= indent) {
            parents.pop();
        }
        parents.push((indent, key));
        let default = default.trim();
        let path = parents.iter().map(|parent| parent.1).collect::<Vec<_>>().join(".");
        let (kind, description) = match description.strip_prefix("(int) ") {
            Some(rest) => ("int", rest.to_owned()),
            None => (kind(default), description),
        };
        if !default.is_empty() || !description.is_empty() {
            entries.push(Entry { path, kind, default: default.to_owned(), description });
        }
    }
    entries
}

/// Returns the tables of the README.
fn tables(entries: &[Entry]) -> String {
    let mut lines = Vec::new();
    for Entry { path, kind, default, description } in entries {
        if let Some((_, heading)) = SECTIONS.iter().find(|section| section.0 == path.as_str()) {
            lines.push(format!("\n### {heading}\n"));
            lines.push("| value | type | default | description |\n| --- | --- | --- | --- |".to_owned());
        }
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        let description = description.replace('|', "\\|");
        lines.push(format!("| `{path}` | {kind} | {default} | {description} |"));
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_readme_lists_all_values() -> anyhow::Result<()> {
    let chart = workspace().join("deploy/lockstep");
    let values = fs::read_to_string(chart.join("values.yaml"))?;
    let readme = fs::read_to_string(chart.join("README.md"))?;
    let (introduction, _) = readme.split_once(MARKER).context("the README has no marker")?;
    let expected = format!("{introduction}{MARKER}{}", tables(&entries(&values)));
    if std::env::var_os(REGENERATE).is_some() {
        fs::write(chart.join("README.md"), &expected)?;
    }
    let current = fs::read_to_string(chart.join("README.md"))?;
    ensure!(
        current == expected,
        "deploy/lockstep/README.md does not match values.yaml; regenerate it with: \
         {REGENERATE}=1 cargo test -p lockstep-tests --test chart the_readme_lists_all_values"
    );
    Ok(())
}

/// A value is described by its own comment, or by that of a value that contains it.
#[test]
fn every_value_has_a_description() -> anyhow::Result<()> {
    let entries = entries(&fs::read_to_string(workspace().join("deploy/lockstep/values.yaml"))?);
    ensure!(entries.len() > 100, "only {} values were found", entries.len());
    for entry in entries.iter().filter(|entry| entry.description.is_empty()) {
        let describes = |other: &Entry| {
            let is_section = SECTIONS.iter().any(|section| section.0 == other.path.as_str());
            let contains = entry.path.starts_with(&format!("{}.", other.path));
            !is_section && contains && !other.description.is_empty()
        };
        ensure!(entries.iter().any(describes), "{} has no description in values.yaml", entry.path);
    }
    Ok(())
}
