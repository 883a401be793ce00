//! Decodes built-in objects in the protobuf encoding, which some versions of kubectl prefer for writing.
//!
//! The fields of the messages are in `schemas/protobuf.json`. Answers are JSON, which those clients accept as well.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// The media type.
pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
const MAGIC: &[u8] = b"k8s\0";
/// Maximum depth of nested messages; real ones stay far below it.
const DEPTH_MAX: usize = 64;

type Field = (u64, String, String);

static MESSAGES: LazyLock<BTreeMap<String, Vec<Field>>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../schemas/protobuf.json"))
        .expect("the checked-in messages are well-formed")
});

/// One field in the wire format.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Decodes one object.
pub(super) fn decode(bytes: &[u8]) -> Result<Value, String> {
    let envelope = bytes
        .strip_prefix(MAGIC)
        .ok_or("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for (number, bytes) in texts(envelope)? {
        match number {
            1 => {
                for (number, text) in texts(bytes)? {
                    let text = String::from_utf8_lossy(text).into_owned();
                    match number {
                        1 => api_version = text,
                        2 => kind = text,
                        _ => {}
                    }
                }
            }
            2 => raw = bytes,
            _ => {}
        }
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let package = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or_default() };
    let name = match kind.as_str() {
        "DeleteOptions" => "meta.v1.DeleteOptions".to_owned(),
        kind => format!("{package}.{version}.{kind}"),
    };
    let mut object = message(&name, raw, 0)?;
    if let Some(object) = object.as_object_mut() {
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), kind.into());
    }
    Ok(object)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or("unexpected EOF")?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("proto: integer overflow".to_owned())
}

fn fields(mut bytes: &[u8]) -> Result<Vec<(u64, Wire<'_>)>, String> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let wire = match tag & 7 {
            0 => Wire::Number(varint(&mut bytes)?),
            1 | 5 => {
                let length = if tag & 7 == 1 { 8 } else { 4 };
                let (number, rest) = bytes.split_at_checked(length).ok_or("unexpected EOF")?;
                bytes = rest;
                Wire::Bytes(number)
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).map_err(|error| error.to_string())?;
                let (content, rest) = bytes.split_at_checked(length).ok_or("unexpected EOF")?;
                bytes = rest;
                Wire::Bytes(content)
            }
            other => return Err(format!("proto: illegal wireType {other}")),
        };
        fields.push((tag >> 3, wire));
    }
    Ok(fields)
}

/// Returns the fields of a message that contain bytes.
fn texts(bytes: &[u8]) -> Result<Vec<(u64, &[u8])>, String> {
    let bytes_only = |(number, wire)| match wire {
        Wire::Bytes(bytes) => Some((number, bytes)),
        Wire::Number(_) => None,
    };
    Ok(fields(bytes)?.into_iter().filter_map(bytes_only).collect())
}

fn message(name: &str, bytes: &[u8], depth: usize) -> Result<Value, String> {
    if depth > DEPTH_MAX {
        return Err("proto: messages are nested too deeply".to_owned());
    }
    if let Some(value) = special(name, bytes)? {
        return Ok(value);
    }
    let known = MESSAGES.get(name).ok_or_else(|| format!("no message {name:?} is registered"))?;
    let mut object = Map::new();
    for (number, wire) in fields(bytes)? {
        let Some((_, key, kind)) = known.iter().find(|(known, _, _)| *known == number) else { continue };
        if let Some(kind) = kind.strip_prefix("r ") {
            let item = value(kind, &wire, depth)?;
            let list = object.entry(key.clone()).or_insert_with(|| Value::Array(Vec::new()));
            list.as_array_mut().expect("made as a list").push(item);
        } else if let Some(kind) = kind.strip_prefix("m ") {
            let (entry, item) = entry(kind, &wire, depth)?;
            let map = object.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
            map.as_object_mut().expect("made as a map").insert(entry, item);
        } else if let Some(kind) = kind.strip_prefix("i ") {
            if let Value::Object(inner) = value(kind, &wire, depth)? {
                object.extend(inner);
            }
        } else {
            object.insert(key.clone(), value(kind, &wire, depth)?);
        }
    }
    // Lists within maps are messages with one field in the wire format.
    match known.as_slice() {
        [(1, key, kind)] if key == "items" && kind.starts_with("r ") => {
            Ok(object.remove("items").unwrap_or_else(|| Value::Array(Vec::new())))
        }
        _ => Ok(Value::Object(object)),
    }
}

fn entry(kind: &str, wire: &Wire<'_>, depth: usize) -> Result<(String, Value), String> {
    let Wire::Bytes(bytes) = wire else { return Err("proto: wrong wireType".to_owned()) };
    let mut found = (String::new(), None);
    for (number, wire) in fields(bytes)? {
        match (number, &wire) {
            (1, Wire::Bytes(key)) => found.0 = String::from_utf8_lossy(key).into_owned(),
            (2, _) => found.1 = Some(value(kind, &wire, depth)?),
            _ => {}
        }
    }
    let empty = || if matches!(kind, "string" | "bytes") { "".into() } else { Value::Null };
    Ok((found.0, found.1.unwrap_or_else(empty)))
}

fn value(kind: &str, wire: &Wire<'_>, depth: usize) -> Result<Value, String> {
    Ok(match (kind, wire) {
        ("int", Wire::Number(number)) => number.cast_signed().into(),
        ("bool", Wire::Number(number)) => (*number != 0).into(),
        ("string", Wire::Bytes(bytes)) => {
            std::str::from_utf8(bytes).map_err(|error| error.to_string())?.into()
        }
        ("bytes", Wire::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        ("double", Wire::Bytes(bytes)) => {
            let bytes: [u8; 8] = (*bytes).try_into().map_err(|_| "proto: wrong wireType".to_owned())?;
            f64::from_le_bytes(bytes).into()
        }
        ("int" | "bool" | "string" | "bytes" | "double", _) | (_, Wire::Number(_)) => {
            return Err("proto: wrong wireType".to_owned());
        }
        (name, Wire::Bytes(bytes)) => message(name, bytes, depth + 1)?,
    })
}

/// Decodes messages that are not objects in JSON.
fn special(name: &str, bytes: &[u8]) -> Result<Option<Value>, String> {
    let number = |wanted: u64| -> Result<i64, String> {
        let found = fields(bytes)?.into_iter().find_map(|field| match field {
            (number, Wire::Number(value)) if number == wanted => Some(value.cast_signed()),
            _ => None,
        });
        Ok(found.unwrap_or_default())
    };
    let text = |wanted: u64| -> Result<String, String> {
        let found = fields(bytes)?.into_iter().find_map(|field| match field {
            (number, Wire::Bytes(value)) if number == wanted => {
                Some(String::from_utf8_lossy(value).into_owned())
            }
            _ => None,
        });
        Ok(found.unwrap_or_default())
    };
    Ok(Some(match name {
        "meta.v1.Time" | "meta.v1.MicroTime" if bytes.is_empty() => Value::Null,
        "meta.v1.Time" | "meta.v1.MicroTime" => {
            let nanos = i32::try_from(number(2)?).map_err(|error| error.to_string())?;
            let time = jiff::Timestamp::new(number(1)?, nanos).map_err(|error| error.to_string())?;
            let format =
                if name.ends_with("MicroTime") { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
            time.strftime(format).to_string().into()
        }
        "api.resource.Quantity" => text(1)?.into(),
        "util.intstr.IntOrString" if number(1)? == 0 => number(2)?.into(),
        "util.intstr.IntOrString" => text(3)?.into(),
        "meta.v1.FieldsV1" | "pkg.runtime.RawExtension" => {
            serde_json::from_str(&text(1)?).map_err(|error| error.to_string())?
        }
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        [&[(number << 3) | 2, length][..], content].concat()
    }

    #[test]
    fn objects_are_read() {
        let kind = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
        let metadata =
            [field(1, b"x"), field(11, &[field(1, b"app"), field(2, b"web")].concat()), field(8, b"")]
                .concat();
        let data = [field(1, b"key"), field(2, b"value")].concat();
        let raw = [field(1, &metadata), field(2, &data)].concat();
        let bytes = [MAGIC, &field(1, &kind), &field(2, &raw)].concat();
        assert_eq!(
            decode(&bytes).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "value"},
                "metadata": {"name": "x", "labels": {"app": "web"}, "creationTimestamp": null},
            })
        );
        for end in 0..bytes.len() {
            // A truncated message is refused or has fewer fields, and nothing panics.
            let _less = decode(&bytes[..end]);
        }
    }
}
