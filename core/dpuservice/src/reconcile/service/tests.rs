use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockstep_engine::action::Success;
use lockstep_engine::operator::Control as _;
use lockstep_engine::time::{Monotonic, Wall};
use lockstep_engine::write::merged;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{self, Fixture};
use crate::key::Key;

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

fn after(millis: u64) -> Now {
    Now { monotonic: Monotonic::START + Duration::from_millis(millis), ..now() }
}

/// Ends a pass with the answer to the write of its status, and returns the verdict.
fn verdict(controller: &mut Controller, next: Next<Stage>, version: u32, at: Now) -> Verdict {
    let (actions, stage) = match next {
        Next::Await(actions, stage) => (actions, stage),
        Next::Done(verdict) => return verdict,
    };
    let [Action::Kube(KubeRequest::Patch { patch, .. })] = &actions[..] else { panic!("{actions:?}") };
    let mut object = json!({ "metadata": { "namespace": "team", "name": "svc", "uid": "svc" }, "spec": {} });
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    object["spec"]["source"] = json!({ "repoURL": "https://charts", "version": "1.0.0", "chart": "svc" });
    let before = controller.store.services.get(&fixture::service()).map(|service| json!(service.status));
    object["status"] = merged(&before.unwrap_or_default(), &patch["status"]);
    let answer = Ok(Success::Object(Arc::new(object)));
    match controller.resume_service(&fixture::service(), stage, vec![answer], at) {
        Next::Done(verdict) => verdict,
        next @ Next::Await(..) => panic!("{next:?}"),
    }
}

/// The server changes each apply.
#[test]
fn an_application_that_differs_each_time_is_applied_less_and_less_often() {
    let without_prune =
        |object: &mut Value| object["spec"]["syncPolicy"]["automated"]["prune"] = json!(false);
    let mut controller = on(&["c1"], without_prune);
    let key = fixture::service();
    let (mut at, mut waits, mut version) = (0, Vec::new(), 100);
    for number in 1..=6 {
        let (mut wanted, stage) = applies(controller.act(&key, Box::default(), after(at)));
        assert_eq!(wanted.len(), 1, "the {number}. apply");
        version += 2;
        let answer = stored(wanted.remove(0), &version.to_string(), without_prune);
        let next = controller.resume_service(&key, stage, vec![Ok(answer)], after(at));
        let reason = if number < 4 { "False/Pending" } else { "False/Error" };
        if number == 1 || number == 4 {
            assert_eq!(written(&next, "ApplicationsReconciled").0, reason, "after {number} applies");
        }
        let Verdict::Requeue(wait) = verdict(&mut controller, next, version + 1, after(at)) else {
            panic!("it is applied again")
        };
        let early = controller.act(&key, Box::default(), after(at + 1));
        assert!(matches!(early, Next::Done(Verdict::Requeue(_))), "an event does not shorten it: {early:?}");
        waits.push(wait.as_millis());
        at += u64::try_from(wait.as_millis()).expect("short");
    }
    assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16000]);
}

#[test]
fn a_change_that_is_wanted_does_not_wait_for_a_repair() {
    let without_prune =
        |object: &mut Value| object["spec"]["syncPolicy"]["automated"]["prune"] = json!(false);
    let mut controller = on(&["c1", "c2"], without_prune);
    let key = fixture::service();
    let (wanted, stage) = applies(controller.act(&key, Box::default(), now()));
    let versions = ["101", "102"];
    let answers =
        wanted.into_iter().zip(versions).map(|(it, version)| Ok(stored(it, version, without_prune)));
    let next = controller.resume_service(&key, stage, answers.collect(), now());
    assert!(applies(next).0.is_empty());
    // The user chooses another version.
    let spec = json!({ "source": { "repoURL": "https://charts", "version": "2.0.0", "chart": "svc" } });
    let metadata = json!({ "namespace": "team", "name": "svc", "uid": "svc", "resourceVersion": "103", "generation": 2 });
    controller
        .store
        .services
        .observe(key.clone(), Service::read(&json!({ "metadata": metadata, "spec": spec })));
    let (wanted, _) = applies(controller.act(&key, Box::default(), now()));
    let versions: Vec<_> = wanted.iter().map(|it| &it["spec"]["source"]["targetRevision"]).collect();
    assert_eq!(versions, ["2.0.0", "2.0.0"]);
}

/// Argo CD before 3.2 does not declare it.
#[test]
fn a_field_that_the_server_does_not_know_is_left_out() {
    const REFRESH: &str = "/spec/syncPolicy/retry/refresh";
    let is_bare = |object: &mut Value| {
        object["metadata"]["annotations"][APPLIED] = json!("");
        object["spec"]["syncPolicy"] = Value::Null;
    };
    let mut controller = on(&["c1", "c2"], is_bare);
    let key = fixture::service();
    let (wanted, stage) = applies(controller.act(&key, Box::default(), now()));
    assert!(wanted.len() == 2 && wanted.iter().all(|it| *it.pointer(REFRESH).expect("a field") == true));
    let refusal = "failed to create typed patch object (dpf-argo-cd-system/c1; argoproj.io/v1alpha1, Kind=Application): \
                   .spec.syncPolicy.retry.refresh: field not declared in schema";
    let refusals = vec![Err(Failure::new(ErrorKind::Invalid, refusal)); 2];
    let (without, stage) = applies(controller.resume_service(&key, stage, refusals, now()));
    assert_eq!(without.len(), 2, "both are written again, in the same pass");
    assert!(without.iter().all(|it| it.pointer(REFRESH).is_none()));
    assert!(controller.outbox.woken.contains(&Key::Service(key.clone())), "other services have failed too");

    let answers = without.into_iter().zip(["98", "99"]).map(|(it, version)| Ok(stored(it, version, |_| ())));
    let next = controller.resume_service(&key, stage, answers.collect(), now());
    assert_eq!(written(&next, "ApplicationsReconciled").0, "True/Success");
    controller.outbox.woken.clear();
    let (again, _) = applies(controller.act(&key, Box::default(), now()));
    assert!(again.is_empty(), "they are as they should be: {again:?}");

    // Argo CD may have been upgraded since. That alone changes no Application.
    controller.list_started(&names::application());
    for (name, app) in controller.store.applications.clone().iter() {
        controller.store.applications.observe(name.clone(), app.clone());
    }
    controller.list_completed(&names::application());
    let (again, _) = applies(controller.act(&key, Box::default(), now()));
    assert!(again.is_empty(), "{again:?}");
    controller.store.applications = on(&["c1"], is_bare).store.applications;
    let (wanted, _) = applies(controller.act(&key, Box::default(), now()));
    assert_eq!(wanted[0].pointer(REFRESH), Some(&json!(true)));
}
