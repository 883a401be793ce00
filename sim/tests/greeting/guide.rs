//! The guide quotes this example, and what it quotes is what runs.

use std::path::Path;

/// Lines without their indentation: excerpts may be shown further to the left than they stand.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// Whether an excerpt stands in a file: its parts between lines of `// ...`, each in one piece and in this order.
fn is_quoted(excerpt: &str, file: &str) -> bool {
    let (excerpt, file) = (lines(excerpt), lines(file));
    let mut rest = &file[..];
    excerpt.split(|line| *line == "// ...").filter(|part| !part.is_empty()).all(|part| {
        let found = rest.windows(part.len()).position(|window| window == part);
        rest = found.map_or(&[], |at| &rest[at + part.len()..]);
        found.is_some()
    })
}

/// Paragraphs of one word in capitals: places that were to be filled in.
fn left_open(text: &str) -> Vec<&str> {
    let is_placeholder = |paragraph: &&str| {
        paragraph.len() > 1 && paragraph.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
    };
    text.split("\n\n").map(str::trim).filter(is_placeholder).collect()
}

/// A file of the project.
fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn nothing_in_the_guide_was_left_open() {
    let guide = read("docs/simulating-a-controller.md");
    assert_eq!(left_open(&guide), [""; 0]);
    assert_eq!(left_open("one\n\nTWO\n\nTHREE words\n\n- FOUR\n\nFIVE_SIX\n"), ["TWO", "FIVE_SIX"]);
}

#[test]
fn every_block_of_rust_in_the_guide_stands_in_the_file_that_it_names() {
    let guide = read("docs/simulating-a-controller.md");
    let mut quotes = 0;
    for block in guide.split("```rust").skip(1) {
        let (info, block) = block.split_once('\n').expect("a block has lines");
        let file =
            info.trim().strip_prefix("file=").unwrap_or_else(|| panic!("```rust{info}: names no file"));
        let (excerpt, _) = block.split_once("```").expect("a block ends");
        assert!(is_quoted(excerpt, &read(file)), "this is not in {file} (any more):\n{excerpt}");
        quotes += 1;
    }
    assert!(quotes >= 6, "{quotes} excerpts");
}

#[test]
fn a_quote_must_be_in_one_piece_and_in_order() {
    let file = "one\n  two\n\nthree\nfour\n";
    for quoted in ["two\nthree", "one\n// ...\nfour", "// ...\n    three"] {
        assert!(is_quoted(quoted, file), "{quoted}");
    }
    for changed in ["two\nfour", "four\n// ...\none", "tw"] {
        assert!(!is_quoted(changed, file), "{changed}");
    }
}
