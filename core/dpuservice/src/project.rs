//! The reconcile of the AppProject: it permits what has to be deployed, and nothing else.
//!
//! ```text
//!  begin ─┬─ services stay, or Applications ──▶ Writing
//!         └─ neither ──▶ Surveying ─▶ Removing
//! ```
//!
//! All services share it. A server stays permitted as long as an Application deploys to it, because Argo CD does not delete
//! objects on servers that are not permitted. Nothing waits for the end of the project's deletion: Argo CD, which removes its
//! finalizer, may not be running.
//!
//! Source: "Reconcile the ArgoCD `AppProject`".

use std::collections::BTreeSet;

use lockstep_engine::action::{Action, Failure, Outcome, Success};
use lockstep_engine::cache::Cached as _;
use lockstep_engine::driver::{Next, Verdict};
use lockstep_engine::object::{Name, is_deleting};
use lockstep_engine::write::{covers, create_or_apply};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::application::{self, Index};
use super::names::{self, ARGO_FINALIZER, ARGO_NAMESPACE, MANAGED_BY, MANAGER, PROJECT, SERVICE_NAME};
use super::world::{Project, World};
use super::{Controller, Key, lagging};

/// What the reconcile of the project waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The project is being written.
    Writing,
    /// All Applications are being listed.
    Surveying,
    /// The project is being removed.
    Removing,
}

fn wait(actions: Vec<Action>, stage: Stage) -> Next<super::Stage> {
    Next::Await(actions, super::Stage::Project(stage))
}

/// Returns the AppProject's name.
pub fn name() -> Name {
    Name::new(ARGO_NAMESPACE, PROJECT)
}

/// Returns the servers to permit: those of the clusters, and those from which Applications still have to be removed.
fn servers(world: &World) -> BTreeSet<String> {
    let staying = world.staying().filter(|_| world.is_wanted());
    let mut servers: BTreeSet<String> =
        staying.filter_map(|(cluster, _)| world.server(cluster)).map(str::to_owned).collect();
    let on_stale_server = world.on_stale_server(&Index::Deleting);
    servers.extend(on_stale_server.filter_map(|(_, app)| world.server(&app.cluster)).map(str::to_owned));
    let is_used =
        |server: &&str| world.applications.keys_by(&Index::Server((*server).to_owned())).next().is_some();
    match world.project() {
        // Another client may have removed a server that Argo CD still needs. But a server that another client's Application
        // names must not be added.
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

/// Returns the servers that a project's spec permits.
pub fn servers_of(spec: &Value) -> BTreeSet<String> {
    let destinations = spec["destinations"].as_array().into_iter().flatten();
    destinations.filter_map(|destination| Some(literal(destination["server"].as_str()?))).collect()
}

/// Characters that are special in Argo CD's patterns, such as the brackets around an IPv6 address.
const PATTERN: [char; 8] = ['*', '?', '[', ']', '{', '}', '\\', '!'];

/// Returns the pattern that matches exactly this text.
fn pattern(text: &str) -> String {
    let escaped =
        text.chars().flat_map(|letter| PATTERN.contains(&letter).then_some('\\').into_iter().chain([letter]));
    escaped.collect()
}

/// Returns the text that a pattern matches, if it matches exactly one.
fn literal(pattern: &str) -> String {
    let mut letters = pattern.chars();
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        text.push(if letter == '\\' { letters.next().unwrap_or(letter) } else { letter });
    }
    text
}

/// Returns the desired AppProject.
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

/// Returns whether a project of ours permits a server. A deleted project is effective until Argo CD removes its finalizer.
pub fn permits(world: &World, server: &str) -> bool {
    let project = world.project().filter(|project| project.is_ours);
    project.is_some_and(|project| project.servers.contains(server))
}

/// Returns whether the project no longer permits servers that are not needed: then Secrets may be deleted.
pub fn has_settled(world: &World) -> bool {
    let Some(project) = world.project().filter(|project| project.is_ours) else { return true };
    // With the last service the whole project is deleted.
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
        // Before the whole project is deleted, no server is removed from it. Without the project, though, Argo CD could not
        // remove anything.
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
        // Another client may take it over in between. Then it must not be changed.
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
                // It does not enqueue itself: if the server changed what was written, it would be written without end.
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

    /// Records why the project could not be written, or that it could.
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
            // The watch has not shown them yet.
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
            // This includes NotFound: it existed a moment ago. The watch shows when it is gone.
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

    /// Enqueues the keys that depend on the project, and the project itself.
    pub(super) fn project_changed(&mut self) {
        self.wake_by_project();
        self.outbox.woken.push(Key::Project);
    }

    /// Enqueues the keys that depend on the project: services and clusters wait for a permission, or for its removal.
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
    // No finalizer can be added to a terminating object.
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
