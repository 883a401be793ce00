//! RFC 6902, with the deviations and the messages of the server's library: `replace` of a missing key adds it, indexes may be
//! negative, a `test` of a missing key for null succeeds.

use serde_json::{Map, Value};

use super::error::PatchError;
use crate::cause::text;
use crate::schema::node::DEPTH_MAX;

/// Maximum number of operations of one patch.
const OPERATIONS_MAX: usize = 10_000;
/// Maximum total size of the `copy` operations of one patch, in bytes.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Applies the operations in order. If one fails, the whole patch is refused.
pub(super) fn apply(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = patch.as_array().ok_or_else(|| {
        let kind = text::json_type(patch);
        PatchError::BadRequest(format!(
            "error decoding patch: json: cannot unmarshal {kind} into Go value of type []handlers.jsonPatchOp"
        ))
    })?;
    if operations.len() > OPERATIONS_MAX {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    let mut document = current.clone();
    let mut copied = 0;
    for operation in operations {
        let operation = operation.as_object().ok_or_else(|| {
            let kind = text::json_type(operation);
            PatchError::BadRequest(format!(
                "error decoding patch: json: cannot unmarshal {kind} into Go value of type handlers.jsonPatchOp"
            ))
        })?;
        Operation(operation).apply(&mut document, &mut copied).map_err(PatchError::Unprocessable)?;
    }
    Ok(document)
}

struct Operation<'a>(&'a Map<String, Value>);

impl Operation<'_> {
    fn apply(&self, document: &mut Value, copied: &mut usize) -> Result<(), String> {
        match self.0.get("op").and_then(Value::as_str) {
            Some("add") => self.add(document),
            Some("remove") => self.remove(document),
            Some("replace") => self.replace(document),
            Some("move") => self.relocate(document),
            Some("test") => self.test(document),
            Some("copy") => self.copy(document, copied),
            Some(other) => Err(format!("Unexpected kind: {other}")),
            None => Err("Unexpected kind: unknown".to_owned()),
        }
    }

    fn path(&self) -> Option<&str> {
        self.0.get("path").and_then(Value::as_str)
    }

    fn value(&self) -> Value {
        self.0.get("value").cloned().unwrap_or(Value::Null)
    }

    fn from(&self, what: &str) -> Result<&str, String> {
        self.0.get("from").and_then(Value::as_str).ok_or_else(|| {
            format!("{what} operation failed to decode from: operation, missing from field: missing value")
        })
    }

    fn add(&self, document: &mut Value) -> Result<(), String> {
        let path = self.path().ok_or("add operation failed to decode path: missing value")?;
        let (container, key) = find(document, path).ok_or_else(|| {
            format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
        })?;
        check_depth(path, &self.value())?;
        insert(container, &key, self.value())
            .map_err(|error| format!("error in add for path: '{path}': {error}"))
    }

    fn remove(&self, document: &mut Value) -> Result<(), String> {
        let path = self.path().ok_or("remove operation failed to decode path: missing value")?;
        let (container, key) = find(document, path).ok_or_else(|| {
            format!("remove operation does not apply: doc is missing path: \"{path}\": missing value")
        })?;
        take(container, &key)
            .map(|_| ())
            .map_err(|error| format!("error in remove for path: '{path}': {error}"))
    }

    fn replace(&self, document: &mut Value) -> Result<(), String> {
        let path = self
            .path()
            .ok_or("replace operation failed to decode path: operation missing path field: missing value")?;
        if path.is_empty() {
            let value = self.value();
            if !value.is_object() && !value.is_array() {
                return Err("replace operation value must be object or array: %!w(<nil>)".to_owned());
            }
            *document = value;
            return Ok(());
        }
        let (container, key) = find(document, path).ok_or_else(|| {
            format!("replace operation does not apply: doc is missing path: {path}: missing value")
        })?;
        check_depth(path, &self.value())?;
        match container {
            Value::Object(map) => {
                map.insert(key, self.value());
                Ok(())
            }
            Value::Array(list) => {
                let index = index(&key, list.len()).map_err(|_| {
                    format!("replace operation does not apply: doc is missing key: {path}: missing value")
                })?;
                list[index] = self.value();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn relocate(&self, document: &mut Value) -> Result<(), String> {
        let from = self.from("move")?;
        let (container, key) = find(document, from).ok_or_else(|| {
            format!("move operation does not apply: doc is missing from path: {from}: missing value")
        })?;
        let value =
            take(container, &key).map_err(|error| format!("error in move for path: '{key}': {error}"))?;
        let path = self
            .path()
            .ok_or("move operation failed to decode path: operation missing path field: missing value")?;
        let (container, key) = find(document, path).ok_or_else(|| {
            format!("move operation does not apply: doc is missing destination path: {path}: missing value")
        })?;
        check_depth(path, &value)?;
        insert(container, &key, value).map_err(|error| format!("error in move for path: '{path}': {error}"))
    }

    fn test(&self, document: &mut Value) -> Result<(), String> {
        let path = self
            .path()
            .ok_or("test operation failed to decode path: operation missing path field: missing value")?;
        let failed = || format!("testing value {path} failed: test failed");
        if path.is_empty() {
            return if *document == self.value() { Ok(()) } else { Err(failed()) };
        }
        let (container, key) = find(document, path).ok_or_else(|| {
            format!("test operation does not apply: is missing path: {path}: missing value")
        })?;
        let actual =
            get(container, &key).map_err(|error| format!("error in test for path: '{path}': {error}"))?;
        if actual.cloned().unwrap_or(Value::Null) == self.value() { Ok(()) } else { Err(failed()) }
    }

    fn copy(&self, document: &mut Value, copied: &mut usize) -> Result<(), String> {
        let from = self.from("copy")?;
        let (container, key) = find(document, from).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing from path: {from}: missing value")
        })?;
        let value = get(container, &key)
            .map_err(|error| format!("error in copy for from: '{from}': {error}"))?
            .cloned()
            .unwrap_or(Value::Null);
        let path = self.path().ok_or("copy operation failed to decode path: missing value")?;
        let (container, key) = find(document, path).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing destination path: {path}: missing value")
        })?;
        *copied += value.to_string().len();
        if *copied > COPIED_BYTES_MAX {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {COPIED_BYTES_MAX}"
            ));
        }
        check_depth(path, &value)?;
        insert(container, &key, value)
            .map_err(|error| format!("error while adding value during copy: {error}"))
    }
}

/// Refuses a value that would be nested too deeply. Operations can double the depth of a document, and every traversal of one
/// needs stack.
fn check_depth(path: &str, value: &Value) -> Result<(), String> {
    if path.matches('/').count() + depth(value) > DEPTH_MAX {
        return Err("exceeded max depth".to_owned());
    }
    Ok(())
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or_default(),
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Returns the container of a path's last token, and that token.
fn find<'d>(document: &'d mut Value, path: &str) -> Option<(&'d mut Value, String)> {
    let tokens: Vec<&str> = path.split('/').skip(1).collect();
    let (key, parents) = tokens.split_last()?;
    let mut at = document;
    for token in parents {
        let token = decode(token);
        at = match at {
            Value::Object(map) => map.get_mut(&token)?,
            Value::Array(list) => {
                let index = index(&token, list.len()).ok()?;
                list.get_mut(index)?
            }
            _ => return None,
        };
        if !at.is_object() && !at.is_array() {
            return None;
        }
    }
    Some((at, decode(key)))
}

fn decode(token: &str) -> String {
    // A single pass, so that `~01` becomes `~1` and not `/`.
    let mut out = String::with_capacity(token.len());
    let mut rest = token;
    while let Some(at) = rest.find('~') {
        out.push_str(&rest[..at]);
        let (char, length) = match rest.as_bytes().get(at + 1) {
            Some(b'1') => ('/', 2),
            Some(b'0') => ('~', 2),
            _ => ('~', 1),
        };
        out.push(char);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}

fn number(key: &str) -> Result<i64, String> {
    let digits = key.strip_prefix(['+', '-']).unwrap_or(key);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("strconv.Atoi: parsing {}: invalid syntax", text::quote(key)));
    }
    key.parse().map_err(|_| format!("strconv.Atoi: parsing {}: value out of range", text::quote(key)))
}

/// Parses an index into a list of that length; negative ones count from the end.
fn index(key: &str, length: usize) -> Result<usize, String> {
    let index = number(key)?;
    let out_of_bounds = || format!("Unable to access invalid index: {index}: invalid index referenced");
    let length_signed = i64::try_from(length).unwrap_or(i64::MAX);
    let from_start = if index < 0 { index + length_signed } else { index };
    usize::try_from(from_start).ok().filter(|&index| index < length).ok_or_else(out_of_bounds)
}

fn get<'d>(container: &'d Value, key: &str) -> Result<Option<&'d Value>, String> {
    match container {
        Value::Object(map) => Ok(map.get(key)),
        Value::Array(list) => Ok(list.get(index(key, list.len())?)),
        _ => Ok(None),
    }
}

fn take(container: &mut Value, key: &str) -> Result<Value, String> {
    match container {
        Value::Object(map) => {
            map.remove(key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value"))
        }
        Value::Array(list) => {
            let index = index(key, list.len())?;
            Ok(list.remove(index))
        }
        _ => Ok(Value::Null),
    }
}

fn insert(container: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match container {
        Value::Object(map) => {
            map.insert(key.to_owned(), value);
        }
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) => {
            number(key).map_err(|error| format!("value was not a proper array index: '{key}': {error}"))?;
            let index = index(key, list.len() + 1)?;
            list.insert(index, value);
        }
        _ => {}
    }
    Ok(())
}
