//! Objects in the protobuf encoding of Kubernetes, as some versions of kubectl send them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// A field: number, name and type, as `sim/apiserver/schemas/protobuf.py` writes them.
type Field = (u64, String, String);

/// The fields of each message.
static MESSAGES: LazyLock<BTreeMap<String, Vec<Field>>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../sim/apiserver/schemas/protobuf.json"))
        .expect("well-formed messages")
});

/// Returns whether objects of the kind have a message.
pub(super) fn is_known(api_version: &str, kind: &str) -> bool {
    MESSAGES.contains_key(&name_of(api_version, kind))
}

/// Encodes an object with its `apiVersion` and `kind`.
pub(super) fn encode(object: &Value) -> Vec<u8> {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let head = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    let raw = message(&name_of(api_version, kind), object);
    [b"k8s\0".to_vec(), bytes(1, &head), bytes(2, &raw)].concat()
}

fn name_of(api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    let package = if kind == "DeleteOptions" { "meta" } else { group.split('.').next().unwrap_or_default() };
    format!("{package}.{version}.{kind}")
}

fn message(name: &str, value: &Value) -> Vec<u8> {
    if let Some(special) = special(name, value) {
        return special;
    }
    let fields = MESSAGES.get(name).map(Vec::as_slice).unwrap_or_default();
    let mut out = Vec::new();
    for (number, key, kind) in fields {
        let (form, kind) = kind.split_once(' ').unwrap_or(("", kind));
        // A list within a map is a message with one field, and an inlined message uses the fields of its parent.
        let given = if value.is_array() || form == "i" { value } else { &value[key] };
        match (form, given) {
            (_, Value::Null) => {}
            ("r", Value::Array(items)) => {
                for item in items {
                    out.extend(field(*number, kind, item));
                }
            }
            ("m", Value::Object(entries)) => {
                for (key, item) in entries {
                    out.extend(bytes(*number, &[bytes(1, key.as_bytes()), field(2, kind, item)].concat()));
                }
            }
            (_, given) => out.extend(field(*number, kind, given)),
        }
    }
    out
}

fn field(number: u64, kind: &str, value: &Value) -> Vec<u8> {
    match (kind, value) {
        ("int", value) => varint(number, value.as_i64().unwrap_or_default()),
        ("bool", value) => varint(number, i64::from(value == &Value::Bool(true))),
        ("string", value) => bytes(number, value.as_str().unwrap_or_default().as_bytes()),
        ("bytes", value) => {
            bytes(number, &STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default())
        }
        (name, value) => bytes(number, &message(name, value)),
    }
}

/// Encodes types that are no objects in JSON.
fn special(name: &str, value: &Value) -> Option<Vec<u8>> {
    let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Some(match name {
        "meta.v1.Time" | "meta.v1.MicroTime" => {
            let time: jiff::Timestamp = text().parse().unwrap_or_default();
            [varint(1, time.as_second()), varint(2, time.subsec_nanosecond().into())].concat()
        }
        "api.resource.Quantity" => bytes(1, text().as_bytes()),
        "util.intstr.IntOrString" => match value.as_i64() {
            Some(number) => [varint(1, 0), varint(2, number)].concat(),
            None => [varint(1, 1), bytes(3, text().as_bytes())].concat(),
        },
        "pkg.runtime.RawExtension" | "meta.v1.FieldsV1" => bytes(1, value.to_string().as_bytes()),
        _ => return None,
    })
}

fn bytes(number: u64, content: &[u8]) -> Vec<u8> {
    let length = u64::try_from(content.len()).unwrap_or_default();
    [base128((number << 3) | 2), base128(length), content.to_vec()].concat()
}

fn varint(number: u64, value: i64) -> Vec<u8> {
    [base128(number << 3), base128(value.cast_unsigned())].concat()
}

fn base128(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        out.push(if value == 0 { low & 0x7f } else { low | 0x80 });
        if value == 0 {
            return out;
        }
    }
}
