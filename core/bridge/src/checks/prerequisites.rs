//! The prerequisites of a hosted cluster besides its DPUCluster.
//!
//! Each check is a function of the cached state. The Bridge waits for objects that may still appear, and a watch enqueues the
//! bridge when they do. A mistake that only a user can fix is reported once and checked again when the input has changed.
//! Most prerequisites do not matter any more once the HostedCluster exists: a running cluster is not deleted because a
//! StorageClass is gone.
//!
//! Source: "Reconciliation Validation".

use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::conditions::{Finding, Status};
use lockstep_engine::object::{Name, is_deleting};
use serde_json::Value;

use super::unmet::{Resolution, Unmet};
use super::unwatched::{unwatched, unwatched_bridges};
use super::{encryption_key, namespace, release_image, vip};
use crate::model::bridge::Index;
use crate::model::secret::SecretRole;
use crate::model::source::Source;
use crate::names::{HYPERSHIFT, HYPERSHIFT_OPERATOR, condition, control_plane_namespace, reason};
use crate::snapshot::{BridgeSnapshot, OwnedObject, SecretState};

/// The type of DPUClusters with a control plane that DPF creates, by Kamaji. It would compete with the HostedCluster.
const KAMAJI: &str = "kamaji";

/// Returns everything that is unmet.
pub fn check(snapshot: &BridgeSnapshot<'_>) -> Vec<Unmet> {
    let is_new = is_new(snapshot);
    let mut unmet: Vec<Unmet> = unwatched_bridges(snapshot.store).map(Unmet::wait).into_iter().collect();
    unmet.extend(in_use(snapshot));
    unmet.extend(secret(snapshot, SecretRole::Pull));
    unmet.extend(secret(snapshot, SecretRole::Ssh));
    unmet.extend(encryption_key::check(snapshot));
    if is_new {
        unmet.extend(name(snapshot.key));
        unmet.extend(namespace::shared(snapshot));
        unmet.extend(namespace::existing(snapshot));
        unmet.extend(dpu_cluster(snapshot));
        unmet.extend(hypershift(snapshot));
        unmet.extend(storage_class(snapshot));
        unmet.extend(node_address(snapshot));
    } else {
        unmet.extend(unwatchable_objects(snapshot));
    }
    unmet.extend(vip::check(snapshot));
    if release_image::image_matters(snapshot) {
        unmet.extend(release_image::check(snapshot));
    }
    unmet
}

fn is_new(snapshot: &BridgeSnapshot<'_>) -> bool {
    let may_be_absent = matches!(
        snapshot.hosted_cluster(),
        OwnedObject::Absent | OwnedObject::Unknown(_) | OwnedObject::Going
    );
    may_be_absent && !snapshot.has_unwatchable_cluster()
}

/// Returns whether Secrets are to be copied: there is a DPUCluster, and nothing excludes a cluster for it until a user acts: creates
/// the bridge again or another DPUCluster, or deletes a namespace.
pub fn needs_copies(snapshot: &BridgeSnapshot<'_>) -> bool {
    let is_excluded = || {
        name(snapshot.key).is_some()
            || namespace::shared(snapshot).is_some()
            || namespace::is_foreign(snapshot)
            || snapshot.dpu_cluster().is_some_and(is_kamaji)
    };
    snapshot.dpu_cluster().is_some() && !(is_new(snapshot) && is_excluded())
}

fn is_kamaji(dpu_cluster: &Value) -> bool {
    dpu_cluster["spec"]["type"] == KAMAJI
}

/// Returns the finding about `PrerequisitesMet`. A release image that could not be checked is no obstacle, but reported.
pub fn finding(unmet: &[Unmet], doubt: Option<&str>) -> Finding {
    let (status, reason) = if unmet.is_empty() {
        (Status::True, if doubt.is_some() { reason::IMAGE_UNCHECKED } else { reason::ALL_MET })
    } else if unmet.iter().all(|unmet| unmet.remedy == Resolution::Retry) {
        (Status::False, reason::WAITING)
    } else {
        (Status::False, reason::INVALID)
    };
    // Mistakes that users have to fix come before objects that may appear by themselves.
    let (wait, fix): (Vec<&Unmet>, Vec<&Unmet>) =
        unmet.iter().partition(|unmet| unmet.remedy == Resolution::Retry);
    let messages = fix.into_iter().chain(wait).map(|unmet| unmet.message.as_str());
    let messages: Vec<&str> = messages.chain(doubt).collect();
    let message =
        if messages.is_empty() { "all prerequisites are met".to_owned() } else { messages.join("; ") };
    Finding { condition: condition::PREREQUISITES_MET, status, reason, message }
}

/// Checks the name: HyperShift creates a namespace `<namespace>-<name>`, and a NodePool can't name a HostedCluster with a dot.
fn name(key: &Name) -> Option<Unmet> {
    const LONGEST: usize = 63;
    if key.name.contains('.') {
        let message =
            format!("the name {:?} has a dot, which a HostedCluster with nodes can't have", key.name);
        return Some(Unmet::user_action(format!("{message}; create the DPFHCPBridge under another name")));
    }
    let namespace = control_plane_namespace(key);
    (namespace.len() > LONGEST).then(|| {
        Unmet::user_action(format!(
            "the namespace of the control plane, {namespace:?}, would have {} characters where {LONGEST} are allowed; \
             create the DPFHCPBridge under a shorter name",
            namespace.len()
        ))
    })
}

/// Checks that no other bridge has the DPUCluster: it has one control plane. The bridge that has set its kubeconfig has it, and before
/// that the older one. Of two bridges from the same second, the younger by name may have been first.
fn in_use(snapshot: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let dpu_cluster = snapshot.bridge.dpu_cluster.clone()?;
    if snapshot.kubeconfig().is_some() && snapshot.foreign_kubeconfig().is_none() {
        return None;
    }
    let older = || {
        let rival = snapshot.store.rival(&Index::DpuCluster(dpu_cluster.clone()), snapshot.key)?;
        Some(format!("{rival}, which is older"))
    };
    let user = snapshot.connected_bridge().map(ToString::to_string).or_else(older)?;
    Some(Unmet::wait(format!(
        "DPUCluster {dpu_cluster} is in use by DPFHCPBridge {user}; create this DPFHCPBridge for another DPUCluster"
    )))
}

/// Checks the DPUCluster. Its control plane must be left to others. One that waits for our kubeconfig can't be ready; one that has another kubeconfig can.
fn dpu_cluster(snapshot: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let (object, name) = (snapshot.dpu_cluster()?, snapshot.bridge.dpu_cluster.as_ref()?);
    if is_deleting(object) {
        return Some(Unmet::wait(format!("DPUCluster {name} is being deleted")));
    }
    if is_kamaji(object) {
        return Some(Unmet::user_action(format!(
            "DPUCluster {name} has the type {KAMAJI}, so DPF itself creates its control plane; create this DPFHCPBridge for a \
             DPUCluster of the type static"
        )));
    }
    let theirs = snapshot.foreign_kubeconfig()?;
    let phase = object["status"]["phase"].as_str().unwrap_or("not reported");
    (phase != "Ready").then(|| {
        Unmet::wait(format!(
            "DPUCluster {name} uses kubeconfig {theirs} instead of that of this DPFHCPBridge, and is not Ready (its phase is {phase})"
        ))
    })
}

fn hypershift(snapshot: &BridgeSnapshot<'_>) -> Option<Unmet> {
    for (source, what) in [(Source::HostedClusters, "HostedClusters"), (Source::NodePools, "NodePools")] {
        if let Some(failure) = snapshot.store.refusal(source) {
            return Some(unknown(what, failure, "install HyperShift"));
        }
    }
    let title = format!("Deployment {HYPERSHIFT}/{HYPERSHIFT_OPERATOR}");
    match snapshot.store.find(Source::Operator, &Name::new(HYPERSHIFT, HYPERSHIFT_OPERATOR)) {
        Err(failure) => Some(unknown(&title, failure, "see to it that HyperShift runs")),
        Ok(None) => Some(Unmet::wait(format!("HyperShift is not installed: there is no {title}"))),
        Ok(Some(deployment)) => {
            let available = deployment["status"]["availableReplicas"].as_i64().unwrap_or(0);
            (available < 1).then(|| Unmet::wait(format!("HyperShift does not run: {title} is not available")))
        }
    }
}

/// Returns which objects of an existing cluster can't be watched.
fn unwatchable_objects(snapshot: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let refused = |source| Some((source, snapshot.refusal(source)?));
    let (source, failure) = [Source::HostedClusters, Source::NodePools].into_iter().find_map(refused)?;
    let (_, _, message) = unwatched(source, failure);
    Some(Unmet::wait(message))
}

fn storage_class(snapshot: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let name = &snapshot.spec.etcd_storage_class;
    match snapshot.store.find(Source::StorageClasses, &Name::new("", name)) {
        Err(failure) => Some(unknown(&format!("StorageClass {name}"), failure, "grant access to it")),
        Ok(None) => {
            let message = format!("StorageClass {name} of spec.etcdStorageClass does not exist");
            Some(Unmet::wait(format!("{message}; create it, or name another")))
        }
        Ok(Some(class)) if class["provisioner"] == "kubernetes.io/no-provisioner" => {
            Some(Unmet::user_action(format!(
                "StorageClass {name} of spec.etcdStorageClass does not make volumes by itself (its provisioner is \
                 kubernetes.io/no-provisioner); name another"
            )))
        }
        Ok(Some(_)) => None,
    }
}

fn node_address(snapshot: &BridgeSnapshot<'_>) -> Option<Unmet> {
    if snapshot.spec.expose_through_load_balancer || snapshot.node_address().is_some() {
        return None;
    }
    if let Some(failure) = snapshot.store.refusal(Source::Nodes) {
        return Some(unknown("Nodes", failure, "grant access to them"));
    }
    Some(Unmet::wait("no Node has an address at which node ports could be reached"))
}

fn secret(snapshot: &BridgeSnapshot<'_>, role: SecretRole) -> Option<Unmet> {
    let (field, key) = match role {
        SecretRole::Pull => ("spec.pullSecretRef", role.source_key()),
        SecretRole::Ssh | SecretRole::Kubeconfig => ("spec.sshKeySecretRef", role.source_key()),
    };
    let source = role.source(snapshot.key, snapshot.spec);
    if source.name.is_empty() {
        return Some(Unmet::user_action(format!(
            "{field}.name is empty; name the Secret with the key {key:?}"
        )));
    }
    if !is_secret_name(&source.name) {
        return Some(Unmet::user_action(format!(
            "{field}.name is {:?}, but the name of a Secret consists of lower-case letters, digits, hyphens and dots; correct it",
            source.name
        )));
    }
    match snapshot.secret(role) {
        SecretState::Missing => Some(Unmet::wait(format!(
            "Secret {source} of {field} does not exist; create it with the key {key:?}"
        ))),
        SecretState::Unknown(failure) => Some(unknown("Secrets", failure, "grant access to them")),
        // The Secret changed during this pass. Its copy is updated in the next one.
        SecretState::Unread if is_copied(snapshot, role) => None,
        // It is copied once there can be a cluster.
        SecretState::Unread if !needs_copies(snapshot) => None,
        SecretState::Unread => {
            Some(Unmet::wait(format!("Secret {source} of {field} is not read and copied yet")))
        }
        SecretState::Bad(problem) => Some(Unmet::user_action(problem)),
        SecretState::Copied => None,
    }
}

/// Returns whether a Secret can have this name: it is a DNS subdomain (RFC 1123).
fn is_secret_name(name: &str) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let label = label.as_bytes();
        [label.first(), label.last()].into_iter().all(|edge| edge.is_some_and(is_plain))
            && label.iter().all(|byte| is_plain(byte) || *byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

fn is_copied(snapshot: &BridgeSnapshot<'_>, role: SecretRole) -> bool {
    let copy = role.copy(snapshot.key, snapshot.bridge.dpu_cluster.as_ref());
    copy.is_some_and(|copy| matches!(snapshot.store.find(Source::Secrets, &copy), Ok(Some(_))))
}

/// A prerequisite that can't be checked.
fn unknown(what: &str, failure: &Failure, remedy: &str) -> Unmet {
    Unmet::wait(match failure.class {
        ErrorKind::KindNotServed => format!("{what} are not served here; {remedy}"),
        ErrorKind::NotFound
        | ErrorKind::Forbidden
        | ErrorKind::AlreadyExists
        | ErrorKind::Conflict
        | ErrorKind::Invalid
        | ErrorKind::Gone
        | ErrorKind::Throttled
        | ErrorKind::Unavailable
        | ErrorKind::Unknown => format!("{what} can't be watched ({}); {remedy}", failure.message),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn the_name_of_a_secret_is_a_dns_subdomain() {
        for fine in ["a", "pull-secret", "a.b-c.9", &"a".repeat(253)] {
            assert!(is_secret_name(fine), "{fine}");
        }
        for bad in ["", "-a", "a-", "a..b", ".a", "a.", "a.-b", "A", "a_b", "a/b", "ä", &"a".repeat(254)] {
            assert!(!is_secret_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_secret_that_is_not_copied_yet_is_waited_for_while_there_is_a_dpu_cluster() {
        for (has_dpu_cluster, is_copied, expected) in [
            (true, false, Some("Secret team/pull of spec.pullSecretRef is not read and copied yet")),
            (true, true, None),
            (false, false, None),
            (false, true, None),
        ] {
            let mut fixture = Fixture::new(&json!({}));
            let object = |uid: &str| json!({ "metadata": { "uid": uid } });
            fixture.see(Source::Secrets, &Name::new("team", "pull"), object("pull"));
            if is_copied {
                fixture.see(Source::Secrets, &Name::new("team", "a-pull-secret"), object("copy"));
            }
            if !has_dpu_cluster {
                fixture.without_dpu_cluster();
            }
            let unmet = secret(&fixture.snapshot(), SecretRole::Pull);
            let message = unmet.map(|unmet| unmet.message);
            assert_eq!(message.as_deref(), expected, "{has_dpu_cluster} {is_copied}");
        }
    }
}
