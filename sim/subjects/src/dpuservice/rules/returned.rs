//! What happens when a cluster that was down returns.

use std::sync::Arc;
use std::time::Duration;

use lockstep_dpuservice::names::{self, ARGO_NAMESPACE};
use lockstep_engine::object::{Kind, Name, ObjectRef, annotation, is_deleting, metadata};
use lockstep_external::Pace;
use lockstep_external::argocd::{SKIP_RECONCILE, repeated};
use lockstep_external::dpu_clusters::{Access, UNREACHABLE, release};
use lockstep_sim::cluster::{Author, What};
use lockstep_sim::conditions;
use lockstep_sim::history::{Version, reference};
use lockstep_sim::invariant::Moment;
use serde_json::Value;

use super::super::identity;
use super::super::setup::{self, cluster_ref, decoded, kubeconfig_ref};
use super::past::EXTERNAL;

/// The longest delay between two attempts of a sync, as the controller writes it.
const RETRY: Duration = Duration::from_mins(1);
/// A sync of the previous source may end first. Each of the two is begun, attempted, applied and compared.
const STEPS: u32 = 8;
/// After the limit, a cluster is checked for as long as this. Argo CD compares an Application every three minutes.
const CHECKED: Duration = Duration::from_mins(4);

pub(super) fn a_returned_cluster_is_deployed(moment: &Moment<'_>) -> Result<(), String> {
    if !matches!(moment.entry.what, What::Changed(_)) {
        return Ok(());
    }
    let limit = RETRY + STEPS * Pace::SLOW.step.1;
    for cluster in setup::CLUSTERS.map(setup::name) {
        let Some(returned) = returned(moment, &cluster) else { continue };
        let passed = moment.entry.at.saturating_sub(returned);
        if passed < limit || passed > limit + CHECKED || !is_accessible(moment, &cluster, returned) {
            continue;
        }
        for application in moment.server.objects(&names::application()) {
            let target = reference(&names::application(), &application);
            let of = identity::of_application(&application).filter(|(_, on)| *on == cluster);
            let Some((service, _)) = of else { continue };
            let is_checked = is_deployable(&application, &cluster)
                && !is_disturbed(moment, &application, &service, &cluster, returned);
            if is_checked && !was_deployed(moment, &target, &application, returned, returned + limit) {
                return Err(format!("{target} is not deployed {passed:?} after {cluster} has returned"));
            }
        }
    }
    Ok(())
}

/// Returns when a cluster was last reachable again; none if it never was down, or is.
fn returned(moment: &Moment<'_>, cluster: &Name) -> Option<Duration> {
    let is_down = |version: &Version| {
        version.object.as_deref().is_some_and(|object| annotation(object, UNREACHABLE).is_some())
    };
    let versions = moment.history.versions(&cluster_ref(cluster));
    let last = versions.iter().rposition(is_down)?;
    versions.get(last + 1).map(|version| version.at)
}

/// Returns whether another client than the external systems has changed an object since then.
fn is_changed(moment: &Moment<'_>, target: &ObjectRef, since: Duration) -> bool {
    let versions = moment.history.versions(target).iter().rev().take_while(|version| version.at > since);
    versions
        .into_iter()
        .any(|version| matches!(version.by, Author::Client(author) if !EXTERNAL.contains(&author)))
}

/// Returns whether Argo CD has had access to a cluster since it returned, and to no other one by its server.
fn is_accessible(moment: &Moment<'_>, cluster: &Name, returned: Duration) -> bool {
    let (target, kubeconfig) = (cluster_ref(cluster), kubeconfig_ref(cluster));
    let server = setup::server(cluster);
    let names_it = |object: &Value| setup::connected_server(moment.server, object).as_ref() == Some(&server);
    let clusters = moment.server.objects(&names::dpu_cluster());
    let is_alone = clusters.iter().filter(|object| names_it(object)).count() == 1;
    let stays = moment.server.object(&target).is_some_and(|object| {
        setup::named_kubeconfig(object).as_ref() == Some(&kubeconfig) && !is_deleting(object)
    });
    let secrets = moment.server.objects(&names::secret()).into_iter();
    let secrets = secrets.filter(|secret| metadata(secret, "namespace") == ARGO_NAMESPACE);
    let registered: Vec<_> = secrets.filter(|secret| decoded(secret, "server") == server).collect();
    let ([secret], Some(access)) =
        (&registered[..], moment.server.object(&kubeconfig).and_then(|it| Access::of_kubeconfig(it)))
    else {
        return false;
    };
    let is_old = |target: &ObjectRef| {
        moment.history.versions(target).last().is_none_or(|version| version.at < returned)
    };
    let admits = |client: &Access| access.admits(client).is_ok();
    is_alone
        && stays
        && access.server == server
        && annotation(secret, SKIP_RECONCILE).is_none()
        && Access::of_argo(secret).as_ref().is_some_and(admits)
        && is_old(&kubeconfig)
        && is_old(&reference(&names::secret(), secret))
        && !is_changed(moment, &target, returned)
}

/// Returns whether Argo CD can deploy an Application at once: nothing in its chart or its policy prevents it.
fn is_deployable(application: &Value, cluster: &Name) -> bool {
    let works = |source: &Value| {
        let values = &source["helm"]["valuesObject"];
        ![release::BROKEN, release::MISSING].map(Value::from).contains(&source["targetRevision"])
            && [release::FAILING_HOOK, release::HANGING_HOOK].iter().all(|cause| values[*cause] != true)
    };
    let spec = &application["spec"];
    works(&spec["source"])
        && spec["syncPolicy"]["automated"].is_object()
        && spec["destination"]["server"] == setup::server(cluster)
        && annotation(application, SKIP_RECONCILE).is_none()
        && !is_deleting(application)
}

/// Returns whether anything but the return of its cluster has affected an Application since.
fn is_disturbed(
    moment: &Moment<'_>,
    application: &Arc<Value>,
    service: &Name,
    cluster: &Name,
    returned: Duration,
) -> bool {
    let target = reference(&names::application(), application);
    let versions = moment.history.versions(&target);
    let before = versions.iter().rposition(|version| version.at < returned);
    let since = before.map_or(&[][..], |before| &versions[before..]);
    let is_same = |version: &Version| {
        version.object.as_deref().is_some_and(|object| {
            let is_invalid = conditions::find(object, "InvalidSpecError").is_some();
            // A sync that began before the last change keeps its source.
            let mut begun = object.clone();
            begun["spec"]["source"] = match &object["operation"]["sync"]["source"] {
                Value::Null => object["spec"]["source"].clone(),
                source => source.clone(),
            };
            object["spec"] == application["spec"] && !is_invalid && is_deployable(&begun, cluster)
        })
    };
    let runs =
        Name::new(&cluster.namespace, &format!("{}.{}.{}", cluster.name, service.namespace, service.name));
    let runs = runs.object(&Kind::known("", "v1", "ConfigMap", "configmaps", true));
    since.is_empty()
        || !since.iter().all(is_same)
        || is_changed(moment, &target, returned)
        || is_changed(moment, &runs, returned)
}

/// Returns whether Argo CD reported the source of an Application as deployed at a time between these.
fn was_deployed(
    moment: &Moment<'_>,
    target: &ObjectRef,
    application: &Value,
    begin: Duration,
    end: Duration,
) -> bool {
    let wanted = repeated(&application["spec"]["source"]);
    let is_deployed = |object: &Value| {
        let sync = &object["status"]["sync"];
        sync["status"] == "Synced" && sync["comparedTo"]["source"] == wanted
    };
    let versions = moment.history.versions(target);
    let ends = versions.iter().skip(1).map(|next| next.at).chain([moment.entry.at]);
    let mut during =
        versions.iter().zip(ends).filter(|(version, until)| version.at <= end && *until >= begin);
    during.any(|(version, _)| version.object.as_deref().is_some_and(is_deployed))
}
