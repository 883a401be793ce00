use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn fields() -> Arc<Fields> {
    Arc::new(Fields::at(["total", "items.id", "items.labels", "items.status.phase", "id", "status.phase"]))
}

/// Returns the kept text of a document that arrives in chunks of these sizes, in turn.
fn condensed(text: &[u8], sizes: &[usize]) -> String {
    let mut condenser = Condenser::new(&fields());
    let (mut rest, mut sizes) = (text, sizes.iter().cycle());
    while !rest.is_empty() {
        let (chunk, more) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
        condenser.push(chunk).unwrap();
        rest = more;
    }
    assert_eq!(condenser.came(), text.len());
    condenser.finish().unwrap().text().into_owned()
}

/// Returns the value that should be kept, computed from the whole document.
fn projected(value: Value, fields: &Fields, is_in_list: bool) -> Value {
    match value {
        value if fields.is_all() => value,
        Value::Object(members) => {
            let kept = members.into_iter().filter_map(|(key, value)| {
                let kept = projected(value, fields.0.get(&key)?, false);
                Some((key, kept))
            });
            Value::Object(kept.collect())
        }
        Value::Array(items) if !is_in_list => {
            items.into_iter().map(|item| projected(item, fields, true)).collect()
        }
        value => value,
    }
}

#[test]
fn what_is_not_named_is_left_out() {
    let page = json!({
        "kind": "List",
        "items": [
            { "spec": { "deep": [{ "id": "not this one" }, "}]\"\\", 1.5e3, null] }, "id": "a", "labels": { "x": "y" } },
            { "status": { "conditions": [], "phase": "Ready" }, "id": "b" },
            { "spec": "x".repeat(100_000) },
            "text", 7, null, [1, [2]], {},
        ],
        "total": 8,
    });
    let kept = condensed(page.to_string().as_bytes(), &[64]);
    assert!(kept.len() < 200, "{kept}");
    assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), projected(page, &fields(), false));
}

#[test]
fn names_may_be_escaped() {
    assert_eq!(
        condensed(br#"{"\u0069tems":[{"i\u0064":"a","\u0073pec":1}]}"#, &[1]),
        r#"{"\u0069tems":[{"i\u0064":"a"}]}"#
    );
}

#[test]
fn a_list_alone_is_condensed_too() {
    assert_eq!(condensed(br#" [ {"id" : "a" , "spec" : {} } , {"spec":1} ] "#, &[3]), r#"[{"id":"a"},{}]"#);
}

#[test]
fn without_names_everything_is_kept() {
    for text in ["", " {} ", "<html>", "{\"a\": [", "\u{feff}"] {
        let mut condenser = Condenser::new(&Arc::default());
        condenser.push(text.as_bytes()).unwrap();
        assert_eq!(condenser.finish(), Some(text.into()));
    }
}

#[test]
fn of_what_is_no_list_the_beginning_is_kept() {
    let page = format!("<!DOCTYPE html>{}", "x".repeat(100_000));
    assert_eq!(condensed(page.as_bytes(), &[1000]), page[..BEGINNING_BYTES]);
    // The last character would be cut.
    let page = format!("<{}", "ü".repeat(BEGINNING_BYTES));
    assert_eq!(condensed(page.as_bytes(), &[1000]), page[..BEGINNING_BYTES - 1]);
    assert_eq!(condensed(b"null", &[1]), "null");
    assert_eq!(condensed(b" \n", &[1]), "");
}

#[test]
fn mistakes_stay_mistakes() {
    for text in [
        "{",
        "[",
        "{]",
        "[}",
        "{\"id\":1,}",
        "[1,]",
        "[,]",
        "{,}",
        "{\"spec\":1 \"id\":2}",
        "{\"id\" 1}",
        "{\"id\":}",
        "{\"spec\":}",
        "{} x",
        "{}}",
        "[]]",
        "{\"items\":[{\"id\":\"a\"}",
        "{\"items\":[{\"id\":\"a\"},",
        "{\"items\":[{\"spec\":[1,2",
        "{\"spec\":1,}",
        "{id:1}",
        "[{\"id\":tru}]",
        "{\"spec\"",
        "{\"\\ud800\":1}",
        "{\"\\x\":1}",
    ] {
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
        let kept = condensed(text.as_bytes(), &[1]);
        assert!(serde_json::from_str::<Value>(&kept).is_err(), "{text} became {kept}");
    }
}

#[test]
fn a_document_has_a_limit_and_what_is_kept_another() {
    let part = vec![b' '; 1 << 20];
    let mut condenser = Condenser::new(&fields());
    for _ in 0..DOCUMENT_MAX_BYTES >> 20 {
        condenser.push(&part).unwrap();
    }
    assert_eq!(condenser.push(b" "), Err(TooLong));

    let mut condenser = Condenser::new(&fields());
    condenser.push(br#"{"id":""#).unwrap();
    let part = vec![b'x'; 1 << 20];
    let fits = (0..1000).take_while(|_| condenser.push(&part).is_ok()).count();
    assert_eq!(fits, KEPT_MAX_BYTES >> 20);
}

#[test]
fn what_is_no_text_is_refused() {
    let mut condenser = Condenser::new(&fields());
    condenser.push(b"{\"id\":\"\xff\"}").unwrap();
    assert_eq!(condenser.finish(), None);
}

fn values() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "id", "items", "labels", "status", "phase", "total", "spec", "a\"b", "ü", "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop::sample::select(vec!["\\", "\"", "\\\"", "}", "],", "\n"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::btree_map(name.clone(), inner, 0..6).prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

/// Returns the document of a text that arrives in chunks of this size, with parts of at least this size.
fn in_parts(text: &str, chunk: usize, part_bytes: usize) -> Document {
    let mut condenser = Condenser::with_parts(&fields(), part_bytes);
    for chunk in text.as_bytes().chunks(chunk) {
        condenser.push(chunk).unwrap();
    }
    condenser.finish().unwrap()
}

#[test]
fn each_part_of_a_list_is_a_document() {
    let text = r#"{"total":3,"kind":"List","items":[{"id":"a","spec":1},{"id":"b"},{"id":"c"}],"id":"x"}"#;
    let document = in_parts(text, 7, 0);
    let parts: Vec<_> = (0..document.parts()).map(|part| document.part(part)).collect();
    assert_eq!(
        parts,
        [
            r#"{"total":3,"items":[{"id":"a"}]}"#,
            r#"{"items":[{"id":"b"}]}"#,
            r#"{"items":[{"id":"c"}],"id":"x"}"#
        ]
    );
    assert_eq!(document.text(), r#"{"total":3,"items":[{"id":"a"},{"id":"b"},{"id":"c"}],"id":"x"}"#);
    assert_eq!(serde_json::to_value(&document).unwrap(), json!(document.text()));
    // Parts end where they are large enough, and never within an item.
    assert_eq!(in_parts(text, 7, 40).parts(), 2);
    assert_eq!(in_parts(r#"[{"id":"a","labels":{"x":[1,2,3]}}]"#, 7, 0).parts(), 1);
}

#[test]
fn parts_that_are_no_text_are_refused() {
    let mut condenser = Condenser::with_parts(&fields(), 0);
    condenser.push(b"[{\"id\":\"\xff\"},{\"id\":\"b\"}]").unwrap();
    assert_eq!(condenser.finish(), None);
}

#[test]
fn the_limit_counts_parts_as_they_were_before_their_compression() {
    let mut condenser = Condenser::new(&fields());
    condenser.push(b"[").unwrap();
    let item = format!(r#"{{"id":"{}"}},"#, "x".repeat((1 << 20) - 64));
    let fits = (0..1000).take_while(|_| condenser.push(item.as_bytes()).is_ok()).count();
    assert_eq!(fits, KEPT_MAX_BYTES >> 20);
}

proptest! {
    /// All parts together have the items of the list, in their order, and the text is that of a document without parts.
    #[test]
    fn parts_have_the_items_of_the_whole(
        items in prop::collection::vec(values(), 0..12),
        is_enclosed in any::<bool>(),
        chunk in 1usize..40,
        part_bytes in 0usize..80,
    ) {
        let text = if is_enclosed { json!({ "items": items, "total": 7 }) } else { json!(items) }.to_string();
        let document = in_parts(&text, chunk, part_bytes);
        prop_assert_eq!(document.text(), condensed(text.as_bytes(), &[chunk]));
        let mut found = Vec::new();
        for part in 0..document.parts() {
            let part: Value = serde_json::from_str(&document.part(part)).unwrap();
            let part = if is_enclosed { &part["items"] } else { &part };
            found.extend(part.as_array().unwrap().clone());
        }
        let whole = if is_enclosed { json!({ "items": items }) } else { json!(items) };
        let expected = projected(whole, &fields(), false);
        prop_assert_eq!(&json!(found), if is_enclosed { &expected["items"] } else { &expected });
    }

    /// Without its end, a document in parts has a part that is invalid.
    #[test]
    fn a_truncated_document_has_an_invalid_part(items in prop::collection::vec(values(), 1..6), share in 0.0f64..1.0) {
        let text = json!({ "items": items }).to_string();
        let end = text.len().saturating_sub(1);
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "any place will do")]
        let at = (end as f64 * share) as usize;
        let mut condenser = Condenser::with_parts(&fields(), 0);
        condenser.push(&text.as_bytes()[..at]).unwrap();
        let is_valid = condenser.finish().is_some_and(|document| {
            (0..document.parts()).all(|part| serde_json::from_str::<Value>(&document.part(part)).is_ok())
        });
        prop_assert!(!is_valid);
    }

    /// However a document is split into chunks and wherever it has spaces, a parser finds the named fields, and no others.
    #[test]
    fn a_parser_sees_the_same(value in values(), is_spaced in any::<bool>(), sizes in prop::collection::vec(1usize..20, 1..8)) {
        let text = if is_spaced { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let kept = condensed(text.as_bytes(), &sizes);
        let expected = projected(value, &fields(), false);
        prop_assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), expected);
    }

    /// A truncated document is never accepted as a whole one.
    #[test]
    fn what_breaks_off_stays_broken(value in values(), share in 0.0f64..1.0) {
        let text = json!({ "items": [value] }).to_string();
        let end = text.len().saturating_sub(1);
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "any place will do")]
        let at = (end as f64 * share) as usize;
        let kept = condensed_lossy(&text.as_bytes()[..at]);
        prop_assert!(serde_json::from_slice::<Value>(&kept).is_err());
    }

    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), text in r#"[\[\]{}:," a-z0-9\\]{0,80}"#) {
        let _ = (condensed_lossy(&bytes), condensed_lossy(text.as_bytes()));
    }
}

fn condensed_lossy(bytes: &[u8]) -> Vec<u8> {
    let mut condenser = Condenser::new(&fields());
    condenser.push(bytes).unwrap();
    condenser.finish().map(|document| document.text().into_owned().into_bytes()).unwrap_or_default()
}
