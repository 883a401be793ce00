use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Returns the variables `team` and `home`.
fn variables() -> Variables {
    Variables::read(&json!([
        { "name": "team", "expression": "namespaceObject.metadata.labels[\"team\"]" },
        { "name": "home", "expression": "namespaceObject.metadata.name" },
        { "name": "odd", "expression": "1 + 1" },
    ]))
}

fn map(data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
}

fn filled(resource: &Value) -> Value {
    super::filled(resource, &BTreeMap::from([("team", "red"), ("home", "${team}")]))
}

#[test]
fn placeholders_are_replaced_and_escaped_ones_are_not() {
    for (text, expected) in [
        ("${team}", "red"),
        ("the ${team}-${team} team", "the red-red team"),
        ("$${team}", "${team}"),
        ("$$${team} $${", "$${team} ${"),
        ("$team $$ }{", "$team $$ }{"),
        ("${home}", "${team}"),
        ("ä${team}ä", "äredä"),
        ("", ""),
    ] {
        assert_eq!(filled(&map(&json!({ "a": text })))["data"]["a"], expected, "{text}");
    }
}

#[test]
fn values_are_replaced_everywhere_but_in_what_identifies_the_object_and_in_secrets() {
    let resource = |kind: &str, text: &str, fixed: &str| {
        json!({
            "apiVersion": "v1", "kind": kind, "data": { "a": if kind == "Secret" { fixed } else { text } },
            "metadata": { "name": fixed, "labels": { "team": text }, "annotations": { "a.b/c": text } },
            "spec": { "list": [{ "text": text }, text, 1, null, true], "name": text },
        })
    };
    for kind in ["ConfigMap", "Secret"] {
        let template = resource(kind, "${team}", "${fixed}");
        assert_eq!(filled(&template), resource(kind, "red", "${fixed}"));
    }
}

#[test]
fn the_variables_of_a_resource_are_known() {
    let used = |text: &str| used(&map(&json!({ "a": text })), &variables());
    assert_eq!(used("plain, $team"), Ok(None));
    assert_eq!(used("$${team}"), Ok(Some(BTreeSet::new())), "it has to be written without the first $");
    let names = ["home", "team"].map(str::to_owned);
    assert_eq!(used("${team}${home}${team}"), Ok(Some(BTreeSet::from(names))));
}

#[test]
fn what_can_t_be_replaced_is_named_with_its_place_and_remedy() {
    let secret = |field: &str, text: &str| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" }, field: { "pin": text } });
    let long = format!("${{{}}}", "x".repeat(1000));
    let mistakes = [
        map(&json!({ "a": "${tem}" })),
        map(&json!({ "a": ["b", { "c.d": "${HOME:-/}" }] })),
        map(&json!({ "a": "${team" })),
        map(&json!({ "a": long })),
        map(&json!({ "a": "${odd}" })),
        map(&json!({ "${team}": "a" })),
        secret("stringData", "${team}"),
        secret("data", "${team}"),
    ];
    let messages = mistakes.map(|it| used(&it, &variables()).expect_err("a mistake"));
    insta::assert_snapshot!(messages.join("\n"));
    for fine in [map(&json!({ "${tem}": "a" })), secret("stringData", "${HOME}")] {
        assert_eq!(used(&fine, &variables()), Ok(None), "{fine}");
    }
}

#[test]
fn names_are_kept_and_nothing_else() {
    let object = |metadata: &Value| json!({ "apiVersion": "v1", "kind": "Widget", "metadata": metadata });
    let annotated = object(&json!({ "name": "a", "annotations": { "name": "${team}" } }));
    let in_spec = json!({ "apiVersion": "v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": { "name": "${team}" } });
    for object in [annotated, in_spec] {
        assert_eq!(used(&object, &variables()), Ok(Some(BTreeSet::from(["team".to_owned()]))), "{object}");
        let filled = filled(&object);
        assert!(filled.to_string().contains("\"name\":\"red\""), "{filled}");
    }
    assert_eq!(
        used(&object(&json!({ "name": "${team}" })), &variables()),
        Ok(None),
        "its name is checked elsewhere"
    );
}

proptest! {
    /// No text is lost, and what looks like a placeholder in a value is not replaced again.
    #[test]
    fn any_text_is_filled(text in "([a-z$ ]|\\$\\{|\\}|ä){0,24}", value in "[${}a-z]{0,8}") {
        let filled = super::filled(&map(&json!({ "a": text })), &BTreeMap::from([("a", value.as_str())]));
        let plain = !text.contains("${");
        prop_assert!(!plain || filled["data"]["a"] == text);
        let escaped = map(&json!({ "a": text.replace("${", "$${") }));
        let unescaped = super::filled(&escaped, &BTreeMap::new());
        prop_assert_eq!(&unescaped["data"]["a"], &json!(text));
    }
}
