//! Digests: short texts that identify a value.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Returns a short digest of a JSON value that does not depend on the order of its fields.
pub fn digest(value: &Value) -> String {
    // One long text is hashed faster than its many parts.
    let mut text = Vec::new();
    write(&mut text, value);
    let digest = Sha256::digest(&text);
    digest.iter().take(8).fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn write(text: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Object(fields) => {
            let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(field, _)| *field);
            text.push(b'{');
            for (field, value) in sorted {
                serde_json::to_writer(&mut *text, field).expect("memory takes everything");
                write(text, value);
            }
            text.push(b'}');
        }
        Value::Array(items) => {
            text.push(b'[');
            for (index, item) in items.iter().enumerate() {
                // Everything else shows by itself where it begins and ends.
                if item.is_number() && index > 0 && items[index - 1].is_number() {
                    text.push(b',');
                }
                write(text, item);
            }
            text.push(b']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            serde_json::to_writer(text, value).expect("memory takes everything");
        }
    }
}

/// Returns a text of at most `max_bytes`: the text itself if it is short enough, else its beginning followed by a digest of
/// the whole.
pub fn shortened(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let digest = &digest(&text.into())[..8];
    let kept = &text[..text.floor_char_boundary(max_bytes.saturating_sub(digest.len() + 1))];
    format!("{}-{digest}", kept.trim_end_matches(['-', '.', '_']))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_fields_does_not_matter() {
        let (a, b) = (json!({ "a": 1, "b": [1, 2] }), json!({ "b": [1, 2], "a": 1 }));
        assert_eq!(digest(&a), digest(&b));
        assert_ne!(digest(&a), digest(&json!({ "a": 1, "b": [2, 1] })));
    }

    /// Returns lists of what could run into one another in a text.
    fn any_list() -> impl Strategy<Value = Value> {
        let item = prop_oneof![
            (0..200_i64).prop_map(Value::from),
            (-200..200_i32).prop_map(|tenths| json!(f64::from(tenths) / 10.0)),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null),
            "[0-9,]{0,2}".prop_map(Value::from),
        ];
        let list = prop::collection::vec(item, 0..4).prop_map(Value::from);
        list.prop_recursive(2, 8, 3, |inner| prop::collection::vec(inner, 0..3).prop_map(Value::from))
    }

    #[test]
    fn numbers_in_a_row_are_separate() {
        let lists = [json!([22, 80]), json!([2280]), json!([2, 280]), json!([22, "80"]), json!([[22], [80]])];
        let digests: std::collections::BTreeSet<String> = lists.iter().map(digest).collect();
        assert_eq!(digests.len(), lists.len());
    }

    proptest! {
        #[test]
        fn different_lists_have_different_digests(a in any_list(), b in any_list()) {
            prop_assert_eq!(digest(&a) == digest(&b), a == b);
        }

        #[test]
        fn what_is_shortened_fits_and_still_differs(text in "[a-z0-9-]{1,100}", other in "[a-z0-9-]{1,100}") {
            prop_assert!(shortened(&text, 53).len() <= 53);
            prop_assert_eq!(shortened(&text, 53) == shortened(&other, 53), text == other);
        }
    }
}
