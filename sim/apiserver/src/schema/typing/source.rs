//! The source of an expression, with the places of its parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::{IdedExpr, SourceInfo};
use kube_cel::cel::parser::Parser;

use crate::schema::macros;

/// Maximum number of errors that the server reports of one expression.
const ERRORS_MAX: usize = 100;

pub(super) struct Source<'t> {
    text: &'t str,
    places: Option<Arc<SourceInfo>>,
    /// The ids of expressions that macros added, each with the id of an expression at the same place.
    origins: BTreeMap<u64, u64>,
}

impl<'t> Source<'t> {
    /// Parses an expression, and expands its macros.
    ///
    /// # Errors
    /// The syntax errors and wrong arguments of macros, with excerpts of the source.
    pub(super) fn parse(text: &'t str) -> Result<(IdedExpr, Self), String> {
        let parse = |text: &str| Parser::default().enable_optional_syntax(true).parse(text);
        match parse(text) {
            Ok(mut expression) => {
                // The parser reveals places only with an error. A character outside of the language adds one, and changes nothing
                // else.
                let places = parse(&format!("{text}\n$"))
                    .err()
                    .and_then(|mut errors| errors.errors.pop().and_then(|error| error.source_info));
                let expansion = macros::expand(&mut expression);
                let source = Self { text, places, origins: expansion.origins };
                if expansion.errors.is_empty() {
                    Ok((expression, source))
                } else {
                    Err(source.describe(expansion.errors))
                }
            }
            Err(errors) => {
                let place = |(line, column): (isize, isize)| {
                    let number = |number: isize| usize::try_from(number).unwrap_or_default();
                    (number(line).max(1), number(column).max(1))
                };
                let mut errors: Vec<_> =
                    errors.errors.into_iter().map(|error| (place(error.pos), error.msg)).collect();
                errors.sort();
                errors.dedup();
                Err(Self { text, places: None, origins: BTreeMap::new() }.render(errors))
            }
        }
    }

    /// Returns errors with excerpts of the source, in the order of their places.
    pub(super) fn describe(&self, errors: Vec<(u64, String)>) -> String {
        self.render(errors.into_iter().map(|(id, message)| (self.place(id), message)).collect())
    }

    /// Returns line and column of an expression, both from 1.
    fn place(&self, id: u64) -> (usize, usize) {
        let id = self.origins.get(&id).copied().unwrap_or(id);
        let start =
            self.places.as_ref().and_then(|places| places.offset_for(id)).map_or(0, |(start, _)| start);
        let before: String = self.text.chars().take(start as usize).collect();
        let line = before.matches('\n').count() + 1;
        (line, before.chars().rev().take_while(|char| *char != '\n').count() + 1)
    }

    fn render(&self, mut errors: Vec<((usize, usize), String)>) -> String {
        errors.sort_by_key(|(place, _)| *place);
        errors.truncate(ERRORS_MAX);
        let described = errors.iter().map(|((line, column), message)| {
            let excerpt = self.text.lines().nth(line - 1).unwrap_or_default().replace('\t', " ");
            let dots = ".".repeat(column - 1);
            format!("ERROR: <input>:{line}:{column}: {message}\n | {excerpt}\n | {dots}^")
        });
        described.collect::<Vec<_>>().join("\n")
    }
}
