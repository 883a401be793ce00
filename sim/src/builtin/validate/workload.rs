//! Workloads: what keeps Pods running by a template.

use serde_json::{Value, json};

use super::common::{label_selector, not_negative, selects};
use super::{immutable, pod};
use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::view::{given, integer, list, part, text};
use crate::cause::Cause;

pub(super) fn deployment(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let path = Path::root("spec");
    let spec = part(object, "spec");
    not_negative(spec, "replicas", &path, causes);
    selector(spec, "deployment", &path.child("selector"), causes);
    template(spec, &path.child("template"), causes);
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

/// A selector must be there and pick something in particular.
fn selector(spec: &Value, kind: &str, path: &Path, causes: &mut Vec<Cause>) {
    let Some(selector) = given(spec, "selector") else {
        causes.push(path.required(""));
        return;
    };
    label_selector(selector, path, causes);
    if is_empty(selector) {
        causes.push(path.invalid(selector.clone(), &format!("empty selector is invalid for {kind}")));
    }
}

fn is_empty(selector: &Value) -> bool {
    given(selector, "matchLabels").is_none() && list(selector, "matchExpressions").is_empty()
}

/// A template must be picked by the selector and keep its Pods running.
fn template(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let template = part(spec, "template");
    let labels = part(part(template, "metadata"), "labels");
    let selector = given(spec, "selector");
    if selector.is_none_or(|selector| !is_empty(selector) && !selects(selector, labels)) {
        let message = "`selector` does not match template `labels`";
        causes.push(path.child("metadata").child("labels").invalid(labels.clone(), message));
    }
    pod::template(template, path, causes);
    let spec = part(template, "spec");
    let path = path.child("spec");
    let policy = text(spec, "restartPolicy");
    if policy != "Always" {
        causes.push(path.child("restartPolicy").not_supported(policy, &["Always"]));
    }
    if given(spec, "activeDeadlineSeconds").is_some() {
        let message = "activeDeadlineSeconds in ReplicaSet is not Supported";
        causes.push(path.child("activeDeadlineSeconds").forbidden(message));
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
    if percentage(unavailable).is_some_and(|percent| percent > 100) {
        causes.push(path.invalid(unavailable.clone(), "must not be greater than 100%"));
    }
}

fn positive_or_percent(value: &Value, path: &Path, causes: &mut Vec<Cause>) {
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

/// The number, or that before the percent sign; malformed ones count as zero.
fn leading_number(value: &Value) -> i64 {
    value.as_i64().or_else(|| percentage(value)).unwrap_or(0)
}
