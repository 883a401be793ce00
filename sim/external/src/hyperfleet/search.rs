//! The search language of the released API, as far as the answers of release 0.3.1 are known.
//!
//! It is a subset of Tree Search Language, which the server translates to SQL. So a comparison with a missing value is neither
//! true nor false, and the resource is not found. What the server refuses for some fields is refused here for all: `not` in every
//! position, and `is not null`.

use std::borrow::Cow;
use std::cmp::Ordering;

use jiff::Timestamp;

pub(super) use self::field::Field;
use super::Release;
use super::resource::Resource;

mod field;
mod lexer;
mod parse;
#[cfg(test)]
mod tests;

/// Maximum length of a search in bytes, with the clause that the server adds itself.
const LONGEST: usize = 4096;
const ADDED: &str = " AND kind = 'NodePool'";

/// Why a search is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refused(String);

/// The condition of a search, without its start position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Search(Test);

impl Default for Search {
    fn default() -> Self {
        Self(Test::All(Vec::new()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    All(Vec<Self>),
    Any(Vec<Self>),
    Compare(Field, Operator, Value<'static>),
    In(Field, Vec<Value<'static>>),
    Like(Field, String),
    IsNull(Field),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The values of fields and comparisons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Text(Cow<'a, str>),
    Number(i64),
    Time(Timestamp),
}

impl Search {
    /// Parses a search as release 0.3.1 does.
    #[cfg(test)]
    pub(super) fn parse(text: &str) -> Result<(Option<String>, Self), Refused> {
        Self::parse_as(text, Release::V0_3_1)
    }

    /// Parses a search as a release does. Also returns the id that all resources must follow, if the search requires
    /// `id > '...'`: the start position in the order of ids is found without a scan of the earlier ones.
    pub(super) fn parse_as(text: &str, release: Release) -> Result<(Option<String>, Self), Refused> {
        if release == Release::V0_3_1 && text.len() + ADDED.len() > LONGEST {
            return Err(Refused(format!("search exceeds {LONGEST} bytes")));
        }
        let mut after = None;
        let mut tests = match parse::parse(text, release)? {
            Test::All(tests) => tests,
            test => vec![test],
        };
        tests.retain(|test| match test {
            Test::Compare(Field::Id, Operator::Greater, Value::Text(id)) => {
                after = after.take().max(Some(id.clone().into_owned()));
                false
            }
            _ => true,
        });
        Ok((after, Self(Test::All(tests))))
    }

    /// Returns whether it finds everything.
    pub(super) fn is_open(&self) -> bool {
        matches!(&self.0, Test::All(tests) if tests.is_empty())
    }

    /// Returns whether it finds the resource.
    pub(super) fn matches(&self, resource: &Resource) -> bool {
        self.0.holds(resource)
    }
}

impl Test {
    fn holds(&self, resource: &Resource) -> bool {
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

impl Value<'_> {
    /// Compares a field's value with a wanted one. A text is compared with a number as a number.
    pub(super) fn compare(&self, wanted: &Value<'_>) -> Option<Ordering> {
        match (self, wanted) {
            (Self::Text(text), Value::Text(wanted)) => Some(text.cmp(wanted)),
            (Self::Text(text), Value::Number(wanted)) => Some(text.parse::<i64>().ok()?.cmp(wanted)),
            (Self::Number(number), Value::Number(wanted)) => Some(number.cmp(wanted)),
            (Self::Time(time), Value::Time(wanted)) => Some(time.cmp(wanted)),
            _ => None,
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
