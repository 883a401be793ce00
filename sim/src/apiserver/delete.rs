//! Deletion: preconditions, finalizers, propagation policy.

use std::sync::Arc;

use serde_json::Value;

use super::registry::Resource;
use super::request::Request;
use super::respond::Answer;
use super::scope::{Scope, dry_run};
use super::status::{Qualified, Status, quote};
use super::{ApiServer, body, crd, meta, namespace, strategy, validate};
use crate::cause::Cause;

/// What becomes of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The options of a deletion.
#[derive(Debug, Clone)]
pub(super) struct DeleteOptions {
    pub(super) now: jiff::Timestamp,
    pub(super) dry_run: bool,
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
    pub(super) propagation: Option<Propagation>,
    /// Whether the request says `orphanDependents: false`.
    pub(super) cascades: bool,
}

impl DeleteOptions {
    /// Reads the options from the body, or from the query if there is none.
    pub(super) fn parse(request: &Request<'_>, now: jiff::Timestamp) -> Result<Self, Status> {
        let mut causes = Vec::new();
        let body = if request.body.is_empty() {
            Value::Null
        } else {
            body::decode(request.media_type(), request.body, "DeleteOptions")?.value
        };
        if !body.is_null() && !body.is_object() {
            return Err(Status::bad_request("decoded object cannot be converted to DeleteOptions"));
        }
        let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
        if !matches!(text("kind"), "" | "DeleteOptions") {
            return Err(Status::bad_request(format!(
                "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
                quote(text("kind")),
                quote(text("apiVersion"))
            )));
        }
        let from_query = |key: &str| request.query.get(key).map(Value::from).unwrap_or_default();
        let (policy, orphan, dry) = if body.is_null() {
            (from_query("propagationPolicy"), request.query.flag("orphanDependents"), None)
        } else {
            let dry = meta::strings(body.get("dryRun"));
            (body["propagationPolicy"].clone(), body["orphanDependents"].as_bool(), Some(dry))
        };
        let dry_run = match dry {
            Some(values) => dry_run(values.into_iter(), &mut causes),
            None => dry_run(request.query.all("dryRun"), &mut causes),
        };
        let propagation = propagation(policy.as_str(), orphan, &mut causes);
        if !causes.is_empty() {
            let kind = Qualified { group: "meta.k8s.io", name: "DeleteOptions" };
            return Err(Status::invalid(kind, "", &causes));
        }
        let precondition = |key: &str| {
            body.pointer(&format!("/preconditions/{key}")).and_then(Value::as_str).map(str::to_owned)
        };
        Ok(Self {
            now,
            dry_run,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            propagation,
            cascades: orphan == Some(false),
        })
    }

    /// A plain deletion.
    pub(super) fn background(now: jiff::Timestamp) -> Self {
        Self {
            now,
            dry_run: false,
            uid: None,
            resource_version: None,
            propagation: Some(Propagation::Background),
            cascades: false,
        }
    }
}

fn propagation(policy: Option<&str>, orphan: Option<bool>, causes: &mut Vec<Cause>) -> Option<Propagation> {
    let field = "propagationPolicy";
    if let (Some(policy), Some(_)) = (policy, orphan) {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        causes.push(validate::invalid(field, &quote(policy), why));
    }
    match (policy, orphan) {
        (None, None) => None,
        (None, Some(true)) | (Some("Orphan"), _) => Some(Propagation::Orphan),
        (None, Some(false)) | (Some("Background"), _) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some(other), _) => {
            causes.push(Cause {
                reason: "FieldValueNotSupported",
                field: field.to_owned(),
                message: format!(
                    r#"Unsupported value: {}: supported values: "Foreground", "Background", "Orphan", "nil""#,
                    quote(other)
                ),
            });
            None
        }
    }
}

/// The finalizers after the propagation policy is worked in.
fn finalizers(resource: &Resource, object: &Value, policy: Option<Propagation>) -> Vec<String> {
    let present = meta::finalizers(object);
    let policy = policy.or_else(|| {
        let has = |name: &str| present.contains(&name);
        if has(meta::ORPHAN) {
            Some(Propagation::Orphan)
        } else if has(meta::FOREGROUND) {
            Some(Propagation::Foreground)
        } else {
            strategy::orphans_by_default(resource).then_some(Propagation::Orphan)
        }
    });
    let own = |name: &&str| *name != meta::ORPHAN && *name != meta::FOREGROUND;
    let mut finalizers: Vec<String> = present.into_iter().filter(own).map(str::to_owned).collect();
    match policy {
        Some(Propagation::Orphan) => finalizers.push(meta::ORPHAN.to_owned()),
        Some(Propagation::Foreground) => finalizers.push(meta::FOREGROUND.to_owned()),
        Some(Propagation::Background) | None => {}
    }
    finalizers
}

/// What a deletion did.
pub(super) enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Arc<Value>),
    /// The object waits for its finalizers.
    Pending(Arc<Value>),
}

impl ApiServer {
    pub(super) fn delete_request(
        &mut self,
        scope: &Scope,
        options: &DeleteOptions,
    ) -> Result<Answer, Status> {
        let deleted = self.delete_object(scope, options)?;
        let resource = &scope.resource;
        match deleted {
            Deleted::Pending(object) => {
                // Deletion is accepted rather than done, but only who asks in this old way is told.
                Ok(Answer::object(if options.cascades { 202 } else { 200 }, scope, &object))
            }
            // Of all kinds only Pods are told to go before they are gone.
            Deleted::Gone(mut object) if resource.is("", "pods") => {
                mark_as_deleting(Arc::make_mut(&mut object), options.now);
                Ok(Answer::object(200, scope, &object))
            }
            Deleted::Gone(object) if strategy::returns_deleted_object(resource) => {
                Ok(Answer::object(200, scope, &object))
            }
            Deleted::Gone(object) => Ok(Answer::Json(200, success(resource, &object))),
        }
    }

    /// Deletes one object, or marks it as being deleted if finalizers hold it.
    pub(super) fn delete_object(
        &mut self,
        scope: &Scope,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let resource = &scope.resource;
        let key = scope.key();
        namespace::check_delete(resource, &scope.name)?;
        let live = Arc::clone(self.store.get(resource.table, &key).ok_or_else(|| scope.not_found())?);
        check_preconditions(resource, &live, options)?;
        if resource.is("", "namespaces") {
            return Ok(self.delete_namespace(scope, &live, options));
        }
        if crd::is_definition(resource) && !meta::is_deleting(&live) {
            return Ok(self.delete_definition(scope, &live, options));
        }
        let wanted = finalizers(resource, &live, options.propagation);
        if wanted.is_empty() {
            if options.dry_run {
                return Ok(Deleted::Gone(live));
            }
            return self.erase(resource, &key).map(Deleted::Gone).ok_or_else(|| scope.not_found());
        }
        let mut object = (*live).clone();
        meta::set_finalizers(&mut object, &wanted);
        mark_as_deleting(&mut object, options.now);
        if object == *live {
            return Ok(Deleted::Pending(live));
        }
        let object = if options.dry_run { Arc::new(object) } else { self.commit(resource, &key, object) };
        Ok(Deleted::Pending(object))
    }

    /// The first deletion of a namespace starts its termination; it goes once it has no finalizers.
    fn delete_namespace(&mut self, scope: &Scope, live: &Arc<Value>, options: &DeleteOptions) -> Deleted {
        let wanted = finalizers(&scope.resource, live, options.propagation);
        if meta::is_deleting(live) {
            if namespace::has_finalizers(live) || !wanted.is_empty() || options.dry_run {
                return Deleted::Pending(Arc::clone(live));
            }
            return match self.erase(&scope.resource, &scope.key()) {
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
        Deleted::Pending(self.commit(&scope.resource, &scope.key(), object))
    }

    /// Deletes everything that a list would show.
    pub(super) fn delete_collection(
        &mut self,
        scope: &Scope,
        request: &Request<'_>,
        options: &DeleteOptions,
    ) -> Result<Answer, Status> {
        let mut answer = self.list(scope, request)?;
        if let Answer::List(list) = &mut answer {
            for item in &mut list.items {
                let one = Scope {
                    namespace: meta::namespace(item).to_owned(),
                    name: meta::name(item).to_owned(),
                    ..scope.clone()
                };
                match self.delete_object(&one, options) {
                    Ok(Deleted::Gone(_) | Deleted::Pending(_)) => {}
                    Err(status) if status.code == 404 => {}
                    Err(status) => return Err(status),
                }
            }
        }
        Ok(answer)
    }
}

/// The warning of who deletes objects of a kind whose dependents stay, and does not say that they shall.
pub(super) fn warning(resource: &Resource, options: &DeleteOptions) -> Option<String> {
    const STAYS: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";
    (resource.is("batch", "jobs") && options.propagation.is_none()).then(|| STAYS.to_owned())
}

fn mark_as_deleting(object: &mut Value, now: jiff::Timestamp) {
    if !meta::is_deleting(object) {
        let generation = meta::generation(object);
        if generation > 0 {
            meta::set(object, "generation", generation + 1);
        }
        meta::set(object, "deletionTimestamp", meta::timestamp(now));
    }
    meta::set(object, "deletionGracePeriodSeconds", 0);
}

fn check_preconditions(resource: &Resource, live: &Value, options: &DeleteOptions) -> Result<(), Status> {
    let name = meta::name(live);
    let kind = resource.qualified_kind();
    if crd::is_definition(resource) {
        return crd::check_preconditions(live, options);
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
