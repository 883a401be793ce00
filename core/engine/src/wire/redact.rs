//! Keeps the values of Secrets out of messages.

use std::str::Chars;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::action::KubeRequest;

/// The maximum length of a message, in bytes.
const LONGEST: usize = 1024;

/// How often a server may have quoted a value: a JSON document in a JSON document that Go quotes.
const QUOTES: usize = 3;

/// The number of characters by which a value is recognized. A server may quote only the beginning of a longer one.
const ENOUGH: usize = 64;

/// Prepares a server's message for logs and conditions: values of a Secret in the request are masked, and a message of more
/// than 1 KiB is cut.
pub(super) fn message(request: &KubeRequest, text: &str) -> String {
    cut(&secret(request).map_or_else(|| text.to_owned(), |manifest| masked(text, manifest)))
}

/// Cuts a text at 1 KiB.
pub fn cut(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end])
}

fn secret(request: &KubeRequest) -> Option<&Value> {
    let (target, manifest) = match request {
        KubeRequest::Apply { target, manifest }
        | KubeRequest::Create { target, manifest }
        | KubeRequest::CreateSecret { target, manifest, .. }
        | KubeRequest::Update { target, manifest } => (target, manifest),
        KubeRequest::Patch { target, patch, .. } => (target, patch),
        KubeRequest::Discover { .. }
        | KubeRequest::Get { .. }
        | KubeRequest::GetLengths { .. }
        | KubeRequest::List { .. }
        | KubeRequest::Delete { .. } => return None,
    };
    (target.kind.group.is_empty() && target.kind.kind == "Secret").then_some(manifest)
}

/// Masks the values of a Secret in a text, up to where the text is cut at the latest.
fn masked(text: &str, manifest: &Value) -> String {
    let values = values(manifest);
    let searches = values.iter().flat_map(|value| (0..=QUOTES).map(move |quotes| (value, quotes)));
    // Each with the end of what it found last.
    let mut searches: Vec<_> = searches.map(|(value, quotes)| (value, quotes, 0)).collect();
    let (mut masked, mut hidden_to) = (String::new(), 0);
    for (at, char) in text.char_indices() {
        for (value, quotes, end) in searches.iter_mut().filter(|(_, _, end)| *end <= at) {
            *end = at + shown(&text[at..], value, *quotes);
        }
        let end = searches.iter().map(|(_, _, end)| *end).max().unwrap_or(0);
        if hidden_to <= at && at < end {
            masked.push_str("***");
        }
        // Values may overlap.
        hidden_to = hidden_to.max(end);
        if hidden_to <= at {
            masked.push(char);
        }
        if masked.len() > LONGEST {
            break;
        }
    }
    masked
}

/// Returns the values of a Secret in each form that the request or the server's object has.
fn values(manifest: &Value) -> Vec<String> {
    let mut values = Vec::new();
    for (field, value) in manifest.as_object().into_iter().flatten() {
        if !matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "type") {
            leaves(value, &mut values);
        }
    }
    for text in manifest["data"].as_object().into_iter().flat_map(|data| data.values()) {
        // The server accepts encoded values of several lines.
        let Some(encoded) = text.as_str().map(|text| text.replace(['\r', '\n'], "")) else { continue };
        values.extend(STANDARD.decode(&encoded).ok().and_then(|value| String::from_utf8(value).ok()));
        values.push(encoded);
    }
    let texts = manifest["stringData"].as_object().into_iter().flat_map(|texts| texts.values());
    values.extend(texts.filter_map(Value::as_str).map(|text| STANDARD.encode(text)));
    values.retain(|value| !value.is_empty());
    values
}

fn leaves(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.values().for_each(|value| leaves(value, found)),
        Value::Array(items) => items.iter().for_each(|value| leaves(value, found)),
        Value::String(text) => found.push(text.clone()),
        Value::Number(number) => found.push(number.to_string()),
        Value::Bool(_) | Value::Null => {}
    }
}

/// Returns how many bytes at the beginning of a text show the value, or enough of it, quoted so many times.
fn shown(text: &str, value: &str, quotes: usize) -> usize {
    let mut rest = text.chars();
    let (mut length, mut count) = (0, 0);
    for expected in value.chars() {
        if unquoted(&mut rest, quotes) != Some(expected) {
            return if count < ENOUGH { 0 } else { length };
        }
        (length, count) = (text.len() - rest.as_str().len(), count + 1);
    }
    length
}

/// Takes a character from a text that is quoted so many times, each time as JSON or Go quotes a text. Which characters are escaped
/// differs between them, so both forms of each are understood.
fn unquoted(text: &mut Chars<'_>, quotes: usize) -> Option<char> {
    let Some(inner) = quotes.checked_sub(1) else { return text.next() };
    let char = unquoted(text, inner)?;
    if char != '\\' {
        return Some(char);
    }
    match unquoted(text, inner)? {
        'a' => Some('\u{7}'),
        'b' => Some('\u{8}'),
        'f' => Some('\u{c}'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'v' => Some('\u{b}'),
        'x' => char::from_u32(number(text, inner, 2)?),
        'u' => utf16(text, inner),
        'U' => char::from_u32(number(text, inner, 8)?),
        itself => Some(itself),
    }
}

/// Takes a character of one or two UTF-16 code units, as JSON writes it, after the first `\u`.
fn utf16(text: &mut Chars<'_>, quotes: usize) -> Option<char> {
    let first = number(text, quotes, 4)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first);
    }
    let escape = [unquoted(text, quotes)?, unquoted(text, quotes)?];
    let second = number(text, quotes, 4).filter(|_| escape == ['\\', 'u'])?;
    let units = [first, second].map(|unit| u16::try_from(unit).unwrap_or_default());
    char::decode_utf16(units).next()?.ok()
}

/// Takes a hexadecimal number.
fn number(text: &mut Chars<'_>, quotes: usize, digits: u32) -> Option<u32> {
    (0..digits).try_fold(0, |number, _| Some(number << 4 | unquoted(text, quotes)?.to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::object::{Kind, ObjectRef};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn apply(kind: &str, manifest: Value) -> KubeRequest {
        let kind = Kind::known("", "v1", kind, "widgets", true);
        KubeRequest::Apply { target: ObjectRef::namespaced(&kind, "ns", "a"), manifest: Arc::new(manifest) }
    }

    #[test]
    fn values_of_secrets_are_masked() {
        let manifest = json!({"kind": "Secret", "metadata": {"name": "a"}, "data": {"pin": 4711}, "stringData": {"p": "hunter2"}});
        let text = ".data.pin: expected string, got &value.valueUnstructured{Value:4711}; hunter2 in a";
        let masked = ".data.pin: expected string, got &value.valueUnstructured{Value:***}; *** in a";
        assert_eq!(message(&apply("Secret", manifest.clone()), text), masked);
        assert_eq!(message(&apply("ConfigMap", manifest), text), text);
    }

    #[test]
    fn what_the_data_of_a_secret_says_is_masked_in_either_form() {
        let manifest = json!({"kind": "Secret", "data": {"password": "aHVudGVyMg==", "key": "/w=="}});
        let text = "password 'hunter2' (aHVudGVyMg==) is too weak";
        assert_eq!(message(&apply("Secret", manifest), text), "password '***' (***) is too weak");
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let cut = message(&apply("ConfigMap", json!({})), &"ä".repeat(1000));
        assert_eq!(cut.len(), 1024 + "…".len());
    }

    #[test]
    fn a_value_in_a_map_is_masked_as_go_quotes_it() {
        let manifest = json!({ "kind": "Secret", "stringData": { "config": { "password": "a\"b\\c" } } });
        let text = r#".stringData.config: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"password":"a\"b\\c"}}"#;
        let masked = r#".stringData.config: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"password":"***"}}"#;
        assert_eq!(message(&apply("Secret", manifest), text), masked);
    }

    #[test]
    fn data_of_several_lines_is_masked_decoded_and_in_one_line() {
        let manifest = json!({ "kind": "Secret", "data": { "password": "aHVu\r\ndGVy\nMg==" } });
        let text = r"hunter2, aHVudGVyMg==, aHVu\r\ndGVy\nMg==";
        assert_eq!(message(&apply("Secret", manifest), text), "***, ***, ***");
    }

    #[test]
    fn text_is_masked_as_the_server_encodes_it() {
        let manifest = json!({ "kind": "Secret", "stringData": { "password": "hunter2" } });
        assert_eq!(message(&apply("Secret", manifest), "'aHVudGVyMg=='"), "'***'");
    }

    #[test]
    fn the_beginning_of_a_long_value_is_masked() {
        let key = format!("-----BEGIN KEY-----\n{}\n-----END KEY-----\n", "MIIE".repeat(100));
        let manifest = json!({ "kind": "Secret", "stringData": { "tls": { "key": key } } });
        let text = format!("got {}...", &json(&key)[..200]);
        assert_eq!(message(&apply("Secret", manifest), &text), "got ***...");
    }

    #[test]
    fn values_that_overlap_are_masked_completely() {
        let manifest = json!({ "kind": "Secret", "stringData": { "a": "xab", "b": "abcd", "c": "b" } });
        assert_eq!(message(&apply("Secret", manifest), "(xabcd)"), "(***)");
    }

    /// Quotes a text as JSON does, without the quotation marks around it.
    fn json(text: &str) -> String {
        let quoted = Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    }

    /// Quotes a text as a JSON encoder does that writes only ASCII.
    fn ascii(text: &str) -> String {
        let mut units = [0; 2];
        let quote = |char: char| match char.encode_utf16(&mut units) {
            _ if char.is_ascii() => json(&char.to_string()),
            units => {
                let units = units.iter().map(|unit| format!("\\u{unit:04x}"));
                units.collect::<Vec<_>>().concat()
            }
        };
        text.chars().map(quote).collect()
    }

    /// Quotes a text as Go does in a string literal.
    fn go(text: &str) -> String {
        let quote = |char: char| match (char, u32::from(char)) {
            ('\u{7}', _) => "\\a".to_owned(),
            ('\u{b}', _) => "\\v".to_owned(),
            (' '..='~' | '\u{8}' | '\t' | '\n' | '\u{c}' | '\r', _) => json(&char.to_string()),
            (_, code @ ..0x80) => format!("\\x{code:02x}"),
            _ if char.is_alphanumeric() => char.to_string(),
            (_, code @ ..0x1_0000) => format!("\\u{code:04x}"),
            (_, code) => format!("\\U{code:08x}"),
        };
        text.chars().map(quote).collect()
    }

    proptest! {
        #[test]
        fn every_value_is_masked_however_it_is_quoted(
            chars in proptest::collection::vec(prop_oneof![any::<char>(), "[\"\\\\\n\t<>&a-f]".prop_map(|text| text.chars().next().unwrap())], 0..100)
        ) {
            let value: String = std::iter::once('K').chain(chars).collect();
            let request = apply("Secret", json!({ "kind": "Secret", "stringData": { "a": { "b": value } } }));
            let forms = [
                value.clone(), json(&value), ascii(&value), go(&value), go(&json(&value)), json(&go(&ascii(&value))),
            ];
            for form in forms {
                prop_assert_eq!(message(&request, &format!("got {form} here")), "got *** here", "{}", form);
            }
        }
    }
}
