//! Workloads: kinds that run Pods from a template.

use serde_json::{Value, json};

use super::common::{immutable, label_selector, not_negative, selects};
use super::{pod, storage};
use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::view::{given, integer, list, part, text};
use crate::cause::Cause;

pub(super) fn deployment(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let path = Path::root("spec");
    let spec = part(object, "spec");
    not_negative(spec, "replicas", &path, causes);
    if selector(spec, "deployment", &path.child("selector"), causes) {
        template(spec, &path.child("template"), causes);
    } else {
        causes.push(path.child("selector").invalid(part(spec, "selector").clone(), "invalid label selector"));
    }
    deployment_strategy(part(spec, "strategy"), &path.child("strategy"), causes);
    for field in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        not_negative(spec, field, &path, causes);
    }
    let ready = integer(spec, "minReadySeconds").unwrap_or(0);
    if let Some(deadline) = integer(spec, "progressDeadlineSeconds").filter(|deadline| *deadline <= ready) {
        causes.push(
            path.child("progressDeadlineSeconds").invalid(deadline, "must be greater than minReadySeconds"),
        );
    }
    immutable(&path.child("selector"), spec, old.map(|old| part(old, "spec")), "selector", causes);
}

pub(super) fn replica_set(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let path = Path::root("spec");
    let spec = part(object, "spec");
    for field in ["replicas", "minReadySeconds"] {
        not_negative(spec, field, &path, causes);
    }
    // The server's message says deployment here too.
    if selector(spec, "deployment", &path.child("selector"), causes) {
        template(spec, &path.child("template"), causes);
    } else {
        causes.push(path.child("selector").invalid(part(spec, "selector").clone(), "invalid label selector"));
    }
    immutable(&path.child("selector"), spec, old.map(|old| part(old, "spec")), "selector", causes);
}

pub(super) fn stateful_set(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let path = Path::root("spec");
    let spec = part(object, "spec");
    let policy = text(spec, "podManagementPolicy");
    if !["OrderedReady", "Parallel"].contains(&policy) {
        let message = "must be 'OrderedReady' or 'Parallel'";
        causes.push(path.child("podManagementPolicy").invalid(policy, message));
    }
    let strategy = part(spec, "updateStrategy");
    let strategy_path = path.child("updateStrategy");
    let rolling = given(strategy, "rollingUpdate");
    match text(strategy, "type") {
        "RollingUpdate" => {
            if let Some(rolling) = rolling {
                not_negative(rolling, "partition", &strategy_path.child("rollingUpdate"), causes);
            }
        }
        "OnDelete" => {}
        kind => {
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":null}}", json!(kind));
            causes.push(strategy_path.invalid_as(&shown, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
    if old.is_none() {
        for (index, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
            let path = path.child("volumeClaimTemplates").index(index).child("spec");
            storage::claim_spec(part(claim, "spec"), &path, causes);
        }
    }
    for field in ["replicas", "minReadySeconds"] {
        not_negative(spec, field, &path, causes);
    }
    let service = text(spec, "serviceName");
    if old.is_none() && !service.is_empty() {
        causes.extend(path.child("serviceName").all_invalid(service, names::dns_label(service)));
    }
    if selector(spec, "statefulset", &path.child("selector"), causes) {
        template_labels(spec, &path.child("template"), causes);
        running_template(&with_claimed_volumes(spec), "StatefulSet", &path.child("template"), causes);
    } else {
        causes.push(path.child("selector").invalid(part(spec, "selector").clone(), ""));
    }
    if let Some(old) = old
        && fixed_part(spec) != fixed_part(part(old, "spec"))
    {
        let message = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
             'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are \
             forbidden";
        causes.push(path.forbidden(message));
    }
}

/// Returns the fields of a stateful set that may not change.
fn fixed_part(spec: &Value) -> Value {
    let mut fixed = spec.clone();
    for field in [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ] {
        fixed.as_object_mut().and_then(|fields| fields.remove(field));
    }
    fixed
}

/// Adds the claimed volumes of a stateful set, which its containers can mount.
fn with_claimed_volumes(spec: &Value) -> Value {
    let claims = list(spec, "volumeClaimTemplates").iter().map(|claim| text(part(claim, "metadata"), "name"));
    let claims: Vec<&str> = claims.collect();
    let mut spec = spec.clone();
    if let Some(pod) = spec.pointer_mut("/template/spec").and_then(Value::as_object_mut)
        && !claims.is_empty()
    {
        let claimed =
            claims.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let own = pod.get("volumes").and_then(Value::as_array).into_iter().flatten();
        let own = own.filter(|volume| !claims.contains(&text(volume, "name"))).cloned();
        let volumes: Vec<Value> = claimed.chain(own).collect();
        pod.insert("volumes".to_owned(), volumes.into());
    }
    spec
}

pub(super) fn daemon_set(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let path = Path::root("spec");
    let spec = part(object, "spec");
    let before = causes.len();
    if let Some(selector) = given(spec, "selector") {
        label_selector(selector, &path.child("selector"), causes);
    }
    let is_sound = causes.len() == before;
    if is_sound {
        template_labels(spec, &path.child("template"), causes);
    }
    if let Some(selector) = given(spec, "selector").filter(|selector| is_empty(selector)) {
        causes.push(
            path.child("selector").invalid(selector.clone(), "empty selector is invalid for daemonset"),
        );
    }
    running_template(spec, "DaemonSet", &path.child("template"), causes);
    not_negative(spec, "minReadySeconds", &path, causes);
    let strategy = part(spec, "updateStrategy");
    let path_of = path.child("updateStrategy");
    match (text(strategy, "type"), given(strategy, "rollingUpdate")) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => causes.push(path_of.child("rollingUpdate").required("")),
        ("RollingUpdate", Some(rolling)) => daemon_rolling(rolling, &path_of.child("rollingUpdate"), causes),
        (kind, rolling) => {
            let rolling = rolling.map_or("null".to_owned(), |rolling| {
                let count = |field| part(rolling, field).to_string();
                format!(
                    "{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}",
                    count("maxUnavailable"),
                    count("maxSurge")
                )
            });
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", json!(kind));
            causes.push(path_of.not_supported_as(&shown, &["RollingUpdate", "OnDelete"]));
        }
    }
    not_negative(spec, "revisionHistoryLimit", &path, causes);
    immutable(&path.child("selector"), spec, old.map(|old| part(old, "spec")), "selector", causes);
}

fn daemon_rolling(rolling: &Value, path: &Path, causes: &mut Vec<Cause>) {
    for field in ["maxUnavailable", "maxSurge"] {
        positive_or_percent(part(rolling, field), &path.child(field), causes);
        not_more_than_all(part(rolling, field), &path.child(field), causes);
    }
    let surge = part(rolling, "maxSurge");
    match (leading_number(part(rolling, "maxUnavailable")) != 0, leading_number(surge) != 0) {
        (true, true) => {
            let message = "may not be set when maxUnavailable is non-zero";
            causes.push(path.child("maxSurge").invalid(surge.clone(), message));
        }
        (false, false) => {
            causes.push(path.child("maxUnavailable").required("cannot be 0 when maxSurge is 0"));
        }
        _ => {}
    }
}

/// Checks that there is a selector and that it is not empty; returns whether labels can be compared with it.
fn selector(spec: &Value, kind: &str, path: &Path, causes: &mut Vec<Cause>) -> bool {
    let Some(selector) = given(spec, "selector") else {
        causes.push(path.required(""));
        return true;
    };
    let before = causes.len();
    label_selector(selector, path, causes);
    let is_sound = causes.len() == before;
    if is_empty(selector) {
        causes.push(path.invalid(selector.clone(), &format!("empty selector is invalid for {kind}")));
    }
    is_sound
}

fn is_empty(selector: &Value) -> bool {
    given(selector, "matchLabels").is_none() && list(selector, "matchExpressions").is_empty()
}

/// Checks that the selector matches the template and that its Pods always restart.
fn template(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    template_labels(spec, path, causes);
    running_template(spec, "ReplicaSet", path, causes);
}

fn template_labels(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let labels = part(part(part(spec, "template"), "metadata"), "labels");
    let selector = given(spec, "selector");
    if selector.is_none_or(|selector| !is_empty(selector) && !selects(selector, labels)) {
        let message = "`selector` does not match template `labels`";
        causes.push(path.child("metadata").child("labels").invalid(labels.clone(), message));
    }
}

pub(super) fn running_template(spec: &Value, kind: &str, path: &Path, causes: &mut Vec<Cause>) {
    pod::template(part(spec, "template"), path, causes);
    let spec = part(part(spec, "template"), "spec");
    let path = path.child("spec");
    let policy = text(spec, "restartPolicy");
    if policy != "Always" {
        causes.push(path.child("restartPolicy").not_supported(policy, &["Always"]));
    }
    if given(spec, "activeDeadlineSeconds").is_some() {
        let message = format!("activeDeadlineSeconds in {kind} is not Supported");
        causes.push(path.child("activeDeadlineSeconds").forbidden(&message));
    }
}

fn deployment_strategy(strategy: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let rolling = given(strategy, "rollingUpdate");
    let path_of_rolling = path.child("rollingUpdate");
    match (text(strategy, "type"), rolling) {
        ("Recreate", Some(_)) => {
            causes.push(path_of_rolling.forbidden("may not be specified when strategy `type` is 'Recreate'"));
        }
        ("RollingUpdate", Some(rolling)) => rolling_update(rolling, &path_of_rolling, causes),
        ("Recreate" | "RollingUpdate", None) => {}
        (kind, rolling) => {
            let rolling = rolling.map(|rolling| {
                format!(
                    "{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}",
                    part(rolling, "maxUnavailable"),
                    part(rolling, "maxSurge")
                )
            });
            let shown = format!(
                "{{\"Type\":{},\"RollingUpdate\":{}}}",
                json!(kind),
                rolling.as_deref().unwrap_or("null")
            );
            causes.push(path.not_supported_as(&shown, &["Recreate", "RollingUpdate"]));
        }
    }
}

fn rolling_update(rolling: &Value, path: &Path, causes: &mut Vec<Cause>) {
    for field in ["maxUnavailable", "maxSurge"] {
        positive_or_percent(part(rolling, field), &path.child(field), causes);
    }
    let unavailable = part(rolling, "maxUnavailable");
    let path = path.child("maxUnavailable");
    if leading_number(unavailable) == 0 && leading_number(part(rolling, "maxSurge")) == 0 {
        causes.push(path.invalid(unavailable.clone(), "may not be 0 when `maxSurge` is 0"));
    }
    not_more_than_all(unavailable, &path, causes);
}

/// Checks that a percentage is at most 100.
pub(super) fn not_more_than_all(value: &Value, path: &Path, causes: &mut Vec<Cause>) {
    if percentage(value).is_some_and(|percent| percent > 100) {
        causes.push(path.invalid(value.clone(), "must not be greater than 100%"));
    }
}

/// Checks a count or a percentage.
pub(super) fn positive_or_percent(value: &Value, path: &Path, causes: &mut Vec<Cause>) {
    match value {
        Value::String(percent) => causes.extend(path.all_invalid(percent, names::percent(percent))),
        _ => {
            if let Some(number) = value.as_i64().filter(|number| *number < 0) {
                causes.push(path.invalid(number, "must be greater than or equal to 0"));
            }
        }
    }
}

fn percentage(value: &Value) -> Option<i64> {
    let text = value.as_str().filter(|text| names::percent(text).is_empty())?;
    text.strip_suffix('%')?.parse().ok()
}

/// Returns the number, or the number before the percent sign; malformed ones count as zero.
fn leading_number(value: &Value) -> i64 {
    value.as_i64().or_else(|| percentage(value)).unwrap_or(0)
}
