//! Checks that no modules of a crate depend on each other in a cycle, directly or through other modules. A module is a file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::files::{below, read, root};

/// The names of a module and its parents, from the root of the crate, which has none.
type Module = Vec<String>;

/// The files of a crate: the path and the text of each.
type Files = Vec<(PathBuf, String)>;

/// The modules that each module uses, each with one of the paths in the code.
type Uses = BTreeMap<Module, BTreeMap<Module, String>>;

/// Returns the `src` folders of the workspace's members, as paths from the root.
fn sources() -> Vec<PathBuf> {
    let manifest = read(Path::new("Cargo.toml"));
    let members = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']'));
    let members = members.expect("a list of members").0.split('"').skip(1).step_by(2);
    members.map(|member| Path::new(member).join("src")).filter(|src| root().join(src).is_dir()).collect()
}

/// Returns the files of a `src` folder, with their paths in it.
fn files(src: &Path) -> Files {
    let within = |file: &Path| file.strip_prefix(src).expect("it is in the folder").to_owned();
    below(src, "rs").into_iter().map(|file| (within(&file), read(&file))).collect()
}

/// Returns the module of a file. Library and program of a package share their root.
fn module(file: &Path) -> Module {
    let names = file.with_extension("");
    let mut names: Module = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    names.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
    names
}

/// Returns the words, brackets, `::` and other characters of code, without comments and literals.
fn tokens(code: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    flatten(code.parse().expect("code that compiles"), &mut tokens);
    tokens
}

fn flatten(stream: TokenStream, tokens: &mut Vec<String>) {
    for tree in stream {
        match tree {
            TokenTree::Ident(word) => tokens.push(word.to_string()),
            TokenTree::Literal(_) => {}
            TokenTree::Punct(colon)
                if colon.as_char() == ':' && tokens.last().is_some_and(|last| last == ":") =>
            {
                tokens.pop();
                tokens.push("::".to_owned());
            }
            TokenTree::Punct(punct) => tokens.push(punct.as_char().to_string()),
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                tokens.push(open.to_owned());
                flatten(group.stream(), tokens);
                tokens.push(close.to_owned());
            }
        }
    }
}

/// Returns the index after the bracket that closes the one at this index.
fn closed(tokens: &[&str], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Removes all items that exist only in tests. Returns the names of the modules among them.
fn remove_tests<'a>(tokens: &mut Vec<&'a str>) -> Vec<&'a str> {
    let (mut kept, mut modules) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let rest = &tokens[at..];
        let is_for_tests = rest.starts_with(&["#", "[", "cfg", "(", "test", ")"])
            || rest.starts_with(&["#", "[", "cfg", "(", "all", "(", "test"]);
        if !is_for_tests {
            kept.push(tokens[at]);
            at += 1;
            continue;
        }
        // The item ends with a semicolon or a block, after its attributes.
        while tokens[at..].starts_with(&["#", "["]) {
            at = closed(tokens, at + 1);
        }
        while let Some(&token) = tokens.get(at) {
            match token {
                "mod" => modules.extend(tokens.get(at + 1)),
                ")" | "]" | "}" => break,
                _ => {}
            }
            at = if ["(", "[", "{"].contains(&token) { closed(tokens, at) } else { at + 1 };
            if [";", "{"].contains(&token) {
                break;
            }
        }
    }
    *tokens = kept;
    modules
}

/// Adds the paths of a tree of imports, which ends at the returned index.
fn import_paths<'a>(
    tokens: &[&'a str],
    start: usize,
    prefix: &[&'a str],
    paths: &mut Vec<Vec<&'a str>>,
) -> usize {
    let (mut at, mut path) = (start, prefix.to_vec());
    while let Some(&token) = tokens.get(at) {
        match token {
            "{" => {
                loop {
                    at = import_paths(tokens, at + 1, &path, paths);
                    if tokens.get(at) != Some(&",") {
                        break;
                    }
                }
                return at + 1;
            }
            "," | "}" | ";" => break,
            // The new name follows.
            "as" => at += 1,
            "::" => {}
            name => path.push(name),
        }
        at += 1;
    }
    // Nothing follows the last comma of a list.
    if path.len() > prefix.len() {
        paths.push(path);
    }
    at
}

/// Returns all paths in a file, each with the modules in the file that enclose it.
fn paths<'a>(tokens: &[&'a str]) -> Vec<(Vec<&'a str>, Vec<&'a str>)> {
    let mut found = Vec::new();
    // The modules around the token, each with the index of its end.
    let mut modules: Vec<(&str, usize)> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        modules.pop_if(|(_, end)| *end <= at);
        let mut here = Vec::new();
        let next = |offset: usize| tokens.get(at + offset).copied();
        let is_word = |token: &str| token.starts_with(|first: char| first.is_alphabetic() || first == '_');
        match tokens[at] {
            "mod" if next(2) == Some("{") => {
                modules.push((tokens[at + 1], closed(tokens, at + 2)));
                at += 2;
            }
            // Not the list of captured parameters, `use<'a>`.
            "use" if next(1) != Some("<") => at = import_paths(tokens, at + 1, &[], &mut here),
            // The scope of a visibility is no use.
            "in" if at > 0 && tokens[at - 1] == "(" => at = closed(tokens, at - 1),
            word if is_word(word) => {
                let mut path = vec![word];
                while let (Some("::"), Some(name)) = (tokens.get(at + 1).copied(), tokens.get(at + 2)) {
                    if !is_word(name) {
                        break;
                    }
                    path.push(name);
                    at += 2;
                }
                if path.len() > 1 {
                    here.push(path);
                }
                at += 1;
            }
            // The rest of a path, such as a method of a generic type.
            "::" => at += 2,
            _ => at += 1,
        }
        let around: Vec<&str> = modules.iter().map(|(name, _)| *name).collect();
        found.extend(here.into_iter().map(|path| (path, around.clone())));
    }
    found
}

/// Returns the module that a path in a module leads to; `None` for a path to another crate or to an item of the module.
fn target(all: &BTreeSet<Module>, from: &Module, around: &[&str], path: &[&str]) -> Option<Module> {
    let mut target = from.clone();
    target.extend(around.iter().map(|name| (*name).to_owned()));
    let mut names = path;
    match names[0] {
        "crate" => target.clear(),
        "self" | "super" => {
            while let ["super", rest @ ..] = names {
                target.pop()?;
                names = rest;
            }
        }
        child => {
            let mut module = target.clone();
            module.push(child.to_owned());
            all.get(&module)?;
        }
    }
    for name in names.iter().filter(|name| !["crate", "self"].contains(name)) {
        target.push((*name).to_owned());
        if !all.contains(&target) {
            target.pop();
            break;
        }
    }
    // A module within a file belongs to the file.
    while !all.contains(&target) {
        target.pop()?;
    }
    (target != *from).then_some(target)
}

/// Returns which modules of a crate use which.
fn uses(files: &Files) -> Uses {
    let words: Vec<(Module, Vec<String>)> =
        files.iter().map(|(file, text)| (module(file), tokens(text))).collect();
    let mut code: Vec<(&Module, Vec<&str>)> = Vec::new();
    let mut only_in_tests: Vec<Module> = Vec::new();
    for (module, words) in &words {
        let mut tokens = words.iter().map(String::as_str).collect();
        for name in remove_tests(&mut tokens) {
            only_in_tests.push([module.clone(), vec![name.to_owned()]].concat());
        }
        code.push((module, tokens));
    }
    code.retain(|(module, _)| !only_in_tests.iter().any(|test| module.starts_with(test)));
    let all: BTreeSet<Module> = code.iter().map(|(module, _)| (*module).clone()).collect();
    let mut uses = Uses::new();
    for (module, tokens) in &code {
        let used = uses.entry((*module).clone()).or_default();
        for (path, around) in paths(tokens) {
            if let Some(target) = target(&all, module, &around, &path) {
                used.entry(target).or_insert_with(|| path.join("::"));
            }
        }
    }
    uses
}

/// Returns the modules that a module uses, directly or through others.
fn reachable<'a>(uses: &'a Uses, from: &'a Module) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        open.extend(uses[module].keys().filter(|used| reached.insert(*used)));
    }
    reached
}

/// Describes each group of modules that depend on each other: for each module one path that leads to another of the group.
fn cycles(files: &Files) -> Vec<String> {
    let uses = uses(files);
    let reached: BTreeMap<_, _> = uses.keys().map(|module| (module, reachable(&uses, module))).collect();
    let mut groups: BTreeSet<Vec<&Module>> = BTreeSet::new();
    for (module, used) in &reached {
        let group: Vec<&Module> =
            used.iter().copied().filter(|other| reached[other].contains(module)).collect();
        if !group.is_empty() {
            groups.insert(group);
        }
    }
    let show = |module: &Module| if module.is_empty() { "crate".to_owned() } else { module.join("::") };
    let describe = |group: &Vec<&Module>| {
        let edges = group.iter().filter_map(|module| {
            let (other, path) = uses[*module].iter().find(|(other, _)| group.contains(other))?;
            Some(format!("  {} uses {} ({path})", show(module), show(other)))
        });
        edges.collect::<Vec<_>>().join("\n")
    };
    groups.iter().map(describe).collect()
}

#[test]
fn modules_do_not_depend_on_each_other() {
    let mut found = Vec::new();
    for src in sources() {
        found.extend(cycles(&files(&src)).iter().map(|cycle| format!("{}:\n{cycle}", src.display())));
    }
    let count = found.len();
    assert!(
        found.is_empty(),
        "{count} groups of modules depend on each other; move what they share to a module below them:\n{}",
        found.join("\n")
    );
}

#[test]
fn the_members_of_the_workspace_are_found() {
    let sources = sources();
    for src in ["core/engine/src", "shell/cli/src", "tests/src", "tests/runner/src"] {
        assert!(sources.contains(&PathBuf::from(src)), "{src} is not in {sources:?}");
    }
    let files = files(Path::new("tests/runner/src"));
    assert!(files.iter().any(|(file, _)| file == Path::new("suites.rs")), "{files:?}");
}

/// Returns the cycles of a crate with these files.
fn cycles_of(files: &[(&str, &str)]) -> Vec<String> {
    cycles(&files.iter().map(|(file, text)| (PathBuf::from(file), (*text).to_owned())).collect())
}

#[test]
fn two_files_that_use_each_other_are_a_cycle() {
    let lib = ("lib.rs", "pub mod a; pub mod b;");
    let found = cycles_of(&[lib, ("a.rs", "use crate::b::B;"), ("b.rs", "fn f(a: crate::a::A) {}")]);
    assert_eq!(found, ["  a uses b (crate::b::B)\n  b uses a (crate::a::A)"]);
    assert!(cycles_of(&[lib, ("a.rs", "use crate::b::B;"), ("b.rs", "struct B;")]).is_empty());
}

#[test]
fn a_cycle_through_other_files_is_found_once() {
    let found = cycles_of(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use super::b;"),
        ("b.rs", "use super::c;"),
        ("c.rs", "use super::a;"),
        ("d.rs", "use super::a;"),
    ]);
    assert_eq!(found, ["  a uses b (super::b)\n  b uses c (super::c)\n  c uses a (super::a)"]);
}

#[test]
fn a_parent_and_a_child_that_use_each_other_are_a_cycle() {
    let child = ("a/child.rs", "use super::Shared;");
    for parent in
        ["mod child; use child::C;", "mod child; fn f() { child::g() }", "mod child; pub use self::child::*;"]
    {
        let found = cycles_of(&[("main.rs", "mod a;"), ("a.rs", parent), child]);
        assert_eq!(found.len(), 1, "{parent}");
        assert!(found[0].ends_with("a::child uses a (super::Shared)"), "{found:?}");
    }
    assert!(cycles_of(&[("main.rs", "mod a;"), ("a.rs", "mod child; fn child() {}"), child]).is_empty());
}

#[test]
fn each_super_leads_to_the_next_parent() {
    let files =
        |path| [("lib.rs", "mod a; use a::X;"), ("a.rs", ""), ("a/b.rs", "use a::X;"), ("a/b/c.rs", path)];
    let used = |path| {
        let files = files(path).map(|(file, text)| (PathBuf::from(file), text.to_owned()));
        uses(&files.to_vec())[&["a", "b", "c"].map(str::to_owned).to_vec()]
            .keys()
            .map(|to| to.join("::"))
            .collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(used("use super::B;"), ["a::b"]);
    assert_eq!(used("use super::super::A;"), ["a"]);
    assert_eq!(used("fn f() { super::super::super::root() }"), [""]);
    assert_eq!(used("mod inner { use super::C; }"), none);
    assert_eq!(used("mod inner { use super::super::B; } use super::super::A;"), ["a", "a::b"]);
    assert_eq!(used("pub(in crate::a) struct C;"), none);
    assert_eq!(used("fn f() { lib::a::b(); x.a::<u8>(); }"), none);
}

#[test]
fn trees_of_imports_are_followed() {
    let lib = ("lib.rs", "mod a; mod b; mod c;");
    let tree = "use std::{fmt, io}; use super::{b::{self, B}, c::{C as D, inner::{E, *},},};";
    let files = [lib, ("a.rs", tree), ("b.rs", "use super::a;"), ("c.rs", "use crate::{a::A};")];
    let found = cycles_of(&files);
    assert_eq!(found, ["  a uses b (super::b::self)\n  b uses a (super::a)\n  c uses a (crate::a::A)"]);
}

#[test]
fn comments_literals_and_tests_are_ignored() {
    let lib = ("lib.rs", "mod a; mod b;");
    let a = ("a.rs", "use crate::b;");
    let harmless = [
        "// use crate::a;",
        "/* /* nested */ use crate::a; */",
        "/// [`crate::a::A`]\nstruct B;",
        r#"const B: &str = "use crate::a; \" use crate::a;";"#,
        "const B: &str = \"first\\\n  use crate::a; \";",
        "const B: &str = r#\"\" use crate::a;\"#;",
        "const B: &[u8] = br\"use crate::a;\";",
        "#[cfg(test)]\nmod tests { use crate::a; }",
        "#[cfg(all(test, unix))] #[expect(unused)] pub use crate::a;",
        "#[cfg(test)]\npub fn f<A>(x: [u8; 2]) { crate::a::f() }",
        "#[cfg(test)]\nmod tests;",
    ];
    for text in harmless {
        let tests = ("b/tests.rs", "use crate::a; use super::*;");
        assert!(cycles_of(&[lib, a, ("b.rs", text), tests]).is_empty(), "{text}");
    }
    for text in [
        "const B: char = '\"'; use crate::a;",
        "const B: char = '\\''; use crate::a;",
        "fn f<'a>(x: &'a str) -> impl Sized + use<'a> { crate::a::A }",
        "const B: &str = \"first\\\n  second\"; use crate::a;",
        "#[cfg(not(test))] use crate::a;",
        "#[cfg(test)] use std::fmt; use crate::a;",
    ] {
        assert_eq!(cycles_of(&[lib, a, ("b.rs", text)]).len(), 1, "{text}");
    }
}
