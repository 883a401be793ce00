//! Where an Application deploys to, and whether Argo CD is prepared for that.

use lockstep_engine::object::Name;

use crate::model::application::App;
use crate::store::Store;

/// Returns the server that an Application deploys to: the cluster's, or, if that is unknown, its current one.
pub fn server<'a>(store: &'a Store, cluster: &Name, app: Option<&'a App>) -> Option<&'a str> {
    store.server(cluster).or_else(|| app?.server())
}

/// Returns whether Argo CD has the Secret and the permission to deploy to a cluster.
pub fn is_prepared(store: &Store, cluster: &Name, server: &str) -> bool {
    let known = store.argo_secret(cluster).and_then(|(_, secret)| secret.server.as_deref());
    known == Some(server) && permits(store, server)
}

/// Returns whether a project of ours permits a server. A deleted project is effective until Argo CD removes its finalizer.
fn permits(store: &Store, server: &str) -> bool {
    let project = store.project().filter(|project| project.is_ours);
    project.is_some_and(|project| project.servers.contains(server))
}
