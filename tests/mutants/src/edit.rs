//! Where a source file is changed, so that it behaves like a mutant if that is chosen.

use std::ops::Range;

use anyhow::{Context as _, Result};
use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use crate::mutant::{Genre, Mutant};
use crate::switch::condition;

/// What a function returns that returns some iterator.
const EMPTY: &str = "::std::iter::empty()";

/// Texts to put around a part of the source.
pub(crate) struct Edit {
    pub(crate) id: u32,
    pub(crate) around: Range<usize>,
    pub(crate) before: String,
    pub(crate) after: String,
}

/// The edits for mutants of a file.
#[derive(Default)]
pub(crate) struct Edits {
    /// Of those around the same part, the outermost comes first.
    pub(crate) edits: Vec<Edit>,
    /// Mutants that are not viable: no program can contain them.
    pub(crate) invalid: Vec<u32>,
}

/// Returns the edits for mutants of a file.
pub(crate) fn edits(source: &str, mutants: &[&Mutant]) -> Result<Edits> {
    let file = syn::parse_file(source).context("a source file can't be parsed")?;
    let mut finder = Finder { source, mutants, edits: Edits::default() };
    finder.visit_file(&file);
    Ok(finder.edits)
}

struct Finder<'a> {
    source: &'a str,
    mutants: &'a [&'a Mutant],
    edits: Edits,
}

impl<'a> Finder<'a> {
    /// Returns the mutants of a genre that replace what begins at a position.
    fn at(&self, genre: Genre, start: usize) -> Vec<&'a Mutant> {
        let wanted = self.mutants.iter().filter(|it| it.genre == genre && it.replaced.start == start);
        wanted.copied().collect()
    }

    fn edit(&mut self, mutant: &Mutant, around: Range<usize>, before: String, after: &str) {
        self.edits.edits.push(Edit { id: mutant.id, around, before, after: after.to_owned() });
    }

    /// Lets each of these mutants have an expression with a part of it replaced.
    fn choose(&mut self, expression: &Range<usize>, mutants: Vec<&Mutant>) {
        for mutant in mutants {
            let before = &self.source[expression.start..mutant.replaced.start];
            let after = &self.source[mutant.replaced.end..expression.end];
            let mutated = format!("{before} {} {after}", mutant.replacement);
            let text = format!("(if {} {{ {mutated} }} else {{ ", condition(mutant.id));
            self.edit(mutant, expression.clone(), text, " })");
        }
    }

    fn reject(&mut self, mutants: Vec<&Mutant>) {
        self.edits.invalid.extend(mutants.into_iter().map(|mutant| mutant.id));
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_block(&mut self, block: &'ast syn::Block) {
        if let (Some(first), Some(last)) = (block.stmts.first(), block.stmts.last()) {
            let body = range(first.span()).start..range(last.span()).end;
            // A statement of the body can begin where the body does.
            let of_body = self.at(Genre::FnValue, body.start).into_iter().filter(|it| it.replaced == body);
            for mutant in of_body.collect::<Vec<_>>() {
                let (condition, value) = (condition(mutant.id), &mutant.replacement);
                if value == EMPTY {
                    // The iterator has a type that only the body can have.
                    let after =
                        format!(" }}; Iterator::take(every, if {condition} {{ 0 }} else {{ usize::MAX }})");
                    self.edit(mutant, body.clone(), "let every = { ".to_owned(), &after);
                } else {
                    self.edit(mutant, body.clone(), format!("if {condition} {{ return {value}; }} "), "");
                }
            }
        }
        visit::visit_block(self, block);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let mutants = self.at(Genre::BinaryOperator, range(binary.op.span()).start);
        // Only `&&` can join a `let`.
        if has_let(&binary.left) || has_let(&binary.right) {
            self.reject(mutants);
        } else {
            self.choose(&range(binary.span()), mutants);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let mutants = self.at(Genre::UnaryOperator, range(unary.op.span()).start);
        self.choose(&range(unary.span()), mutants);
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_struct(&mut self, it: &'ast syn::ExprStruct) {
        for field in &it.fields {
            let mutants = self.at(Genre::StructField, range(field.span()).start);
            self.choose(&range(it.span()), mutants);
        }
        visit::visit_expr_struct(self, it);
    }

    fn visit_expr_match(&mut self, it: &'ast syn::ExprMatch) {
        let is_wild = |arm: &syn::Arm| arm.guard.is_none() && matches!(arm.pat, syn::Pat::Wild(_));
        let is_complete = it.arms.iter().any(is_wild);
        for arm in &it.arms {
            let deleted = self.at(Genre::MatchArm, range(arm.span()).start);
            if let Some((_, guard)) = &arm.guard {
                let guard = range(guard.span());
                for mutant in deleted {
                    let text = format!("!{} && (", condition(mutant.id));
                    self.edit(mutant, guard.clone(), text, ")");
                }
                let mutants = self.at(Genre::MatchArmGuard, guard.start);
                self.choose(&guard, mutants);
            } else if is_complete {
                let end = range(arm.pat.span()).end;
                for mutant in deleted {
                    self.edit(mutant, end..end, format!(" if !{}", condition(mutant.id)), "");
                }
            } else {
                // The `match` would not have all cases, unless other arms have them as well.
                self.reject(deleted);
            }
        }
        visit::visit_expr_match(self, it);
    }
}

fn range(span: Span) -> Range<usize> {
    span.byte_range()
}

/// Returns whether an operand is a `let`, or contains one that the operator would join.
fn has_let(operand: &syn::Expr) -> bool {
    match operand {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(it) => has_let(&it.left) || has_let(&it.right),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weave::weave;

    /// Returns the source with mutants in it, and those that are not viable. A mutant has a genre, what it replaces, and by what.
    fn woven(source: &str, mutants: &[(Genre, &str, &str)]) -> (String, Vec<u32>) {
        let mutant = |((genre, replaced, replacement), id): (&(Genre, &str, &str), u32)| {
            let start = source.find(replaced).expect(replaced);
            let (package, file, name) = (String::new(), String::new(), String::new());
            let (replaced, replacement) = (start..start + replaced.len(), (*replacement).to_owned());
            Mutant { id, package, file, replaced, replacement, genre: *genre, name }
        };
        let mutants: Vec<Mutant> = mutants.iter().zip(0..).map(mutant).collect();
        let Edits { edits, invalid } = edits(source, &mutants.iter().collect::<Vec<_>>()).expect("a source");
        (weave(source, edits).source, invalid)
    }

    #[test]
    fn each_genre_is_behind_its_condition() {
        use Genre::{BinaryOperator, FnValue, MatchArm, MatchArmGuard, StructField, UnaryOperator};
        for (source, mutants, expected) in [
            (
                "fn a(x: u8) -> bool { x == 1 }",
                &[(FnValue, "x == 1", "true"), (BinaryOperator, "==", "!=")][..],
                "fn a(x: u8) -> bool { if crate::is_mutant(0) { return true; } \
                 (if crate::is_mutant(1) { x  !=  1 } else { x == 1 }) }",
            ),
            (
                "fn a() -> impl Iterator<Item = u8> { [1].into_iter() }",
                &[(FnValue, "[1].into_iter()", EMPTY)],
                "fn a() -> impl Iterator<Item = u8> { let every = { [1].into_iter() }; \
                 Iterator::take(every, if crate::is_mutant(0) { 0 } else { usize::MAX }) }",
            ),
            (
                "fn a(x: bool) -> bool { !x }",
                &[(UnaryOperator, "!", "")],
                "fn a(x: bool) -> bool { (if crate::is_mutant(0) {   x } else { !x }) }",
            ),
            (
                "fn a(b: S) -> S { S { c: 1, ..b } }",
                &[(StructField, "c: 1,", "")],
                "fn a(b: S) -> S { (if crate::is_mutant(0) { S {    ..b } } else { S { c: 1, ..b } }) }",
            ),
            (
                "fn a(x: u8) { match x { 1 => {} 2 if B => {} _ => {} } }",
                &[(MatchArm, "1 => {}", ""), (MatchArm, "2 if B => {}", ""), (MatchArmGuard, "B", "true")],
                "fn a(x: u8) { match x { 1 if !crate::is_mutant(0) => {} \
                 2 if !crate::is_mutant(1) && ((if crate::is_mutant(2) {  true  } else { B })) => {} _ => {} } }",
            ),
        ] {
            assert_eq!(woven(source, mutants), (expected.to_owned(), Vec::new()));
        }
    }

    #[test]
    fn what_can_t_compile_is_left_out() {
        let joined = "fn a(x: Option<u8>, y: bool) { if let Some(_) = x && y {} }";
        assert_eq!(woven(joined, &[(Genre::BinaryOperator, "&&", "||")]), (joined.to_owned(), vec![0]));
        let needed = "fn a(x: bool) { match x { true => {} false => {} } }";
        assert_eq!(woven(needed, &[(Genre::MatchArm, "true => {}", "")]), (needed.to_owned(), vec![0]));
    }
}
