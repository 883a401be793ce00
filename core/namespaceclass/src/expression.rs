//! The expressions of variables: the part of CEL that the schema of a class accepts, and its meaning.
//!
//! The schema can't compile CEL, so it decides by a regular expression, which the parser here follows. A test compares both with a
//! CEL library.
//!
//! Source: not in the specification (decision 124).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The maximum length of a value. An annotation may have 256 KiB, and a class may contain it many times.
pub const VALUE_MAX_BYTES: usize = 1024;

/// The variable of CEL for the namespace, as in a `ValidatingAdmissionPolicy`, and the field that expressions read.
const METADATA: &str = "namespaceObject.metadata.";

/// The labels and annotations of a namespace. Longer values than a variable may have are cut.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceMetadata {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl NamespaceMetadata {
    /// Reads a namespace or its metadata.
    pub fn read(object: &Value) -> Self {
        let read = |field: &str| {
            let entries = object["metadata"][field].as_object().into_iter().flatten();
            let texts = entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?)));
            texts.map(|(key, value)| (key, cut(value).to_owned())).collect()
        };
        Self { labels: read("labels"), annotations: read("annotations") }
    }

    /// Returns the value of a label or an annotation.
    pub fn get(&self, field: Field, key: &str) -> Option<&str> {
        let map = match field {
            Field::Labels => &self.labels,
            Field::Annotations => &self.annotations,
        };
        map.get(key).map(String::as_str)
    }
}

/// Returns the beginning of a value that is too long for a variable. It is still too long.
fn cut(value: &str) -> &str {
    let end = VALUE_MAX_BYTES + 1;
    if value.len() <= end { value } else { &value[..value.ceil_char_boundary(end)] }
}

/// A map in the metadata of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Field {
    /// `labels`.
    Labels,
    /// `annotations`.
    Annotations,
}

/// A parsed expression: the values of its terms, joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expression(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Term {
    Operand(Operand),
    /// One of two operands: the first if the map has the key.
    Choice {
        field: Field,
        key: String,
        present: Operand,
        absent: Operand,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Operand {
    Text(String),
    Name,
    Entry(Field, String),
}

/// Why an expression has no value in a namespace.
#[derive(Debug, PartialEq, Eq)]
pub enum NoValue<'a> {
    /// The namespace has no such label or annotation.
    Missing(Field, &'a str),
    /// The value is longer than [`VALUE_MAX_BYTES`].
    TooLong,
}

impl Expression {
    /// Parses an expression; `None` if it is not one that the schema accepts.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { rest: text };
        let mut terms = Vec::new();
        loop {
            parser.spaces();
            terms.push(parser.term()?);
            parser.spaces();
            if parser.rest.is_empty() {
                return Some(Self(terms));
            }
            parser.take("+")?;
        }
    }

    /// Returns the value in a namespace.
    ///
    /// # Errors
    ///
    /// If the namespace lacks a label or an annotation that is read, or if the value is too long.
    pub fn value(&self, namespace: &str, metadata: &NamespaceMetadata) -> Result<String, NoValue<'_>> {
        let mut value = String::new();
        for term in &self.0 {
            let operand = match term {
                Term::Operand(operand) => operand,
                Term::Choice { field, key, present, .. } if metadata.get(*field, key).is_some() => present,
                Term::Choice { absent, .. } => absent,
            };
            value += match operand {
                Operand::Text(text) => text,
                Operand::Name => namespace,
                Operand::Entry(field, key) => {
                    metadata.get(*field, key).ok_or(NoValue::Missing(*field, key))?
                }
            };
        }
        if value.len() > VALUE_MAX_BYTES { Err(NoValue::TooLong) } else { Ok(value) }
    }

    /// Returns the labels and annotations on which the value depends.
    pub fn reads(&self) -> impl Iterator<Item = (Field, &str)> {
        self.0.iter().flat_map(|term| {
            let (choice, operands) = match term {
                Term::Operand(operand) => (None, [Some(operand), None]),
                Term::Choice { field, key, present, absent } => {
                    (Some((*field, key.as_str())), [Some(present), Some(absent)])
                }
            };
            let entries = operands.into_iter().flatten().filter_map(|operand| match operand {
                Operand::Entry(field, key) => Some((*field, key.as_str())),
                Operand::Text(_) | Operand::Name => None,
            });
            choice.into_iter().chain(entries)
        })
    }
}

/// The rest of an expression.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn take(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(token)?;
        Some(())
    }

    /// Skips spaces. Returns whether there were any.
    fn spaces(&mut self) -> bool {
        let rest = self.rest.trim_start_matches(' ');
        rest.len() < std::mem::replace(&mut self.rest, rest).len()
    }

    fn required_spaces(&mut self) -> Option<()> {
        self.spaces().then_some(())
    }

    fn between_spaces(&mut self, token: &str) -> Option<()> {
        self.spaces();
        self.take(token)?;
        self.spaces();
        Some(())
    }

    fn term(&mut self) -> Option<Term> {
        if self.take("(").is_none() {
            return self.operand().map(Term::Operand);
        }
        self.spaces();
        let key = self.key()?;
        self.required_spaces()?;
        self.take("in")?;
        self.required_spaces()?;
        self.take(METADATA)?;
        let field = self.field()?;
        self.between_spaces("?")?;
        let present = self.operand()?;
        self.between_spaces(":")?;
        let absent = self.operand()?;
        self.spaces();
        self.take(")")?;
        Some(Term::Choice { field, key, present, absent })
    }

    fn operand(&mut self) -> Option<Operand> {
        if self.take(METADATA).is_none() {
            return self.text().map(|text| Operand::Text(text.to_owned()));
        }
        if self.take("name").is_some() {
            return Some(Operand::Name);
        }
        let field = self.field()?;
        self.take("[")?;
        let key = self.key()?;
        self.take("]")?;
        Some(Operand::Entry(field, key))
    }

    fn field(&mut self) -> Option<Field> {
        if self.take("labels").is_some() {
            return Some(Field::Labels);
        }
        self.take("annotations").map(|()| Field::Annotations)
    }

    /// Reads a text with the characters that keys of labels have.
    fn key(&mut self) -> Option<String> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/".contains(&byte);
        let key = self.text().filter(|key| !key.is_empty() && key.bytes().all(is_allowed))?;
        Some(key.to_owned())
    }

    /// Reads a text in quotes. It has no escapes.
    fn text(&mut self) -> Option<&'a str> {
        let quote = if self.rest.starts_with('\'') { '\'' } else { '"' };
        let (text, rest) = self.rest.strip_prefix(quote)?.split_once(quote)?;
        self.rest = rest;
        let is_plain = |letter: char| letter != '\\' && !letter.is_ascii_control();
        text.chars().all(is_plain).then_some(text)
    }
}

#[cfg(test)]
mod tests;
