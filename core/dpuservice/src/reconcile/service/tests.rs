use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockstep_engine::action::Success;
use lockstep_engine::time::{Monotonic, Wall};
use serde_json::{Value, json};

use super::*;
use crate::fixture::{self, Fixture};

fn now() -> Now {
    Now { wall: Wall::from_timestamp(Timestamp::UNIX_EPOCH), monotonic: Monotonic::START }
}

/// Returns a service with an Application on each of these clusters. The Applications are not deployed.
fn on(clusters: &[&str], edit: impl Fn(&mut Value)) -> Controller {
    let mut fixture = Fixture::default();
    let servers: Vec<String> = clusters.iter().map(|name| format!("https://{name}")).collect();
    fixture.service(json!({})).project(&servers.iter().map(|server| &**server).collect::<Vec<_>>(), |_| ());
    for name in clusters {
        fixture.cluster(name, "Ready").secret(name, |_| ()).app(name, name, &edit);
    }
    fixture.controller()
}

/// Returns the manifests of the applies that a pass requests, with the stage that takes their answers; none if it writes the
/// status.
fn applies(next: Next<Stage>) -> (Vec<Value>, Stage) {
    let Next::Await(actions, stage) = next else { panic!("the pass has ended: {next:?}") };
    let manifest = |action: Action| match action {
        Action::Kube(KubeRequest::Apply { manifest, .. }) => Some((*manifest).clone()),
        _ => None,
    };
    (actions.into_iter().filter_map(manifest).collect(), stage)
}

/// Returns the status and the message of a condition in the status that a pass writes.
fn written(next: &Next<Stage>, condition: &str) -> (String, String) {
    let Next::Await(actions, _) = next else { panic!("the pass writes nothing: {next:?}") };
    let [Action::Kube(KubeRequest::Patch { patch, .. })] = &actions[..] else { panic!("{actions:?}") };
    let conditions = patch["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.filter(|it| it["type"] == condition).collect::<Vec<_>>();
    let text = |field: &str| found[0][field].as_str().unwrap_or_default().to_owned();
    (format!("{}/{}", text("status"), text("reason")), text("message"))
}

/// Returns the answer of a server that has stored a manifest with these changes.
fn stored(mut manifest: Value, version: &str, edit: impl Fn(&mut Value)) -> Success {
    manifest["metadata"]["resourceVersion"] = json!(version);
    edit(&mut manifest);
    Success::Object(Arc::new(manifest))
}

#[test]
fn an_application_that_differs_after_its_apply_is_reported() {
    let without_prune =
        |object: &mut Value| object["spec"]["syncPolicy"]["automated"]["prune"] = json!(false);
    for is_changed in [false, true] {
        let mut controller = on(&["c1"], without_prune);
        let key = fixture::service();
        let (mut wanted, stage) = applies(controller.act(&key, Box::default(), now()));
        assert_eq!(wanted.len(), 1);
        let answer = stored(wanted.remove(0), "99", |object| {
            if is_changed {
                without_prune(object);
            }
        });
        let next = controller.resume_service(&key, stage, vec![Ok(answer)], now());
        let (state, message) = written(&next, "ApplicationsReconciled");
        if is_changed {
            assert_eq!(state, "False/Pending");
            assert_eq!(
                message,
                "1 of 1 Applications: c1 (it differs from what was applied: another client or an admission webhook changes it)"
            );
        } else {
            assert_eq!(
                (state, message),
                ("True/Success".to_owned(), "1 Applications are as the spec says".to_owned())
            );
        }
    }
}
