//! The subset of `JSONPath` in printer columns: fields, indexes, wildcards and comparisons.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// `?(@.path==value)`, with the value as text.
    Filter {
        path: String,
        equal: bool,
        value: String,
    },
}

/// Returns all values at a path such as `.status.conditions[?(@.type=="Ready")].status`; none if it is malformed.
pub(super) fn find<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let Some(steps) = parse(path) else { return Vec::new() };
    let mut found = vec![object];
    for step in &steps {
        found = found.into_iter().flat_map(|value| apply(value, step)).collect();
    }
    found
}

fn apply<'a>(value: &'a Value, step: &Step) -> Vec<&'a Value> {
    match (step, value) {
        (Step::Field(name), _) => value.get(name).into_iter().collect(),
        (Step::Index(index), Value::Array(list)) => {
            let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
            let index = if *index < 0 { length + index } else { *index };
            usize::try_from(index).ok().and_then(|index| list.get(index)).into_iter().collect()
        }
        (Step::All, Value::Array(list)) => list.iter().collect(),
        (Step::All, Value::Object(map)) => map.values().collect(),
        (Step::Filter { path, equal, value: wanted }, Value::Array(list)) => {
            let matches = |item: &&Value| {
                let found = find(item, path);
                let same = found.first().is_some_and(|found| match found {
                    Value::String(text) => text == wanted,
                    other => other.to_string() == *wanted,
                });
                !found.is_empty() && same == *equal
            };
            list.iter().filter(matches).collect()
        }
        _ => Vec::new(),
    }
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after)?;
            steps.push(bracket(&after[..end])?);
            rest = &after[end + 1..];
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let mut name = String::new();
            let mut chars = rest.char_indices();
            let mut end = rest.len();
            while let Some((index, c)) = chars.next() {
                match c {
                    '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
                    '.' | '[' => {
                        end = index;
                        break;
                    }
                    c => name.push(c),
                }
            }
            if end == 0 {
                return None;
            }
            steps.push(if name == "*" { Step::All } else { Step::Field(name) });
            rest = &rest[end..];
        }
    }
    Some(steps)
}

/// Returns the index of the closing bracket, outside quotes.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    text.char_indices().find_map(|(index, c)| match (quote, c) {
        (Some(open), c) if c == open => {
            quote = None;
            None
        }
        (None, '"' | '\'') => {
            quote = Some(c);
            None
        }
        (None, ']') => Some(index),
        _ => None,
    })
}

fn bracket(text: &str) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')')) {
        let unequal = filter.split_once("!=").map(|(path, value)| (path, false, value));
        let equal = || filter.split_once("==").map(|(path, value)| (path, true, value));
        let (path, equal, value) = unequal.or_else(equal)?;
        let path = path.trim().strip_prefix('@')?.to_owned();
        return Some(Step::Filter { path, equal, value: unquote(value.trim()).to_owned() });
    }
    match text.parse() {
        Ok(index) => Some(Step::Index(index)),
        Err(_) => Some(Step::Field(unquote(text).to_owned())),
    }
}

fn unquote(text: &str) -> &str {
    let strip = |quote: char| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    strip('"').or_else(|| strip('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_values() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "x"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
        });
        let texts = |path: &str| -> Vec<String> {
            find(&object, path).iter().map(|value| value.as_str().unwrap_or("?").to_owned()).collect()
        };
        assert_eq!(texts(r#".status.conditions[?(@.type=="Ready")].status"#), ["True"]);
        assert_eq!(texts(".status.conditions[*].type"), ["Ready", "Other"]);
        assert_eq!(texts(".status.conditions[-1].type"), ["Other"]);
        assert_eq!(texts(r".metadata.labels.a\.b/c"), ["x"]);
        assert_eq!(texts(".metadata.labels['a.b/c']"), ["x"]);
        for malformed in ["..", ".a[", ".a[?(", "[?(@.a)]", ".."] {
            assert!(texts(malformed).is_empty(), "{malformed}");
        }
    }
}
