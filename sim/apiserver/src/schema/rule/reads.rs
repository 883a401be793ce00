//! The fields of a value that rules read. A rule of a whole object usually reads a few of them, such as its name.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};
use serde_json::Value;

use crate::schema::escape::escape;

/// What expressions read of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::schema) enum Reads {
    /// The whole value.
    Whole,
    /// Some fields, by their names in the notation of rules.
    Fields(BTreeMap<String, Reads>),
}

impl Default for Reads {
    fn default() -> Self {
        Self::Fields(BTreeMap::new())
    }
}

impl Reads {
    /// Adds what an expression reads of a variable.
    pub(super) fn add(&mut self, expression: &IdedExpr, variable: &str) {
        if let Some(path) = path(expression, variable) {
            return self.insert(&path);
        }
        match &expression.expr {
            Expr::Call(call) => {
                call.target.iter().for_each(|target| self.add(target, variable));
                call.args.iter().for_each(|argument| self.add(argument, variable));
            }
            Expr::Comprehension(parts) => {
                let steps = [&parts.accu_init, &parts.loop_cond, &parts.loop_step, &parts.result];
                std::iter::once(&parts.iter_range).chain(steps).for_each(|part| self.add(part, variable));
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.add(element, variable)),
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.add(&entry.key, variable);
                        self.add(&entry.value, variable);
                    }
                }
            }
            Expr::Select(select) => self.add(&select.operand, variable),
            // Rules can't build messages of Protocol Buffers.
            Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
        }
    }

    /// Returns the part of a value that is read.
    pub(in crate::schema) fn part<'v>(&self, value: &'v Value) -> Cow<'v, Value> {
        let (Self::Fields(fields), Value::Object(map)) = (self, value) else { return Cow::Borrowed(value) };
        let read = fields.iter().flat_map(|(name, reads)| {
            // Only names that are not valid in rules are escaped.
            let is_it = move |key: &String| key == name || (name.contains("__") && escape(key) == *name);
            let found = map.iter().filter(move |(key, _)| is_it(key));
            found.map(|(key, value)| (key.clone(), reads.part(value).into_owned()))
        });
        Cow::Owned(read.collect())
    }

    fn insert(&mut self, path: &[&str]) {
        match (path.split_first(), self) {
            (_, Self::Whole) => {}
            (None, reads) => *reads = Self::Whole,
            (Some((first, rest)), Self::Fields(fields)) => {
                fields.entry((*first).to_owned()).or_default().insert(rest);
            }
        }
    }
}

/// Returns the fields that lead from a variable to what an expression selects: none for a variable itself.
fn path<'e>(expression: &'e IdedExpr, variable: &str) -> Option<Vec<&'e str>> {
    match &expression.expr {
        Expr::Ident(name) => (name == variable).then(Vec::new),
        Expr::Select(select) => {
            let mut path = path(&select.operand, variable)?;
            path.push(&select.field);
            Some(path)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use kube_cel::cel::parser::Parser;
    use serde_json::json;

    use super::*;

    fn part(rule: &str, value: &Value) -> Value {
        let mut reads = Reads::default();
        reads.add(&Parser::default().enable_optional_syntax(true).parse(rule).unwrap(), "self");
        reads.part(value).into_owned()
    }

    #[test]
    fn only_selected_fields_are_read() {
        let value =
            json!({ "metadata": { "name": "a", "labels": {} }, "spec": { "x": 1 }, "a-b": 2, "in": 3 });
        let cases = [
            ("self.metadata.name.size() < 3", json!({ "metadata": { "name": "a" } })),
            ("has(self.spec) && has(self.absent)", json!({ "spec": { "x": 1 } })),
            ("self.a__dash__b == self.__in__", json!({ "a-b": 2, "in": 3 })),
            (
                "[self.spec.x].all(x, {'a': self.metadata.name}.size() > x)",
                json!({ "metadata": { "name": "a" }, "spec": { "x": 1 } }),
            ),
            ("oldSelf.spec == 1", json!({})),
        ];
        for (rule, expected) in cases {
            assert_eq!(part(rule, &value), expected, "{rule}");
        }
        for rule in
            ["self.size() > 0", "self['spec'].x > 0", "self.?spec.hasValue()", "self.spec.x > self.size()"]
        {
            assert_eq!(part(rule, &value), value, "{rule}");
        }
    }
}
