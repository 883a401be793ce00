//! Argo CD: brings what its Applications say to the clusters that it knows, and tells what became of it.
//!
//! ```text
//!  Application ─▶ compared ─▶ OutOfSync ─▶ operation ─▶ Running ─▶ release on the cluster ─▶ Succeeded ─▶ Synced
//!                    │                                                                   Progressing ─▶ Healthy
//!                    ├▶ InvalidSpecError: no such project or cluster, or one that the project does not permit
//!                    └▶ ComparisonError: the cluster does not answer or does not let it in, or there is no such chart
//! ```
//!
//! Its objects have no status subresource: each of its writes counts up their generation. What it can't compare it calls
//! Healthy, as the real one does, with a sync status of Unknown.
//!
//! Left out: sources other than Helm charts, hooks and their finalizers, pruning, sync windows and roles of projects, and
//! that an operation is given up after five attempts: here it goes on until it ends.

use std::sync::Arc;

use lockstep_core::engine::finalizer;
use lockstep_core::object::{Kind, annotation, is_deleting, metadata};
use serde_json::Value;

use super::dpf::cluster_kind;
use super::level::Controller;
use super::look::Look;
use super::{config_map_kind, reference, secret_kind};

mod compare;
mod deletion;
mod destination;
mod operation;
mod project;
mod status;

/// Where Argo CD runs; objects elsewhere are nothing to it.
pub const NAMESPACE: &str = "dpf-argo-cd-system";
/// What holds Applications until their workloads are gone, and projects until their Applications are. The last two say
/// how workloads go, which is all the same here.
pub const FINALIZERS: [&str; 3] = [
    "resources-finalizer.argocd.argoproj.io",
    "resources-finalizer.argocd.argoproj.io/foreground",
    "resources-finalizer.argocd.argoproj.io/background",
];
/// Tells of a Secret what it is for; that of a cluster says `cluster`.
pub const SECRET_TYPE: &str = "argocd.argoproj.io/secret-type";
/// On an Application or the Secret of a cluster, with the value `true`: Argo CD leaves it alone.
pub const SKIP_RECONCILE: &str = "argocd.argoproj.io/skip-reconcile";
/// Asks for a refresh, and goes with it.
pub const REFRESH: &str = "argocd.argoproj.io/refresh";

/// The kind of its applications.
pub fn application_kind() -> Arc<Kind> {
    Kind::known("argoproj.io", "v1alpha1", "Application", "applications", true)
}

/// The kind of its projects.
pub fn project_kind() -> Arc<Kind> {
    Kind::known("argoproj.io", "v1alpha1", "AppProject", "appprojects", true)
}

/// Argo CD's application controller.
#[derive(Debug, Clone, Copy, Default)]
pub struct ArgoCd;

impl Controller for ArgoCd {
    const NAME: &'static str = "argocd";

    fn kinds() -> Vec<Arc<Kind>> {
        vec![application_kind(), project_kind(), secret_kind(), cluster_kind(), config_map_kind()]
    }

    fn look(&self, look: &mut Look<'_>) {
        for application in applications(look) {
            let destination = destination::find(look, application);
            let is_skipped = |object: &Value| annotation(object, SKIP_RECONCILE) == Some("true");
            if is_skipped(application) || destination.as_ref().is_ok_and(|found| is_skipped(found.secret)) {
                continue;
            }
            let target = reference(&application_kind(), application);
            let compared = compare::compare(look, application, &destination);
            if !application["operation"].is_null() {
                operation::go_on(look, &target, application, &compared);
            } else if is_deleting(application) {
                deletion::tend(look, &target, application, &destination);
            } else {
                status::tend(look, &target, application, &compared);
            }
        }
        for project in look.all(&project_kind()).filter(|project| is_deleting(project)) {
            let target = reference(&project_kind(), project);
            let is_used = applications(look).any(|application| application["spec"]["project"] == target.name);
            let let_go = finalizer::remove(&target, project, FINALIZERS[0]).filter(|_| !is_used);
            if let Some(let_go) = let_go
                && look.after(&target, "let go")
            {
                look.ask(let_go);
            }
        }
    }
}

fn applications<'a>(look: &Look<'a>) -> impl Iterator<Item = &'a Value> + use<'a> {
    look.all(&application_kind()).filter(|application| metadata(application, "namespace") == NAMESPACE)
}
