//! Create and update: normalise, default, track, validate, store.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::request::ResourcePath;
use super::respond::Answer;
use super::scope::{Scope, WriteOptions};
use super::state::ApiServer;
use super::status::{Status, quote};
use super::store::key;
use super::{allocate, crd_controllers, meta, namespace, persist, strategy, validate};
use crate::managed::{self, Manager};

/// How the managed fields of a write are maintained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracking {
    /// The write is an update: the manager becomes the owner of the changed fields.
    Update,
    /// The object is the result of an apply and already has its managed fields.
    Applied,
}

/// Creates an object on behalf of the server itself.
pub(super) fn install(
    server: &mut ApiServer,
    group: &str,
    plural: &str,
    object: Value,
    now: Timestamp,
) -> Result<(), Status> {
    server.now = now;
    let Some(resource) = server.registry.get(group, plural).cloned() else { return Ok(()) };
    let path = ResourcePath { namespace: meta::namespace(&object).to_owned(), ..ResourcePath::default() };
    let scope = Scope::new(resource, 0, path);
    let mut options = WriteOptions::internal("kube-apiserver", now);
    create_object(server, &scope, object, &mut options, Tracking::Update).map(drop)
}

/// Creates an object that [`super::admit`] has accepted. The endpoint of a status creates the object without its status, and
/// allocates nothing.
pub(super) fn create_object(
    server: &mut ApiServer,
    scope: &Scope,
    mut object: Value,
    options: &mut WriteOptions,
    tracking: Tracking,
) -> Result<Answer, Status> {
    let resource = &scope.resource;
    for key in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "uid", "selfLink"] {
        meta::remove(&mut object, key);
    }
    scope.settle_namespace(&mut object)?;
    let generated = meta::name(&object).is_empty() && !meta::text(&object, "generateName").is_empty();
    let asked = meta::text(&object, if generated { "generateName" } else { "name" }).to_owned();
    crd_controllers::check_create(server, resource, &asked)?;
    if generated {
        let name = server.ids.name(meta::text(&object, "generateName"));
        meta::set(&mut object, "name", name);
    }
    meta::set(&mut object, "creationTimestamp", meta::timestamp(options.now));
    meta::set(&mut object, "uid", server.ids.uid());
    if resource.namespaced {
        namespace::check_create(server, resource, &asked, meta::namespace(&object))?;
    }
    apply_defaults(scope, &mut object, tracking);
    track(scope, None, &mut object, options, tracking);
    strategy::reset_create(scope, &mut object);
    if scope.subresource.is_empty() {
        allocate::allocate(&server.store, resource, &mut object, None)?;
    }
    strategy::prepare_create(scope, &mut object);
    let mut causes = validate::create(resource, &object);
    causes.extend(strategy::validate(scope, &object, None));
    if !causes.is_empty() {
        return Err(Status::invalid(resource.qualified_kind(), meta::name(&object), &causes));
    }
    options.warnings.extend(strategy::warnings(scope, &object, None));
    // A version that is no number is ignored, and so is any in a dry run.
    let is_versioned = meta::resource_version(&object).parse::<u64>().is_ok_and(|version| version != 0);
    if is_versioned && !options.dry_run {
        return Err(Status::unknown("resourceVersion should not be set on objects to be created"));
    }
    let key = key(meta::namespace(&object), meta::name(&object));
    if server.store.get(resource.table, &key).is_some() {
        let mut status = Status::already_exists(resource.qualified(), meta::name(&object));
        if server.store.get(resource.table, &key).is_some_and(|found| meta::is_deleting(found)) {
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
    let object = if options.dry_run {
        Arc::new(stored)
    } else {
        persist::check_size(&stored)?;
        persist::put(server, resource, &key, stored)
    };
    Ok(Answer::object(201, scope, &object))
}

/// Replaces `live` with `new`, which has the client's content.
pub(super) fn update_object(
    server: &mut ApiServer,
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
    apply_defaults(scope, &mut new, tracking);
    track(scope, Some(live), &mut new, options, tracking);
    strategy::reset_update(scope, &mut new, live);
    keep_system_fields(&mut new, live);
    allocate::allocate(&server.store, resource, &mut new, Some(live))?;
    strategy::prepare_update(scope, &mut new, live, options.now);
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
            persist::remove(server, resource, &key);
        }
        return Ok(Answer::object(200, scope, &Arc::new(new)));
    }
    let object = if options.dry_run {
        Arc::new(new)
    } else {
        persist::check_size(&new)?;
        persist::put(server, resource, &key, new)
    };
    Ok(Answer::object(200, scope, &object))
}

/// Sets the defaults of an object. An applied custom resource has those of the fields that the apply has changed, and no others.
fn apply_defaults(scope: &Scope, object: &mut Value, tracking: Tracking) {
    if tracking == Tracking::Update || !scope.resource.is_custom() {
        strategy::apply_defaults(scope, object);
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
    if tracking == Tracking::Applied {
        return;
    }
    let subresource = scope.tracked_subresource();
    let Some(schema) = scope.version().schema() else { return };
    let nulls = take_nulls(object);
    let api_version = scope.resource.api_version(scope.version());
    let time = meta::timestamp(options.now);
    let reset = strategy::reset_fields(scope);
    let manager = Manager {
        name: &options.manager,
        api_version: &api_version,
        subresource,
        reset,
        versions: scope,
        time: &time,
    };
    let live = live.map(AsRef::as_ref);
    let is_fit = |live: &&Value| scope.resource.is_custom() && !scope.resource.is_outdated(live);
    let is_renewal =
        live.filter(is_fit).is_some_and(|live| managed::track_renewal(schema, live, object, manager));
    if !is_renewal {
        managed::track_update(schema, live, object, manager);
    }
    for key in nulls {
        object[key] = Value::Null;
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

/// Refuses a resource version that is not a number.
pub(super) fn check_version_syntax(version: &str) -> Result<(), Status> {
    if version.is_empty() || version.parse::<u64>().is_ok() {
        return Ok(());
    }
    Err(Status::unknown(format!("strconv.ParseUint: parsing {}: invalid syntax", quote(version))))
}

/// Checks the resource version of an update, or sets the live one if it may be left out.
fn check_version(scope: &Scope, live: &Value, new: &mut Value) -> Result<(), Status> {
    let current = meta::resource_version(live);
    let given = meta::resource_version(new);
    if given == current {
        return Ok(());
    }
    check_version_syntax(given)?;
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
