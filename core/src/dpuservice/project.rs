//! The reconcile of the AppProject: it permits what has to be deployed, and nothing else.
//!
//! ```text
//!  begin ─┬─ services stay, or Applications ──▶ Writing
//!         └─ neither ──▶ Surveying ─▶ Removing
//! ```
//!
//! It is shared by all services. A server stays permitted as long as an Application deploys to it, because Argo CD leaves behind
//! what it may not touch. Nobody waits for the project to be gone: Argo CD, which takes its finalizer out, may not run.
//!
//! Source: "Reconcile the ArgoCD `AppProject`".

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::application::{self, Index};
use super::names::{self, ARGO_FINALIZER, ARGO_NAMESPACE, MANAGED_BY, MANAGER, PROJECT, SERVICE_NAME};
use super::world::{Project, World};
use super::{Controller, Key, lagging};
use crate::engine::action::{Action, Failure, Outcome, Success};
use crate::engine::cache::Cached as _;
use crate::engine::driver::{Next, Verdict};
use crate::engine::write::{covers, create_or_apply};
use crate::object::{Name, is_deleting};

/// What the reconcile of the project waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// It is being written.
    Writing,
    /// All Applications are being listed.
    Surveying,
    /// It is being removed.
    Removing,
}

fn wait(actions: Vec<Action>, stage: Stage) -> Next<super::Stage> {
    Next::Await(actions, super::Stage::Project(stage))
}

/// The AppProject's name.
pub fn name() -> Name {
    Name::new(ARGO_NAMESPACE, PROJECT)
}

/// The servers that have to be permitted: those of the clusters, and where Applications still are or have to be removed.
fn servers(world: &World) -> BTreeSet<String> {
    let staying = world.staying().filter(|_| world.is_wanted());
    let mut servers: BTreeSet<String> =
        staying.filter_map(|(cluster, _)| world.server(cluster)).map(str::to_owned).collect();
    let on_stale_server = world.on_stale_server(&Index::Deleting);
    servers.extend(on_stale_server.filter_map(|(_, app)| world.server(&app.cluster)).map(str::to_owned));
    let is_used =
        |server: &&str| world.applications.keys_by(&Index::Server((*server).to_owned())).next().is_some();
    match world.project() {
        // Somebody may have taken out what Argo CD still needs, but must not have put in what Applications of theirs name.
        Some(project) => {
            let known = project.servers.iter().map(String::as_str).chain(world.told_servers());
            servers.extend(known.filter(is_used).map(str::to_owned));
        }
        None => {
            servers.extend(world.applications.iter().filter_map(|(_, app)| app.server()).map(str::to_owned));
        }
    }
    servers
}

/// The servers that a project's spec permits.
pub fn servers_of(spec: &Value) -> BTreeSet<String> {
    let destinations = spec["destinations"].as_array().into_iter().flatten();
    destinations.filter_map(|destination| Some(literal(destination["server"].as_str()?))).collect()
}

/// Characters that Argo CD would take for patterns, such as the brackets around an IPv6 address.
const PATTERN: [char; 8] = ['*', '?', '[', ']', '{', '}', '\\', '!'];

/// The pattern that stands for just this text.
fn pattern(text: &str) -> String {
    let escaped =
        text.chars().flat_map(|letter| PATTERN.contains(&letter).then_some('\\').into_iter().chain([letter]));
    escaped.collect()
}

/// The text that a pattern stands for, if it stands for one.
fn literal(pattern: &str) -> String {
    let mut letters = pattern.chars();
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        text.push(if letter == '\\' { letters.next().unwrap_or(letter) } else { letter });
    }
    text
}

/// What the AppProject should be.
pub fn manifest(servers: &BTreeSet<String>) -> Value {
    let destinations: Vec<Value> =
        servers.iter().map(|server| json!({ "server": pattern(server), "namespace": "*" })).collect();
    json!({
        "apiVersion": names::project().api_version(),
        "kind": names::project().kind,
        "metadata": {
            "namespace": ARGO_NAMESPACE,
            "name": PROJECT,
            "labels": { MANAGED_BY: MANAGER },
            "finalizers": [ARGO_FINALIZER],
        },
        "spec": {
            "destinations": destinations,
            "sourceRepos": ["*"],
            "clusterResourceWhitelist": [{ "group": "*", "kind": "*" }],
        },
    })
}

/// Whether a server is permitted by a project of ours. One that somebody has deleted does its work until Argo CD lets it go.
pub fn permits(world: &World, server: &str) -> bool {
    let project = world.project().filter(|project| project.is_ours);
    project.is_some_and(|project| project.servers.contains(server))
}

/// Whether the project has ceased to permit what nobody needs any more: then Secrets may go.
pub fn has_settled(world: &World) -> bool {
    let Some(project) = world.project().filter(|project| project.is_ours) else { return true };
    // With the last service it goes as a whole.
    if !world.is_wanted() {
        return project.deleting;
    }
    project.servers.is_subset(&servers(world))
}

impl Controller {
    pub(super) fn begin_project(&mut self) -> Next<super::Stage> {
        if self.world.is_wanted() && self.world.unwatchable_kind().is_some() {
            return Next::Done(Verdict::Converged);
        }
        let project = self.world.project().cloned();
        if !self.world.is_wanted() && self.world.applications.iter().next().is_none() {
            let Some(_) = project.filter(|project| project.is_ours && !project.deleting) else {
                return Next::Done(Verdict::Converged);
            };
            return wait(vec![application::survey(SERVICE_NAME.to_owned())], Stage::Surveying);
        }
        if project.as_ref().is_some_and(|project| !project.is_ours) {
            self.tell_project(None);
            return Next::Done(Verdict::Converged);
        }
        let is_wanted = self.world.is_wanted();
        if is_wanted && !self.world.is_judged() {
            return Next::Done(Verdict::Converged);
        }
        let mut servers = servers(&self.world);
        // Once it is to go as a whole nothing is taken out any more; without it, though, Argo CD could not remove anything.
        if let Some(project) = project.as_ref().filter(|_| !is_wanted) {
            if servers.is_subset(&project.servers) {
                return Next::Done(Verdict::Converged);
            }
            servers.extend(project.servers.iter().cloned());
        }
        let mut manifest = manifest(&servers);
        if let Some(project) = project.as_ref().filter(|project| project.deleting) {
            manifest["metadata"]["finalizers"] = json!(project.finalizers);
        }
        if project.as_ref().is_some_and(|project| is_applied(project, &manifest)) {
            self.tell_project(None);
            self.wake_leaving_clusters();
            return Next::Done(Verdict::Converged);
        }
        // Somebody may take it over in between; then it is none of our business.
        if let Some(project) = &project {
            manifest["metadata"]["resourceVersion"] = json!(project.resource_version().to_string());
        }
        let seen = project.as_ref().map(|project| project.uid.as_str());
        wait(vec![create_or_apply(name().object(&names::project()), manifest, seen)], Stage::Writing)
    }

    pub(super) fn resume_project(&mut self, stage: &Stage, outcomes: Vec<Outcome>) -> Next<super::Stage> {
        match stage {
            Stage::Writing => self.project_written(outcomes),
            Stage::Surveying => self.project_surveyed(outcomes),
            Stage::Removing => self.project_removed(outcomes),
        }
    }

    fn project_written(&mut self, outcomes: Vec<Outcome>) -> Next<super::Stage> {
        let failure = match outcomes.into_iter().next() {
            Some(Ok(Success::Object(object))) => {
                self.world.projects.absorb(name(), Project::read(&object));
                // Not itself: should the server have changed what was written, it would be written for ever.
                self.wake_by_project();
                None
            }
            Some(Err(failure)) => Some(failure),
            _ => return Next::Done(lagging()),
        };
        if failure.as_ref().is_none_or(|failure| !failure.passes()) {
            self.tell_project(failure.as_ref());
        }
        match failure {
            Some(failure) => Next::Done(Verdict::retry("writing the AppProject", &failure)),
            None => Next::Done(Verdict::Converged),
        }
    }

    /// Why the project is not as it should be, or that it is.
    fn tell_project(&mut self, failure: Option<&Failure>) {
        let told = |failure: &Failure| (failure.class, failure.message.clone());
        if self.world.project_failure.as_ref().map(told) != failure.map(told) {
            self.world.project_failure = failure.cloned();
            self.wake_services();
        }
    }

    fn project_surveyed(&mut self, outcomes: Vec<Outcome>) -> Next<super::Stage> {
        let left = match application::surveyed(outcomes.into_iter().next()) {
            Ok(found) => !found.is_empty(),
            Err(Some(failure)) => return Next::Done(Verdict::retry("listing Applications", &failure)),
            Err(None) => return Next::Done(lagging()),
        };
        let is_removable = |project: &&Project| project.is_ours && !project.deleting;
        let project = self.world.project().filter(is_removable);
        match project {
            // They are still to be told by the watch.
            Some(_) if left || self.world.is_wanted() => Next::Done(lagging()),
            Some(project) => {
                let delete = Action::Delete {
                    target: name().object(&names::project()),
                    uid: project.uid.clone(),
                    resource_version: Some(project.resource_version().to_string()),
                };
                wait(vec![delete], Stage::Removing)
            }
            None => Next::Done(Verdict::Converged),
        }
    }

    fn project_removed(&mut self, outcomes: Vec<Outcome>) -> Next<super::Stage> {
        match outcomes.into_iter().next() {
            Some(Ok(Success::Object(object))) if is_deleting(&object) => {
                self.world.projects.absorb(name(), Project::read(&object));
            }
            // NotFound too: it was there a moment ago. The watch tells when it is gone.
            Some(Err(failure)) => {
                self.tell_leaving(&name(), Some(&failure.message));
                return Next::Done(Verdict::retry("removing the AppProject", &failure));
            }
            _ => {
                if let Some(project) = self.world.project() {
                    let version = project.resource_version();
                    self.world.projects.removed(name(), version);
                }
            }
        }
        self.tell_leaving(&name(), None);
        self.project_changed();
        Next::Done(Verdict::Converged)
    }

    /// Whoever goes by the project is woken, and what keeps it as it should be.
    pub(super) fn project_changed(&mut self) {
        self.wake_by_project();
        self.outbox.woken.push(Key::Project);
    }

    /// Services wait for a permission, or for its end, and so do clusters.
    fn wake_by_project(&mut self) {
        self.wake_services();
        self.wake_leaving_services();
        self.wake_leaving_clusters();
        let on_stale_server = self.world.on_stale_server(&Index::Deleting);
        let left: Vec<Key> = on_stale_server.map(|(_, app)| Key::Cluster(app.cluster.clone())).collect();
        self.outbox.woken.extend(left);
    }
}

fn is_applied(project: &Project, manifest: &Value) -> bool {
    // To what is being deleted no finalizer can be added any more.
    let is_held = project.deleting || project.finalizers.iter().any(|held| held == ARGO_FINALIZER);
    covers(&project.spec, &manifest["spec"]) && is_held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_project_permits_the_servers_of_clusters() {
        let servers = ["https://10.0.0.1:6443", "https://[fd00::1]:6443"].map(str::to_owned).into();
        let manifest = manifest(&servers);
        assert_eq!(servers_of(&manifest["spec"]), servers);
        insta::assert_yaml_snapshot!(manifest);
    }
}
