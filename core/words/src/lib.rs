//! Collects the words that a crate can write: the texts of its messages, and the names of its types and fields.
//!
//! A recording replaces secrets within texts. It must not replace what the program wrote itself, or a replay would make other
//! decisions. So a value of a Secret that is also one of these words stays readable; as it is in the program, it reveals nothing.
//! A build script calls [`collect`], so that no list of words or files has to be kept up to date.
//!
//! Only functions for build scripts belong here. No crate may use this one at run time.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs, io};

use heck::{ToKebabCase as _, ToLowerCamelCase as _, ToSnakeCase as _};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::Lit;

/// Writes the words of a package to `words.txt` in the output directory of its build script. The package includes that file with
/// `include_str!(concat!(env!("OUT_DIR"), "/words.txt"))`.
///
/// # Panics
///
/// If it is not called by a build script, or the code of the package can't be read.
#[expect(clippy::print_stdout, reason = "cargo reads what a build script prints")]
pub fn collect() {
    let mut words = BTreeSet::new();
    read(Path::new("src"), &mut words).expect("the code of the package can be read");
    let words: Vec<String> = words.into_iter().collect();
    let folder = env::var_os("OUT_DIR").expect("a build script has a folder for its output");
    // A text that spans two words is not one of them.
    fs::write(Path::new(&folder).join("words.txt"), words.join("\0")).expect("that folder can be written");
    println!("cargo::rerun-if-changed=src");
}

/// Reads all files of a folder but those of tests.
fn read(folder: &Path, words: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            read(&path, words)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let code = fs::read_to_string(&path)?;
            let code = code.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            add(code, words);
        }
    }
    Ok(())
}

/// Adds the words of code, without comments and tests.
fn add(code: TokenStream, words: &mut BTreeSet<String>) {
    let mut code = code.into_iter();
    while let Some(tree) = code.next() {
        match tree {
            TokenTree::Ident(name) => add_name(&name.to_string(), words),
            TokenTree::Literal(literal) => words.extend(text(Lit::new(literal))),
            TokenTree::Group(group) if is_comment(&group) => {}
            TokenTree::Group(group) if is_test(&group) => skip_item(&mut code),
            TokenTree::Group(group) => add(group.stream(), words),
            TokenTree::Punct(_) => {}
        }
    }
}

/// Adds the name of a type, variant or field, in each case in which it can be written.
fn add_name(name: &str, words: &mut BTreeSet<String>) {
    let cases = [name.to_lower_camel_case(), name.to_snake_case(), name.to_kebab_case(), name.to_lowercase()];
    words.extend(cases);
    words.insert(name.to_owned());
}

fn text(literal: Lit) -> Option<String> {
    match literal {
        Lit::Str(text) => Some(text.value()),
        Lit::ByteStr(bytes) => String::from_utf8(bytes.value()).ok(),
        _ => None,
    }
}

/// Returns whether this is the attribute that stands for a doc comment.
fn is_comment(attribute: &Group) -> bool {
    let first = attribute.stream().into_iter().next();
    attribute.delimiter() == Delimiter::Bracket
        && matches!(first, Some(TokenTree::Ident(word)) if word == "doc")
}

fn is_test(attribute: &Group) -> bool {
    let text = attribute.stream().to_string();
    attribute.delimiter() == Delimiter::Bracket && text.split_whitespace().collect::<String>() == "cfg(test)"
}

/// Skips the rest of an item: it ends with its block, or with a semicolon.
fn skip_item(code: &mut impl Iterator<Item = TokenTree>) {
    let _end = code.find(|tree| match tree {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Ident(_) | TokenTree::Literal(_) => false,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(code: &str) -> Vec<String> {
        let mut words = BTreeSet::new();
        add(code.parse().expect("code that compiles"), &mut words);
        words.into_iter().collect()
    }

    #[test]
    fn texts_are_collected_as_they_are_written() {
        let code = r#"f!("is \"not\" \
                    there: {}", a); [b"bytes", r"raw\n"];"#;
        assert_eq!(words(code), ["a", "bytes", "f", "is \"not\" there: {}", "raw\\n"]);
    }

    #[test]
    fn names_are_collected_in_each_case() {
        assert_eq!(
            words("TimerFired"),
            ["TimerFired", "timer-fired", "timerFired", "timer_fired", "timerfired"]
        );
        assert_eq!(words("last_id"), ["last-id", "lastId", "last_id"]);
    }

    #[test]
    fn comments_and_tests_are_left_out() {
        let code = "/// Hidden.\n// hidden\n#[serde(rename = \"shown\")]\n#[cfg(test)]\nmod tests { hidden!(\"hidden\") }\nfinal_";
        assert_eq!(words(code), ["final", "final_", "rename", "serde", "shown"]);
        assert_eq!(words("#[cfg(test)] use a::hidden; b"), ["b"]);
    }
}
