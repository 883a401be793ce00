//! The permissions of a project.

use lockstep_engine::object::ObjectRef;
use serde_json::Value;

use super::destination::Destination;
use super::model::{NAMESPACE, project_kind};
use crate::read_view::ReadView;

/// Returns the project of an Application.
pub(super) fn of<'a>(look: &ReadView<'a>, application: &Value) -> Option<&'a Value> {
    let name = application["spec"]["project"].as_str().unwrap_or_default();
    look.get(&ObjectRef::namespaced(&project_kind(), NAMESPACE, name))
}

/// Returns whether its Applications may use charts from a repository.
pub(super) fn permits_source(project: &Value, repository: &str) -> bool {
    let patterns = project["spec"]["sourceRepos"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let (denied, allowed): (Vec<&str>, _) = patterns.partition(|pattern| pattern.starts_with('!'));
    !denied.iter().any(|pattern| is_like(&pattern[1..], repository))
        && allowed.iter().any(|pattern| is_like(pattern, repository))
}

/// Returns whether its Applications may use a namespace of a cluster.
pub(super) fn permits_destination(project: &Value, destination: &Destination<'_>, namespace: &str) -> bool {
    let entries = project["spec"]["destinations"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut is_permitted = false;
    for entry in entries {
        let (server, name, within) =
            (text(&entry["server"]), text(&entry["name"]), text(&entry["namespace"]));
        let is_cluster =
            |pattern: &str, of: &str| !pattern.is_empty() && !of.is_empty() && is_like(pattern, of);
        let denies = [&server, &name, &within].into_iter().any(|pattern| pattern.starts_with('!'));
        if denies {
            // A denied cluster or namespace is denied, whatever the entry's other fields are.
            let out =
                |pattern: &str, of: &str| pattern.strip_prefix('!').is_some_and(|denied| is_like(denied, of));
            if out(&server, &destination.server) || out(&name, &destination.name) || out(&within, namespace) {
                return false;
            }
        } else if (is_cluster(&server, &destination.server) || is_cluster(&name, &destination.name))
            && is_like(&within, namespace)
        {
            is_permitted = true;
        }
    }
    is_permitted
}

/// Returns whether a text matches a glob pattern: `*` matches any text, `?` one character, brackets one of the characters in
/// them, and a backslash escapes the next character.
fn is_like(pattern: &str, text: &str) -> bool {
    let mut rest = pattern.chars();
    let begins_with =
        |letter: char, rest: &str| text.strip_prefix(letter).is_some_and(|left| is_like(rest, left));
    match rest.next() {
        None => text.is_empty(),
        Some('*') => (0..=text.len())
            .filter(|at| text.is_char_boundary(*at))
            .any(|at| is_like(rest.as_str(), &text[at..])),
        Some('?') => text.chars().next().is_some_and(|any| begins_with(any, rest.as_str())),
        Some('[') => rest
            .as_str()
            .split_once(']')
            .is_some_and(|(class, rest)| class.chars().any(|letter| begins_with(letter, rest))),
        Some('\\') => rest.next().is_some_and(|letter| begins_with(letter, rest.as_str())),
        Some(letter) => begins_with(letter, rest.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_are_those_of_argo_cd() {
        let table = [
            ("*", "", true),
            ("*", "https://a:6443", true),
            ("https://a:6443", "https://a:6443", true),
            ("https://a:6443", "https://a:6443/", false),
            ("https://*.example.com", "https://a.example.com", true),
            ("https://*.example.com", "https://a.example.org", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxcyyb", false),
            ("", "a", false),
            ("a?c", "abc", true),
            ("a?", "a", false),
            ("https://[fd00::1]:6443", "https://[fd00::1]:6443", false),
            ("https://[fd00::1]:6443", "https://f:6443", true),
            ("https://\\[fd00::1\\]:6443", "https://[fd00::1]:6443", true),
            ("\\*", "a", false),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(is_like(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn destinations_are_permitted_by_server_or_name_and_denied_by_an_exclamation_mark() {
        let secret = json!({});
        let destination = Destination::for_tests(&secret, "https://a:6443", "dpus");
        let table = [
            (json!([]), false),
            (json!([{ "server": "https://a:6443", "namespace": "*" }]), true),
            (json!([{ "server": "https://b:6443", "namespace": "*" }]), false),
            (json!([{ "server": "https://a:6443", "namespace": "other" }]), false),
            (json!([{ "server": "https://a:6443" }]), false),
            (json!([{ "name": "dpus", "namespace": "default" }]), true),
            (json!([{ "name": "other", "namespace": "default" }]), false),
            (
                json!([{ "server": "*", "namespace": "*" }, { "server": "!https://a:6443", "namespace": "*" }]),
                false,
            ),
            (
                json!([{ "server": "*", "namespace": "*" }, { "server": "!https://b:6443", "namespace": "*" }]),
                true,
            ),
            (json!([{ "server": "*", "namespace": "!default" }, { "server": "*", "namespace": "*" }]), false),
        ];
        for (destinations, expected) in table {
            let project = json!({ "spec": { "destinations": destinations } });
            assert_eq!(permits_destination(&project, &destination, "default"), expected, "{project}");
        }
    }

    #[test]
    fn sources_are_permitted_by_pattern() {
        let project =
            json!({ "spec": { "sourceRepos": ["https://*.example.com/*", "!https://b.example.com/*"] } });
        assert!(permits_source(&project, "https://a.example.com/charts"));
        assert!(!permits_source(&project, "https://b.example.com/charts"));
        assert!(!permits_source(&project, "https://a.example.org/charts"));
        assert!(!permits_source(&json!({ "spec": {} }), "https://a.example.com/charts"));
    }
}
