//! Deletion: preconditions, finalizers, propagation policy.

use std::sync::Arc;

use serde_json::Value;

use self::grace::Grace;
pub(super) use self::options::{DeleteOptions, Propagation};
use super::registry::Resource;
use super::request::Request;
use super::respond::Answer;
use super::scope::Scope;
use super::status::Status;
use super::{ApiServer, crd, meta, namespace, strategy};

mod grace;
mod options;

/// Returns the finalizers with those of the propagation policy.
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

/// The effect of a deletion.
pub(super) enum Deleted {
    /// The object was removed; this was its last state.
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
        let grace = Grace::of(resource, &live, options);
        if grace == Grace::Pending {
            return Ok(Deleted::Pending(live));
        }
        let wanted = finalizers(resource, &live, options.propagation);
        if wanted.is_empty() && grace.seconds() == 0 {
            if options.dry_run {
                return Ok(Deleted::Gone(live));
            }
            return self.erase(resource, &key).map(Deleted::Gone).ok_or_else(|| scope.not_found());
        }
        let mut object = (*live).clone();
        meta::set_finalizers(&mut object, &wanted);
        grace.mark(&mut object, options.now);
        if object == *live {
            return Ok(Deleted::Pending(live));
        }
        let object = resource.refreshed(object);
        let object = if options.dry_run { Arc::new(object) } else { self.commit(resource, &key, object) };
        Ok(Deleted::Pending(object))
    }

    /// Handles the first deletion of a namespace: it starts to terminate, and is removed once it has no finalizers.
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

    /// Deletes everything that a list would return.
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

/// Returns the warning for a deletion of a kind that orphans dependents by default, if the request sets no policy.
pub(super) fn warning(resource: &Resource, options: &DeleteOptions) -> Option<String> {
    const STAYS: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";
    (resource.is("batch", "jobs") && options.propagation.is_none()).then(|| STAYS.to_owned())
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
