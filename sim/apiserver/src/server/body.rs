//! Decodes the bytes of a body to an untyped object.

use std::fmt::{self, Write as _};

use lockstep_engine::yaml;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::protobuf;
use super::status::Status;
use crate::cause::text;

/// A body, and its duplicate fields.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<String>,
}

/// Decodes JSON, YAML or protobuf by the media type; without one, JSON is assumed. `kind` is the expected kind.
pub(crate) fn decode(media_type: &str, bytes: &[u8], kind: &str) -> Result<Body, Status> {
    match media_type {
        "" | "application/json" | "*/*" => object(bytes).map_err(|why| unrecognized(kind, &why, bytes)),
        "application/yaml" => yaml(bytes).map_err(Status::bad_request),
        protobuf::MEDIA_TYPE => {
            let value = protobuf::decode(bytes).map_err(Status::bad_request)?;
            Ok(Body { value, duplicates: Vec::new() })
        }
        _ => Err(Status::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Returns the answer to a body that is not an object; it quotes the beginning of the body.
pub(crate) fn unrecognized(kind: &str, why: &str, bytes: &[u8]) -> Status {
    const SHOWN_BYTES: usize = 30;
    let (shown, more) = match bytes.split_at_checked(SHOWN_BYTES) {
        Some((shown, rest)) if !rest.is_empty() => (shown, " ..."),
        _ => (bytes, ""),
    };
    let shown = match shown.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(shown).into_owned(),
        Some(_) => shown.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes all writes");
            text
        }),
    };
    let shown = format!("{shown}{more}");
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
    ))
}

/// Decodes JSON and checks that it is an object, and that `apiVersion` and `kind` are strings if present. The error is the
/// server's message.
pub(crate) fn object(bytes: &[u8]) -> Result<Body, String> {
    let unknown = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let body = json(bytes).map_err(unknown)?;
    check_type_meta(&body.value).map_err(unknown)?;
    Ok(body)
}

/// Checks the fields from which the server determines the kind of an object.
pub(crate) fn check_type_meta(value: &Value) -> Result<(), String> {
    const TYPE: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    if !value.is_object() && !value.is_null() {
        return Err(format!(
            "json: cannot unmarshal {} into Go value of type {TYPE}",
            text::json_type(value)
        ));
    }
    for key in ["apiVersion", "kind"] {
        if let Some(wrong) = value.get(key).filter(|given| !given.is_string() && !given.is_null()) {
            let found = text::json_type(wrong);
            return Err(format!("json: cannot unmarshal {found} into Go struct field .{key} of type string"));
        }
    }
    Ok(())
}

/// Decodes JSON.
pub(crate) fn json(bytes: &[u8]) -> Result<Body, String> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let seed = Tree { path: Path::Root, duplicates: &mut duplicates };
    let value = seed.deserialize(&mut deserializer).map_err(|error| syntax(&error))?;
    deserializer.end().map_err(|error| syntax(&error))?;
    Ok(Body { value, duplicates })
}

/// Formats an error of the JSON reader, with Go's text for the errors that have only one.
fn syntax(error: &serde_json::Error) -> String {
    if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() }
}

/// Decodes one YAML document.
pub(crate) fn yaml(bytes: &[u8]) -> Result<Body, String> {
    let mut duplicates = Vec::new();
    let seed = Tree { path: Path::Root, duplicates: &mut duplicates };
    let value = yaml::read_with(bytes, seed)
        .map_err(|error| format!("error converting YAML to JSON: yaml: {error}"))?;
    Ok(Body { value, duplicates })
}

/// The position of the reader in the document; formatted only for a report.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Path::Root, key) => f.write_str(key),
            Self::Key(parent, key) => write!(f, "{parent}.{key}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Reads any value and records duplicate keys; the last value counts.
struct Tree<'a> {
    path: Path<'a>,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = Path::Index(&self.path, list.len());
            match access.next_element_seed(Tree { path, duplicates: self.duplicates })? {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let path = Path::Key(&self.path, &key);
            let value = access.next_value_seed(Tree { path, duplicates: self.duplicates })?;
            if map.contains_key(&key) {
                self.duplicates.push(path.to_string());
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_fields_are_named() {
        let body = json(br#"{"a": 1, "b": [{"c": 1, "c": 2}], "a": 3}"#).unwrap();
        assert_eq!(body.duplicates, ["b[0].c", "a"]);
        assert_eq!(body.value, serde_json::json!({"a": 3, "b": [{"c": 2}]}));
    }

    #[test]
    fn malformed_bodies_are_refused() {
        assert!(json(b"{").is_err());
        assert!(json(b"{} x").is_err());
        assert!(json("[".repeat(100_000).as_bytes()).is_err());
        assert!(yaml(b"a: [").is_err());
        assert!(yaml("[".repeat(10_000).as_bytes()).is_err());
        assert_eq!(yaml(b"a: 1").unwrap().value, serde_json::json!({"a": 1}));
    }
}
