//! The shard: which resources belong to a Sentinel, by their labels.
//!
//! Source: HyperFleet Sentinel, "Sharding Architecture", "Config Loader" (`BuildLabelSelector`).

use std::collections::BTreeMap;
use std::fmt;

use lockstep_crds::sentinel::ShardSelector;

/// A label selector: all requirements must hold; without any it selects everything. Requirements are in the order of their keys,
/// as Kubernetes orders them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Operator {
    Equals(String),
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

/// The limits of Kubernetes for the prefix of a label's key, its name, and its value, in bytes.
const PREFIX_MAX: usize = 253;
const NAME_MAX: usize = 63;

/// The longest search that the released API accepts, in bytes.
const SEARCH_MAX: usize = 4096;
/// The rest of a search besides the selector: the position in the list, which is at most two ids, and the kind, which the API
/// adds.
const RESERVED: usize = 2 * (ID_MAX + 32) + 32;
/// The maximum number of comparisons in a search. With 60, a page of 20,000 resources takes the API 9 s, and without any 25
/// ms.
const COMPARISONS_MAX: usize = 16;
/// The longest comparison with what joins it to others, in bytes.
const COMPARISON_MAX: usize = " and (labels.='')".len() + 2 * NAME_MAX;
/// The maximum length of an id in a search, in bytes. The API uses UUIDs, of 36 bytes.
const ID_MAX: usize = 128;

// So no search is too long.
const _: () = assert!(COMPARISONS_MAX * COMPARISON_MAX + RESERVED <= SEARCH_MAX);

impl Selector {
    /// Parses the selector of a configuration. The error lists every problem, with its path below `spec`.
    pub fn read(selector: &ShardSelector) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let mut requirements = Vec::new();
        let field = "spec.shardSelector.matchLabels";
        for (key, value) in &selector.match_labels {
            problems.extend(key_problem(key).map(|problem| format!("{field}: the key {key:?} {problem}")));
            let problem = value_problem(value);
            problems.extend(problem.map(|problem| format!("{field}[{key}]: the value {value:?} {problem}")));
            requirements.push(Requirement { key: key.clone(), operator: Operator::Equals(value.clone()) });
        }
        for (index, term) in selector.match_expressions.iter().enumerate() {
            let at = format!("spec.shardSelector.matchExpressions[{index}]");
            let (key, values) = (&term.key, term.values.clone());
            problems.extend(key_problem(key).map(|problem| format!("{at}.key: {key:?} {problem}")));
            for value in &values {
                let problem = value_problem(value);
                problems.extend(problem.map(|problem| format!("{at}.values: {value:?} {problem}")));
            }
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
            requirements.push(Requirement { key: key.clone(), operator });
        }
        requirements.sort();
        if problems.is_empty() { Ok(Self { requirements }) } else { Err(problems) }
    }

    /// Returns whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns whether a resource with these labels belongs to the shard.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|Requirement { key, operator }| {
            let value = labels.get(key);
            match operator {
                Operator::Equals(wanted) => value == Some(wanted),
                Operator::In(values) => value.is_some_and(|value| values.contains(value)),
                // As in Kubernetes, a resource without the label matches NotIn.
                Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }

    /// Returns the selector as a search of the released API, which may find more than the shard. Only terms that narrow the
    /// list are sent: equality and In, of keys and values that every release parses. Their number is bounded, because the API
    /// compares each resource again for each page. [`Self::matches`] evaluates all other terms.
    pub fn search(&self) -> String {
        let (mut search, mut comparisons) = (String::new(), 0);
        for requirement in &self.requirements {
            let Some((term, count)) = requirement.search() else { continue };
            if comparisons + count <= COMPARISONS_MAX {
                comparisons += count;
                search.push_str(if search.is_empty() { "" } else { " and " });
                search.push_str(&term);
            }
        }
        search
    }
}

impl Requirement {
    /// Returns the requirement as a term of a search, with the number of its comparisons; `None` if it is not sent.
    fn search(&self) -> Option<(String, usize)> {
        let key = &self.key;
        // A hyphen is parsed as a minus, and keys can't be quoted; release 0.3.0 refuses dots, slashes and capitals.
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !key.chars().all(is_plain) || !key.starts_with(|c: char| c.is_ascii_lowercase()) {
            return None;
        }
        let values = match &self.operator {
            Operator::Equals(value) => std::slice::from_ref(value),
            Operator::In(values) => values,
            Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist => return None,
        };
        let equal = values.iter().map(|value| Some(format!("labels.{key}={}", quoted(value)?)));
        let equal = equal.collect::<Option<Vec<_>>>()?;
        // Release 0.3.0 does not support lists.
        let term = equal.join(" or ");
        Some((if equal.len() == 1 { term } else { format!("({term})") }, equal.len()))
    }
}

/// Returns an id as a string of the search language.
pub(super) fn quoted_id(id: &str) -> Option<String> {
    quoted(id).filter(|quoted| quoted.len() <= ID_MAX)
}

/// Returns what is wrong with the key of a label, by the rules of Kubernetes.
fn key_problem(key: &str) -> Option<String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if name.is_empty() || !is_name(name) {
        return Some(format!(
            "is not a label key: the name must have 1 to {NAME_MAX} letters, digits, \"-\", \"_\" and \".\", and begin and end with a letter or digit"
        ));
    }
    let is_part = |part: &str| {
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(is_inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    let is_domain = |prefix: &str| prefix.len() <= PREFIX_MAX && prefix.split('.').all(is_part);
    prefix.filter(|prefix| !is_domain(prefix)).map(|_| {
        "is not a label key: the prefix before \"/\" must be a DNS subdomain, such as example.com".to_owned()
    })
}

/// Returns the same for a value, which may be empty.
fn value_problem(value: &str) -> Option<String> {
    let problem = || {
        format!(
            "is not a label value: it must have at most {NAME_MAX} letters, digits, \"-\", \"_\" and \".\", and begin and end with a letter or digit"
        )
    };
    (!value.is_empty() && !is_name(value)).then(problem)
}

fn is_name(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_end = |c: char| c.is_ascii_alphanumeric();
    text.len() <= NAME_MAX && text.chars().all(is_inner) && text.starts_with(is_end) && text.ends_with(is_end)
}

/// Returns a string of the search language. An empty one can't be written.
fn quoted(text: &str) -> Option<String> {
    if text.is_empty() || text.contains('\\') {
        return None;
    }
    Some(format!("'{}'", text.replace('\'', "\\'")))
}

impl fmt::Display for Selector {
    /// Writes the selector as `labels.Selector` of Kubernetes does, which sorts keys and values; empty if it selects
    /// everything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sorted = |values: &[String]| {
            let mut values = values.to_vec();
            values.sort();
            values.join(",")
        };
        for (index, Requirement { key, operator }) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match operator {
                Operator::Equals(value) => write!(f, "{key}={value}")?,
                // `in ()` could be written, but not parsed.
                Operator::In(values) if *values == [""] => write!(f, "{key}=")?,
                Operator::NotIn(values) if *values == [""] => write!(f, "{key}!=")?,
                Operator::In(values) => write!(f, "{key} in ({})", sorted(values))?,
                Operator::NotIn(values) => write!(f, "{key} notin ({})", sorted(values))?,
                Operator::Exists => f.write_str(key)?,
                Operator::DoesNotExist => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
