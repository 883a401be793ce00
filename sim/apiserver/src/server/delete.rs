//! Deletion: preconditions, finalizers, propagation policy.

use std::sync::Arc;

use serde_json::Value;

use super::crd::definition;
use super::delete_options::DeleteOptions;
use super::grace::Grace;
use super::registry::Resource;
use super::request::Request;
use super::respond::Answer;
use super::scope::Scope;
use super::state::ApiServer;
use super::status::Status;
use super::termination::{self, Effect};
use super::{meta, namespace, persist, read, strategy};

/// The effect of a deletion.
pub(super) enum Deleted {
    /// The object was removed; this was its last state.
    Gone(Arc<Value>),
    /// The object waits for its finalizers.
    Pending(Arc<Value>),
}

/// Answers a DELETE of one object.
pub(super) fn delete_request(
    server: &mut ApiServer,
    scope: &Scope,
    options: &DeleteOptions,
) -> Result<Answer, Status> {
    let deleted = delete_object(server, scope, options)?;
    let resource = &scope.resource;
    match deleted {
        Deleted::Pending(object) => {
            // The deletion is accepted and not complete, but only clients with this old option get the code for that.
            Ok(Answer::object(if options.cascades { 202 } else { 200 }, scope, &object))
        }
        // Only Pods get a deletion timestamp before they are removed.
        Deleted::Gone(mut object) if resource.is("", "pods") => {
            Grace::None.mark(Arc::make_mut(&mut object), options.now);
            Ok(Answer::object(200, scope, &object))
        }
        Deleted::Gone(object) if strategy::returns_deleted_object(resource) => {
            Ok(Answer::object(200, scope, &object))
        }
        Deleted::Gone(object) => Ok(Answer::Json(200, success(resource, &object))),
    }
}

/// Deletes one object, or marks it as being deleted if it has finalizers.
pub(super) fn delete_object(
    server: &mut ApiServer,
    scope: &Scope,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    let resource = &scope.resource;
    let key = scope.key();
    namespace::check_delete(resource, &scope.name)?;
    let live = Arc::clone(server.store.get(resource.table, &key).ok_or_else(|| scope.not_found())?);
    check_preconditions(resource, &live, options)?;
    if resource.is("", "namespaces") {
        return Ok(delete_namespace(server, scope, &live, options));
    }
    if definition::is_definition(resource) && !meta::is_deleting(&live) {
        return Ok(delete_definition(server, scope, &live, options));
    }
    match termination::effect(resource, &live, options) {
        Effect::Unchanged => Ok(Deleted::Pending(live)),
        Effect::Removed if options.dry_run => Ok(Deleted::Gone(live)),
        Effect::MarkedAndRemoved(object) if options.dry_run => Ok(Deleted::Gone(Arc::new(object))),
        Effect::MarkedAndRemoved(object) => {
            persist::put(server, resource, &key, object);
            persist::remove(server, resource, &key).map(Deleted::Gone).ok_or_else(|| scope.not_found())
        }
        Effect::Removed => {
            persist::remove(server, resource, &key).map(Deleted::Gone).ok_or_else(|| scope.not_found())
        }
        Effect::Marked(object) if options.dry_run => Ok(Deleted::Pending(Arc::new(object))),
        Effect::Marked(object) => Ok(Deleted::Pending(persist::put(server, resource, &key, object))),
    }
}

/// Handles the first deletion of a namespace: it starts to terminate, and is removed once it has no finalizers.
fn delete_namespace(
    server: &mut ApiServer,
    scope: &Scope,
    live: &Arc<Value>,
    options: &DeleteOptions,
) -> Deleted {
    let wanted = termination::finalizers(&scope.resource, live, options.propagation);
    if meta::is_deleting(live) {
        if namespace::has_finalizers(live) || !wanted.is_empty() || options.dry_run {
            return Deleted::Pending(Arc::clone(live));
        }
        return match persist::remove(server, &scope.resource, &scope.key()) {
            Some(object) => Deleted::Gone(object),
            None => Deleted::Pending(Arc::clone(live)),
        };
    }
    let mut object = (**live).clone();
    meta::set_finalizers(&mut object, &wanted);
    meta::set(&mut object, "deletionTimestamp", meta::timestamp(options.now));
    meta::map_at(&mut object, "status").insert("phase".into(), "Terminating".into());
    if options.dry_run {
        return Deleted::Pending(Arc::new(object));
    }
    Deleted::Pending(persist::put(server, &scope.resource, &scope.key(), object))
}

/// Handles the first deletion of a definition: its objects are deleted, and it is removed when none is left.
fn delete_definition(
    server: &mut ApiServer,
    scope: &Scope,
    live: &Value,
    options: &DeleteOptions,
) -> Deleted {
    let object = definition::terminating(live, options.now);
    if options.dry_run {
        return Deleted::Pending(Arc::new(object));
    }
    // The answer is the state before the removal, which may follow immediately.
    Deleted::Pending(persist::put(server, &scope.resource, &scope.key(), object))
}

/// Deletes everything that a list would return.
pub(super) fn delete_collection(
    server: &mut ApiServer,
    scope: &Scope,
    request: &Request<'_>,
    options: &DeleteOptions,
) -> Result<Answer, Status> {
    let mut answer = read::list(&server.store, scope, request)?;
    if let Answer::List(list) = &mut answer {
        for item in &mut list.items {
            let one = Scope {
                namespace: meta::namespace(item).to_owned(),
                name: meta::name(item).to_owned(),
                ..scope.clone()
            };
            match delete_object(server, &one, options) {
                Ok(Deleted::Gone(_) | Deleted::Pending(_)) => {}
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
    }
    Ok(answer)
}

/// Returns the warning for a deletion of a kind that orphans dependents by default, if the request sets no policy.
pub(super) fn warning(resource: &Resource, options: &DeleteOptions) -> Option<String> {
    const STAYS: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";
    (resource.is("batch", "jobs") && options.propagation.is_none()).then(|| STAYS.to_owned())
}

fn check_preconditions(resource: &Resource, live: &Value, options: &DeleteOptions) -> Result<(), Status> {
    let name = meta::name(live);
    let kind = resource.qualified_kind();
    if definition::is_definition(resource) {
        return check_definition_preconditions(resource, live, options);
    }
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != meta::uid(live)) {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            meta::uid(live)
        );
        return Err(Status::conflict(kind, name, &why));
    }
    let current = meta::resource_version(live);
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != current) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({current}). The object might have been modified"
        );
        return Err(Status::conflict(kind, name, &why));
    }
    Ok(())
}

/// Refuses a deletion with preconditions for another definition or another state of it.
fn check_definition_preconditions(
    resource: &Resource,
    definition: &Value,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let found = [
        ("UID", &options.uid, meta::uid(definition)),
        ("ResourceVersion", &options.resource_version, meta::resource_version(definition)),
    ];
    for (what, wanted, found) in found {
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
            let why = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
            );
            return Err(Status::conflict(resource.qualified(), meta::name(definition), &why));
        }
    }
    Ok(())
}

fn success(resource: &Resource, object: &Value) -> Value {
    let mut details = serde_json::Map::new();
    for (key, text) in [
        ("name", meta::name(object)),
        ("group", resource.group.as_str()),
        ("kind", resource.plural.as_str()),
        ("uid", meta::uid(object)),
    ] {
        if !text.is_empty() {
            details.insert(key.to_owned(), text.into());
        }
    }
    serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    })
}
