//! Checks permissions, by `SelfSubjectAccessReview`s.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::api::PostParams;
use kube::{Api, Client, Config};
use lockstep_cli::permissions::{self, CLASS_RESOURCE_VERBS, Grant, SENTINEL};
use lockstep_crds::CrdSet;
use lockstep_engine::action::{Action, Answer as _, ErrorKind, Failure, KubeRequest};
use lockstep_engine::object::text;
use lockstep_namespaceclass::names;
use lockstep_runtime::connect;
use lockstep_runtime::failure::from_client;
use serde_json::json;

use super::super::cluster::{Cluster, client};
use super::finding::Finding;

const CHECK: &str = "permissions";
/// The subject of the finding about the kinds in classes.
const CLASSES: &str = "resources of classes";

/// The number of concurrent reviews.
const CONCURRENT: usize = 8;

/// The account that is checked.
pub(super) struct Account {
    client: Client,
    name: String,
}

/// One request that an account has to be permitted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Permission {
    /// The API group.
    pub(super) group: String,
    /// The resource, which may have a subresource after a slash.
    pub(super) resource: String,
    /// The only name; empty for all.
    pub(super) name: String,
    /// The namespace; empty for all.
    pub(super) namespace: String,
    pub(super) verb: String,
}

impl Account {
    /// Returns the named account, or that of the configuration.
    pub(super) async fn new(mut config: Config, name: Option<&str>) -> Result<Self, connect::Error> {
        if let Some(name) = name {
            config.auth_info.impersonate = Some(name.to_owned());
        }
        let client = client(config)?;
        let name = match name {
            Some(name) => name.to_owned(),
            None => connect::account(&client).await.unwrap_or_else(|| "of this client".to_owned()),
        };
        Ok(Self { client, name })
    }

    /// Checks all of these permissions. `who` needs them, and `remedy` grants them.
    pub(super) async fn check(&self, who: &str, needed: BTreeSet<Permission>, remedy: &str) -> Finding {
        let count = needed.len();
        let answers = stream::iter(needed)
            .map(|permission| async move { (self.may(&permission).await, permission) })
            .buffered(CONCURRENT)
            .collect::<Vec<_>>()
            .await;
        let mut missing = Vec::new();
        for (answer, permission) in answers {
            match answer {
                Ok(true) => {}
                Ok(false) => missing.push(permission),
                Err(failure) => {
                    let message =
                        format!("permissions of account {:?} could not be read ({failure})", self.name);
                    let remedy = "a user who gives --as needs the verb impersonate";
                    return Finding::warn(CHECK, who, message, remedy);
                }
            }
        }
        if missing.is_empty() {
            return Finding::ok(CHECK, who, format!("account {:?} has all {count}", self.name));
        }
        let message = format!("account {:?} may not {}", self.name, describe(&missing));
        Finding::fail(CHECK, who, message, remedy)
    }

    async fn may(&self, permission: &Permission) -> Result<bool, Failure> {
        let Permission { group, resource, name, namespace, verb } = permission;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = json!({
            "group": group, "resource": resource, "subresource": subresource, "name": name,
            "namespace": namespace, "verb": verb,
        });
        let review: SelfSubjectAccessReview =
            serde_json::from_value(json!({ "spec": { "resourceAttributes": attributes } }))
                .expect("a review has this form");
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| from_client(&error))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

/// Returns the single permissions of a grant.
pub(super) fn each(grant: Grant, namespace: &str) -> impl Iterator<Item = Permission> {
    let (verbs, group, resource, name) = grant;
    let text = str::to_owned;
    let of = move |verb: &str, namespace: String| Permission {
        group: text(group),
        resource: text(resource),
        name: text(name),
        namespace,
        verb: text(verb),
    };
    let namespace = namespace.to_owned();
    verbs.split(' ').map(move |verb| of(verb, namespace.clone()))
}

/// Describes permissions: the verbs of each resource together.
fn describe(missing: &[Permission]) -> String {
    let mut verbs: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for Permission { group, resource, name, namespace, verb } in missing {
        let mut what = resource.clone();
        if !group.is_empty() {
            what = format!("{what}.{group}");
        }
        if !name.is_empty() {
            what = format!("{what} {name:?}");
        }
        if !namespace.is_empty() {
            what = format!("{what} in namespace {namespace:?}");
        }
        verbs.entry(what).or_default().push(verb);
    }
    verbs.iter().map(|(what, verbs)| format!("{} {what}", verbs.join("/"))).collect::<Vec<_>>().join(", ")
}

/// Checks what a controller needs, whatever objects exist; for the NamespaceClass operator also the kinds in classes.
pub(super) async fn check(
    cluster: &Cluster,
    account: &Account,
    set: &CrdSet,
    namespace: &str,
) -> Vec<Finding> {
    let who = set.controller;
    let needed: BTreeSet<Permission> = match permissions::of(who) {
        Some(needed) => {
            let there = needed.in_namespace.into_iter();
            let there =
                there.flat_map(|(name, grants)| grants.iter().flat_map(move |grant| each(*grant, name)));
            needed.everywhere.iter().flat_map(|grant| each(*grant, "")).chain(there).collect()
        }
        None => SENTINEL.into_iter().flat_map(|grant| each(grant, namespace)).collect(),
    };
    let remedy = format!("upgrade the chart: its roles grant this (value {who}.rbac.create)");
    let mut findings = vec![account.check(who, needed, &remedy).await];
    if who == lockstep_crds::namespaceclass::CONTROLLER {
        findings.extend(classes(cluster, account).await.unwrap_or_else(|failure| {
            let message = format!("the permissions on the kinds in classes could not be checked: {failure}");
            Some(Finding::warn(CHECK, CLASSES, message, "repeat the check once the API server answers"))
        }));
    }
    findings
}

/// Checks the permissions on the kinds in classes. Kinds that are not served are left to the condition of the class.
async fn classes(cluster: &Cluster, account: &Account) -> Result<Option<Finding>, Failure> {
    let classes = match cluster.list(&names::class(), None).await {
        // That has a finding of its own.
        Err(failure) if failure.is_absence() => return Ok(None),
        classes => classes?,
    };
    let resources = classes.iter().filter_map(|class| class.pointer("/spec/resources")?.as_array()).flatten();
    let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for resource in resources {
        // The condition of the class reports resources without them.
        if let (Some(version), Some(kind)) = (text(resource, "/apiVersion"), text(resource, "/kind")) {
            kinds.entry(version).or_default().insert(kind);
        }
    }
    let mut needed = BTreeSet::new();
    for (api_version, kinds) in kinds {
        let discover = Action::Kube(KubeRequest::Discover { api_version: api_version.to_owned() });
        let served = match cluster.execute(&discover).await.kinds() {
            Err(failure) if failure.class == ErrorKind::KindNotServed => continue,
            served => served?,
        };
        for kind in served.iter().filter(|kind| kinds.contains(kind.kind.as_str())) {
            needed.extend(CLASS_RESOURCE_VERBS.split(' ').map(|verb| Permission {
                group: kind.group.clone(),
                resource: kind.plural.clone(),
                name: String::new(),
                namespace: String::new(),
                verb: verb.to_owned(),
            }));
        }
    }
    if needed.is_empty() {
        return Ok(None);
    }
    let remedy = "grant the kinds with the value namespaceclass.rbac.rules";
    Ok(Some(account.check(CLASSES, needed, remedy).await))
}
