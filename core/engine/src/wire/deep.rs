//! Reads objects that nest deeper than a JSON parser follows, as an API server accepts them.
//!
//! One such object must not make a list or a watch of its kind fail for everyone. A field that nests too deeply is replaced by a text:
//! whatever reads it reports the text, and does not take the object for another one.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The levels of a field that are read. The parser follows 127, including those around the object in a list.
const LEVELS_MAX: u8 = 100;

/// What a field contains that nests deeper.
pub(super) const TOO_DEEP: &str = "it nests more than 100 levels deep, so it can't be read";

/// An object whose fields are read as far as they do not nest too deeply. In the metadata, only the record of managed fields can, and it
/// is left out.
#[derive(Debug, Clone, Default)]
pub struct ReadObject(pub Map<String, Value>);

impl<'de> Deserialize<'de> for ReadObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields { is_metadata: false }).map(Self)
    }
}

/// The fields of an object, or of its metadata.
struct Fields {
    is_metadata: bool,
}

impl<'de> Visitor<'de> for Fields {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            let value = if !self.is_metadata && name == "metadata" {
                Some(access.next_value_seed(Metadata)?)
            } else {
                let value = access.next_value_seed(Levels(LEVELS_MAX))?;
                value.or_else(|| (!self.is_metadata).then(|| Value::from(TOO_DEEP)))
            };
            fields.extend(value.map(|value| (name, value)));
        }
        Ok(fields)
    }
}

/// The metadata of an object.
struct Metadata;

impl<'de> DeserializeSeed<'de> for Metadata {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(Fields { is_metadata: true }).map(Value::Object)
    }
}

/// A value that nests at most this many levels, or nothing.
#[derive(Clone, Copy)]
struct Levels(u8);

impl Levels {
    fn below(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

impl<'de> DeserializeSeed<'de> for Levels {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Levels {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Some(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Some(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Some(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Some(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Some(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Self::Value, E> {
        Ok(Some(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut values = self.below().map(|levels| (levels, Vec::new()));
        while let Some((levels, known)) = &mut values {
            match access.next_element_seed(*levels)? {
                None => return Ok(values.map(|(_, known)| known.into())),
                Some(Some(value)) => known.push(value),
                Some(None) => values = None,
            }
        }
        while access.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut fields = self.below().map(|levels| (levels, Map::new()));
        while let Some((levels, known)) = &mut fields {
            let Some(name) = access.next_key::<String>()? else {
                return Ok(fields.map(|(_, known)| known.into()));
            };
            match access.next_value_seed(*levels)? {
                Some(value) => drop(known.insert(name, value)),
                None => fields = None,
            }
        }
        while access.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> serde_json::Result<Value> {
        serde_json::from_str::<ReadObject>(text).map(|object| Value::Object(object.0))
    }

    fn nested(levels: usize) -> String {
        let around: Vec<_> =
            (0..levels).map(|n| if n % 2 == 0 { ("[", "]") } else { ("{\"a\":", "}") }).collect();
        let open: String = around.iter().map(|(open, _)| *open).collect();
        let close: String = around.iter().rev().map(|(_, close)| *close).collect();
        format!("{open}1{close}")
    }

    #[test]
    fn what_nests_too_deeply_is_replaced_by_a_text() {
        let text = |spec: &str, managed: &str| {
            format!(
                r#"{{"metadata":{{"managedFields":{managed},"name":"a"}},"spec":{{"a":[{spec},2],"b":3}},"status":{{"c":4}}}}"#
            )
        };
        let expected = |spec: Value, managed: Option<Value>| {
            let mut metadata = json!({ "name": "a" });
            if let Some(managed) = managed {
                metadata["managedFields"] = managed;
            }
            json!({ "metadata": metadata, "spec": spec, "status": { "c": 4 } })
        };
        let deepest: Value = serde_json::from_str(&nested(98)).unwrap();
        let whole = json!({ "a": [deepest, 2], "b": 3 });
        assert_eq!(read(&text(&nested(98), "[]")).unwrap(), expected(whole.clone(), Some(json!([]))));
        for levels in [99, 200, 10_000] {
            let deep = nested(levels);
            assert_eq!(read(&text(&deep, "[]")).unwrap(), expected(json!(TOO_DEEP), Some(json!([]))));
            assert_eq!(read(&text(&nested(98), &nested(levels + 2))).unwrap(), expected(whole.clone(), None));
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let deep = nested(200);
        let texts = [
            "",
            "1",
            "[]",
            &deep,
            &format!("{{\"a\":{deep}"),
            &format!("{{\"a\":{deep},\"b\":x}}"),
            "{\"metadata\":1}",
        ];
        for text in texts {
            assert!(read(text).is_err(), "{text}");
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn everything_else_is_read_as_it_is(spec in values()) {
            let object = json!({ "kind": "A", "metadata": { "labels": { "a": "b" } }, "spec": spec });
            prop_assert_eq!(read(&object.to_string()).unwrap(), object);
        }
    }
}
