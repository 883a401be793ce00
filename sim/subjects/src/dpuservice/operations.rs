//! The operations of users, admins and other controllers.

use lockstep_dpuservice::names::{self, ARGO_NAMESPACE, PROJECT};
use lockstep_engine::object::{Kind, Name, is_deleting, metadata};
use lockstep_engine::random::Random;
use lockstep_external::dpu_clusters::{UNREACHABLE, release};
use lockstep_sim::history::reference;
use lockstep_sim::invariant::SECRET;
use lockstep_sim::subject::{Client, Operation};
use serde_json::{Value, json};

use super::setup::{
    self, CLUSTERS, HOLD, LAST_VERSION, REPOSITORY, SERVICES, SQUATTER, VERSIONS, access, cluster_ref,
    kubeconfig_ref, server,
};
use super::{argocd, identity};
use crate::dpf;

mod argo;

pub(super) const OPERATIONS: &[Operation] = &[
    Operation::new("create a service", "user", 12, create_service),
    Operation::new("delete a service", "user", 6, delete_service),
    Operation::new("choose a version", "user", 12, choose_version),
    Operation::new("change values", "user", 8, change_values),
    Operation::new("let a service go", "user", 4, let_service_go),
    Operation::new("pause a service, or let it go on", "user", 3, pause_service),
    Operation::new("limit how many clusters of a service change at a time", "user", 4, limit_service),
    Operation::new("create a cluster", "admin", 8, create_cluster),
    Operation::new("delete a cluster", "admin", 4, delete_cluster),
    Operation::new("hold a cluster that is deleted", "admin", 3, hold_cluster),
    Operation::new("rotate credentials", "admin", 6, rotate),
    Operation::new("break a kubeconfig", "admin", 3, break_kubeconfig),
    Operation::new("delete a kubeconfig", "admin", 2, delete_kubeconfig),
    Operation::new("name no kubeconfig", "admin", 1, name_no_kubeconfig),
    Operation::new("move a cluster", "admin", 2, move_cluster),
    Operation::new("give two clusters one server", "admin", 2, share_server),
    Operation::new("cut a cluster off", "admin", 3, cut_off),
    Operation::new("stop Argo CD's repo-server, or start it again", "admin", 2, argo::stop_repo_server),
    Operation::new("take a permission to watch", "admin", 3, forbid_watches),
    dpf::DELETE_CRD,
    dpf::CREATE_CRD,
    argocd::DELETE_CRD,
    argocd::CREATE_CRDS,
    Operation::new("put everything right", "admin", 5, restore),
    Operation::new("delete an Application", "other controller", 3, argo::delete_application),
    Operation::new("edit an Application", "other controller", 4, argo::edit_application),
    Operation::new("copy an Application", "admin", 3, argo::copy_application),
    Operation::new("remove the labels of an Application", "other controller", 2, argo::remove_labels),
    Operation::new("pause Argo CD", "other controller", 2, argo::pause),
    Operation::new("delete Argo CD's Secret", "other controller", 3, argo::delete_secret),
    Operation::new("change Argo CD's Secret", "other controller", 3, argo::change_secret),
    Operation::new("copy Argo CD's Secret", "admin", 2, argo::copy_secret),
    Operation::new("strip Argo CD's Secret", "other controller", 1, argo::strip_secret),
    Operation::new("delete the AppProject", "other controller", 1, argo::delete_project),
    Operation::new("edit the AppProject", "other controller", 3, argo::edit_project),
    Operation::new("take the AppProject over", "other controller", 1, argo::strip_project),
    Operation::new("occupy a name", "other controller", 6, occupy),
    Operation::new("disturb what runs", "other controller", 3, disturb),
];

fn some_service(random: &mut Random) -> Name {
    setup::name(random.pick(&SERVICES))
}

fn some_cluster(random: &mut Random) -> Name {
    setup::name(random.pick(&CLUSTERS))
}

/// After fault injection has ended, sets every service to a new version with a chart that starts. No service stays paused. A
/// service with a limit gets values that work on all clusters, because others halt its rollout. If DPF or Argo CD is not
/// installed any more, all services are deleted.
pub(super) fn settle(client: &mut dyn Client) {
    let is_installed = dpf::is_installed(client) && argocd::is_installed(client);
    for service in SERVICES {
        let target = setup::name(service).object(&names::service());
        if !is_installed {
            client.delete(&target);
            continue;
        }
        let mut spec = json!({ "source": { "version": LAST_VERSION }, "paused": null });
        let service = client.server().object(&target).cloned();
        if let Some(service) = service.filter(|service| service["spec"]["rollout"].is_object()) {
            if has_no_canary(client, &service) {
                spec["rollout"] = json!({ "canaries": null });
            }
            spec["values"] = json!({
                release::DEGRADED: null, release::FAILING_HOOK: null, release::HANGING_HOOK: null,
            });
        }
        client.merge(&target, &json!({ "spec": spec }));
    }
}

/// Removes the canaries of services if none of them exists any more. Such a service changes no cluster.
pub(crate) fn remove_missing_canaries(client: &mut dyn Client) {
    for service in client.server().objects(&names::service()) {
        if has_no_canary(client, &service) {
            let spec = json!({ "rollout": { "canaries": null } });
            client.merge(&reference(&names::service(), &service), &json!({ "spec": spec }));
        }
    }
}

fn create_service(client: &mut dyn Client, random: &mut Random) {
    let mut service = setup::service(&some_service(random), random.pick(&VERSIONS));
    service["spec"]["rollout"] = rollout(random);
    client.create(&names::service(), &service);
}

/// Deletes a service. Sometimes another client takes over one of its Applications at that moment, to keep what it has deployed.
/// If the permission to watch Applications has just been revoked, only an answer shows that.
fn delete_service(client: &mut dyn Client, random: &mut Random) {
    let service = some_service(random);
    let is_its = |object: &Value| identity::of_application(object).is_some_and(|(of, _)| of == service);
    if random.below(4) == 0
        && let Some(target) = setup::some(client, &names::application(), random, is_its)
    {
        if random.below(2) == 0 {
            client.permit_watches(&names::application(), false);
        }
        client.merge(&target, &argo::without_identity());
    }
    client.delete(&service.object(&names::service()));
}

fn change(client: &mut dyn Client, random: &mut Random, spec: &Value) {
    client.merge(&some_service(random).object(&names::service()), &json!({ "spec": spec }));
}

/// Returns a limit of one cluster or of half of them, sometimes with canaries, or none.
fn rollout(random: &mut Random) -> Value {
    let limit = match random.below(4) {
        0 => json!(1),
        1 => json!("50%"),
        _ => return Value::Null,
    };
    match random.below(4) {
        0 => json!({ "maxUnavailable": limit, "canaries": [canary(random.pick(&CLUSTERS))] }),
        1 => json!({ "maxUnavailable": limit, "canaries": [canary(CLUSTERS[0]), canary(CLUSTERS[2])] }),
        _ => json!({ "maxUnavailable": limit }),
    }
}

fn canary((namespace, name): (&str, &str)) -> String {
    format!("{namespace}/{name}")
}

/// Returns whether a service names canaries of which none exists.
fn has_no_canary(client: &dyn Client, service: &Value) -> bool {
    let Some(canaries) = service["spec"]["rollout"]["canaries"].as_array() else { return false };
    let existing = client.server().objects(&names::dpu_cluster());
    let mut existing = existing.iter().filter(|it| !is_deleting(it));
    !existing.any(|it| canaries.contains(&json!(canary((metadata(it, "namespace"), metadata(it, "name"))))))
}

fn pause_service(client: &mut dyn Client, random: &mut Random) {
    let target = some_service(random).object(&names::service());
    if let Some(service) = client.server().object(&target) {
        let paused = service["spec"]["paused"] != true;
        client.merge(&target, &json!({ "spec": { "paused": paused } }));
    }
}

fn limit_service(client: &mut dyn Client, random: &mut Random) {
    let rollout = rollout(random);
    change(client, random, &json!({ "rollout": rollout }));
}

fn choose_version(client: &mut dyn Client, random: &mut Random) {
    let version = random.pick(&VERSIONS);
    change(client, random, &json!({ "source": { "version": version } }));
}

fn change_values(client: &mut dyn Client, random: &mut Random) {
    let spec = match random.below(5) {
        // An integer that a 64-bit float cannot represent exactly.
        0 => json!({ "values": {
            "level": "debug",
            "quota": 9_007_199_254_740_993_u64,
            "serviceDaemonSet": { "labels": { "a": "b" } },
        } }),
        1 => json!({ "values": null, "serviceID": null }),
        2 => {
            json!({ "serviceDaemonSet": { "labels": { "a": "c" }, "resources": { "limits": { "cpu": 1 } } } })
        }
        // The next change finds a sync that does not end.
        3 => json!({ "values": { "hangingHook": true }, "serviceDaemonSet": null }),
        _ => json!({
            "values": {
                "degraded": random.below(2) == 0,
                "failingHook": random.below(3) == 0,
                "hangingHook": random.below(3) == 0,
            },
            "serviceDaemonSet": null,
        }),
    };
    change(client, random, &spec);
}

/// Removes the finalizer of a service that is being deleted, as an impatient user does. Or deletes one in this way, so that what
/// runs for it is orphaned, and sometimes creates it again.
fn let_service_go(client: &mut dyn Client, random: &mut Random) {
    let (name, course) = (some_service(random), random.below(4));
    let target = name.object(&names::service());
    let Some(service) = client.server().object(&target).cloned() else { return };
    if course > 0 {
        client.delete(&target);
    }
    if course > 0 || is_deleting(&service) {
        setup::let_go(client, &service);
    }
    if course > 2 {
        client.create(&names::service(), &setup::service(&name, random.pick(&VERSIONS)));
    }
}

fn create_cluster(client: &mut dyn Client, random: &mut Random) {
    let cluster = some_cluster(random);
    if client.server().object(&cluster_ref(&cluster)).is_none() {
        setup::create_cluster(client, &cluster);
    }
}

fn delete_cluster(client: &mut dyn Client, random: &mut Random) {
    client.delete(&cluster_ref(&some_cluster(random)));
}

/// Deletes a cluster that a finalizer keeps. The cluster stays reachable until the finalizer is removed.
fn hold_cluster(client: &mut dyn Client, random: &mut Random) {
    let target = cluster_ref(&some_cluster(random));
    if let Some(cluster) = client.server().object(&target).cloned().filter(|cluster| !is_deleting(cluster)) {
        let mut held = cluster["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        held.push(HOLD.into());
        client.merge(&target, &json!({ "metadata": { "finalizers": held } }));
        client.delete(&target);
    }
}

fn rotate(client: &mut dyn Client, random: &mut Random) {
    let cluster = some_cluster(random);
    let data = access(&server(&cluster), random.below(6)).secret_data();
    client.merge(&kubeconfig_ref(&cluster), &json!({ "data": data }));
}

fn break_kubeconfig(client: &mut dyn Client, random: &mut Random) {
    let cluster = some_cluster(random);
    let kubeconfig = |server: &str, user: &str| {
        format!(
            "clusters: [{{name: a, cluster: {{server: '{server}'}}}}]\nusers: [{{name: b, user: {{{user}}}}}]\n"
        )
    };
    let reachable = server(&cluster);
    let (token, number) = (format!("token: {SECRET}"), random.below(8));
    let broken = match number {
        0 => format!("clusters: [{{{SECRET}"),
        1 => String::new(),
        2 => kubeconfig(&reachable, &format!("exec: {{command: {SECRET}}}")),
        3 => kubeconfig("https://someone@example.com", &token),
        4 => kubeconfig(&reachable, &format!("username: {SECRET}, {token}")),
        5 => kubeconfig(&reachable, &format!("client-key-data: {SECRET}")),
        _ => kubeconfig(&reachable, ""),
    };
    let key = if number == 7 { "other.conf" } else { "super-admin.conf" };
    client.merge(&kubeconfig_ref(&cluster), &json!({ "data": null, "stringData": { key: broken } }));
}

fn delete_kubeconfig(client: &mut dyn Client, random: &mut Random) {
    client.delete(&kubeconfig_ref(&some_cluster(random)));
}

fn name_no_kubeconfig(client: &mut dyn Client, random: &mut Random) {
    client.merge(&cluster_ref(&some_cluster(random)), &json!({ "spec": { "kubeconfig": null } }));
}

fn move_cluster(client: &mut dyn Client, random: &mut Random) {
    let cluster = some_cluster(random);
    let data = access(&format!("https://moved.{}", &server(&cluster)[8..]), random.below(6)).secret_data();
    client.merge(&kubeconfig_ref(&cluster), &json!({ "data": data }));
}

/// Gives a cluster the server of another one. A copy of its Secret is the backup.
fn share_server(client: &mut dyn Client, random: &mut Random) {
    let (one, other) = (some_cluster(random), some_cluster(random));
    // These are credentials that the other cluster does not use: the server accepts them as its own.
    let data = access(&server(&other), 6 + random.below(2)).secret_data();
    client.merge(&kubeconfig_ref(&one), &json!({ "data": data }));
    let is_its =
        |object: &Value| argo::is_argos(object) && identity::of_secret(object).as_ref() == Some(&one);
    if let Some(target) = setup::some(client, &names::secret(), random, is_its) {
        argo::copy(client, &target, "z");
    }
}

fn cut_off(client: &mut dyn Client, random: &mut Random) {
    let patch = json!({ "metadata": { "annotations": { UNREACHABLE: "true" } } });
    client.merge(&cluster_ref(&some_cluster(random)), &patch);
}

/// Revokes the controller's permission to list and watch a kind, or grants all of them again.
fn forbid_watches(client: &mut dyn Client, random: &mut Random) {
    client.forbid_or_permit_watches(&setup::watched(), random);
}

fn restore(client: &mut dyn Client, _: &mut Random) {
    dpf::install(client);
    argocd::install(client);
    setup::restore(client);
}

/// Creates an object with a name that the controller would use, if possible for a service that does not exist yet.
fn occupy(client: &mut dyn Client, random: &mut Random) {
    let is_missing = |service: &(&str, &str)| {
        client.server().object(&setup::name(*service).object(&names::service())).is_none()
    };
    let missing: Vec<_> = SERVICES.into_iter().filter(is_missing).collect();
    let (_, service) = random.pick(if missing.is_empty() { &SERVICES } else { &missing });
    let cluster = some_cluster(random).name;
    let metadata =
        |name: &str| json!({ "namespace": ARGO_NAMESPACE, "name": name, "annotations": { SQUATTER: "yes" } });
    match random.below(5) {
        0 => {
            let object = json!({ "metadata": metadata(&format!("{cluster}-argocd")) });
            client.create(&names::secret(), &object);
        }
        1 => {
            let object = json!({ "metadata": metadata(PROJECT), "spec": { "sourceRepos": ["*"] } });
            client.create(&names::project(), &object);
        }
        which => {
            let name = if which == 2 { format!("{service}-01") } else { format!("{service}-{cluster}") };
            let source = json!({ "repoURL": REPOSITORY, "chart": "theirs", "targetRevision": "1.0.0" });
            let destination = json!({ "server": "https://theirs.example.com", "namespace": "theirs" });
            let spec = json!({ "project": "theirs", "source": source, "destination": destination });
            client.create(&names::application(), &json!({ "metadata": metadata(&name), "spec": spec }));
        }
    }
}

/// Changes or deletes what runs on a cluster.
fn disturb(client: &mut dyn Client, random: &mut Random) {
    let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
    let is_release = |object: &Value| object["metadata"]["labels"][release::CLUSTER].is_string();
    let Some(target) = setup::some(client, &kind, random, is_release) else { return };
    if random.below(2) == 0 {
        client.delete(&target);
    } else {
        client.merge(&target, &json!({ "data": { "values": "{}" } }));
    }
}
