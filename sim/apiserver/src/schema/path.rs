//! Paths to fields in a schema as its author wrote it: `.spec.size` or `.spec['size']`.

use serde_json::{Map, Value};

/// Whether a path may name fields in brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Brackets {
    Allowed,
    Forbidden,
}

/// Returns the names on a path and the schema at its end.
///
/// # Errors
/// Why the path is not valid, in the server's words.
pub(crate) fn resolve<'v>(
    schema: &'v Map<String, Value>,
    path: &str,
    brackets: Brackets,
) -> Result<(Vec<String>, &'v Map<String, Value>), String> {
    let (mut names, mut at) = (Vec::new(), schema);
    let mut tokens = tokens(path).into_iter();
    while let Some(token) = tokens.next() {
        let end = || "unexpected end of JSON path".to_owned();
        let name = match token {
            "." => tokens.next().ok_or_else(end)?.to_owned(),
            "[" if brackets == Brackets::Forbidden => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                unquote(quoted).ok_or_else(|| format!("expected single quoted string but got {quoted}"))?
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        at = below(at, &name).ok_or_else(|| "does not refer to a valid field".to_owned())?;
        if token == "[" {
            match tokens.next().ok_or_else(end)? {
                "]" => {}
                other => return Err(format!("expected ] but got {other}")),
            }
        }
        names.push(name);
    }
    Ok((names, at))
}

/// Returns the schema of a field or, in a map, of any value.
fn below<'v>(schema: &'v Map<String, Value>, name: &str) -> Option<&'v Map<String, Value>> {
    let properties = schema.get("properties").and_then(Value::as_object).filter(|map| !map.is_empty());
    let child = match properties {
        Some(properties) => properties.get(name),
        None => schema.get("additionalProperties"),
    };
    child.and_then(Value::as_object)
}

fn unquote(token: &str) -> Option<String> {
    let inner = token.strip_prefix('\'')?.strip_suffix('\'')?;
    Some(inner.replace("\\'", "'").replace("\\\\", "\\"))
}

/// Splits a path into delimiters, quoted names and names.
fn tokens(path: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let end = if rest.starts_with('\'') {
            let is_end = |at: usize| rest[..at].ends_with(|before| before != '\\');
            rest.match_indices('\'').map(|(at, _)| at).find(|at| *at > 0 && is_end(*at)).map(|at| at + 1)
        } else {
            rest.find(['.', '[', ']']).map(|at| at.max(1))
        };
        let (token, after) = rest.split_at(end.unwrap_or(rest.len()));
        found.push(token);
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Brackets, resolve};

    #[test]
    fn paths_lead_to_declared_fields_and_to_values_of_maps() {
        let schema = json!({"properties": {
            "spec": {"properties": {"a.b": {"type": "string"}, "size": {"type": "integer"}}},
            "labels": {"additionalProperties": {"type": "boolean"}},
        }});
        let find = |path: &str, brackets| {
            resolve(schema.as_object().unwrap(), path, brackets).map(|(_, found)| found["type"].clone())
        };
        assert_eq!(find(".spec.size", Brackets::Forbidden), Ok(json!("integer")));
        assert_eq!(find(".spec['a.b']", Brackets::Allowed), Ok(json!("string")));
        assert_eq!(find(".labels.any", Brackets::Forbidden), Ok(json!("boolean")));
        for (path, error) in [
            (".spec.none", "does not refer to a valid field"),
            (".spec.size.deep", "does not refer to a valid field"),
            (".spec.", "unexpected end of JSON path"),
            ("spec", "expected [ or . but got: spec"),
            (".spec['size']", "array notation is not allowed"),
        ] {
            assert_eq!(find(path, Brackets::Forbidden), Err(error.to_owned()), "{path}");
        }
        assert_eq!(
            find(".spec[size]", Brackets::Allowed),
            Err("expected single quoted string but got size".into())
        );
    }
}
