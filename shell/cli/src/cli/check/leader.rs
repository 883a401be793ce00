//! Checks the Leases of the leader election: who leads, since when, and whether the Lease is still renewed.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use lockstep_cli::permissions::LEASE_VERBS;
use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::object::{Kind, ObjectRef, metadata, text};
use serde_json::Value;

use super::super::age::age;
use super::super::cluster::Cluster;
use super::finding::Finding;
use super::permissions::{Account, Permission};

const CHECK: &str = "leader";

/// The name that `lockstep run` uses by default.
const DEFAULT_NAME: &str = "lockstep";

/// Where else a Lease may be.
const OTHER_PLACE: &str = "name its namespace with --namespace, or name the Lease with --lease-name (the chart's value \
                           fullnameOverride changes it)";

/// Which Leases are checked.
pub(super) struct Place<'a> {
    pub(super) namespace: &'a str,
    /// The only Lease; `None` for all that belong to the controllers by their names.
    pub(super) name: Option<&'a str>,
}

pub(super) async fn check(
    cluster: &Cluster,
    account: &Account,
    place: &Place<'_>,
    controllers: &[&str],
    now: Timestamp,
) -> Vec<Finding> {
    let leases = match leases(cluster, place, controllers).await {
        Ok(leases) => leases,
        Err(failure) => {
            let message = format!("Leases could not be read ({failure})");
            let remedy = match failure.class {
                ErrorKind::Forbidden => {
                    "name the Lease with --lease-name; an account of the chart may read only its own"
                }
                _ => "try again",
            };
            return vec![Finding::warn(CHECK, place.namespace, message, remedy)];
        }
    };
    let mut findings = missing(place, controllers, &leases);
    for lease in &leases {
        findings.push(judge(lease, now));
        let name = metadata(lease, "name");
        let permission = |verb: &str, name: &str| Permission {
            group: "coordination.k8s.io".to_owned(),
            resource: "leases".to_owned(),
            name: name.to_owned(),
            namespace: place.namespace.to_owned(),
            verb: verb.to_owned(),
        };
        let of_lease = LEASE_VERBS.split(' ').map(|verb| permission(verb, name));
        let needed = of_lease.chain([permission("create", "")]).collect();
        let remedy = "upgrade the chart: its roles grant this";
        findings.push(account.check(&format!("Lease {}/{name}", place.namespace), needed, remedy).await);
    }
    findings
}

/// Returns a result for each Lease that is named but does not exist, and for each controller without a Lease. A Lease can have
/// another name, and a controller without leader election has none, so the controller may run.
fn missing(place: &Place<'_>, controllers: &[&str], leases: &[Arc<Value>]) -> Vec<Finding> {
    if let Some(name) = place.name {
        if !leases.is_empty() {
            return Vec::new();
        }
        let subject = format!("Lease {}/{name}", place.namespace);
        let remedy = format!("check the pods of the controller and their logs, {OTHER_PLACE}");
        return vec![Finding::fail(CHECK, &subject, "does not exist: no controller leads with it", remedy)];
    }
    let has_lease =
        |controller: &str| leases.iter().any(|lease| is_ours(metadata(lease, "name"), controller));
    let without = controllers.iter().filter(|controller| !has_lease(controller));
    without
        .map(|controller| {
            let message = format!(
                "no Lease in the namespace {} has one of the names that the chart and lockstep run use for it",
                place.namespace
            );
            let remedy = format!("install the controller, {OTHER_PLACE}");
            Finding::warn(CHECK, controller, message, remedy)
        })
        .collect()
}

async fn leases(
    cluster: &Cluster,
    place: &Place<'_>,
    controllers: &[&str],
) -> Result<Vec<Arc<Value>>, Failure> {
    let kind = Kind::known("coordination.k8s.io", "v1", "Lease", "leases", true);
    if let Some(name) = place.name {
        let lease = cluster.get(ObjectRef::namespaced(&kind, place.namespace, name)).await?;
        return Ok(lease.into_iter().collect());
    }
    let mut leases = cluster.list(&kind, Some(place.namespace)).await?;
    leases.retain(|lease| controllers.iter().any(|controller| is_ours(metadata(lease, "name"), controller)));
    Ok(leases)
}

/// Returns whether the chart, or `lockstep run`, uses the name for this controller.
fn is_ours(name: &str, controller: &str) -> bool {
    name == DEFAULT_NAME
        || name
            .strip_suffix(controller)
            .is_some_and(|rest| rest.ends_with('-') && rest.contains(DEFAULT_NAME))
}

/// The time within which another process takes a Lease that was released, if one runs or is starting.
const HANDOVER: SignedDuration = SignedDuration::from_mins(1);

fn judge(lease: &Value, now: Timestamp) -> Finding {
    let subject = format!("Lease {}/{}", metadata(lease, "namespace"), metadata(lease, "name"));
    let time =
        |field: &str| text(lease, &format!("/spec/{field}")).and_then(|text| text.parse::<Timestamp>().ok());
    let Some(holder) = text(lease, "/spec/holderIdentity") else {
        let remedy = "check whether the pods of the controller run";
        let message = "the last leader has released it, and no other has taken it";
        // The next process may be starting.
        let is_recent = time("renewTime").is_some_and(|released| now.duration_since(released) <= HANDOVER);
        return if is_recent {
            Finding::warn(CHECK, &subject, message, remedy)
        } else {
            Finding::fail(CHECK, &subject, message, remedy)
        };
    };
    let since = time("acquireTime").map_or_else(|| "unknown".to_owned(), |time| format!("{time:.0}"));
    let valid = lease["spec"]["leaseDurationSeconds"].as_i64().unwrap_or(0);
    match time("renewTime").map(|renewed| now.duration_since(renewed)) {
        Some(silent) if silent <= SignedDuration::from_secs(valid) => {
            Finding::ok(CHECK, &subject, format!("{holder:?} leads since {since}"))
        }
        silent => {
            let last = silent.map_or_else(|| "never".to_owned(), |silent| format!("{} ago", age(silent)));
            let message = format!(
                "{holder:?} led since {since}, but renewed it last {last}, and it is valid for {valid}s: no controller leads"
            );
            let remedy = "check the pods of the controller and their logs, or the clock of this machine, which this check uses";
            Finding::fail(CHECK, &subject, message, remedy)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::finding::Level;
    use super::*;

    fn lease(holder: &str, renewed: &str) -> Value {
        json!({
            "metadata": {"namespace": "system", "name": "lockstep-bridge"},
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15,
                "acquireTime": "2026-01-01T00:00:00.123456Z", "renewTime": renewed,
            },
        })
    }

    #[test]
    fn a_lease_that_is_not_renewed_has_no_leader() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let renewed = judge(&lease("pod-a", "2026-01-01T00:59:45.000000Z"), now);
        assert_eq!(renewed.level, Level::Ok);
        assert_eq!(renewed.message, "\"pod-a\" leads since 2026-01-01T00:00:00Z");
        let stale = judge(&lease("pod-a", "2026-01-01T00:59:44.000000Z"), now);
        assert_eq!(stale.level, Level::Fail);
        assert!(stale.message.contains("renewed it last 16s ago"), "{}", stale.message);
        let released = |time: &str| judge(&lease("", &format!("2026-01-01T{time}.000000Z")), now).level;
        assert_eq!(released("00:59:00"), Level::Warn, "a process may be starting");
        assert_eq!(released("00:58:59"), Level::Fail, "no controller leads");
    }

    #[test]
    fn leases_are_found_by_the_names_of_the_chart() {
        for ours in ["lockstep", "lockstep-bridge", "prod-lockstep-bridge"] {
            assert!(is_ours(ours, "bridge"), "{ours}");
        }
        for other in ["lockstep-dpuservice", "bridge", "cert-manager-bridge", "kube-scheduler"] {
            assert!(!is_ours(other, "bridge"), "{other}");
        }
    }
}
