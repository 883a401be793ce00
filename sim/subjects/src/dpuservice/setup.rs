//! The clusters and services of the simulation, in their correct state.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_apiserver::server::ApiServer;
use lockstep_dpuservice::names::{
    self, ARGO_NAMESPACE, FINALIZER, MANAGED_BY, MANAGER, PROJECT, SERVICE, SERVICE_NAME,
};
use lockstep_engine::object::{Kind, Name, ObjectRef, annotation, is_deleting, label, metadata};
use lockstep_engine::random::Random;
use lockstep_external::argocd::{SKIP_RECONCILE, repo_server_outage};
use lockstep_external::dpu_clusters::{Access, UNREACHABLE};
use lockstep_sim::history::reference;
use lockstep_sim::invariant::SECRET;
use lockstep_sim::subject::Client;
use serde_json::{Value, json};

/// Two have the same digits at the end of their names, and two have the same name.
pub(super) const CLUSTERS: [(&str, &str); 4] =
    [("dpf", "east-01"), ("dpf", "west-01"), ("lab", "east-01"), ("dpf", "remote")];
/// Two have the same name.
pub(super) const SERVICES: [(&str, &str); 3] = [("edge", "agent"), ("core", "agent"), ("edge", "storage")];
/// The last but one does not start, and no repository has the last.
pub(super) const VERSIONS: [&str; 4] = ["1.0.0", "1.1.0", "0.0.0-broken", "0.0.0-missing"];
/// The version of every service in the final state.
pub(super) const LAST_VERSION: &str = "2.0.0";
pub(super) const REPOSITORY: &str = "https://charts.example.com";
/// Marks objects that another client has created or taken over.
pub(super) const SQUATTER: &str = "squatter";
/// The finalizer by which another client holds a DPUCluster.
pub(crate) const HOLD: &str = "example.com/hold";

pub(super) fn name((namespace, name): (&str, &str)) -> Name {
    Name::new(namespace, name)
}

pub(super) fn cluster_ref(cluster: &Name) -> ObjectRef {
    cluster.object(&names::dpu_cluster())
}

/// Returns the Secret of a cluster's kubeconfig.
pub(super) fn kubeconfig_ref(cluster: &Name) -> ObjectRef {
    ObjectRef::namespaced(&names::secret(), &cluster.namespace, &format!("{}-kubeconfig", cluster.name))
}

pub(super) fn project_ref() -> ObjectRef {
    ObjectRef::namespaced(&names::project(), ARGO_NAMESPACE, PROJECT)
}

/// Returns whether this simulation provides a cluster. Others get their kubeconfig from another controller.
pub(super) fn is_provided(cluster: &Name) -> bool {
    CLUSTERS.iter().any(|provided| name(*provided) == *cluster)
}

/// Returns the Secret that a DPUCluster names as its kubeconfig.
pub(super) fn named_kubeconfig(cluster: &Value) -> Option<ObjectRef> {
    let name = cluster["spec"]["kubeconfig"].as_str().filter(|name| !name.is_empty())?;
    Some(ObjectRef::namespaced(&names::secret(), metadata(cluster, "namespace"), name))
}

/// Returns the server in the kubeconfig of a DPUCluster; none if the kubeconfig can't be used.
pub(super) fn connected_server(world: &ApiServer, cluster: &Value) -> Option<String> {
    let kubeconfig = decoded(world.object(&named_kubeconfig(cluster)?)?, "super-admin.conf");
    let server = kubeconfig.lines().find_map(|line| line.trim_start().strip_prefix("server: "))?;
    Some(server.to_owned())
}

/// Returns the server URL of a cluster that this simulation provides.
pub(super) fn server(cluster: &Name) -> String {
    format!("https://{}.{}.example.com:6443", cluster.name, cluster.namespace)
}

/// Returns the access to a cluster at that server, with the credentials of this number.
pub(super) fn access(server: &str, number: u64) -> Access {
    if number.is_multiple_of(2) {
        Access::by_token(server, &format!("{SECRET}-{number}"))
    } else {
        Access::by_certificate(server, &format!("{SECRET}{number:03}"))
    }
}

/// Creates the namespaces.
pub(super) fn create_namespaces(client: &mut dyn Client) {
    let namespaces = Kind::known("", "v1", "Namespace", "namespaces", false);
    for name in ["edge", "core", "dpf", "lab", ARGO_NAMESPACE] {
        client.create(&namespaces, &json!({ "metadata": { "name": name } }));
    }
}

/// Creates all clusters and one service before the start.
pub(super) fn begin(client: &mut dyn Client) {
    create_namespaces(client);
    for cluster in CLUSTERS {
        create_cluster(client, &name(cluster));
    }
    create_service(client);
}

/// Creates the first service, if it does not exist.
pub(crate) fn create_service(client: &mut dyn Client) {
    client.create(&names::service(), &service(&name(SERVICES[0]), VERSIONS[0]));
}

/// Returns whether a service or a cluster exists at the start.
pub(super) fn is_prepared(target: &ObjectRef) -> bool {
    let clusters = CLUSTERS.map(|cluster| cluster_ref(&name(cluster)));
    clusters.contains(target) || *target == name(SERVICES[0]).object(&names::service())
}

pub(super) fn create_cluster(client: &mut dyn Client, cluster: &Name) {
    write_kubeconfig(client, cluster, &access(&server(cluster), 0).secret_data());
    let metadata = json!({ "namespace": cluster.namespace, "name": cluster.name });
    let spec = json!({ "type": "static", "kubeconfig": kubeconfig_ref(cluster).name });
    client.create(&names::dpu_cluster(), &json!({ "metadata": metadata, "spec": spec }));
}

/// Returns a service as a user writes it.
pub(super) fn service(service: &Name, version: &str) -> Value {
    json!({
        "metadata": { "namespace": service.namespace, "name": service.name },
        "spec": {
            "source": { "repoURL": REPOSITORY, "version": version, "chart": service.name },
            "values": { "level": "info" },
            "serviceID": "chain",
        },
    })
}

/// Gives a cluster a kubeconfig, or replaces it.
pub(super) fn write_kubeconfig(client: &mut dyn Client, cluster: &Name, data: &Value) {
    let target = kubeconfig_ref(cluster);
    let metadata = json!({ "namespace": target.namespace, "name": target.name });
    client.create(&target.kind, &json!({ "metadata": metadata, "data": data }));
    client.merge(&target, &json!({ "data": data }));
}

/// Returns the content of a Secret's key.
pub(super) fn decoded(secret: &Value, key: &str) -> String {
    let decoded = STANDARD.decode(secret["data"][key].as_str().unwrap_or_default()).unwrap_or_default();
    String::from_utf8(decoded).unwrap_or_default()
}

/// Returns the kinds for which the watch permission may be revoked.
pub(super) fn watched() -> [Arc<Kind>; 4] {
    [names::dpu_cluster(), names::secret(), names::project(), names::application()]
}

/// Restores everything that admins have to restore: Argo CD's repo-server answers, every cluster is reachable, has its own
/// kubeconfig, and no finalizer blocks a deletion. DPF is not installed again.
pub(super) fn restore(client: &mut dyn Client) {
    client.permit_all_watches(&watched());
    client.delete(&repo_server_outage());
    for cluster in client.server().objects(&names::dpu_cluster()) {
        let target = reference(&names::dpu_cluster(), &cluster);
        release(client, &target, &cluster, HOLD);
        let name = Name::of(&cluster);
        client.merge(&target, &json!({ "metadata": { "annotations": { UNREACHABLE: null } } }));
        if !is_provided(&name) {
            continue;
        }
        client.merge(&target, &json!({ "spec": { "kubeconfig": kubeconfig_ref(&name).name } }));
        let secret = client.server().object(&kubeconfig_ref(&name));
        let is_own = secret.is_some_and(|secret| {
            decoded(secret, "super-admin.conf").contains(&format!("server: {}\n", server(&name)))
        });
        if !is_own {
            write_kubeconfig(client, &name, &access(&server(&name), 0).secret_data());
        }
    }
    for kind in [names::application(), names::secret()] {
        for object in client.server().objects(&kind) {
            let target = reference(&kind, &object);
            // Argo CD deletes nothing that it skips.
            if annotation(&object, SKIP_RECONCILE).is_some() {
                client.merge(&target, &json!({ "metadata": { "annotations": { SKIP_RECONCILE: null } } }));
            }
            if annotation(&object, SQUATTER).is_some() || is_lost(client, &object) {
                // Argo CD deletes nothing during a sync, and retries a failing one without end.
                if object["status"]["operationState"]["phase"] == "Running" {
                    client.merge(
                        &target,
                        &json!({ "status": { "operationState": { "phase": "Terminating" } } }),
                    );
                }
                client.delete(&target);
            }
        }
    }
    if let Some(project) = client.server().object(&project_ref()).cloned() {
        if annotation(&project, SQUATTER).is_some() {
            client.delete(&project_ref());
        } else {
            client.merge(&project_ref(), &json!({ "metadata": { "labels": { MANAGED_BY: MANAGER } } }));
        }
    }
}

/// Returns whether an Application lost the label by which its service finds it, and no service can find it by its name.
fn is_lost(client: &dyn Client, application: &Value) -> bool {
    let service = annotation(application, SERVICE).and_then(|service| service.split_once('/'));
    let target = service.map(|service| name(service).object(&names::service()));
    let is_gone = |target| client.server().object(&target).is_none_or(|service| is_deleting(service));
    label(application, SERVICE_NAME).is_none() && target.is_some_and(is_gone)
}

/// Removes one finalizer from an object.
pub(super) fn release(client: &mut dyn Client, target: &ObjectRef, object: &Value, held: &str) {
    let finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    let left: Vec<&Value> = finalizers.filter(|finalizer| **finalizer != held).collect();
    client.merge(target, &json!({ "metadata": { "finalizers": left } }));
}

/// Removes the controller's finalizer from a service.
pub(super) fn let_go(client: &mut dyn Client, service: &Arc<Value>) {
    let target =
        ObjectRef::namespaced(&names::service(), metadata(service, "namespace"), metadata(service, "name"));
    release(client, &target, service, FINALIZER);
}

/// Returns a random object of a kind that matches.
pub(super) fn some(
    client: &dyn Client,
    kind: &Arc<Kind>,
    random: &mut Random,
    is_so: impl Fn(&Value) -> bool,
) -> Option<ObjectRef> {
    let objects = client.server().objects(kind);
    let found: Vec<_> = objects.iter().filter(|object| is_so(object)).collect();
    let index = usize::try_from(random.below(found.len() as u64)).ok()?;
    found.get(index).map(|object| reference(kind, object))
}
