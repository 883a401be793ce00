//! What the controller may change, and what must hold at every step.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lockstep_dpuservice::names::{
    self, ARGO_NAMESPACE, FINALIZER, MANAGED_BY, MANAGER, PROJECT, SERVICE_NAME,
};
use lockstep_engine::finalizer;
use lockstep_engine::object::{Kind, Name, ObjectRef, is_deleting, label, metadata};
use lockstep_external::Controller as _;
use lockstep_external::argocd::ArgoCd;
use lockstep_external::dpu_clusters::release;
use lockstep_sim::cluster::{Author, Change, What};
use lockstep_sim::history::{History, ProcessState, Version, reference};
use lockstep_sim::invariant::{Invariant, Moment, SECRET, is_deletion};
use serde_json::Value;

use self::past::{EXTERNAL, REQUEST, STALE, age, lasts, seen, was_leaving};
use super::identity;
use super::setup::{self, cluster_ref, decoded, kubeconfig_ref, project_ref};
use crate::{announced, passes};

mod ended;
mod judged;
mod known;
mod past;
mod returned;
mod rollout;
mod servers;
mod statements;
mod summary;

/// For how long a change by another client to what Argo CD depends on explains remaining objects.
const MEDDLING: Duration = Duration::from_mins(15);

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: "applications_are_deleted_only_with_their_service_or_cluster",
        sentence: "The Application of a service on a cluster is not deleted while both remain.",
        holds: applications_are_deleted_only_with_their_service_or_cluster,
    },
    Invariant {
        name: "applications_are_created_once",
        sentence: "No Application is created if one exists for this service and cluster: none is renamed, none is duplicated.",
        holds: applications_are_created_once,
    },
    Invariant {
        name: "released_applications_are_not_changed",
        sentence: "An Application that no longer names a service is not changed, once the controller could know that.",
        holds: released_applications_are_not_changed,
    },
    Invariant {
        name: "a_secret_outlives_its_applications",
        sentence: "Argo CD's last Secret of a cluster is removed after its Applications, unless the cluster is gone and Argo CD is stuck.",
        holds: a_secret_outlives_its_applications,
    },
    Invariant {
        name: "the_project_outlives_the_applications",
        sentence: "The AppProject is removed, and a server removed from it, only when no Application needs it.",
        holds: the_project_outlives_the_applications,
    },
    Invariant {
        name: "the_finalizer_is_added_first",
        sentence: "No Application is created for a service without the finalizer.",
        holds: the_finalizer_is_added_first,
    },
    Invariant {
        name: "the_finalizer_is_removed_last",
        sentence: "The finalizer of a service is removed only when its Applications are gone.",
        holds: the_finalizer_is_removed_last,
    },
    Invariant {
        name: "nothing_is_left_running",
        sentence: "The workloads of an Application are removed before the Application, unless another client has interfered.",
        holds: nothing_is_left_running,
    },
    Invariant {
        name: "applications_name_the_server_of_their_cluster",
        sentence: "An Application names a server that the kubeconfig of its cluster names.",
        holds: applications_name_the_server_of_their_cluster,
    },
    Invariant {
        name: "a_server_has_one_secret",
        sentence: "Argo CD does not have two Secrets with one server for long, of two clusters or of one.",
        holds: servers::a_server_has_one_secret,
    },
    Invariant {
        name: "no_owner_in_another_namespace",
        sentence: "No object in Argo CD's namespace gets an owner reference, because the garbage collector would delete it.",
        holds: no_owner_in_another_namespace,
    },
    Invariant {
        name: "reconciled_means_written",
        sentence: "ApplicationsReconciled is True at the current generation only if each cluster has had its Application with the current version.",
        holds: statements::reconciled_means_written,
    },
    Invariant {
        name: "ready_means_deployed",
        sentence: "A service is Ready at its current generation only if Argo CD has reported each Application as synced and healthy with its version, and no sync of it has failed.",
        holds: statements::ready_means_deployed,
    },
    Invariant {
        name: "a_returned_cluster_is_deployed",
        sentence: "Argo CD deploys an Application that was changed while its cluster was down within minutes of the return, if nothing else interferes.",
        holds: returned::a_returned_cluster_is_deployed,
    },
    Invariant {
        name: "only_blocking_syncs_are_terminated",
        sentence: "The sync of an Application that remains is terminated only if the desired state has differed for five minutes.",
        holds: ended::only_blocking_syncs_are_terminated,
    },
    Invariant {
        name: "a_terminated_sync_is_an_event",
        sentence: "A process that has terminated a sync announces that as an Event.",
        holds: ended::a_terminated_sync_is_an_event,
    },
    Invariant {
        name: "a_paused_service_changes_nothing",
        sentence: "No Application is created, changed or removed for a service that the process knows to be paused, unless its cluster is removed.",
        holds: rollout::a_paused_service_changes_nothing,
    },
    Invariant {
        name: "a_rollout_keeps_its_limit",
        sentence: "No ready cluster with a working Application gets another version or other values while the process knows as many others to be in change as the service permits.",
        holds: rollout::a_rollout_keeps_its_limit,
    },
    Invariant {
        name: "canaries_are_changed_first",
        sentence: "No other ready cluster gets another version or other values while the process knows that a canary of the service is not ready with them.",
        holds: rollout::canaries_are_changed_first,
    },
    Invariant {
        name: "no_condition_of_a_service_freezes",
        sentence: "A pass over a service that succeeds while some kind can't be watched leaves all conditions at the generation that was known when it began.",
        holds: judged::no_condition_freezes,
    },
    Invariant {
        name: "only_what_cannot_be_watched_is_unknown",
        sentence: "While a kind can't be watched, exactly the conditions that depend on it are Unknown.",
        holds: judged::only_what_cannot_be_watched_is_unknown,
    },
    Invariant {
        name: "the_last_reports_are_kept",
        sentence: "While DPUClusters or Applications can't be watched, a status keeps its rollout and Argo CD's last reports.",
        holds: judged::the_last_reports_are_kept,
    },
    Invariant {
        name: "the_status_repeats_the_reports",
        sentence: "A pass over a service leaves a status that says of each cluster what its DPUCluster and Application report, if the process knew all of that before.",
        holds: known::the_status_repeats_the_reports,
    },
    Invariant {
        name: "credentials_stay_in_secrets",
        sentence: "No data of a kubeconfig is written into any object but a Secret.",
        holds: credentials_stay_in_secrets,
    },
    announced::invariant(announced::of_dpuservice),
    announced::warnings(announced::warnings_of_dpuservice),
    passes::pauses(|moment| passes::are_paused_as_said(moment, &names::service())),
    Invariant {
        name: "ready_repeats_the_worst",
        sentence: "At the end of a pass that succeeds, Ready is True only if all conditions are that it sums up, and otherwise repeats one that is not, an error or a failure first.",
        holds: summary::ready_repeats_the_worst,
    },
];

/// Returns whether an Application was the controller's at some time. A request that was in transit when another client removed its
/// identity does not count as a change of another client's object.
fn was_ours(application: &ObjectRef, history: &History) -> bool {
    let mut versions = history.versions(application).iter().filter_map(|version| version.object.as_deref());
    versions.any(|application| identity::of_application(application).is_some())
}

/// Checks that the controller changes only its permitted objects: finalizers and status of services, and the objects that it
/// created.
pub(super) fn may_change(change: &Change, history: &History) -> Result<(), String> {
    let Change { object, old, new, .. } = change;
    let refuse = |why: &str| Err(format!("{object}: {why}"));
    let is_argos = object.namespace.as_deref() == Some(ARGO_NAMESPACE);
    let every =
        |is_ours: &dyn Fn(&Value) -> bool| [old, new].into_iter().flatten().all(|object| is_ours(object));
    match &*object.kind.kind {
        "Event" => Ok(()),
        "DPUService" => match (old.as_deref(), new.as_deref()) {
            (Some(old), Some(new)) if old["spec"] == new["spec"] => Ok(()),
            (Some(_), None) => Ok(()),
            _ => refuse("a service is its user's to change"),
        },
        "Application" if every(&|it| identity::of_application(it).is_some()) || was_ours(object, history) => {
            Ok(())
        }
        "Secret" if is_argos && every(&|object| identity::of_secret(object).is_some()) => Ok(()),
        "AppProject"
            if object.name == PROJECT && every(&|object| label(object, MANAGED_BY) == Some(MANAGER)) =>
        {
            Ok(())
        }
        "Application" | "Secret" | "AppProject" => refuse("it belongs to another client"),
        _ => refuse("the controller has no business with it"),
    }
}

/// Returns the Application that a process has just changed, with its service and cluster.
fn application<'a>(moment: &'a Moment<'_>) -> Option<(&'a Change, Name, Name)> {
    let (_, change) = moment.entry.by_process()?;
    let object = change.new.as_ref().or(change.old.as_ref())?;
    let (service, cluster) = identity::of_application(object)?;
    (change.object.kind == names::application()).then_some((change, service, cluster))
}

/// Returns the Applications that services find by their label, with their service and cluster.
fn applications(moment: &Moment<'_>) -> Vec<(ObjectRef, Arc<Value>, Name, Name)> {
    let all = moment.server.objects(&names::application()).into_iter();
    let all = all.filter(|object| label(object, SERVICE_NAME).is_some());
    let made = all.filter_map(|object| {
        let (service, cluster) = identity::of_application(&object)?;
        Some((reference(&names::application(), &object), object, service, cluster))
    });
    made.collect()
}

fn applications_are_deleted_only_with_their_service_or_cluster(moment: &Moment<'_>) -> Result<(), String> {
    let Some((change, service, cluster)) = application(moment).filter(|(change, ..)| is_deletion(change))
    else {
        return Ok(());
    };
    // Another client may just have deleted the other one.
    let stays = |target: &ObjectRef, object: &Value| {
        !is_deleting(object) || lasts(moment, target, is_deleting) < REQUEST
    };
    let is_doubled = applications(moment).iter().any(|(target, object, of, on)| {
        *target != change.object && (of, on) == (&service, &cluster) && stays(target, object)
    });
    let targets = [service.object(&names::service()), cluster_ref(&cluster)];
    if is_doubled || targets.iter().any(|target| was_leaving(moment, target)) {
        return Ok(());
    }
    Err(format!("{} was deleted, and both {service} and {cluster} stay", change.object))
}

fn applications_are_created_once(moment: &Moment<'_>) -> Result<(), String> {
    let Some((change, service, cluster)) = application(moment).filter(|(change, ..)| change.old.is_none())
    else {
        return Ok(());
    };
    let other = applications(moment).into_iter().find(|(target, _, of, on)| {
        *target != change.object
            && (of, on) == (&service, &cluster)
            && !seems_released(moment, target)
            && !is_unknown(moment, target)
    });
    match other {
        Some((other, ..)) => {
            Err(format!("{} was made for {service} on {cluster}, beside {other}", change.object))
        }
        None => Ok(()),
    }
}

/// Returns whether the process that makes a change may know an Application as another client's. If an apply of a second leader
/// was in transit when another client removed the identity, it restored it, and the process may not have seen that.
fn seems_released(moment: &Moment<'_>, application: &ObjectRef) -> bool {
    seen(moment, |target| target == application).any(|seen| identity::of_application(seen).is_none())
}

/// Returns whether the process that makes a change may have requested it before it knew of an object, which another leader has
/// created. The names of new Applications depend on those that exist, so that two leaders may choose different ones.
fn is_unknown(moment: &Moment<'_>, target: &ObjectRef) -> bool {
    let Some((process, _)) = moment.entry.by_process() else { return false };
    let versions = moment.history.versions(target).iter().rev();
    let created = versions.take_while(|version| version.object.is_some()).last();
    let by_other =
        created.is_some_and(|version| matches!(version.by, Author::Process(creator) if creator != process));
    let state = moment.history.process(process);
    let delivered = state.and_then(|state| state.generations.get(target));
    by_other && delivered.is_none_or(|(_, since)| *since + REQUEST > moment.entry.at)
}

fn released_applications_are_not_changed(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, Change { object, old: Some(old), .. })) = moment.entry.by_process() else {
        return Ok(());
    };
    // It can't know while Applications can't be watched.
    let is_blind = |state: &ProcessState| state.refused.contains_key(&object.kind);
    if object.kind != names::application()
        || identity::of_application(old).is_some()
        || moment.history.states_of_sender(process, moment.entry.at).any(is_blind)
    {
        return Ok(());
    }
    let says_nothing = |version: &&Version| {
        version.object.as_deref().is_some_and(|it| identity::of_application(it).is_none())
    };
    let since = moment.history.versions(object).iter().rev().take_while(says_nothing).last();
    match since {
        Some(version) if version.at + STALE < moment.entry.at => {
            Err(format!("{object} was changed, although another client took it over at {:?}", version.at))
        }
        _ => Ok(()),
    }
}

fn a_secret_outlives_its_applications(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, change)) = moment.entry.by_process().filter(|(_, change)| is_deletion(change)) else {
        return Ok(());
    };
    let cluster = change.old.as_deref().and_then(identity::of_secret);
    let Some(cluster) = cluster.filter(|_| change.object.kind == names::secret()) else { return Ok(()) };
    // Of several Secrets one is enough.
    let stored = moment.server.objects(&names::secret());
    let mut secrets = seen(moment, |target| target.kind == names::secret()).chain(&stored);
    let is_other = |secret: &Value| {
        Name::of(secret).object(&names::secret()) != change.object
            && !is_deleting(secret)
            && identity::of_secret(secret).is_some_and(|of| of == cluster)
    };
    if secrets.any(|secret| is_other(secret)) {
        return Ok(());
    }
    let is_gone = was_leaving(moment, &cluster_ref(&cluster));
    let left = applications(moment).into_iter().find(|(target, object, _, on)| {
        *on == cluster && age(moment, target) > REQUEST && !(is_gone && is_deleting(object))
    });
    match left {
        Some((left, ..)) => Err(format!("{} was removed, and {left} is still there", change.object)),
        None => Ok(()),
    }
}

fn the_project_outlives_the_applications(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, change)) = moment.entry.by_process().filter(|(_, change)| change.object == project_ref())
    else {
        return Ok(());
    };
    let permitted = |object: Option<&Value>| {
        let entries =
            object.map(|object| object["spec"]["destinations"].as_array()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry["server"].as_str()).map(str::to_owned).collect::<Vec<_>>()
    };
    let still = permitted(change.new.as_deref());
    let lost: Vec<String> = permitted(change.old.as_deref())
        .into_iter()
        .filter(|server| is_deletion(change) || !still.contains(server))
        .collect();
    let needs = |object: &Value| {
        is_deletion(change) || lost.iter().any(|server| object["spec"]["destination"]["server"] == **server)
    };
    let left = applications(moment)
        .into_iter()
        .find(|(target, object, ..)| needs(object) && lasts(moment, target, needs) > REQUEST);
    match left {
        Some((left, ..)) => {
            Err(format!("the AppProject ceased to permit {lost:?}, and {left} is still there"))
        }
        None => Ok(()),
    }
}

fn the_finalizer_is_added_first(moment: &Moment<'_>) -> Result<(), String> {
    let Some((change, service, _)) = application(moment).filter(|(change, ..)| change.old.is_none()) else {
        return Ok(());
    };
    let target = service.object(&names::service());
    let found = moment.server.object(&target);
    let held = |object: &Value| finalizer::is_held(object, FINALIZER);
    // It may have been removed while the request was in transit.
    let since = moment.entry.at.saturating_sub(STALE);
    let mut recent = moment.history.versions(&target).iter().filter(|version| version.at >= since);
    if found.is_some_and(|found| held(found))
        || recent.any(|version| version.object.as_deref().is_none_or(held))
    {
        return Ok(());
    }
    Err(format!("{} was made for a service without the finalizer", change.object))
}

fn the_finalizer_is_removed_last(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, Change { object, old: Some(old), new, .. })) = moment.entry.by_process() else {
        return Ok(());
    };
    let held = |object: &Value| finalizer::is_held(object, FINALIZER);
    if object.kind != names::service() || !held(old) || new.as_deref().is_some_and(held) {
        return Ok(());
    }
    let name = Name::of(old);
    let left = applications(moment)
        .into_iter()
        .find(|(target, _, of, _)| *of == name && age(moment, target) > REQUEST);
    match left {
        Some((left, ..)) => Err(format!("{object} was let go, and {left} is still there")),
        None => Ok(()),
    }
}

fn nothing_is_left_running(moment: &Moment<'_>) -> Result<(), String> {
    let What::Changed(Change { by: Author::Client(ArgoCd::NAME), object, old: Some(old), new: None }) =
        &moment.entry.what
    else {
        return Ok(());
    };
    let Some((_, cluster)) = identity::of_application(old) else { return Ok(()) };
    let Some(there) = moment.server.object(&cluster_ref(&cluster)) else { return Ok(()) };
    let releases = moment.server.objects(&Kind::known("", "v1", "ConfigMap", "configmaps", true));
    let left = releases.iter().find(|found| {
        label(found, release::CLUSTER) == Some(&cluster.name)
            && metadata(found, "namespace") == cluster.namespace
            && found["data"]["application"] == object.name
    });
    // Another cluster may have had the name, or this one may have moved, or its kubeconfig may name another server.
    let destination = old["spec"]["destination"]["server"].as_str().unwrap_or_default();
    let said = setup::connected_server(moment.server, there);
    let is_elsewhere = setup::is_provided(&cluster) && setup::server(&cluster) != destination;
    let moved = is_elsewhere || said.as_deref() != Some(destination);
    match left {
        Some(left) if !is_deleting(there) && !moved && !was_meddled_with(moment, object, &cluster) => {
            Err(format!("{object} has gone, and on {cluster} still runs {}", metadata(left, "name")))
        }
        _ => Ok(()),
    }
}

/// Returns whether another client has recently changed what Argo CD needs to remove an Application.
fn was_meddled_with(moment: &Moment<'_>, application: &ObjectRef, cluster: &Name) -> bool {
    let since = moment.entry.at.saturating_sub(MEDDLING);
    let is_somebodys = |version: &Version| {
        version.at >= since && matches!(version.by, Author::Client(author) if !EXTERNAL.contains(&author))
    };
    let kind = names::secret();
    let secrets =
        moment.history.objects(&kind).filter(|secret| metadata(secret, "namespace") == ARGO_NAMESPACE);
    let secrets = secrets.map(|secret| Name::of(secret).object(&names::secret()));
    let targets = [application.clone(), project_ref(), cluster_ref(cluster)];
    targets
        .into_iter()
        .chain(kubeconfigs(moment, cluster))
        .chain(secrets)
        .any(|target| moment.history.versions(&target).iter().any(is_somebodys))
}

/// Returns the Secrets that have been the kubeconfig of a cluster.
fn kubeconfigs(moment: &Moment<'_>, cluster: &Name) -> BTreeSet<ObjectRef> {
    let versions = moment.history.versions(&cluster_ref(cluster)).iter();
    let named = versions.filter_map(|version| setup::named_kubeconfig(version.object.as_deref()?));
    named.chain([kubeconfig_ref(cluster)]).collect()
}

fn applications_name_the_server_of_their_cluster(moment: &Moment<'_>) -> Result<(), String> {
    let Some((change, _, cluster)) = application(moment) else { return Ok(()) };
    let server = |object: &Option<Arc<Value>>| {
        object.as_ref().and_then(|object| object["spec"]["destination"]["server"].as_str().map(str::to_owned))
    };
    let Some(new) = server(&change.new).filter(|new| server(&change.old).as_ref() != Some(new)) else {
        return Ok(());
    };
    let line = format!("server: {new}\n");
    let kubeconfigs = kubeconfigs(moment, &cluster);
    let versions = kubeconfigs.iter().flat_map(|kubeconfig| moment.history.versions(kubeconfig));
    let mut texts = versions
        .filter_map(|version| version.object.as_deref().map(|secret| decoded(secret, "super-admin.conf")));
    if setup::server(&cluster) == new || texts.any(|text| text.contains(&line)) {
        return Ok(());
    }
    Err(format!("{} goes to {new}, where {cluster} has never been", change.object))
}

fn no_owner_in_another_namespace(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, Change { object, old, new: Some(new), .. })) = moment.entry.by_process() else {
        return Ok(());
    };
    let owners = |object: &Value| object["metadata"]["ownerReferences"].clone();
    let is_argos = object.namespace.as_deref() == Some(ARGO_NAMESPACE);
    if is_argos && owners(new).is_array() && old.as_deref().map(owners) != Some(owners(new)) {
        return Err(format!("{object} is owned by {}", owners(new)));
    }
    Ok(())
}

fn credentials_stay_in_secrets(moment: &Moment<'_>) -> Result<(), String> {
    match moment.entry.by_process() {
        Some((_, Change { object, new: Some(new), .. })) if object.kind != names::secret() => {
            if new.to_string().contains(SECRET) {
                return Err(format!("{object} holds something of a kubeconfig"));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
