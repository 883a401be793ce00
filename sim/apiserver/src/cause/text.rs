//! Formats values in the way of Go, because the server's messages quote them.

use std::fmt::Write as _;

use serde_json::Value;

/// Formats a value for a field error: scalars without quotes, strings quoted, the rest as JSON.
pub(crate) fn bad_value(value: &Value) -> String {
    match value {
        Value::String(string) => quote(string),
        Value::Bool(_) | Value::Number(_) => plain(value),
        Value::Null | Value::Array(_) | Value::Object(_) => json(value),
    }
}

/// Quotes a string, with the escapes of `%q`.
pub(crate) fn quote(string: &str) -> String {
    let mut out = String::with_capacity(string.len() + 2);
    out.push('"');
    for char in string.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            char if (char as u32) < 0x20 || char as u32 == 0x7f => {
                let _ = write!(out, "\\x{:02x}", char as u32);
            }
            char if is_unprintable(char) => {
                let code = char as u32;
                let _ =
                    if code < 0x1_0000 { write!(out, "\\u{code:04x}") } else { write!(out, "\\U{code:08x}") };
            }
            char => out.push(char),
        }
    }
    out.push('"');
    out
}

fn is_unprintable(char: char) -> bool {
    matches!(char, '\u{80}'..='\u{a0}' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
        | '\u{205f}'..='\u{206f}' | '\u{3000}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}')
}

/// Formats compact JSON, and escapes the characters with a meaning in HTML.
pub fn json(value: &Value) -> String {
    let plain = value.to_string();
    let mut out = String::with_capacity(plain.len());
    for char in plain.chars() {
        match char {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            char => out.push(char),
        }
    }
    out
}

/// Formats a value like `%v`: `map[a:1 b:[x y]]`.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::String(string) => string.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if !number.is_i64() => self::float(float),
            _ => number.to_string(),
        },
        Value::Array(list) => format!("[{}]", list.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", plain(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

/// Formats a float like `%v`: the shortest digits, with an exponent below -4 and from 21.
pub(crate) fn float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let Ok(exponent) = exponent.parse::<i32>() else { return scientific };
    if (-4..21).contains(&exponent) {
        return format!("{float}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Returns the type of a value as Go's decoder names it.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the name of a value's type.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Formats a value like `%#v`, in Go syntax.
pub(crate) fn source(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(_) | Value::Number(_) => plain(value),
        Value::String(string) => quote(string),
        Value::Array(list) => {
            format!("[]interface {{}}{{{}}}", list.iter().map(source).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{}:{}", quote(key), source(value))).collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
    }
}
