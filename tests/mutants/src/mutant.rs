//! The mutants that cargo-mutants generates.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// A small change of a source file.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// The number that makes the woven code behave like the mutant.
    pub(crate) id: u32,
    pub(crate) package: String,
    /// Relative to the workspace.
    pub(crate) file: String,
    /// What is replaced.
    pub(crate) replaced: Range<usize>,
    pub(crate) replacement: String,
    pub(crate) genre: Genre,
    /// What cargo-mutants calls it.
    pub(crate) name: String,
}

/// What a mutant changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Genre {
    /// The body of a function becomes a value.
    FnValue,
    /// A binary operator becomes another one.
    BinaryOperator,
    /// A unary operator is deleted.
    UnaryOperator,
    /// An arm of a `match` is deleted.
    MatchArm,
    /// The guard of an arm becomes true or false.
    MatchArmGuard,
    /// A field of a struct expression is deleted, so that it gets its value from the base.
    StructField,
}

#[derive(Deserialize)]
struct Listed {
    package: String,
    file: String,
    span: Span,
    replacement: String,
    genre: Genre,
    name: String,
}

#[derive(Deserialize)]
struct Span {
    start: Position,
    end: Position,
}

/// Lines and columns count characters from 1.
#[derive(Deserialize)]
struct Position {
    line: usize,
    column: usize,
}

impl Position {
    fn offset(&self, source: &str) -> Option<usize> {
        let start: usize = source.split_inclusive('\n').take(self.line - 1).map(str::len).sum();
        let line = source.get(start..)?;
        let column: usize = line.chars().take(self.column - 1).map(char::len_utf8).sum();
        Some(start + column)
    }
}

/// Reads the list that cargo-mutants prints as JSON. `sources` has the content of each file.
pub(crate) fn read(list: &str, sources: &BTreeMap<String, String>) -> Result<Vec<Mutant>> {
    let listed: Vec<Listed> = serde_json::from_str(list).context("the list of mutants is not as expected")?;
    let mutants = listed.into_iter().zip(0..).map(|(it, id)| {
        let source = sources.get(&it.file).with_context(|| format!("{} is not in the tree", it.file))?;
        let offset = |position: &Position| position.offset(source).context("a mutant is outside of its file");
        let replaced = offset(&it.span.start)?..offset(&it.span.end)?;
        let Listed { package, file, replacement, genre, name, .. } = it;
        Ok(Mutant { id, package, file, replaced, replacement, genre, name })
    });
    mutants.collect()
}
