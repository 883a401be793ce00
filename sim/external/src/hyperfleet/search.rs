//! The search language of the released API, as far as the answers of release 0.3.1 are known.
//!
//! It is a subset of Tree Search Language, which the server translates to SQL. So a comparison with a missing value is neither
//! true nor false, and the resource is not found. What the server refuses for some fields is refused here for all: `not` in every
//! position, and `is not null`.

pub(super) use self::field::Field;
use self::refused::Refused;
use self::test::{Operator, Test};
use self::value::Value;
use super::dialect::Release;
use super::resource::Resource;

mod field;
mod lexer;
mod parse;
mod refused;
mod test;
#[cfg(test)]
mod tests;
mod value;

/// Maximum length of a search in bytes, with the clause that the server adds itself.
const LONGEST: usize = 4096;
const ADDED: &str = " AND kind = 'NodePool'";

/// The condition of a search, without its start position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Search(Test);

impl Default for Search {
    fn default() -> Self {
        Self(Test::All(Vec::new()))
    }
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
