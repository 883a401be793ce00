use serde_json::json;

use super::*;

#[test]
fn a_status_is_no_change() {
    let object = |generation: i64, status: &str, annotations: &Value| {
        let metadata = json!({ "uid": "a", "generation": generation, "annotations": annotations });
        json!({ "metadata": metadata, "status": { "note": status } })
    };
    let none = json!({});
    let class = |generation, status, annotations: &Value| {
        Class::read(&Arc::new(object(generation, status, annotations)))
    };
    assert!(class(1, "a", &none).is_same(&class(1, "b", &none)));
    assert!(!class(1, "a", &none).is_same(&class(2, "a", &none)));
    let binding = |generation, status| Binding::read(&object(generation, status, &none));
    assert!(binding(1, "a").is_same(&binding(1, "b")));
    assert!(!binding(1, "a").is_same(&binding(2, "a")));
    let mut deleted = object(1, "a", &none);
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert!(!binding(1, "a").is_same(&Binding::read(&deleted)));
}

#[test]
fn an_asterisk_in_a_pattern_is_any_text() {
    for (pattern, text, expected) in [
        ("kube-system", "kube-system", true),
        ("kube-system", "kube-systems", false),
        ("kube-*", "kube-system", true),
        ("kube-*", "my-kube-system", false),
        ("*-system", "lockstep-system", true),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c", false),
        ("*", "", true),
        ("ab*ba", "aba", false),
        ("a**b", "ab", true),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
    // A search that tried every place for every asterisk would not end.
    assert!(!matches(&"*a".repeat(31), &format!("{}b", "a".repeat(62))));
}
