//! The shard: which resources are a Sentinel's own, by their labels.
//!
//! Source: HyperFleet Sentinel, "Sharding Architecture", "Config Loader" (`BuildLabelSelector`).

use std::collections::BTreeMap;
use std::fmt;

use lockstep_crds::sentinel::ShardSelector;

/// A label selector: all requirements must hold; without any it selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

/// The longest search that the released API reads, in characters.
const SEARCH_MAX: usize = 4096;

impl Selector {
    /// Reads the selector of a configuration; every problem that it has, with its place below `spec`.
    pub fn read(selector: &ShardSelector) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let mut requirements = Vec::new();
        for (key, value) in &selector.match_labels {
            if key.is_empty() {
                problems.push("spec.shardSelector.matchLabels: a key is empty; name the label".to_owned());
            }
            requirements.push(Requirement { key: key.clone(), operator: Operator::In(vec![value.clone()]) });
        }
        for (index, term) in selector.match_expressions.iter().enumerate() {
            let at = format!("spec.shardSelector.matchExpressions[{index}]");
            if term.key.is_empty() {
                problems.push(format!("{at}.key: is missing; name the label"));
            }
            let values = term.values.clone();
            let operator = match (term.operator.as_str(), values.is_empty()) {
                ("In", false) => Operator::In(values),
                ("NotIn", false) => Operator::NotIn(values),
                ("Exists", true) => Operator::Exists,
                ("DoesNotExist", true) => Operator::DoesNotExist,
                ("In" | "NotIn", true) => {
                    problems.push(format!("{at}.values: {} needs at least one value", term.operator));
                    continue;
                }
                ("Exists" | "DoesNotExist", false) => {
                    problems.push(format!("{at}.values: {} takes no values; remove them", term.operator));
                    continue;
                }
                (other, _) => {
                    problems.push(format!(
                        "{at}.operator: {other:?} is none of In, NotIn, Exists and DoesNotExist"
                    ));
                    continue;
                }
            };
            requirements.push(Requirement { key: term.key.clone(), operator });
        }
        if problems.is_empty() { Ok(Self { requirements }) } else { Err(problems) }
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether a resource with these labels belongs to the shard.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|Requirement { key, operator }| {
            let value = labels.get(key);
            match operator {
                Operator::In(values) => value.is_some_and(|value| values.contains(value)),
                // As in Kubernetes, what lacks the label is not among the values.
                Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }

    /// As a search of the released API. Terms that it can't express are left out: it may find more than the shard.
    pub fn search(&self) -> String {
        let mut search = String::new();
        for term in self.requirements.iter().filter_map(Requirement::search) {
            let and = if search.is_empty() { "" } else { " and " };
            // Leaves room for the place in the list, which stands before the selector.
            if search.chars().count() + and.len() + term.chars().count() > SEARCH_MAX - 256 {
                continue;
            }
            search.push_str(and);
            search.push_str(&term);
        }
        search
    }
}

impl Requirement {
    fn search(&self) -> Option<String> {
        let key = &self.key;
        // A hyphen is read as a minus, and keys can't be quoted.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/');
        if key.is_empty() || !key.chars().all(is_plain) || !key.starts_with(|c: char| c.is_ascii_alphabetic())
        {
            return None;
        }
        match &self.operator {
            Operator::In(values) if values.len() == 1 => {
                Some(format!("labels.{key}={}", quoted(&values[0])?))
            }
            Operator::In(values) => {
                let values = values.iter().map(|value| quoted(value)).collect::<Option<Vec<_>>>()?;
                Some(format!("labels.{key} in [{}]", values.join(",")))
            }
            Operator::NotIn(values) => {
                let unequal = values.iter().map(|value| Some(format!("labels.{key}!={}", quoted(value)?)));
                let unequal = unequal.collect::<Option<Vec<_>>>()?.join(" and ");
                // A comparison skips what lacks the label.
                Some(format!("(({unequal}) or labels.{key} is null)"))
            }
            Operator::Exists => Some(format!("labels.{key} like '%'")),
            Operator::DoesNotExist => Some(format!("labels.{key} is null")),
        }
    }
}

/// A string of the search language. An empty one can't be written.
pub(super) fn quoted(text: &str) -> Option<String> {
    if text.is_empty() || text.contains('\\') {
        return None;
    }
    Some(format!("'{}'", text.replace('\'', "\\'")))
}

impl fmt::Display for Selector {
    /// As Kubernetes writes selectors; empty for everything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Requirement { key, operator }) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match operator {
                Operator::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0])?,
                Operator::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Operator::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Operator::Exists => f.write_str(key)?,
                Operator::DoesNotExist => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "selector/tests.rs"]
mod tests;
