//! The prerequisites of a hosted cluster besides its DPUCluster.
//!
//! Each check is a function of the cached state. The Bridge waits for objects that may still appear, and a watch enqueues the
//! bridge when they do. A mistake that only a user can fix is reported once and checked again when the input has changed.
//! Most prerequisites do not matter any more once the HostedCluster exists: a running cluster is not deleted because a
//! StorageClass is gone.
//!
//! Source: "Reconciliation Validation".

use lockstep_engine::action::{Class, Failure};
use lockstep_engine::object::{Name, is_deleting};
use serde_json::Value;

use super::image::{self, Checked};
use super::names::{API_SERVICE, HYPERSHIFT, HYPERSHIFT_OPERATOR, SUPPORTED_VERSIONS, condition, reason};
use super::secrets::{SecretRole, SecretState};
use super::source::Source;
use super::view::{BridgeSnapshot, OwnedObject, unwatched};
use super::world::{Index, control_plane_namespace};
use super::{hosted_cluster, kubeconfig, readiness, upgrade, vip};

/// A missing or invalid prerequisite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    /// What is wrong, on which object, and how to fix it.
    pub message: String,
    /// How it can be resolved.
    pub remedy: Resolution,
}

/// How an unmet prerequisite can be resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// The object may still appear.
    Retry,
    /// The input has to be changed.
    UserAction,
    /// Another Service has the requested address.
    FreeAddress,
}

impl Unmet {
    /// Returns a prerequisite that may still appear.
    pub fn wait(message: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: Resolution::Retry }
    }

    /// Returns a prerequisite that users have to change.
    pub fn mend(message: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: Resolution::UserAction }
    }
}

/// Returns everything that is unmet.
pub fn check(view: &BridgeSnapshot<'_>) -> Vec<Unmet> {
    let is_new =
        matches!(view.hosted_cluster(), OwnedObject::Absent | OwnedObject::Unknown(_) | OwnedObject::Going)
            && !view.is_out_of_sight();
    let mut unmet: Vec<Unmet> = Vec::new();
    unmet.extend(in_use(view));
    unmet.extend(secret(view, SecretRole::Pull));
    unmet.extend(secret(view, SecretRole::Ssh));
    if is_new {
        unmet.extend(name(view.key));
        unmet.extend(shared_namespace(view));
        unmet.extend(dpu_cluster(view));
        unmet.extend(hypershift(view));
        unmet.extend(storage_class(view));
        unmet.extend(node_address(view));
    } else {
        unmet.extend(out_of_sight(view));
    }
    unmet.extend(vip::check(view));
    if image_matters(view) {
        unmet.extend(release_image(view));
    }
    unmet
}

/// Returns whether the registry has to be queried for the release image: the HostedCluster does not have it yet, or got it
/// unchecked.
pub fn image_matters(view: &BridgeSnapshot<'_>) -> bool {
    if view.is_out_of_sight() {
        return false;
    }
    let checked = view.checked_image().is_some_and(Checked::is_found);
    view.hosted_cluster()
        .ours()
        .is_none_or(|cluster| !has_image(view, cluster) || !(checked || was_checked(view, cluster)))
}

/// Returns whether the HostedCluster has the release image.
fn has_image(view: &BridgeSnapshot<'_>, cluster: &Value) -> bool {
    cluster["spec"]["release"]["image"] == view.spec.ocp_release_image
}

/// Returns whether the status reports that the release image of the HostedCluster was checked. After a change of the spec it
/// may refer to another image, unless HyperShift runs this one.
fn was_checked(view: &BridgeSnapshot<'_>, cluster: &Value) -> bool {
    view.bridge.condition(condition::PREREQUISITES_MET).is_some_and(|before| {
        let is_current = before.observed_generation == Some(view.bridge.generation);
        before.reason == reason::ALL_MET
            && (is_current || upgrade::is_complete(cluster, &view.spec.ocp_release_image))
    })
}

/// Returns whether the release image may be set: the HostedCluster has it, or the registry was queried, whatever it answered.
pub fn may_give_image(view: &BridgeSnapshot<'_>) -> bool {
    let has_image = view.hosted_cluster().ours().is_some_and(|cluster| has_image(view, cluster));
    has_image || view.checked_image().is_some()
}

/// Returns the report about a release image that could not be checked. A check that is still due is reported only if nothing
/// is unmet.
pub fn doubt(view: &BridgeSnapshot<'_>, unmet: &[Unmet]) -> Option<String> {
    if !image_matters(view) {
        return None;
    }
    let Some(checked) = view.checked_image() else {
        let image = &view.spec.ocp_release_image;
        return unmet.is_empty().then(|| format!("release image {image} is not checked yet"));
    };
    // Once HyperShift runs the image, a registry's refusal no longer matters.
    let is_under_way = || {
        view.hosted_cluster().ours().is_some_and(|cluster| {
            let is_complete = upgrade::is_complete(cluster, &view.spec.ocp_release_image);
            has_image(view, cluster) && readiness::serves(cluster) && !is_complete
        })
    };
    let refusal = || checked.refusal().filter(|_| is_under_way());
    checked.doubt().or_else(|| Some(format!("HyperShift was given the release image, but {}", refusal()?)))
}

/// Checks the name: HyperShift creates a namespace `<namespace>-<name>`, and a NodePool can't name a HostedCluster with a dot.
fn name(key: &Name) -> Option<Unmet> {
    const LONGEST: usize = 63;
    if key.name.contains('.') {
        let message =
            format!("the name {:?} has a dot, which a HostedCluster with nodes can't have", key.name);
        return Some(Unmet::mend(format!("{message}; create the DPFHCPBridge under another name")));
    }
    let namespace = control_plane_namespace(key);
    (namespace.len() > LONGEST).then(|| {
        Unmet::mend(format!(
            "the namespace of the control plane, {namespace:?}, would have {} characters where {LONGEST} are allowed; \
             create the DPFHCPBridge under a shorter name",
            namespace.len()
        ))
    })
}

/// Checks that no older bridge has the same control plane namespace: `a-b/c` and `a/b-c` would share one.
fn shared_namespace(view: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let namespace = control_plane_namespace(view.key);
    let rival = view.world.rival(&Index::ControlPlane(namespace.clone()), view.key)?;
    Some(Unmet::mend(format!(
        "the namespace of the control plane, {namespace}, is that of DPFHCPBridge {rival}; create this one under another name"
    )))
}

/// Checks that no older bridge names the DPUCluster: it has one control plane.
fn in_use(view: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let dpu_cluster = view.bridge.dpu_cluster.clone()?;
    let rival = view.world.rival(&Index::DpuCluster(dpu_cluster.clone()), view.key)?;
    Some(Unmet::wait(format!(
        "DPUCluster {dpu_cluster} is in use by DPFHCPBridge {rival}, which is older; create this DPFHCPBridge for another \
         DPUCluster"
    )))
}

/// Checks the DPUCluster. One that waits for our kubeconfig can't be ready; one that has another kubeconfig can.
fn dpu_cluster(view: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let (object, name) = (view.dpu_cluster()?, view.bridge.dpu_cluster.as_ref()?);
    if is_deleting(object) {
        return Some(Unmet::wait(format!("DPUCluster {name} is being deleted")));
    }
    let theirs = kubeconfig::of_others(view)?;
    let phase = object["status"]["phase"].as_str().unwrap_or("not reported");
    (phase != "Ready").then(|| {
        Unmet::wait(format!(
            "DPUCluster {name}, whose kubeconfig {theirs} is not that of this DPFHCPBridge, is not Ready (its phase is {phase})"
        ))
    })
}

fn hypershift(view: &BridgeSnapshot<'_>) -> Option<Unmet> {
    for (source, what) in [(Source::HostedClusters, "HostedClusters"), (Source::NodePools, "NodePools")] {
        if let Some(failure) = view.world.refusal(source) {
            return Some(unknown(what, failure, "install HyperShift"));
        }
    }
    let title = format!("Deployment {HYPERSHIFT}/{HYPERSHIFT_OPERATOR}");
    match view.world.find(Source::Operator, &Name::new(HYPERSHIFT, HYPERSHIFT_OPERATOR)) {
        Err(failure) => Some(unknown(&title, failure, "see to it that HyperShift runs")),
        Ok(None) => Some(Unmet::wait(format!("HyperShift is not installed: there is no {title}"))),
        Ok(Some(deployment)) => {
            let available = deployment["status"]["availableReplicas"].as_i64().unwrap_or(0);
            (available < 1).then(|| Unmet::wait(format!("HyperShift does not run: {title} is not available")))
        }
    }
}

/// Returns which objects of an existing cluster can't be watched.
fn out_of_sight(view: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let refused = |source| Some((source, view.refusal(source)?));
    let (source, failure) = [Source::HostedClusters, Source::NodePools].into_iter().find_map(refused)?;
    let (_, _, message) = unwatched(source, failure);
    Some(Unmet::wait(message))
}

fn storage_class(view: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let name = &view.spec.etcd_storage_class;
    match view.world.find(Source::StorageClasses, &Name::new("", name)) {
        Err(failure) => Some(unknown(&format!("StorageClass {name}"), failure, "grant access to it")),
        Ok(None) => {
            let message = format!("StorageClass {name} of spec.etcdStorageClass does not exist");
            Some(Unmet::wait(format!("{message}; create it, or name another")))
        }
        Ok(Some(class)) if class["provisioner"] == "kubernetes.io/no-provisioner" => {
            Some(Unmet::mend(format!(
                "StorageClass {name} of spec.etcdStorageClass does not make volumes by itself (its provisioner is \
                 kubernetes.io/no-provisioner); name another"
            )))
        }
        Ok(Some(_)) => None,
    }
}

fn node_address(view: &BridgeSnapshot<'_>) -> Option<Unmet> {
    if view.spec.expose_through_load_balancer || hosted_cluster::node_address(view.world).is_some() {
        return None;
    }
    if let Some(failure) = view.world.refusal(Source::Nodes) {
        return Some(unknown("Nodes", failure, "grant access to them"));
    }
    Some(Unmet::wait("no Node has an address at which node ports could be reached"))
}

fn secret(view: &BridgeSnapshot<'_>, role: SecretRole) -> Option<Unmet> {
    let (field, key) = match role {
        SecretRole::Pull => ("spec.pullSecretRef", role.source_key()),
        SecretRole::Ssh | SecretRole::Kubeconfig => ("spec.sshKeySecretRef", role.source_key()),
    };
    let source = role.source(view.key, view.spec);
    if source.name.is_empty() {
        return Some(Unmet::mend(format!("{field}.name is empty; name the Secret with the key {key:?}")));
    }
    match view.secret(role) {
        SecretState::Missing => Some(Unmet::wait(format!(
            "Secret {source} of {field} does not exist; create it with the key {key:?}"
        ))),
        SecretState::Unknown(failure) => Some(unknown("Secrets", failure, "grant access to them")),
        // The Secret changed during this pass. Its copy is updated in the next one.
        SecretState::Unread if is_copied(view, role) => None,
        // It is copied once there is a DPUCluster to create a cluster for.
        SecretState::Unread if view.dpu_cluster().is_none() => None,
        SecretState::Unread => {
            Some(Unmet::wait(format!("Secret {source} of {field} is not read and copied yet")))
        }
        SecretState::Bad(complaint) => Some(Unmet::mend(complaint)),
        SecretState::Copied => None,
    }
}

fn is_copied(view: &BridgeSnapshot<'_>, role: SecretRole) -> bool {
    let copy = role.copy(view.key, view.bridge.dpu_cluster.as_ref());
    copy.is_some_and(|copy| matches!(view.world.find(Source::Secrets, &copy), Ok(Some(_))))
}

fn release_image(view: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let checked = view.checked_image();
    let given = view.hosted_cluster().ours().filter(|cluster| has_image(view, cluster));
    if let Some(message) = checked.and_then(Checked::refusal) {
        // A cluster that runs the image needs no registry.
        return (!given.is_some_and(readiness::serves)).then(|| Unmet::mend(message));
    }
    if given.is_some() {
        return None;
    }
    let version = image::version_by_tag(&view.spec.ocp_release_image).or_else(|| checked?.release())?;
    let name = Name::new(HYPERSHIFT, SUPPORTED_VERSIONS);
    let config_map = view.world.find(Source::Versions, &name).ok().flatten();
    image::unsupported(version, config_map).map(Unmet::mend)
}

/// A prerequisite that can't be checked.
fn unknown(what: &str, failure: &Failure, remedy: &str) -> Unmet {
    Unmet::wait(match failure.class {
        Class::NotFound => format!("{what} are not served here; {remedy}"),
        Class::Forbidden
        | Class::AlreadyExists
        | Class::Conflict
        | Class::Invalid
        | Class::Gone
        | Class::Throttled
        | Class::Unavailable
        | Class::Unknown => format!("{what} can't be watched ({}); {remedy}", failure.message),
    })
}

/// Returns the title of the API server's Service.
pub fn service_title(key: &Name) -> String {
    format!("Service {}/{API_SERVICE}", control_plane_namespace(key))
}
