//! Create and update: decode, normalise, default, track, validate, store.

use std::sync::Arc;

use serde_json::{Value, json};

use super::respond::Answer;
use super::scope::{Scope, Validation, WriteOptions};
use super::status::{Qualified, Status, quote};
use super::store::key;
use super::{ApiServer, body, crd, meta, namespace, strategy, validate};
use crate::builtin::Source;
use crate::cause::text;
use crate::managed::{self, Manager};

/// How the managed fields of a write are maintained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracking {
    /// The write is an update: the manager becomes the owner of the changed fields.
    Update,
    /// The write is an update through a subresource that has no fields of its own.
    Subresource(&'static str),
    /// The object is the result of an apply and already has its managed fields.
    Applied,
}

/// Checks a decoded body against the scope: type, shape, unknown fields.
pub(super) fn admit_body(
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
    admit(scope, options, object, duplicates, Source::Document).map_err(|why| unreadable(scope, &why))
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
    admit(scope, options, object, duplicates, Source::Untyped)
        .map_err(|why| if why.starts_with(STRICT) { unreadable(scope, &why) } else { misfit(&why) })
}

/// The prefix of an error that only strict validation reports.
const STRICT: &str = "strict decoding error: ";

fn unreadable(scope: &Scope, why: &str) -> Status {
    let kind = &scope.resource.kind;
    let version = quote(&scope.version().name);
    Status::bad_request(format!("{kind} in version {version} cannot be handled as a {kind}: {why}"))
}

/// Converts an object of the right type to the stored form; the error says what is wrong with it.
pub(super) fn admit(
    scope: &Scope,
    options: &mut WriteOptions,
    mut object: Value,
    duplicates: &[String],
    source: Source,
) -> Result<Value, String> {
    if !object.is_object() {
        return Err(format!("json: cannot unmarshal {} into Go value", text::json_type(&object)));
    }
    object["apiVersion"] = scope.resource.api_version(scope.version()).into();
    object["kind"] = scope.resource.kind.clone().into();
    let unknown = strategy::read(scope, &mut object, source)?;
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

impl ApiServer {
    /// Creates an object that [`admit_body`] has accepted.
    pub(super) fn create_object(
        &mut self,
        scope: &Scope,
        mut object: Value,
        options: &mut WriteOptions,
        tracking: Tracking,
    ) -> Result<Answer, Status> {
        let resource = &scope.resource;
        for key in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "uid", "selfLink"]
        {
            meta::remove(&mut object, key);
        }
        scope.settle_namespace(&mut object)?;
        let generated = meta::name(&object).is_empty() && !meta::text(&object, "generateName").is_empty();
        let asked = meta::text(&object, if generated { "generateName" } else { "name" }).to_owned();
        crd::check_create(self, resource, &asked)?;
        if generated {
            let name = self.ids.name(meta::text(&object, "generateName"));
            meta::set(&mut object, "name", name);
        }
        meta::set(&mut object, "creationTimestamp", meta::timestamp(options.now));
        meta::set(&mut object, "uid", self.ids.uid());
        if resource.namespaced {
            namespace::check_create(self, resource, &asked, meta::namespace(&object))?;
        }
        strategy::apply_defaults(scope, &mut object);
        strategy::reset_create(scope, &mut object);
        track(scope, None, &mut object, options, tracking);
        self.allocate(resource, &mut object, None)?;
        strategy::prepare_create(scope, &mut object);
        let mut causes = validate::create(resource, &object);
        causes.extend(strategy::validate(scope, &object, None));
        if !causes.is_empty() {
            return Err(Status::invalid(resource.qualified_kind(), meta::name(&object), &causes));
        }
        options.warnings.extend(strategy::warnings(scope, &object, None));
        if !meta::resource_version(&object).is_empty() {
            return Err(Status::unknown("resourceVersion should not be set on objects to be created"));
        }
        let key = key(meta::namespace(&object), meta::name(&object));
        if self.store.get(resource.table, &key).is_some() {
            let mut status = Status::already_exists(resource.qualified(), meta::name(&object));
            if self.store.get(resource.table, &key).is_some_and(|found| meta::is_deleting(found)) {
                status.message.insert_str(0, "object is being deleted: ");
            }
            if generated {
                status.message.push_str(", the server was not able to generate a unique name for the object");
                status.details.retry_after_seconds = 1;
            }
            return Err(status);
        }
        strategy::encode(scope, &mut object);
        let stored = resource.to_storage(scope.version(), object, None);
        let object = if options.dry_run { Arc::new(stored) } else { self.commit(resource, &key, stored) };
        Ok(Answer::object(201, scope, &object))
    }

    /// Replaces `live` with `new`, which has the client's content.
    pub(super) fn update_object(
        &mut self,
        scope: &Scope,
        live: &Arc<Value>,
        mut new: Value,
        options: &mut WriteOptions,
        tracking: Tracking,
    ) -> Result<Answer, Status> {
        let resource = &scope.resource;
        let stored = live;
        let live = &resource.view(scope.version(), stored);
        check_version(scope, live, &mut new)?;
        scope.settle_namespace(&mut new)?;
        strategy::apply_defaults(scope, &mut new);
        strategy::reset_update(scope, &mut new, live);
        track(scope, Some(live), &mut new, options, tracking);
        keep_system_fields(&mut new, live);
        self.allocate(resource, &mut new, Some(live))?;
        strategy::prepare_update(scope, &mut new, live);
        let mut causes = validate::update(resource, &new, live);
        causes.extend(strategy::validate(scope, &new, Some(live)));
        if !causes.is_empty() {
            return Err(Status::invalid(resource.qualified_kind(), &scope.name, &causes));
        }
        options.warnings.extend(strategy::warnings(scope, &new, Some(live)));
        strategy::encode(scope, &mut new);
        let new = resource.to_storage(scope.version(), new, Some(stored));
        if same_but_for_times(&new, stored) {
            return Ok(Answer::object(200, scope, stored));
        }
        let key = scope.key();
        if strategy::is_finished(resource, &new) {
            if !options.dry_run {
                self.erase(resource, &key);
            }
            return Ok(Answer::object(200, scope, &Arc::new(new)));
        }
        let object = if options.dry_run { Arc::new(new) } else { self.commit(resource, &key, new) };
        Ok(Answer::object(200, scope, &object))
    }
}

/// Makes the manager the owner of the changed fields.
pub(super) fn track(
    scope: &Scope,
    live: Option<&Arc<Value>>,
    object: &mut Value,
    options: &WriteOptions,
    tracking: Tracking,
) {
    let subresource = match tracking {
        Tracking::Update => scope.tracked_subresource(),
        Tracking::Subresource(name) => Some(name),
        Tracking::Applied => return,
    };
    let Some(schema) = scope.version().schema() else { return };
    let nulls = take_nulls(object);
    let api_version = scope.resource.api_version(scope.version());
    let time = meta::timestamp(options.now);
    let manager = Manager { name: &options.manager, api_version: &api_version, subresource, time: &time };
    managed::track_update(schema, live.map(AsRef::as_ref), object, manager);
    for key in nulls {
        object[key] = Value::Null;
    }
    if tracking != Tracking::Update
        && let Some(Value::Array(entries)) = meta::metadata_mut(object).get_mut("managedFields")
    {
        if scope.resource.is_custom() {
            // The fields that a scale sets in a custom resource have no owner.
            entries.retain(|entry| entry["subresource"] != subresource.unwrap_or_default());
        }
        without_time(entries, &options.manager, subresource);
    }
}

/// Removes the fields with an explicit null, which have no owner, and returns their names.
fn take_nulls(object: &mut Value) -> Vec<String> {
    let Some(fields) = object.as_object_mut() else { return Vec::new() };
    let nulls = fields.iter().filter(|(_, value)| value.is_null());
    let nulls: Vec<String> = nulls.map(|(key, _)| key.clone()).collect();
    fields.retain(|_, value| !value.is_null());
    nulls
}

/// Removes the time of writes through another kind. Entries without a time are first among the updates.
fn without_time(entries: &mut Vec<Value>, manager: &str, subresource: Option<&str>) {
    let own = |entry: &Value| {
        entry["manager"] == manager
            && entry["subresource"].as_str() == subresource
            && entry["operation"] == "Update"
    };
    let Some(index) = entries.iter().position(own) else { return };
    let mut entry = entries.remove(index);
    if let Some(entry) = entry.as_object_mut() {
        entry.remove("time");
    }
    let first = entries.iter().position(|entry| entry["operation"] == "Update").unwrap_or(entries.len());
    entries.insert(first, entry);
}

/// Checks the resource version of an update, or sets the live one if it may be left out.
fn check_version(scope: &Scope, live: &Value, new: &mut Value) -> Result<(), Status> {
    let current = meta::resource_version(live);
    let given = meta::resource_version(new);
    if given == current {
        return Ok(());
    }
    if !given.is_empty() && given.parse::<u64>().is_err() {
        let why = format!("strconv.ParseUint: parsing {}: invalid syntax", quote(given));
        return Err(Status::unknown(why));
    }
    if !given.is_empty() && given != "0" {
        return Err(Status::modified(scope.resource.qualified(), &scope.name));
    }
    if !strategy::allows_unconditional_update(scope) {
        let cause = validate::invalid("metadata.resourceVersion", "0", "must be specified for an update");
        return Err(Status::invalid(scope.resource.qualified(), &scope.name, &[cause]));
    }
    let current = current.to_owned();
    meta::set(new, "resourceVersion", current);
    Ok(())
}

/// Keeps the fields that a client can't change.
fn keep_system_fields(new: &mut Value, live: &Value) {
    meta::copy(live, new, "generation");
    meta::copy(live, new, "creationTimestamp");
    if meta::uid(new).is_empty() {
        meta::copy(live, new, "uid");
    }
    if meta::is_deleting(live) {
        meta::copy(live, new, "deletionTimestamp");
    }
    if meta::field(new, "deletionGracePeriodSeconds").is_none() {
        meta::copy(live, new, "deletionGracePeriodSeconds");
    }
    meta::remove(new, "selfLink");
}

/// Returns whether the objects differ only in the times of managed fields.
fn same_but_for_times(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return false };
    let same_body = new.len() == old.len()
        && new.iter().all(|(key, value)| key == "metadata" || old.get(key) == Some(value));
    let (Some(new), Some(old)) =
        (new.get("metadata").and_then(Value::as_object), old.get("metadata").and_then(Value::as_object))
    else {
        return same_body;
    };
    same_body
        && new.len() == old.len()
        && new.iter().all(|(key, value)| match (key.as_str(), old.get(key)) {
            ("managedFields", Some(before)) => same_managers(value, before),
            (_, before) => before == Some(value),
        })
}

fn same_managers(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_array(), old.as_array()) else { return false };
    let same = |new: &Value, old: &Value| match (new.as_object(), old.as_object()) {
        (Some(new), Some(old)) => {
            new.len() == old.len()
                && new.iter().all(|(key, value)| key == "time" || old.get(key) == Some(value))
        }
        _ => false,
    };
    new.len() == old.len() && new.iter().zip(old).all(|(new, old)| same(new, old))
}
