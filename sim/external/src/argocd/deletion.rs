//! Deletes an Application: its workloads are removed first, if Argo CD has access to them.
//!
//! | | |
//! | --- | --- |
//! | the project does not exist | the deletion is blocked: `DeletionError` |
//! | the cluster is not registered with Argo CD | it is removed, and its workloads remain |
//! | the project no longer permits the cluster | it is removed, and its workloads remain |
//! | the cluster refuses access | the deletion is blocked: `DeletionError` |
//! | otherwise | its workloads are removed, then the Application |

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::finalizer;
use lockstep_engine::object::{ObjectRef, Uid, is_deleting, label, metadata};
use serde_json::Value;

use super::destination::Destination;
use super::model::FINALIZERS;
use super::{project, status};
use crate::dpu_clusters::{Kubeconfigs, release};
use crate::kinds::{config_map_kind, reference};
use crate::read_view::ReadView;

pub(super) fn reconcile(
    look: &mut ReadView<'_>,
    target: &ObjectRef,
    application: &Value,
    destination: &Result<Destination<'_>, String>,
    kubeconfigs: &mut Kubeconfigs,
) {
    let held = FINALIZERS.iter().find_map(|held| finalizer::remove(target, application, held));
    let Some(let_go) = held else { return };
    let fail = |look: &mut ReadView<'_>, why: String| {
        if look.after(target, "fail to delete") {
            let wanted = status::undeletable(look, application, why);
            look.keep_fields(target, application, &wanted, &["status"]);
        }
    };
    let Some(project) = project::of(look, application) else {
        let name = application["spec"]["project"].as_str().unwrap_or_default();
        let why = format!("error getting app project {name:?}: appproject.argoproj.io {name:?} not found");
        return fail(look, why);
    };
    let namespace = application["spec"]["destination"]["namespace"].as_str().unwrap_or_default();
    let reached = match destination {
        Ok(found) if project::permits_destination(project, found, namespace) => {
            found.reach(look, kubeconfigs)
        }
        _ => {
            if look.after(target, "let go") {
                look.ask(let_go);
            }
            return;
        }
    };
    let cluster = match reached {
        Ok(cluster) => cluster,
        Err(why) => return fail(look, why),
    };
    let mut is_left = false;
    for found in look.all(&config_map_kind()).filter(|object| is_of(object, cluster, application)) {
        is_left = true;
        let found_target = reference(&config_map_kind(), found);
        if !is_deleting(found) && look.after(&found_target, "delete") {
            let uid = Uid::of(found);
            look.ask(Action::Kube(KubeRequest::Delete { target: found_target, uid, resource_version: None }));
        }
    }
    if !is_left && look.after(target, "let go") {
        look.ask(let_go);
    }
}

/// Returns whether an Application has created an object on a cluster.
fn is_of(object: &Value, cluster: &Value, application: &Value) -> bool {
    label(object, release::CLUSTER) == Some(metadata(cluster, "name"))
        && metadata(object, "namespace") == metadata(cluster, "namespace")
        && object["data"]["application"] == metadata(application, "name")
}
