//! What Go says about malformed JSON, where the text reaches users.

/// The error of reading `text` as a JSON object; only called for what is none.
pub(super) fn error(text: &[u8]) -> String {
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
        b'\'' => "'\\''".to_owned(),
        byte => format!("'{}'", char::from(byte).escape_default()),
    }
}
