//! The traceability tables name files and functions that exist.

use std::collections::BTreeMap;
use std::path::Path;

use super::files::{below, read};

const PAGES: [&str; 4] =
    ["docs/bridge.md", "docs/dpuservice.md", "docs/namespaceclass.md", "docs/sentinel.md"];
const HEADING: &str = "## Specification traceability";

/// A file that a cell names, with the items in it.
#[derive(Debug, PartialEq, Eq)]
struct Place<'a> {
    file: &'a str,
    items: Vec<&'a str>,
}

/// Returns the text of every Rust file below the folders with code, by its path from the root.
fn sources() -> BTreeMap<String, String> {
    let folders = ["core", "crds", "examples", "shell", "sim", "tests"];
    let files = folders.into_iter().flat_map(|folder| below(Path::new(folder), "rs"));
    files.map(|file| (file.display().to_string(), read(&file))).collect()
}

/// Returns the rows of the table, each with its cells.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let (_, section) = page.split_once(HEADING).expect("the page has a table");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let rows = rows.filter(|line| !line.starts_with("| ---"));
    rows.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// Returns the files of a cell. Items follow their file after a colon: `file.rs`: `first`, `second`.
fn places(cell: &str) -> Vec<Place<'_>> {
    let mut places: Vec<Place<'_>> = Vec::new();
    let mut names_items = false;
    for (number, part) in cell.split('`').enumerate() {
        let is_code = number % 2 == 1;
        if is_code && Path::new(part).extension().is_some_and(|extension| extension == "rs") {
            places.push(Place { file: part, items: Vec::new() });
        } else if is_code {
            if let Some(place) = places.last_mut().filter(|_| names_items) {
                place.items.push(part);
            }
        } else {
            // A link may be between the file and the colon.
            let after = part
                .strip_prefix("](")
                .and_then(|rest| rest.split_once(')'))
                .map_or(part, |(_, after)| after);
            names_items = after == ": " || (names_items && [", ", " and "].contains(&after));
        }
    }
    places
}

/// Returns whether a text contains a word.
fn contains_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}

#[test]
fn every_file_and_item_exists() {
    let sources = sources();
    let mut wrong = Vec::new();
    for page in PAGES {
        let text = read(Path::new(page));
        let rows = rows(&text);
        assert!(rows.len() > 10, "{page}: {} rows", rows.len());
        for place in rows.iter().flatten().flat_map(|cell| places(cell)) {
            let ending = format!("/{}", place.file);
            let files: Vec<&String> = sources
                .iter()
                .filter(|(path, _)| format!("/{path}").ends_with(&ending))
                .map(|(_, text)| text)
                .collect();
            if files.is_empty() {
                wrong.push(format!("{page}: {}: no such file", place.file));
            }
            for item in &place.items {
                let name = item.rsplit("::").next().unwrap_or(item);
                if !files.is_empty() && !files.iter().any(|text| contains_word(text, name)) {
                    wrong.push(format!("{page}: {}: no {item}", place.file));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A file alone leaves its reader to search.
#[test]
fn every_row_names_an_item_of_the_code() {
    let mut without = Vec::new();
    for page in PAGES {
        let text = read(Path::new(page));
        for row in rows(&text) {
            let [section, code, ..] = row[..] else { panic!("{page}: a row without code: {row:?}") };
            let places = places(code);
            if !places.is_empty() && places.iter().all(|place| place.items.is_empty()) {
                without.push(format!("{page}: {section}"));
            }
        }
    }
    assert!(without.is_empty(), "{}", without.join("\n"));
}

#[test]
fn places_are_found_in_a_cell() {
    let place = |file, items: &[&'static str]| Place { file, items: items.to_vec() };
    let cell = "[`a.rs`](../a.rs): `one`, `two` and `three`; `b/c.rs`, `value`; `d.rs`: what `x` does";
    assert_eq!(
        places(cell),
        [place("a.rs", &["one", "two", "three"]), place("b/c.rs", &[]), place("d.rs", &[])]
    );
    assert!(contains_word("fn one(two: Three)", "two") && !contains_word("fn one_two()", "one"));
}
