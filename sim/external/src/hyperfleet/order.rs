//! The order of listed resources, and one page of them.

use std::cmp::Ordering;
use std::sync::Arc;

use super::resource::Resource;
use super::search::Field;

/// Fields to order by, and whether the order is descending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order(Vec<(Field, bool)>);

impl Order {
    /// Returns the order by ascending id.
    pub(super) fn by_id() -> Self {
        Self(vec![(Field::Id, false)])
    }

    /// Parses `created_time desc, name`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let key = |part: &str| {
            let mut words = part.split_whitespace();
            let field = Field::parse(words.next().unwrap_or_default()).map_err(|error| error.to_string())?;
            let down = match words.next() {
                None => false,
                Some(word) if word.eq_ignore_ascii_case("asc") => false,
                Some(word) if word.eq_ignore_ascii_case("desc") => true,
                Some(word) => return Err(format!("{word} is neither asc nor desc")),
            };
            let plain = !field.is_of_condition() && !matches!(field, Field::Label(_) | Field::Spec(_));
            if words.next().is_some() || !plain {
                return Err(format!("cannot order by {}", part.trim()));
            }
            Ok((field, down))
        };
        text.split(',').map(key).collect::<Result<_, _>>().map(Self)
    }

    /// Returns one page of rows that are ordered by id. Only in that order does a page cost less than all rows.
    pub(super) fn page(&self, rows: &[Arc<Resource>], skip: usize, size: usize) -> Vec<Arc<Resource>> {
        match self.0.first() {
            Some((Field::Id, false)) => rows.iter().skip(skip).take(size).cloned().collect(),
            Some((Field::Id, true)) => rows.iter().rev().skip(skip).take(size).cloned().collect(),
            _ => {
                let mut sorted: Vec<&Arc<Resource>> = rows.iter().collect();
                sorted.sort_by(|one, other| self.compare(one, other));
                sorted.into_iter().skip(skip).take(size).cloned().collect()
            }
        }
    }

    /// Resources without a value are last.
    fn compare(&self, one: &Resource, other: &Resource) -> Ordering {
        self.0.iter().fold(Ordering::Equal, |so_far, (field, down)| {
            so_far.then_with(|| {
                let upwards = match (field.of(one), field.of(other)) {
                    (Some(one), Some(other)) => one.compare(&other).unwrap_or(Ordering::Equal),
                    (one, other) => other.is_some().cmp(&one.is_some()),
                };
                if *down { upwards.reverse() } else { upwards }
            })
        })
    }
}
