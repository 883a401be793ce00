//! Decodes the body of a write and checks that it is an object of the scope's kind.

use serde_json::{Value, json};

use super::request::Request;
use super::scope::{Scope, Validation, WriteOptions};
use super::status::{Qualified, Status, quote};
use super::{body, meta, strategy, validate};
use crate::builtin::Source;
use crate::cause::text;
use crate::managed;

/// Decodes the object in a request as its kind.
pub(super) fn request_object(
    scope: &Scope,
    request: &Request<'_>,
    options: &mut WriteOptions,
) -> Result<Value, Status> {
    let body = body::decode(request.media_type(), request.body, &scope.resource.kind)?;
    admit_body(scope, options, body.value, &body.duplicates, request.body)
}

/// Checks a decoded body against the scope: type, shape, unknown fields.
fn admit_body(
    scope: &Scope,
    options: &mut WriteOptions,
    object: Value,
    duplicates: &[String],
    raw: &[u8],
) -> Result<Value, Status> {
    let object = if object.is_null() && !scope.resource.is_custom() { json!({}) } else { object };
    if options.validation == Validation::Warn {
        options.warnings.extend(fields_of_no_version(scope, &object));
    }
    check_type(scope, &object, raw)?;
    admit(scope, options, object, None, duplicates, Source::Document).map_err(|why| unreadable(scope, &why))
}

/// Converts the result of an apply to the stored form.
pub(super) fn admit_applied(
    scope: &Scope,
    options: &mut WriteOptions,
    config: &Value,
    mut object: Value,
    duplicates: &[String],
) -> Result<Value, Status> {
    let name = managed::name(config);
    let (_, kind) = name.split_once("; ").unwrap_or_default();
    let misfit = |why: &str| {
        Status::unknown(format!(
            "failed to convert new object ({name}) to proper version: unable to convert unstructured object to {kind}: {why}"
        ))
    };
    if scope.resource.is_custom() {
        strategy::settle_applied(&mut object).map_err(|why| misfit(&why))?;
        return Ok(object);
    }
    admit(scope, options, object, None, duplicates, Source::Untyped)
        .map_err(|why| if why.starts_with(STRICT) { unreadable(scope, &why) } else { misfit(&why) })
}

/// The prefix of an error that only strict validation reports.
const STRICT: &str = "strict decoding error: ";

fn unreadable(scope: &Scope, why: &str) -> Status {
    let kind = &scope.resource.kind;
    let version = quote(&scope.version().name);
    Status::bad_request(format!("{kind} in version {version} cannot be handled as a {kind}: {why}"))
}

/// Converts an object of the right type to the stored form; the error says what is wrong with it. `live` is the object that it
/// was derived from.
pub(super) fn admit(
    scope: &Scope,
    options: &mut WriteOptions,
    mut object: Value,
    live: Option<&Value>,
    duplicates: &[String],
    source: Source,
) -> Result<Value, String> {
    if !object.is_object() {
        return Err(format!("json: cannot unmarshal {} into Go value", text::json_type(&object)));
    }
    object["apiVersion"] = scope.resource.api_version(scope.version()).into();
    object["kind"] = scope.resource.kind.clone().into();
    let unknown = strategy::read(scope, &mut object, live, source)?;
    complain(options, duplicates, &unknown)?;
    Ok(object)
}

/// Warns of duplicate or unknown fields, or refuses them, as the request specifies.
pub(super) fn complain(
    options: &mut WriteOptions,
    duplicates: &[String],
    unknown: &[String],
) -> Result<(), String> {
    let duplicates = duplicates.iter().map(|path| format!("duplicate field {}", quote(path)));
    let unknown = unknown.iter().map(|path| format!("unknown field {}", quote(path)));
    let problems: Vec<String> = duplicates.chain(unknown).collect();
    match options.validation {
        Validation::Strict if !problems.is_empty() => {
            return Err(format!("{STRICT}{}", problems.join(", ")));
        }
        Validation::Warn => options.warnings.extend(problems),
        Validation::Ignore | Validation::Strict => {}
    }
    Ok(())
}

/// Returns warnings for the fields of a custom resource in a version that is not served: it has no known fields.
fn fields_of_no_version(scope: &Scope, object: &Value) -> Vec<String> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let version = text("apiVersion");
    let is_served = version == scope.resource.api_version(scope.version());
    if !scope.resource.is_custom() || is_served || version.is_empty() || text("kind").is_empty() {
        return Vec::new();
    }
    let fields = object.as_object().into_iter().flat_map(serde_json::Map::keys);
    let unknown = fields.filter(|key| !["apiVersion", "kind", "metadata"].contains(&key.as_str()));
    unknown.map(|key| format!("unknown field {}", quote(key))).collect()
}

/// Checks that the body has the type of the path. A built-in kind may leave the type out.
fn check_type(scope: &Scope, object: &Value, raw: &[u8]) -> Result<(), Status> {
    let api_version = &scope.resource.api_version(scope.version());
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (found_version, found_kind) = (text("apiVersion"), text("kind"));
    let kind = &scope.resource.kind;
    if scope.resource.is_custom() {
        for (key, name) in [("kind", "Kind"), ("apiVersion", "apiVersion")] {
            if text(key).is_empty() {
                let why = format!("Object '{name}' is missing in '{}'", String::from_utf8_lossy(raw));
                return Err(body::unrecognized(kind, &why, raw));
            }
        }
        if found_version != *api_version {
            return Err(Status::bad_request(format!(
                "the API version in the data ({found_version}) does not match the expected API version ({api_version})"
            )));
        }
        if found_kind != kind {
            let mut causes = vec![validate::invalid("kind", &quote(found_kind), &format!("must be {kind}"))];
            // It is still validated, without defaults: another kind has none.
            causes.extend(
                scope.version().schema().map(|schema| schema.validate(object, None)).unwrap_or_default(),
            );
            let found = Qualified { group: &scope.resource.group, name: found_kind };
            return Err(Status::invalid(found, meta::name(object), &causes));
        }
        return Ok(());
    }
    let Some(why) = wrong_kind(scope, object) else { return Ok(()) };
    let version = if found_version.is_empty() { api_version.as_str() } else { found_version };
    let found_kind = if found_kind.is_empty() { kind } else { found_kind };
    let short = version.split_once('/').map_or(version, |(_, short)| short);
    Err(Status::bad_request(format!(
        "{found_kind} in version {} cannot be handled as a {kind}: {why}",
        quote(short)
    )))
}

/// Returns why an object is not of the built-in kind of the path. Absent fields are assumed to be correct.
pub(super) fn wrong_kind(scope: &Scope, object: &Value) -> Option<String> {
    let resource = &scope.resource;
    let (kind, api_version) = (&resource.kind, resource.api_version(scope.version()));
    let text = |key: &str, default: &str| {
        let given = object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        given.unwrap_or(default).to_owned()
    };
    let (version, found) = (text("apiVersion", &api_version), text("kind", kind));
    if version == api_version && found == *kind {
        return None;
    }
    let (group, short) = version.split_once('/').unwrap_or(("", &version));
    let registered = crate::builtin::resources()
        .iter()
        .any(|known| known.group == group && known.version == short && known.kind == found);
    Some(if registered {
        let internal = resource.group.split('.').next().filter(|name| !name.is_empty()).unwrap_or("core");
        format!("converting ({short}.{found}) to ({internal}.{kind}): unknown conversion")
    } else {
        format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            quote(&found),
            quote(&version)
        )
    })
}
