//! Pages quote code, and what they quote is what runs.

use std::path::Path;

use super::files::read;

/// The pages with excerpts.
const PAGES: [&str; 1] = ["docs/writing-a-controller.md"];

/// Returns lines without their indentation: excerpts may be indented less than in their file.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// Returns whether a file contains an excerpt: its parts between lines of `// ...`, each in one piece and in this order.
fn contains(file: &str, excerpt: &str) -> bool {
    let (excerpt, file) = (lines(excerpt), lines(file));
    let mut rest = &file[..];
    excerpt.split(|line| *line == "// ...").filter(|part| !part.is_empty()).all(|part| {
        let found = rest.windows(part.len()).position(|window| window == part);
        rest = found.map_or(&[], |at| &rest[at + part.len()..]);
        found.is_some()
    })
}

#[test]
fn every_excerpt_is_in_the_file_that_it_names() {
    for page in PAGES {
        let text = read(Path::new(page));
        let blocks: Vec<&str> = text.split("```rust").skip(1).collect();
        assert!(blocks.len() >= 6, "{page}: {} excerpts", blocks.len());
        for block in blocks {
            let (info, block) = block.split_once('\n').expect("a block has lines");
            let file = info.trim().strip_prefix("file=");
            let file = file.unwrap_or_else(|| panic!("{page}: ```rust{info}: names no file"));
            let (excerpt, _) = block.split_once("```").expect("a block ends");
            assert!(contains(&read(Path::new(file)), excerpt), "{page}: not in {file}:\n{excerpt}");
        }
    }
}

/// The page says how long the files are.
#[test]
fn the_example_is_as_short_as_its_page_says() {
    let page = read(Path::new("docs/writing-a-controller.md"));
    let rows = page.lines().filter_map(|line| line.strip_prefix("| [")?.split_once("](../"));
    let mut files = 0;
    for (file, columns) in rows.filter_map(|(_, rest)| rest.split_once(") | ")) {
        let Some(said) = columns.rsplit('|').nth(1).and_then(|lines| lines.trim().parse::<usize>().ok())
        else {
            continue;
        };
        assert_eq!(read(Path::new(file)).lines().count(), said, "lines of {file}");
        files += 1;
    }
    assert_eq!(files, 6);
}

#[test]
fn an_excerpt_must_be_in_one_piece_and_in_order() {
    let file = "one\n  two\n\nthree\nfour\n";
    for quoted in ["two\nthree", "one\n// ...\nfour", "// ...\n    three"] {
        assert!(contains(file, quoted), "{quoted}");
    }
    for changed in ["two\nfour", "four\n// ...\none", "tw"] {
        assert!(!contains(file, changed), "{changed}");
    }
}
