//! Checks all pages of the documentation: links lead to existing targets, and the words are usual ones.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::files::{below, read, root};
use super::words::unusual;

/// Returns all pages, as paths from the root.
fn pages() -> Vec<PathBuf> {
    let folders = ["docs", "deploy"].into_iter().flat_map(|folder| below(Path::new(folder), "md"));
    let mut pages: Vec<PathBuf> = folders.collect();
    pages.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(PathBuf::from));
    pages.sort();
    pages
}

/// Returns the lines of a page that are not code, each with its number.
fn lines(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut kept = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            kept.push((number + 1, line));
        }
    }
    kept
}

/// Removes the text between two of these characters from a line.
fn without(line: &str, between: [char; 2]) -> String {
    let [open, close] = between;
    let (mut kept, mut rest) = (String::new(), line);
    while let Some((before, after)) = rest.split_once(open) {
        kept.push_str(before);
        let Some((_, after)) = after.split_once(close) else {
            kept.push_str(after);
            return kept;
        };
        rest = after;
    }
    kept + rest
}

/// Returns the targets of links in a line.
fn links(line: &str) -> Vec<&str> {
    let after = line.split("](").skip(1);
    after.filter_map(|rest| Some(rest.split_once(')')?.0)).filter(|link| !link.contains("://")).collect()
}

/// Returns the anchor of a heading, in the format of repository hosts.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || "-_ ".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn anchors(page: &Path) -> BTreeSet<String> {
    let text = read(page);
    let headings = lines(&text).into_iter().filter_map(|(_, line)| {
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len()).then(|| anchor(heading))
    });
    headings.collect()
}

/// Returns a path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = read(&page);
        for (number, line) in lines(&text) {
            for link in links(line) {
                let (file, heading) = link.split_once('#').unwrap_or((link, ""));
                let target = match file {
                    "" => page.clone(),
                    file => plain(&page.parent().unwrap_or(Path::new("")).join(file)),
                };
                let is_page = target.extension().is_some_and(|extension| extension == "md");
                let is_there = root().join(&target).exists()
                    && (heading.is_empty() || !is_page || anchors(&target).contains(heading));
                if !is_there {
                    broken.push(format!("{}:{number}: {link}", page.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Code and quotations may use any words.
#[test]
fn pages_use_usual_words() {
    let mut found = Vec::new();
    for page in pages() {
        let text = read(&page);
        for (number, line) in lines(&text) {
            let prose = without(&without(line, ['`', '`']), ['"', '"']);
            // Targets of links are no prose.
            let prose: Vec<&str> = prose
                .split("](")
                .enumerate()
                .map(
                    |(at, text)| {
                        if at == 0 { text } else { text.split_once(')').map_or(text, |link| link.1) }
                    },
                )
                .collect();
            for word in unusual(&prose.join(" ")) {
                found.push(format!("{}:{number}: {word}", page.display()));
            }
        }
    }
    assert!(found.is_empty(), "{} words:\n{}", found.len(), found.join("\n"));
}
