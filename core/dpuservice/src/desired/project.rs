//! The AppProject: it permits what has to be deployed, and nothing else.
//!
//! A server stays permitted as long as an Application deploys to it, because Argo CD does not delete objects on servers that
//! are not permitted.
//!
//! Source: "Reconcile the ArgoCD `AppProject`".

use std::collections::BTreeSet;

use lockstep_engine::write::covers;
use serde_json::{Value, json};

use crate::model::application::Index;
use crate::model::project::{Project, pattern};
use crate::names::{self, ARGO_FINALIZER, ARGO_NAMESPACE, MANAGED_BY, MANAGER, PROJECT};
use crate::store::Store;

/// Returns the servers to permit: those of the clusters, and those from which Applications still have to be removed.
pub fn servers(store: &Store) -> BTreeSet<String> {
    let staying = store.staying().filter(|_| store.is_wanted());
    let mut servers: BTreeSet<String> =
        staying.filter_map(|(cluster, _)| store.server(cluster)).map(str::to_owned).collect();
    let on_stale_server = store.on_stale_server(&Index::Deleting);
    servers.extend(on_stale_server.filter_map(|(_, app)| store.server(&app.cluster)).map(str::to_owned));
    let is_used =
        |server: &&str| store.applications.keys_by(&Index::Server((*server).to_owned())).next().is_some();
    match store.project() {
        // Another client may have removed a server that Argo CD still needs. But a server that another client's Application
        // names must not be added.
        Some(project) => {
            let known = project.servers.iter().map(String::as_str).chain(store.registered_servers());
            servers.extend(known.filter(is_used).map(str::to_owned));
        }
        None => {
            servers.extend(store.applications.iter().filter_map(|(_, app)| app.server()).map(str::to_owned));
        }
    }
    servers
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

/// Returns whether a project has everything of its manifest.
pub fn is_applied(project: &Project, manifest: &Value) -> bool {
    // No finalizer can be added to a terminating object.
    let is_held = project.deleting || project.finalizers.iter().any(|held| held == ARGO_FINALIZER);
    covers(&project.spec, &manifest["spec"]) && is_held
}

/// Returns whether the project no longer permits servers that are not needed: then Secrets may be deleted.
pub fn has_settled(store: &Store) -> bool {
    let Some(project) = store.project().filter(|project| project.is_ours) else { return true };
    // With the last service the whole project is deleted.
    if !store.is_wanted() {
        return project.deleting;
    }
    project.servers.is_subset(&servers(store))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::project::servers_of;

    #[test]
    fn the_documented_project_permits_the_servers_of_clusters() {
        let servers = ["https://10.0.0.1:6443", "https://[fd00::1]:6443"].map(str::to_owned).into();
        let manifest = manifest(&servers);
        assert_eq!(servers_of(&manifest["spec"]), servers);
        insta::assert_yaml_snapshot!(manifest);
    }
}
