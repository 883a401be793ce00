//! The operations of users and other controllers: those of each controller, and those that concern several.

use std::sync::{Arc, LazyLock};

use lockstep_bridge::names;
use lockstep_engine::object::{Kind, ObjectRef, annotation, is_deleting, label, metadata};
use lockstep_engine::random::Random;
use lockstep_external::dpu_clusters::{UNREACHABLE, cluster_kind};
use lockstep_namespaceclass::names::{ADOPTED_ANNOTATION, CLASS_LABEL, class as class_kind};
use lockstep_sim::history::reference;
use lockstep_sim::invariant::SECRET;
use lockstep_sim::subject::{Client, Operation, SystemUnderTest as _};
use serde_json::{Value, json};

use super::members::MEMBERS;
use crate::bridge;
use crate::dpf;
use crate::dpuservice::{self, DpuService};
use crate::namespaceclass::{self, CLASSES};
use crate::sentinel::{Sentinel, poll_seldom};

/// The namespaces of bridges, services and clusters. Users delete them and create them again.
const NAMESPACES: [&str; 5] = ["bridges", "edge", "core", "dpf", "lab"];

/// The Secrets of bridges, and of their users, that classes may list, with their namespaces.
const SECRETS: [(&str, &str); 6] = [
    ("bridges", "prod-pull-secret"),
    ("bridges", "pull"),
    ("dpf", "bridges-prod-dpucluster-kubeconfig"),
    ("dpf", "bridges-stage-dpucluster-kubeconfig"),
    ("dpf", "bridges-dev-dpucluster-kubeconfig"),
    ("dpf", "east-01-kubeconfig"),
];

/// The ones of these that users create.
const OF_USERS: [&str; 2] = ["pull", "east-01-kubeconfig"];

/// Restores everything. Controllers have an operation of this name.
const RESTORE: &str = "put everything right";
/// The operations that occur only where each controller is alone. A permission to watch concerns the processes of all controllers,
/// which no cluster has. Without the CRD of DPUClusters all bridges and services would have to be deleted at the end.
const ALONE: [&str; 9] = [
    RESTORE,
    "take a permission to watch",
    namespaceclass::PERMIT_WATCHES,
    dpf::DELETE_CRD.name,
    dpf::CREATE_CRD.name,
    bridge::hypershift_crds::DELETE_CRD.name,
    bridge::hypershift_crds::CREATE_CRDS.name,
    dpuservice::argocd::DELETE_CRD.name,
    dpuservice::argocd::CREATE_CRDS.name,
];
/// Two controllers have an operation of this name.
const OCCUPY: &str = "occupy a name";

const CROSSING: &[Operation] = &[
    Operation::new(RESTORE, "admin", 6, restore),
    Operation::new("delete a namespace of bridges, services or clusters", "admin", 5, delete_namespace),
    Operation::new("create the namespaces again", "admin", 8, create_namespaces),
    Operation::new("hold the DPUCluster of a bridge and delete it", "admin", 4, hold_cluster),
    Operation::new("cut the DPUCluster of a bridge off", "admin", 4, cut_off),
    Operation::new("create all bridges and a service", "user", 10, create_all),
    Operation::new("delete a bridge and the services at once", "user", 4, delete_all),
    Operation::new("label a namespace of another controller", "admin", 10, label_namespace),
    Operation::new("take the label off a namespace of another controller", "admin", 3, unlabel_namespace),
    Operation::new("list a Secret of another controller in a class", "admin", 24, list_secret),
    Operation::new("add a quota and a NetworkPolicy to a class", "admin", 3, add_limits),
];

pub(super) static OPERATIONS: LazyLock<Vec<Operation>> = LazyLock::new(|| {
    let of_members = MEMBERS.iter().flat_map(|member| {
        let acts = member.operations().iter().filter(|act| !ALONE.contains(&act.name));
        acts.map(|act| match act.name {
            OCCUPY if member.name() == DpuService.name() => {
                Operation { name: "occupy a name in Argo CD's namespace", ..*act }
            }
            // Its operations concern no other controller.
            _ if member.name() == Sentinel.name() => Operation { weight: act.weight.div_ceil(3), ..*act },
            _ => *act,
        })
    });
    of_members.chain(CROSSING.iter().copied()).collect()
});

fn namespace(name: &str) -> ObjectRef {
    ObjectRef::cluster(&namespace_kind(), name)
}

fn namespace_kind() -> Arc<Kind> {
    Kind::known("", "v1", "Namespace", "namespaces", false)
}

/// After fault injection has ended, ends what concerns several controllers.
pub(super) fn release(client: &mut dyn Client) {
    create_missing_namespaces(client);
    for class in client.server().objects(&class_kind()) {
        let resources = class["spec"]["resources"].as_array().into_iter().flatten();
        let is_own = |it: &&Value| SECRETS.iter().all(|(_, name)| *name != metadata(it, "name"));
        let own: Vec<&Value> = resources.filter(is_own).collect();
        client.merge(&reference(&class_kind(), &class), &json!({ "spec": { "resources": own } }));
    }
    // What a class has created is removed with its entry, even if users have changed it since. They create it again. What they have
    // put in the place of a bridge's Secret they remove, as its status says.
    for (namespace, name) in SECRETS {
        let secret = ObjectRef::namespaced(&names::secret(), namespace, name);
        let is_foreign =
            |secret: &Value| !OF_USERS.contains(&name) && label(secret, names::BRIDGE_NAME).is_none();
        if client.server().object(&secret).is_some_and(|it| is_of_class(it) || is_foreign(it)) {
            client.delete(&secret);
        }
    }
}

/// Returns whether a class has created an object.
fn is_of_class(object: &Value) -> bool {
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|owner| owner["kind"] == "NamespaceClassBinding")
}

/// After each controller has its prerequisites, lets the users of all controllers have something that they want.
pub(super) fn complete(client: &mut dyn Client) {
    bridge::create_bridges(client);
    dpuservice::create_service(client);
}

/// Deletes the DPUClusters that no bridge will connect, and those with a kubeconfig that a class sets. A repair that is on its way may
/// still replace what was restored. Services can't be removed from a cluster that is never reachable again, and wait until its
/// DPUCluster is deleted.
pub(super) fn abandon_clusters(client: &mut dyn Client) {
    let bridges = client.server().objects(&names::bridge());
    for cluster in client.server().objects(&cluster_kind()) {
        let (namespace, name) = (metadata(&cluster, "namespace"), metadata(&cluster, "name"));
        let is_of_bridges = namespace == bridge::DPF && bridge::DPU_CLUSTERS.contains(&name);
        let is_abandoned = if is_of_bridges {
            let mut staying = bridges.iter().filter(|bridge| !is_deleting(bridge));
            !staying.any(|bridge| bridge["spec"]["dpuClusterRef"]["name"] == name)
        } else {
            let kubeconfig = cluster["spec"]["kubeconfig"].as_str().unwrap_or_default();
            let secret = ObjectRef::namespaced(&names::secret(), namespace, kubeconfig);
            client.server().object(&secret).is_some_and(|it| annotation(it, ADOPTED_ANNOTATION).is_some())
        };
        if is_abandoned {
            client.delete(&reference(&cluster_kind(), &cluster));
        }
    }
}

fn create_missing_namespaces(client: &mut dyn Client) {
    for name in NAMESPACES {
        client.create(&namespace_kind(), &json!({ "metadata": { "name": name } }));
    }
}

/// Restores what each controller needs.
fn restore(client: &mut dyn Client, random: &mut Random) {
    create_missing_namespaces(client);
    for act in MEMBERS.iter().flat_map(|member| member.operations()).filter(|act| act.name == RESTORE) {
        (act.run)(client, random);
    }
    poll_seldom(client);
}

fn delete_namespace(client: &mut dyn Client, random: &mut Random) {
    client.delete(&some_namespace(random));
}

fn create_namespaces(client: &mut dyn Client, random: &mut Random) {
    create_missing_namespaces(client);
    if random.below(2) == 0 {
        restore(client, random);
    }
}

/// Returns a DPUCluster that bridges refer to.
fn some_cluster(random: &mut Random) -> ObjectRef {
    ObjectRef::namespaced(&cluster_kind(), bridge::DPF, random.pick(&bridge::DPU_CLUSTERS))
}

/// Deletes a DPUCluster that a finalizer keeps, while a bridge and services use it.
fn hold_cluster(client: &mut dyn Client, random: &mut Random) {
    let target = some_cluster(random);
    if let Some(cluster) = client.server().object(&target) {
        let mut held = cluster["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        held.push(dpuservice::HOLD.into());
        client.merge(&target, &json!({ "metadata": { "finalizers": held } }));
        client.delete(&target);
    }
}

fn cut_off(client: &mut dyn Client, random: &mut Random) {
    let unreachable = random.pick(&[Some("true"), None]);
    client.merge(
        &some_cluster(random),
        &json!({ "metadata": { "annotations": { UNREACHABLE: unreachable } } }),
    );
}

fn create_all(client: &mut dyn Client, _: &mut Random) {
    complete(client);
}

/// Deletes a bridge together with all services, so that both controllers clean up the same cluster.
fn delete_all(client: &mut dyn Client, random: &mut Random) {
    if let Some(bridge) = client.any(&names::bridge(), random) {
        client.delete(&reference(&names::bridge(), &bridge));
    }
    let service = lockstep_dpuservice::names::service();
    for object in client.server().objects(&service) {
        client.delete(&reference(&service, &object));
    }
}

/// Returns a namespace of another controller than the NamespaceClass operator.
fn some_namespace(random: &mut Random) -> ObjectRef {
    namespace(random.pick(&NAMESPACES))
}

fn label_namespace(client: &mut dyn Client, random: &mut Random) {
    let target = some_namespace(random);
    namespaceclass::request_class(client, &target, random);
}

fn unlabel_namespace(client: &mut dyn Client, random: &mut Random) {
    client.merge(&some_namespace(random), &json!({ "metadata": { "labels": { CLASS_LABEL: null } } }));
}

/// Adds a resource to a class, or replaces the one of its name.
fn add(client: &mut dyn Client, class: &str, resource: Value) {
    let target = ObjectRef::cluster(&class_kind(), class);
    let Some(class) = client.server().object(&target) else { return };
    let mut resources = class["spec"]["resources"].as_array().cloned().unwrap_or_default();
    resources.retain(|other| {
        (&other["kind"], &other["metadata"]["name"]) != (&resource["kind"], &resource["metadata"]["name"])
    });
    resources.push(resource);
    client.merge(&target, &json!({ "spec": { "resources": resources } }));
}

/// Lists a Secret in a class, with a key of its own or with one that the other controller writes, and gives its namespace that
/// class.
fn list_secret(client: &mut dyn Client, random: &mut Random) {
    let Some(class) = client.any(&class_kind(), random) else { return };
    let secret = |namespace: &str, name: &str| ObjectRef::namespaced(&names::secret(), namespace, name);
    let exists = |(of, name): &(&str, &str)| client.server().object(&secret(of, name)).is_some();
    let existing: Vec<_> = SECRETS.into_iter().filter(exists).collect();
    let listed = if existing.is_empty() { &SECRETS[..] } else { &existing[..] };
    let (class, (of, name)) = (metadata(&class, "name"), random.pick(listed));
    let key = random.pick(&["pin", "pin", "super-admin.conf"]);
    let texts = json!({ key: format!("{SECRET}-{}", random.below(3)) });
    let metadata = json!({ "name": name });
    add(
        client,
        class,
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": texts }),
    );
    client.merge(&namespace(of), &json!({ "metadata": { "labels": { CLASS_LABEL: class } } }));
}

fn add_limits(client: &mut dyn Client, random: &mut Random) {
    let (class, metadata) = (random.pick(&CLASSES), json!({ "name": "limits" }));
    let quota = json!({ "hard": { "configmaps": "20" } });
    add(
        client,
        class,
        json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": quota }),
    );
    let policy = json!({ "podSelector": {}, "policyTypes": ["Ingress"] });
    let api = "networking.k8s.io/v1";
    add(
        client,
        class,
        json!({ "apiVersion": api, "kind": "NetworkPolicy", "metadata": metadata, "spec": policy }),
    );
}
