//! What the Bridge may and may not do, checked at every step.

use lockstep_bridge::names::{self, BRIDGE_NAME, condition, control_plane_namespace, reason};
use lockstep_bridge::phase::Phase;
use lockstep_engine::object::{Name, ObjectRef, annotation, controller_uid, is_deleting, label, metadata};
use lockstep_external::hypershift;
use lockstep_sim::cluster::{Change, What};
use lockstep_sim::conditions;
use lockstep_sim::history::History;
use lockstep_sim::invariant::{Invariant, Moment};
use serde_json::{Value, json};

mod advice;
mod encryption;
mod injected;
mod judged;
mod lifecycle;
mod namespaces;
mod own_pool;
mod summary;
mod timeout;

use self::injected::has_given;
use crate::announced;

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: "clusters_are_deleted_only_with_their_bridge",
        sentence: "A HostedCluster or NodePool is deleted only when its bridge is being deleted, even if other objects are missing.",
        holds: lifecycle::clusters_are_deleted_only_with_their_bridge,
    },
    Invariant {
        name: "the_finalizer_is_added_first",
        sentence: "Nothing is created for a bridge without the finalizer.",
        holds: lifecycle::the_finalizer_is_added_first,
    },
    Invariant {
        name: "the_finalizer_is_removed_last",
        sentence: "The finalizer is removed only when the HostedCluster, the NodePool, the copy of the kubeconfig and the own pool of the bridge are gone.",
        holds: lifecycle::the_finalizer_is_removed_last,
    },
    Invariant {
        name: "phases_follow_the_table",
        sentence: "A phase changes only along the edges of the specification's table.",
        holds: phases_follow_the_table,
    },
    Invariant {
        name: "the_phase_follows_the_conditions",
        sentence: "At the end of a pass that succeeds, the phase is the one that the conditions determine.",
        holds: summary::the_phase_follows_the_conditions,
    },
    Invariant {
        name: "ready_names_its_obstacle",
        sentence: "Ready is True only if every condition that a working cluster needs is True, and otherwise has the message of one that is not.",
        holds: summary::ready_names_its_obstacle,
    },
    Invariant {
        name: "failed_requests_are_named",
        sentence: "At the end of a pass that fails because of an object that the Bridge reads or writes, the status has the cause.",
        holds: summary::failed_requests_are_named,
    },
    Invariant {
        name: "ready_means_available",
        sentence: "A bridge is Ready only if the HostedCluster was available according to everything that the process received.",
        holds: ready_means_available,
    },
    Invariant {
        name: "ready_means_healthy",
        sentence: "A bridge is Ready only if its HostedCluster was not Degraded a moment ago, or was being rolled out.",
        holds: judged::ready_means_healthy,
    },
    Invariant {
        name: "ingress_follows_the_nodes",
        sentence: "The status has an ingress endpoint only after a version of the whole cluster was complete.",
        holds: judged::ingress_follows_the_nodes,
    },
    Invariant {
        name: "an_available_cluster_is_not_failed",
        sentence: "A bridge with an available HostedCluster is not Failed because of HyperShift's reports about an upgrade, a pause or its registry, because of a pending address, or because of a kubeconfig that is renewed while the DPUCluster uses its copy.",
        holds: an_available_cluster_is_not_failed,
    },
    Invariant {
        name: "no_condition_freezes",
        sentence: "A pass that succeeds leaves all conditions at the generation that was known when it began.",
        holds: judged::no_condition_freezes,
    },
    Invariant {
        name: "what_cannot_be_watched_is_unknown",
        sentence: "While HostedClusters or NodePools can't be watched, conditions that depend on them alone are Unknown.",
        holds: judged::what_cannot_be_watched_is_unknown,
    },
    Invariant {
        name: "unwatchable_bridges_are_reported",
        sentence: "PrerequisitesMet and SpecApplied are not True after a pass that began when bridges could not be watched for minutes.",
        holds: judged::unwatchable_bridges_are_reported,
    },
    Invariant {
        name: "a_lost_dpucluster_is_reported",
        sentence: "A pass does not leave DPUClusterValid True if the DPUCluster was known to be gone when it began.",
        holds: judged::a_lost_dpucluster_is_reported,
    },
    Invariant {
        name: "all_met_means_checked",
        sentence: "All prerequisites are met only after a registry was found to have the release image.",
        holds: judged::all_met_means_checked,
    },
    Invariant {
        name: "timed_out_means_an_hour",
        sentence: "Provisioned gets the reason TimedOut only when an hour has passed since the creation of the HostedCluster, by the clock of the process.",
        holds: timeout::timed_out_means_an_hour,
    },
    Invariant {
        name: "the_nodepool_follows",
        sentence: "A NodePool gets another release only when its HostedCluster has completed it.",
        holds: the_nodepool_follows,
    },
    Invariant {
        name: "an_address_is_released_only_for_another",
        sentence: "A Service that has an address requests the address of another Service only if that one belongs to a bridge too, and a bridge requests the first Service's address.",
        holds: an_address_is_released_only_for_another_bridge,
    },
    Invariant {
        name: "immutable_fields_are_not_changed",
        sentence: "No write is refused because it changes a field that HyperShift can't change.",
        holds: immutable_fields_are_not_changed,
    },
    Invariant {
        name: "the_key_of_a_cluster_never_changes",
        sentence: "HyperShift never gets another key for a control plane with an encrypted etcd.",
        holds: encryption::the_key_of_a_cluster_never_changes,
    },
    Invariant {
        name: "a_cluster_is_created_after_its_key",
        sentence: "A HostedCluster that encrypts etcd is created only when its key exists, or existed a moment ago.",
        holds: encryption::a_cluster_is_created_after_its_key,
    },
    Invariant {
        name: "no_namespace_is_taken_over",
        sentence: "No HostedCluster is created while another client has had the namespace of its control plane for minutes: HyperShift would delete that namespace.",
        holds: namespaces::no_namespace_is_taken_over,
    },
    Invariant {
        name: "pools_do_not_overlap",
        sentence: "No IPAddressPool is created or changed to an address of another pool that the process has known for minutes.",
        holds: own_pool::pools_do_not_overlap,
    },
    Invariant {
        name: "a_cluster_is_created_after_its_pool",
        sentence: "The HostedCluster of a bridge with metalLBPool is created only when its IPAddressPool and L2Advertisement exist, or existed a moment ago.",
        holds: own_pool::a_cluster_is_created_after_its_pool,
    },
    Invariant {
        name: "pools_are_deleted_last",
        sentence: "An IPAddressPool or L2Advertisement is deleted only when its bridge is being deleted, and has no HostedCluster any more.",
        holds: own_pool::pools_are_deleted_last,
    },
    Invariant {
        name: "no_advice_disconnects_another_bridge",
        sentence: "No message advises to remove the kubeconfig of a DPUCluster that another bridge has given it.",
        holds: advice::no_advice_disconnects_another_bridge,
    },
    announced::invariant(announced::of_bridge),
    announced::warnings(announced::warnings_of_bridge),
];

/// Checks that the Bridge changes only its permitted objects: finalizers and status of bridges, the objects that it created for
/// them, one annotation, and one field of DPF.
pub(super) fn may_change(change: &Change, history: &History) -> Result<(), String> {
    let Change { object, old, new, .. } = change;
    let refuse = |why: &str| Err(format!("{object}: {why}"));
    let both = old.as_deref().zip(new.as_deref());
    match &*object.kind.kind {
        "Event" => Ok(()),
        "DPFHCPBridge" => match both {
            Some((old, new)) if old["spec"] == new["spec"] => Ok(()),
            None if new.is_none() => Ok(()),
            _ => refuse("a bridge is its user's to change"),
        },
        "HostedCluster" | "NodePool" => {
            let is_ours = |object: &Value| controller_uid(object).is_some_and(|uid| is_bridge(history, uid));
            match (old.as_deref(), new.as_deref()) {
                (Some(old), _) if !is_ours(old) => refuse("it belongs to another client"),
                (_, Some(new)) if !is_ours(new) => refuse("no bridge owns it"),
                _ => Ok(()),
            }
        }
        "Secret" | "IPAddressPool" | "L2Advertisement" => {
            let is_ours = |object: &Value| label(object, BRIDGE_NAME).is_some();
            match (old.as_deref(), new.as_deref()) {
                (Some(old), _) if !is_ours(old) => refuse("it belongs to another client"),
                (_, Some(new)) if !is_ours(new) => refuse("it has no label that names its bridge"),
                _ => Ok(()),
            }
        }
        "Service" => match both {
            Some((old, new)) => service(change, old, new, history),
            None => refuse("a Service is HyperShift's to make and delete"),
        },
        "DPUCluster" => match both {
            Some((old, new)) => dpu_cluster(change, old, new, history),
            None => refuse("a DPUCluster is DPF's to make and delete"),
        },
        _ => refuse("the Bridge has no business with it"),
    }
}

/// Checks a change of HyperShift's Service. The Bridge may change only the address requested from MetalLB, and only to that of
/// the bridge of this control plane.
fn service(change: &Change, old: &Value, new: &Value, history: &History) -> Result<(), String> {
    let object = &change.object;
    let [request, older] = names::REQUESTED_IPS;
    let annotations = [request, older, names::ASKED_AGAIN].map(|name| ("/metadata/annotations", name));
    if object.name != names::API_SERVICE || without(old, &annotations) != without(new, &annotations) {
        return Err(format!("{object}: more than its request for an address was changed"));
    }
    let asked = annotation(new, request).unwrap_or_default();
    let asks = |bridge: &Value| {
        Some(&control_plane_namespace(&Name::of(bridge))) == object.namespace.as_ref()
            && bridge["spec"]["metalLBVirtualIP"] == asked
    };
    let may_ask =
        asked == annotation(old, request).unwrap_or_default() || history.objects(&names::bridge()).any(asks);
    let adds_older = annotation(new, older).is_some_and(|new| annotation(old, older) != Some(new));
    if !may_ask || adds_older {
        return Err(format!("{object}: no bridge asks for {asked:?}"));
    }
    Ok(())
}

/// Checks a change of a DPUCluster. The Bridge may change only its kubeconfig: set it to that of a bridge that refers to the
/// DPUCluster, or remove it when that bridge is deleted.
fn dpu_cluster(change: &Change, old: &Value, new: &Value, history: &History) -> Result<(), String> {
    let refuse = |why: &str| Err(format!("{}: {why}", change.object));
    let kubeconfig = [("/spec", "kubeconfig")];
    if without(old, &kubeconfig) != without(new, &kubeconfig) {
        return refuse("more than its kubeconfig was changed");
    }
    let of = |object: &Value| object["spec"]["kubeconfig"].as_str().unwrap_or_default().to_owned();
    let is_of = |bridge: &Value, kubeconfig: &str| has_given(bridge, &change.object, kubeconfig);
    // The copies of two bridges can have one name.
    let is_anothers = |bridge: &Value, taken: &str| {
        let namespace = change.object.namespace.as_deref().unwrap_or_default();
        let copy = ObjectRef::namespaced(&names::secret(), namespace, taken);
        let copy = history.versions(&copy).last().and_then(|version| version.object.as_deref());
        copy.is_some_and(|copy| names::is_of_another(copy, &Name::of(bridge)))
    };
    // One that was deleted may have been created again while the request was in transit.
    let goes = |taken: &str| {
        let is_going = |it: &Value| is_of(it, taken) && is_deleting(it) && !is_anothers(it, taken);
        history.objects(&names::bridge()).any(is_going)
    };
    match (of(old).as_str(), of(new).as_str()) {
        (before, after) if before == after => Ok(()),
        ("", given) if history.objects(&names::bridge()).any(|bridge| is_of(bridge, given)) => Ok(()),
        ("", _) => refuse("it was given a kubeconfig that is of none of its bridges"),
        (taken, "") if goes(taken) => Ok(()),
        (_, "") => refuse("a kubeconfig was taken away that is of no bridge that goes"),
        _ => refuse("the kubeconfig of another client was replaced"),
    }
}

/// Returns an object without the fields that the server updates, and without these fields, each given by its parent and name.
fn without(object: &Value, fields: &[(&str, &str)]) -> Value {
    let mut rest = object.clone();
    let counted = ["resourceVersion", "generation", "managedFields"].map(|field| ("/metadata", field));
    for (parent, field) in counted.iter().chain(fields) {
        if let Some(parent) = rest.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.remove(*field);
        }
    }
    if let Some(metadata) = rest["metadata"].as_object_mut() {
        metadata.retain(|field, value| field != "annotations" || *value != json!({}));
    }
    rest
}

/// Returns whether a uid is, or was, that of a bridge.
fn is_bridge(history: &History, uid: &str) -> bool {
    history.objects(&names::bridge()).any(|bridge| metadata(bridge, "uid") == uid)
}

fn phases_follow_the_table(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, Change { object, old: Some(old), new: Some(new), .. })) = moment.entry.by_process() else {
        return Ok(());
    };
    let phase = |object: &Value| object["status"]["phase"].as_str().and_then(Phase::read);
    let (before, after) = (phase(old), phase(new));
    let is_edge = matches!(
        (before, after),
        (_, Some(Phase::Deleting))
            | (None, Some(Phase::Pending))
            | (Some(Phase::Pending), Some(Phase::Provisioning | Phase::Failed))
            | (Some(Phase::Provisioning), Some(Phase::Ready | Phase::Failed))
            | (Some(Phase::Ready), Some(Phase::Failed))
            | (Some(Phase::Failed), Some(Phase::Provisioning))
    ) || before == after;
    if object.kind != names::bridge() || is_edge {
        return Ok(());
    }
    Err(format!("{object} went from {before:?} to {after:?}"))
}

fn ready_means_available(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, Change { object, old: Some(old), new: Some(new), .. })) = moment.entry.by_process()
    else {
        return Ok(());
    };
    let is_ready = |object: &Value| conditions::is(object, condition::READY, "True");
    if object.kind != names::bridge() || is_ready(old) || !is_ready(new) {
        return Ok(());
    }
    let Some(state) = moment.history.process(process) else { return Ok(()) };
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let cluster = ObjectRef::namespaced(&names::hosted_cluster(), namespace, &object.name);
    let was_available = |cluster: &Value| conditions::is(cluster, "Available", "True");
    // Earlier states count as well: the new one may have arrived while the status was in transit, and a state that a slow watch
    // delivers after a newer one is ignored.
    let observed = state.observed.get(&cluster).into_iter();
    let before = state.previous.get(&cluster).map(|(_, object)| object);
    let replaced = state.replaced.get(&cluster).into_iter().flatten().map(|(_, object)| object);
    if observed.chain(before).chain(replaced).any(|cluster| was_available(cluster)) {
        return Ok(());
    }
    Err(format!(
        "{object} is Ready, but its HostedCluster was not available according to everything that the process received"
    ))
}

fn an_available_cluster_is_not_failed(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, Change { object, old: Some(old), new: Some(new), .. })) = moment.entry.by_process()
    else {
        return Ok(());
    };
    let phase = |object: &Value| object["status"]["phase"].as_str().and_then(Phase::read);
    let fails = phase(old) == Some(Phase::Ready) && phase(new) == Some(Phase::Failed);
    if object.kind != names::bridge()
        || !fails
        || !conditions::is(new, condition::HOSTED_CLUSTER_AVAILABLE, "True")
    {
        return Ok(());
    }
    // The first obstacle is reported, and the NodePool is checked last.
    let because = |name: &str, reason: &str| conditions::is_because(new, name, reason);
    let is_injected = conditions::is(new, condition::KUBECONFIG_INJECTED, "True")
        || because(condition::KUBECONFIG_INJECTED, reason::DPU_CLUSTER_HAS_ITS_OWN);
    let is_by_nodes = because(condition::READY, reason::WAITING_FOR_INFRASTRUCTURE)
        && because(condition::NODE_POOL_READY, reason::NODES_UNHEALTHY)
        && conditions::is(new, condition::SERVICE_EXPOSURE_READY, "True")
        && is_injected;
    let is_by_block = because(condition::READY, reason::VALIDATION_FAILED)
        && because(condition::HOSTED_CLUSTER_PROGRESSING, reason::BLOCKED)
        && !because(condition::PREREQUISITES_MET, reason::INVALID)
        && [condition::DPU_CLUSTER_VALID, condition::HOSTED_CLUSTER_CREATED, condition::PROVISIONED]
            .iter()
            .all(|name| conditions::is(new, name, "True"));
    let is_by_degradation = because(condition::READY, reason::WAITING_FOR_CONTROL_PLANE)
        && conditions::is(new, condition::HOSTED_CLUSTER_DEGRADED, "True")
        && !because(condition::PREREQUISITES_MET, reason::INVALID)
        && [condition::HOSTED_CLUSTER_CREATED, condition::PROVISIONED]
            .iter()
            .all(|name| conditions::is(new, name, "True"));
    let is_by_address = because(condition::READY, reason::WAITING_FOR_INFRASTRUCTURE)
        && conditions::is(new, condition::SERVICE_EXPOSURE_READY, "False")
        && conditions::is(new, condition::NODE_POOL_READY, "True")
        && is_injected
        && judged::is_reachable(moment, process, new);
    let is_by_renewal = because(condition::READY, reason::WAITING_FOR_INFRASTRUCTURE)
        && because(condition::KUBECONFIG_INJECTED, reason::KUBECONFIG_PENDING)
        && conditions::is(new, condition::SERVICE_EXPOSURE_READY, "True")
        && conditions::is(new, condition::PROVISIONED, "True")
        && injected::is_connected(moment, process, new);
    if is_by_nodes || is_by_block || is_by_degradation || is_by_address || is_by_renewal {
        return Err(format!("{object} is called Failed for {}", new["status"]["message"]));
    }
    Ok(())
}

fn the_nodepool_follows(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, Change { object, old: Some(old), new: Some(new), .. })) = moment.entry.by_process()
    else {
        return Ok(());
    };
    let image = |pool: &Value| pool["spec"]["release"]["image"].as_str().unwrap_or_default().to_owned();
    if object.kind != names::node_pool() || image(old) == image(new) {
        return Ok(());
    }
    let Some(state) = moment.history.process(process) else { return Ok(()) };
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let cluster = ObjectRef::namespaced(&names::hosted_cluster(), namespace, &object.name);
    // The write may have been in transit for a while.
    let observed = state.observed.get(&cluster).into_iter();
    let mut observed = observed.chain(state.previous.get(&cluster).map(|(_, object)| object)).peekable();
    if observed.peek().is_none() || observed.any(|cluster| hypershift::has_completed(cluster, &image(new))) {
        return Ok(());
    }
    Err(format!("{object} was given {}, which its HostedCluster has not completed", image(new)))
}

fn an_address_is_released_only_for_another_bridge(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, Change { object, old: Some(old), new: Some(new), .. })) = moment.entry.by_process()
    else {
        return Ok(());
    };
    let [request, _] = names::REQUESTED_IPS;
    let Some(asked) = annotation(new, request).filter(|asked| annotation(old, request) != Some(asked)) else {
        return Ok(());
    };
    let has = |service: &Value| service["status"]["loadBalancer"]["ingress"][0]["ip"].clone();
    let own = has(old);
    let is_wanted =
        moment.history.objects(&names::bridge()).any(|bridge| bridge["spec"]["metalLBVirtualIP"] == own);
    let Some(state) = moment.history.process(process) else { return Ok(()) };
    if object.kind != names::service() || own == asked {
        return Ok(());
    }
    let others = state.observed.iter().filter(|(other, _)| other.kind == object.kind && *other != object);
    // The write may have been in transit for a while.
    let had_it_before =
        |other: &ObjectRef| state.previous.get(other).is_none_or(|(_, before)| has(before) == asked);
    let holder = others.into_iter().find(|(other, service)| has(service) == asked && had_it_before(other));
    match holder {
        Some((holder, _)) if holder.name != names::API_SERVICE || (!own.is_null() && !is_wanted) => {
            Err(format!("{object} has {own} and was made to ask for {asked}, which {holder} has"))
        }
        _ => Ok(()),
    }
}

fn immutable_fields_are_not_changed(moment: &Moment<'_>) -> Result<(), String> {
    let What::Carried(carried) = &moment.entry.what else { return Ok(()) };
    let is_refused = carried.failed == Some(lockstep_engine::action::ErrorKind::Invalid)
        && carried.fate == lockstep_sim::cluster::FaultVerdict::Served;
    match carried.action.target() {
        Some(target) if is_refused && lifecycle::is_cluster(target) => {
            Err(format!("the {} of {target} was refused as invalid", carried.action.name()))
        }
        _ => Ok(()),
    }
}
