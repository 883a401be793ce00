//! The status of a service that is being deleted.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_crds::dpuservice::DPUServiceStatus;
use lockstep_engine::conditions::{self, Finding, Status};
use lockstep_engine::object::Name;
use lockstep_engine::time::Now;

use super::text::{list, unwatched};
use crate::model::project;
use crate::model::service::Service;
use crate::names::{condition, reason};
use crate::source::Source;
use crate::store::{GIVES_UP_AFTER, Store};

/// Returns the status of a service that waits for the removal of its Applications.
pub fn waiting_for_applications(
    store: &Store,
    service: &Service,
    left: &BTreeSet<Name>,
    failure: Option<&str>,
    now: Now,
) -> (DPUServiceStatus, Vec<Condition>) {
    let titled = |name: &Name| {
        let conditions = &store.applications.get(name)?.report.conditions;
        let error = conditions.iter().find(|condition| condition.type_ == "DeletionError")?;
        // Argo CD keeps this condition after the problem is resolved.
        Some(format!("{} (last error, at {}: {})", name.name, error.last_transition_time, error.message))
    };
    let names = left.iter().map(|name| titled(name).unwrap_or_else(|| name.name.clone()));
    let waiting = format!("waiting for Argo CD to remove {} Applications: {}", left.len(), list(names));
    let message = match failure {
        Some(failure) if left.is_empty() => format!("Applications can't be removed ({failure})"),
        Some(failure) => format!("Applications can't be removed ({failure}); {waiting}"),
        None => waiting,
    };
    let message = [Some(message), unseen(store)].into_iter().flatten().collect::<Vec<_>>().join("; ");
    going(service, &message, failure.is_some(), now)
}

/// Returns which kind can't be watched during a deletion, and the consequence.
fn unseen(store: &Store) -> Option<String> {
    let (source, failure) = store.unwatchable_kind()?;
    if source != Source::Clusters || !store.is_unserved(source) {
        return Some(unwatched(source, failure));
    }
    let follows = if store.is_wanted() {
        "as other DPUServices stay, nothing is given up: install the DPUCluster CRD, or delete them as well"
            .to_owned()
    } else {
        let minutes = GIVES_UP_AFTER.as_secs() / 60;
        format!("what Argo CD can't remove from them within {minutes} minutes is given up")
    };
    Some(format!("DPUClusters are not served here, so they count as gone; {follows}"))
}

/// Returns the status of the last service, which waits for the removal of the shared objects.
pub fn waiting_for_shared(store: &Store, service: &Service, now: Now) -> (DPUServiceStatus, Vec<Condition>) {
    let project = store.project().map(|_| "the AppProject".to_owned());
    let secrets =
        store.registered_clusters().map(|cluster| format!("Argo CD's Secret of {}", store.title(cluster)));
    let is_left = |name: &Name| {
        store.secrets.get(name).is_some_and(|secret| secret.cluster.is_some() && !secret.deleting)
            || (*name == project::name()
                && store.project().is_some_and(|project| project.is_ours && !project.deleting))
    };
    let waiting =
        format!("waiting for what services have shared to go: {}", list(project.into_iter().chain(secrets)));
    let refused = store.irremovable.iter().filter(|(name, _)| is_left(name));
    let refused = refused.map(|(name, failure)| format!("{name} ({failure})"));
    let refused = list(refused);
    if refused.is_empty() {
        return going(service, &waiting, false, now);
    }
    going(service, &format!("{waiting}; these can't be removed: {refused}"), true, now)
}

fn going(service: &Service, message: &str, failed: bool, now: Now) -> (DPUServiceStatus, Vec<Condition>) {
    let mut status = service.status.clone();
    status.observed_generation = service.generation;
    let reason = if failed { reason::ERROR } else { reason::DELETION_PENDING };
    let finding = |condition: &'static str| Finding {
        condition,
        status: Status::False,
        reason,
        message: message.to_owned(),
    };
    let findings = [finding(condition::APPLICATIONS_RECONCILED), finding(condition::READY)];
    let set = |finding| conditions::set(&mut status.conditions, finding, service.generation, now);
    let changed = findings.into_iter().filter_map(set).collect();
    (status, changed)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{self, Edit, Fixture, argo, deleting};
    use crate::store::tests::at;

    fn message(fixture: &Fixture) -> String {
        let service = fixture.store.services.get(&fixture::service()).expect("the service");
        let (_, changed) = waiting_for_shared(&fixture.store, service, at(0));
        assert!(changed.iter().all(|condition| condition.status == "False"));
        changed
            .into_iter()
            .map(|condition| format!("{}: {}", condition.reason, condition.message))
            .next()
            .unwrap()
    }

    #[test]
    fn only_refused_removals_of_what_is_left_are_reported() {
        let theirs = |object: &mut Value| object["metadata"]["annotations"] = json!({});
        let without_label = |object: &mut Value| object["metadata"]["labels"] = json!({});
        let nothing = |_: &mut Value| ();
        let all: [(&str, Edit<'_>, Edit<'_>, bool, bool); 6] = [
            ("all", &nothing, &nothing, true, true),
            ("the Secret is being deleted", &deleting, &nothing, false, true),
            ("another owner has the Secret", &theirs, &nothing, false, true),
            ("the project is being deleted", &nothing, &deleting, true, false),
            ("another owner has the project", &nothing, &without_label, true, false),
            ("nothing is left", &deleting, &deleting, false, false),
        ];
        for (name, secret, project, names_secret, names_project) in all {
            let mut fixture = Fixture::default();
            fixture.service(json!({})).cluster("c1", "Ready");
            fixture.secret("c1", |object| secret(object)).project(&[], |object| project(object));
            for name in [argo("c1"), project::name(), argo("gone")] {
                fixture.store.irremovable.insert(name, "it is forbidden".to_owned());
            }
            let message = message(&fixture);
            let (_, refused) = message.split_once("can't be removed: ").unwrap_or_default();
            assert_eq!(refused.contains("/c1 (it is forbidden)"), names_secret, "{name}: {message}");
            assert_eq!(refused.contains("/doca-platform-framework (it"), names_project, "{name}: {message}");
            assert_eq!(message.starts_with("Error: "), names_secret || names_project, "{name}: {message}");
            assert!(!message.contains("gone"), "{name}: {message}");
        }
    }

    #[test]
    fn a_refused_removal_of_applications_is_an_error() {
        let mut fixture = Fixture::default();
        fixture.service(json!({})).cluster("c1", "Ready").app("a", "c1", |object| {
            object["status"]["conditions"] = json!([
                { "type": "SyncError", "message": "no", "lastTransitionTime": "t1" },
                { "type": "DeletionError", "message": "no access", "lastTransitionTime": "t2" },
            ]);
        });
        fixture.app("b", "c1", |_| ());
        let store = &fixture.store;
        let service = store.services.get(&fixture::service()).expect("the service");
        let left: BTreeSet<Name> = store.applications.iter().map(|(name, _)| name.clone()).collect();
        let reported = |left: &BTreeSet<Name>, failure: Option<&str>| {
            let (status, _) = waiting_for_applications(store, service, left, failure, at(0));
            let ready = status.conditions.iter().find(|it| it.type_ == condition::READY).expect("Ready");
            format!("{}: {}", ready.reason, ready.message)
        };
        let waiting = "waiting for Argo CD to remove 2 Applications: a (last error, at t2: no access); b";
        assert_eq!(reported(&left, None), format!("AwaitingDeletion: {waiting}"));
        assert_eq!(
            reported(&left, Some("403")),
            format!("Error: Applications can't be removed (403); {waiting}")
        );
        assert_eq!(reported(&BTreeSet::new(), Some("403")), "Error: Applications can't be removed (403)");
    }
}
