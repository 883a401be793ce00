//! Go's messages for malformed JSON, where they reach users.

/// Returns the error of decoding `text` as a JSON object; called only for invalid input.
pub(crate) fn error(text: &[u8]) -> String {
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(text) {
        let kind = match value {
            serde_json::Value::Bool(_) => "bool",
            serde_json::Value::Number(_) => "number",
            serde_json::Value::String(_) => "string",
            _ => "array",
        };
        return format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}");
    }
    let start = text.iter().position(|byte| !byte.is_ascii_whitespace());
    let Some(start) = start else { return "unexpected end of JSON input".to_owned() };
    match text[start] {
        b'n' => literal(&text[start..], "null"),
        b't' => literal(&text[start..], "true"),
        b'f' => literal(&text[start..], "false"),
        b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' => "unexpected end of JSON input".to_owned(),
        byte => format!("invalid character {} looking for beginning of value", quoted(byte)),
    }
}

fn literal(text: &[u8], word: &str) -> String {
    let wrong = text.iter().zip(word.bytes()).find(|(given, wanted)| **given != *wanted);
    match wrong {
        Some((given, wanted)) => {
            format!("invalid character {} in literal {word} (expecting {})", quoted(*given), quoted(wanted))
        }
        None => match text.get(word.len()) {
            Some(given) => format!("invalid character {} after top-level value", quoted(*given)),
            None => "unexpected end of JSON input".to_owned(),
        },
    }
}

fn quoted(byte: u8) -> String {
    match byte {
        b'\t' | b'\r' | b'\n' | b'\'' | b'\\' => format!("'{}'", char::from(byte).escape_default()),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        0x00..=0x1f | 0x7f => format!(r"'\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!(r"'\u{byte:04x}'"),
        byte => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_go_shows_them() {
        let shown: Vec<String> =
            [b'x', b'\'', b'"', b'\n', 0x01, 0x7f, 0x9e, 0xe9].into_iter().map(quoted).collect();
        assert_eq!(shown, ["'x'", r"'\''", "'\"'", r"'\n'", r"'\x01'", r"'\x7f'", r"'\u009e'", "'é'"]);
    }
}
