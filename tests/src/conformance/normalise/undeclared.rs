//! Errors of an apply about fields that the type does not declare.
//!
//! The server checks the fields of a map in a random order, and stops at the first undeclared one. So it reports one of several,
//! and any errors of other fields that it has checked before.

use serde_json::Value;

const UNDECLARED: &str = ": field not declared in schema";

/// Names all fields of a map in the body instead of the undeclared one that a message reports, and removes the other errors in that
/// map. Returns none if nothing in the message is random.
pub(super) fn settle(message: &str, body: &Value) -> Option<String> {
    let (head, errors) = message.split_once("): ")?;
    let errors: Vec<&str> = match errors.strip_prefix("errors:\n") {
        Some(lines) => lines.split('\n').map(str::trim_start).collect(),
        None => vec![errors],
    };
    let random: Vec<(&str, String)> = errors.iter().filter_map(|error| random(error, body)).collect();
    if random.is_empty() {
        return None;
    }
    let is_in = |error: &str, map: &str| error.strip_prefix(map).is_some_and(|rest| rest.starts_with('.'));
    let others = errors.into_iter().filter(|error| !random.iter().any(|(map, _)| is_in(error, map)));
    let mut lines: Vec<String> = others.map(str::to_owned).collect();
    lines.extend(random.iter().map(|(_, error)| error.clone()));
    lines.sort_unstable();
    Some(format!("{head}): errors:\n{}", lines.join("\n")))
}

/// Returns the map with an undeclared field, and the error with all fields of that map, if it has several.
fn random<'e>(error: &'e str, body: &Value) -> Option<(&'e str, String)> {
    let (map, name) = error.strip_suffix(UNDECLARED)?.rsplit_once('.')?;
    let fields = body.pointer(&map.replace('.', "/"))?.as_object()?;
    if fields.len() < 2 || !fields.contains_key(name) {
        return None;
    }
    let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
    names.sort_unstable();
    Some((map, format!("{map}.({}){UNDECLARED}", names.join(" or "))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_of_several_fields_represents_all() {
        let body = json!({"metadata": {"name": "a"}, "spec": {"x": 1, "y": 1, "size": "1"}, "other": {}});
        let head = "failed to create typed patch object (/a; g/v, Kind=K)";
        let all = format!("{head}: errors:\n.spec.(size or x or y){UNDECLARED}");
        for error in [".spec.x: field not declared in schema", ".spec.y: field not declared in schema"] {
            assert_eq!(settle(&format!("{head}: {error}"), &body).as_deref(), Some(&*all));
        }
        let several = format!("{head}: errors:\n  .spec.size: expected numeric\n  .spec.y{UNDECLARED}");
        assert_eq!(settle(&several, &body).as_deref(), Some(&*all));
        let elsewhere = format!("{head}: errors:\n  .other: expected\n  .spec.y{UNDECLARED}");
        assert_ne!(settle(&elsewhere, &body).as_deref(), Some(&*all));
        for exact in [".metadata.name", ".spec.z", ".status.x", ".spec.x.y"] {
            assert_eq!(settle(&format!("{head}: {exact}{UNDECLARED}"), &body), None);
        }
        assert_eq!(settle(&format!("{head}: .spec.size: expected numeric"), &body), None);
    }
}
