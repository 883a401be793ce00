//! Checks the words of all texts in the code: messages, help, names of invariants and tests. Comments may use any words, unless
//! they become the help of a command or flag.

use std::path::Path;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::files::{below, read};
use super::words::unusual;

/// The folders with code.
const FOLDERS: [&str; 7] = ["core", "crds", "examples", "fuzz/fuzz_targets", "shell", "sim", "tests"];

/// The list of the words, and this test of it.
const QUOTING: [&str; 2] = ["tests/runner/tests/project/words.rs", "tests/runner/tests/project/literals.rs"];

/// Returns whether users read the doc comments of a file: as the help of the program, or as descriptions of a CRD.
fn has_public_comments(file: &Path) -> bool {
    ["shell/cli/src/cli", "shell/cli/src/cli.rs", "crds/src"].iter().any(|public| file.starts_with(public))
}

/// Collects the texts of code: its literals, the names of its functions, and its doc comments if wanted.
fn collect(stream: TokenStream, comments: bool, texts: &mut Vec<String>) {
    let mut is_function = false;
    for tree in stream {
        match tree {
            TokenTree::Ident(word) => {
                if is_function {
                    texts.push(word.to_string());
                }
                is_function = word == "fn";
                continue;
            }
            TokenTree::Literal(literal) => texts.push(literal.to_string()),
            TokenTree::Group(group) if comments || !is_comment(&group) => {
                collect(group.stream(), comments, texts);
            }
            TokenTree::Group(_) | TokenTree::Punct(_) => {}
        }
        is_function = false;
    }
}

/// Returns whether this is the attribute that stands for a doc comment.
fn is_comment(group: &Group) -> bool {
    let first = group.stream().into_iter().next();
    group.delimiter() == Delimiter::Bracket && matches!(first, Some(TokenTree::Ident(word)) if word == "doc")
}

/// Returns the unusual words in code, each with its text.
fn found(code: &str, comments: bool) -> Vec<String> {
    let mut texts = Vec::new();
    collect(code.parse().expect("code that compiles"), comments, &mut texts);
    let words = texts.iter().flat_map(|text| {
        // Names have words too, and a line break ends a word.
        let words = text.replace("\\n", " ").replace('_', " ");
        unusual(&words).into_iter().map(move |word| format!("{word}: {text}"))
    });
    words.collect()
}

#[test]
fn texts_in_code_use_usual_words() {
    let mut wrong = Vec::new();
    let files = FOLDERS.into_iter().flat_map(|folder| below(Path::new(folder), "rs"));
    for file in files.filter(|file| !QUOTING.map(Path::new).contains(&file.as_path())) {
        let found = found(&read(&file), has_public_comments(&file));
        wrong.extend(found.iter().map(|found| format!("{}: {found}", file.display())));
    }
    assert!(wrong.is_empty(), "{} words:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn literals_and_names_of_functions_are_checked() {
    for text in [
        "const A: &str = \"it is AWAITED\";",
        "fn f() { g!(\"it comes \\\n    to rest\") }",
        "const A: &str = r#\"it\ncomes to\"#;",
        "const A: &str = \"come\\ntold\";",
        "const A: &[u8] = b\"not_told\";",
        "#[test]\nfn a_cause_is_told() {}",
    ] {
        assert_eq!(found(text, false).len(), 1, "{text}");
    }
    for text in ["// told", "fn f() { told.await }", "const A: &str = \"toll, hands-on\";", "struct Told;"] {
        assert_eq!(found(text, true), [""; 0], "{text}");
    }
    for text in ["/// It is told.\nstruct A;", "//! It is told."] {
        assert_eq!((found(text, false).len(), found(text, true).len()), (0, 1), "{text}");
    }
}
