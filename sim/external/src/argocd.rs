//! Argo CD: deploys its Applications to the registered clusters, and reports their state.
//!
//! ```text
//!  Application ─▶ compared ─▶ OutOfSync ─▶ operation ─▶ Running ─▶ release on the cluster ─▶ Succeeded ─▶ Synced
//!                    │                                                                   Progressing ─▶ Healthy
//!                    ├▶ InvalidSpecError: no such project or cluster, or one that the project does not permit
//!                    └▶ ComparisonError: the cluster is unreachable or refuses access, there is no such chart, or the repo-server
//!                       does not answer
//! ```
//!
//! Its objects have no status subresource: each of its writes increments their generation. An Application that it can't compare
//! is Healthy, as in the real one, with the sync status Unknown.
//!
//! A chart has a `PostSync` hook if its values request one that fails or never ends ([`release`]).
//!
//! A changed project alone causes no comparison: an Application that it did not permit stays invalid until the next one, at most
//! three minutes later.
//!
//! It compares from a cache. For a cluster that is no longer reachable, it repeats the last observation until a change has to be
//! deployed. For a cluster that refuses its credentials, it does so for 75 seconds. A failed operation is retried with
//! exponential backoff, as its `retry` specifies; after that, the same source is never retried. A `Terminating` operation ends
//! immediately. An operation that waits for a hook continues to wait, even if its Application has changed: no change and no drift
//! correction is deployed before it has ended.
//!
//! Not modelled: sources other than Helm charts, other hooks and the finalizers of hooks, pruning, sync windows and roles of
//! projects.
//!
//! [`release`]: crate::dpu_clusters::release

use std::collections::BTreeMap;
use std::sync::Arc;

use lockstep_engine::finalizer;
use lockstep_engine::object::{Kind, ObjectRef, ResourceVersion, annotation, is_deleting, metadata};
use serde_json::Value;

use self::compare::Compared;
use self::destination::Cache;
use super::dpu_clusters::{Kubeconfigs, cluster_kind};
use super::kinds::{config_map_kind, reference, secret_kind};
use super::level::Controller;
use super::read_view::{ReadView, Waits};

mod compare;
mod deletion;
mod destination;
mod model;
mod operation;
mod project;
mod repo_server;
mod status;

pub use self::model::{
    Charts, FINALIZERS, NAMESPACE, REFRESH, SECRET_TYPE, SKIP_RECONCILE, application_kind, project_kind,
    repeated,
};
pub use self::repo_server::repo_server_outage;

/// Argo CD's application controller.
#[derive(Debug, Clone, Default)]
pub struct ArgoCd {
    /// The charts in the repositories, in any version; none if every requested chart exists.
    charts: Option<Charts>,
    kubeconfigs: Kubeconfigs,
    /// The clusters that it has accessed.
    cache: Cache,
    /// Applications that are in their final state or wait for a step, by name, until an input of that evaluation changes.
    settled: BTreeMap<String, Settled>,
}

/// The inputs of the evaluation of an Application, as versions.
#[derive(Debug, Clone, PartialEq)]
struct Settled {
    application: ResourceVersion,
    release: Option<(ObjectRef, ResourceVersion)>,
    /// For all Secrets and clusters: the newest version, and their number. A change of a project is noticed at the next refresh.
    surroundings: [(ResourceVersion, usize); 2],
    is_repo_server_down: bool,
    /// What it waits for; nothing in its final state.
    waits: Waits,
}

impl Controller for ArgoCd {
    const NAME: &'static str = "argocd";

    fn kinds() -> Vec<Arc<Kind>> {
        vec![application_kind(), project_kind(), secret_kind(), cluster_kind(), config_map_kind()]
    }

    fn look(&mut self, look: &mut ReadView<'_>) {
        let surroundings = [secret_kind(), cluster_kind()].map(|kind| look.newest(&kind));
        let is_repo_server_down = repo_server::is_down(look);
        for application in applications(look) {
            let target = reference(&application_kind(), application);
            let version = ResourceVersion::of(application);
            let before = self.settled.remove(&target.name).filter(|settled| {
                let is_same = |(target, version): &(ObjectRef, ResourceVersion)| {
                    look.get(target).map(ResourceVersion::of).unwrap_or_default() == *version
                };
                settled.application == version
                    && settled.surroundings == surroundings
                    && settled.is_repo_server_down == is_repo_server_down
                    && settled.release.as_ref().is_none_or(is_same)
                    && !((settled.waits.recurs || settled.waits.is_empty())
                        && status::is_old(look, &target, application))
                    && look.waits_again(&settled.waits)
            });
            if let Some(settled) = before {
                self.settled.insert(target.name, settled);
                continue;
            }
            look.record();
            let release = self.reconcile(look, &target, application);
            // An Application that is being deleted depends on further objects.
            if let Some(waits) = look.recorded().filter(|_| !is_deleting(application)) {
                let release = release.map(|target| {
                    let version = look.get(&target).map(ResourceVersion::of).unwrap_or_default();
                    (target, version)
                });
                let settled =
                    Settled { application: version, release, surroundings, is_repo_server_down, waits };
                self.settled.insert(target.name, settled);
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

impl ArgoCd {
    /// Returns an Argo CD with exactly these charts in its repositories.
    pub fn offering(charts: Charts) -> Self {
        Self { charts: Some(charts), ..Self::default() }
    }

    /// Executes the pending work for one Application. Returns the location of its release, if it is known.
    fn reconcile(
        &mut self,
        look: &mut ReadView<'_>,
        target: &ObjectRef,
        application: &Value,
    ) -> Option<ObjectRef> {
        let destination = destination::find(look, application);
        let is_skipped = |object: &Value| annotation(object, SKIP_RECONCILE) == Some("true");
        if is_skipped(application) || destination.as_ref().is_ok_and(|found| is_skipped(found.secret)) {
            return None;
        }
        let has_operation = !application["operation"].is_null();
        if is_deleting(application) && !has_operation {
            deletion::reconcile(look, target, application, &destination, &mut self.kubeconfigs);
            return None;
        }
        let compared = compare::compare(
            look,
            application,
            &destination,
            self.charts.as_ref(),
            &mut self.kubeconfigs,
            &mut self.cache,
        );
        if !has_operation || operation::go_on(look, target, application, &compared) {
            status::reconcile(look, target, application, &compared);
        }
        match compared {
            Compared::Done(found) => Some(found.target),
            Compared::Invalid(_) | Compared::Failed(_) => None,
        }
    }
}

fn applications<'a>(look: &ReadView<'a>) -> impl Iterator<Item = &'a Value> + use<'a> {
    look.all(&application_kind()).filter(|application| metadata(application, "namespace") == NAMESPACE)
}
