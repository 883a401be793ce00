//! The tests of a search, and their evaluation.

use std::cmp::Ordering;

use super::field::Field;
use super::value::Value;
use crate::hyperfleet::resource::Resource;

/// What a resource must satisfy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Test {
    All(Vec<Self>),
    Any(Vec<Self>),
    Compare(Field, Operator, Value<'static>),
    In(Field, Vec<Value<'static>>),
    Like(Field, String),
    IsNull(Field),
}

/// The operator of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Test {
    /// Returns whether a resource passes the test.
    pub(super) fn holds(&self, resource: &Resource) -> bool {
        match self {
            Self::All(tests) => tests.iter().all(|test| test.holds(resource)),
            Self::Any(tests) => tests.iter().any(|test| test.holds(resource)),
            Self::Compare(field, operator, wanted) => field
                .of(resource)
                .and_then(|value| value.compare(wanted))
                .is_some_and(|ordering| operator.accepts(ordering)),
            Self::In(field, listed) => field.of(resource).is_some_and(|value| {
                listed.iter().any(|wanted| value.compare(wanted) == Some(Ordering::Equal))
            }),
            Self::Like(field, pattern) => match field.of(resource) {
                Some(Value::Text(text)) => like(&text, pattern),
                _ => false,
            },
            Self::IsNull(field) => field.of(resource).is_none(),
        }
    }
}

impl Operator {
    fn accepts(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// Evaluates SQL's LIKE: `%` matches any text, `_` any character.
fn like(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
    // The lengths of the prefixes of the text that the pattern so far matches.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for wanted in pattern {
        if wanted == '%' {
            let first = reached.iter().position(|hit| *hit).unwrap_or(reached.len());
            reached[first..].fill(true);
            continue;
        }
        for at in (0..text.len()).rev() {
            reached[at + 1] = reached[at] && (wanted == '_' || wanted == text[at]);
        }
        reached[0] = false;
    }
    reached[text.len()]
}
