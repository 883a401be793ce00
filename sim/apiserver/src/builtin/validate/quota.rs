//! `ResourceQuota` and `LimitRange`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::resources;
use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::quantity::Quantity;
use crate::builtin::view::{entries, given, list, part, text};
use crate::cause::Cause;

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];
const CONFLICTING_SCOPES: [[&str; 2]; 2] =
    [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
const COMPUTE: [&str; 7] =
    ["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

pub(super) fn resource_quota(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = part(object, "spec");
    amounts(spec, "hard", &Path::root("spec").child("hard"), causes);
    let path = Path::root("spec").child("scopes");
    scopes(spec, &path, causes);
    if let Some(selector) = given(spec, "scopeSelector") {
        scope_selector(
            spec,
            selector,
            &Path::root("spec").child("scopeSelector").child("matchExpressions"),
            causes,
        );
    }
    if let Some(old) = old {
        let set = |spec: &Value| -> BTreeSet<String> {
            list(spec, "scopes").iter().map(Value::to_string).collect()
        };
        if set(spec) != set(part(old, "spec")) {
            causes.push(path.invalid(part(spec, "scopes").clone(), "field is immutable"));
        }
    }
}

pub(super) fn resource_quota_status(object: &Value, causes: &mut Vec<Cause>) {
    for field in ["hard", "used"] {
        amounts(part(object, "status"), field, &Path::root("status").child(field), causes);
    }
}

fn amounts(value: &Value, field: &str, path: &Path, causes: &mut Vec<Cause>) {
    for (resource, amount) in entries(value, field) {
        let path = path.key(resource);
        resources::quota_name(resource, &path, causes);
        resources::amount(resource, amount, &path, causes);
    }
}

/// Returns whether a quota with this scope can count a resource.
fn scope_fits(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        scope => !SCOPES.contains(&scope) || COMPUTE.contains(&resource),
    }
}

/// Returns the resources under quota that Kubernetes itself defines.
fn standard_resources(spec: &Value) -> Vec<&str> {
    let mut ignored = Vec::new();
    entries(spec, "hard")
        .map(|(resource, _)| resource.as_str())
        .filter(|resource| {
            ignored.clear();
            resources::quota_name(resource, &Path::root(""), &mut ignored);
            !resource.contains('/') && ignored.is_empty()
        })
        .collect()
}

fn scopes(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let named: Vec<&str> = list(spec, "scopes").iter().filter_map(Value::as_str).collect();
    let whole = || part(spec, "scopes").clone();
    for scope in &named {
        if !SCOPES.contains(scope) {
            causes.push(path.invalid(whole(), "unsupported scope"));
        }
        for _ in standard_resources(spec).iter().filter(|resource| !scope_fits(scope, resource)) {
            causes.push(path.invalid(whole(), "unsupported scope applied to resource"));
        }
    }
    for pair in CONFLICTING_SCOPES {
        if pair.iter().all(|scope| named.contains(scope)) {
            causes.push(path.invalid(whole(), "conflicting scopes"));
        }
    }
}

fn scope_selector(spec: &Value, selector: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let mut named = Vec::new();
    for requirement in list(selector, "matchExpressions") {
        let scope = text(requirement, "scopeName");
        named.push(scope);
        if !SCOPES.contains(&scope) {
            causes.push(path.child("scopeName").invalid(scope, "unsupported scope"));
        }
        for _ in standard_resources(spec).iter().filter(|resource| !scope_fits(scope, resource)) {
            causes.push(path.invalid(internal_selector(selector), "unsupported scope applied to resource"));
        }
        scope_operator(requirement, scope, path, causes);
    }
    for pair in CONFLICTING_SCOPES {
        if pair.iter().all(|scope| named.contains(scope)) {
            causes.push(path.invalid(part(spec, "scopes").clone(), "conflicting scopes"));
        }
    }
}

/// Returns the selector in the form of the server's internal type.
fn internal_selector(selector: &Value) -> Value {
    let expressions = list(selector, "matchExpressions").iter().map(|requirement| {
        json!({
            "ScopeName": text(requirement, "scopeName"),
            "Operator": text(requirement, "operator"),
            "Values": part(requirement, "values"),
        })
    });
    json!({"MatchExpressions": expressions.collect::<Vec<_>>()})
}

fn scope_operator(requirement: &Value, scope: &str, path: &Path, causes: &mut Vec<Cause>) {
    let operator = text(requirement, "operator");
    let values = list(requirement, "values");
    let only_exists = SCOPES.contains(&scope) && !matches!(scope, "PriorityClass" | "VolumeAttributesClass");
    if only_exists && operator != "Exists" {
        let message = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
             ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
             ResourceQuotaScopeCrossNamespacePodAffinity";
        causes.push(path.child("operator").invalid(operator, message));
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let message = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            causes.push(path.child("values").required(message));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let message = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            causes.push(path.child("values").invalid(values.to_vec(), message));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => causes.push(path.child("operator").invalid(operator, "not a valid selector operator")),
    }
}

pub(super) fn limit_range(object: &Value, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (index, item) in list(part(object, "spec"), "limits").iter().enumerate() {
        let path = Path::root("spec").child("limits").index(index);
        let kind = text(item, "type");
        limit_type(kind, &path.child("type"), causes);
        if !seen.insert(kind) {
            causes.push(path.child("type").duplicate(kind));
        }
        limit_item(item, kind, &path, causes);
    }
}

fn limit_type(kind: &str, path: &Path, causes: &mut Vec<Cause>) {
    let messages = names::qualified_name(kind);
    let standard = ["Pod", "Container", "PersistentVolumeClaim"].contains(&kind);
    if messages.is_empty() && !kind.contains('/') && !standard {
        causes.push(path.invalid(kind, "must be a standard limit type or fully qualified"));
    }
    causes.extend(path.all_invalid(kind, messages));
}

fn limit_item(item: &Value, kind: &str, path: &Path, causes: &mut Vec<Cause>) {
    let mut resources_named = BTreeSet::new();
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let is_default = field.starts_with("default");
        if kind == "Pod" && is_default {
            if given(item, field).is_some() {
                causes.push(path.child(field).forbidden("may not be specified when `type` is 'Pod'"));
            }
            continue;
        }
        for (resource, _) in entries(item, field) {
            let path = path.child(field).key(resource);
            if matches!(kind, "Pod" | "Container") {
                resources::container_name(resource, &path, causes);
            } else {
                resources::name(resource, &path, causes);
            }
            resources_named.insert(resource.as_str());
        }
    }
    let bounds_storage = ["min", "max"].iter().any(|field| part(item, field).get("storage").is_some());
    if kind == "PersistentVolumeClaim" && !bounds_storage {
        let message = "either minimum or maximum storage value is required, but neither was provided";
        causes.push(path.child("limits").required(message));
    }
    for resource in resources_named {
        Limits::of(item, kind, resource).check(resource, path, causes);
    }
}

/// The limits of one item for one resource.
struct Limits {
    min: Option<Quantity>,
    max: Option<Quantity>,
    default: Option<Quantity>,
    request: Option<Quantity>,
    ratio: Option<Quantity>,
}

impl Limits {
    fn of(item: &Value, kind: &str, resource: &str) -> Self {
        let quantity = |field| part(item, field).get(resource).and_then(Quantity::of);
        let unless_pod = |field| if kind == "Pod" { None } else { quantity(field) };
        Self {
            min: quantity("min"),
            max: quantity("max"),
            default: unless_pod("default"),
            request: unless_pod("defaultRequest"),
            ratio: quantity("maxLimitRequestRatio"),
        }
    }

    fn check(&self, resource: &str, path: &Path, causes: &mut Vec<Cause>) {
        let Self { min, max, default, request, ratio } = self;
        let mut ordered = |field: &str,
                           low: &Option<Quantity>,
                           high: &Option<Quantity>,
                           shown: &Option<Quantity>,
                           words: [&str; 2]| {
            if let (Some(low), Some(high), Some(shown)) = (low, high, shown)
                && low > high
            {
                let message = format!("{} value {low} is greater than {} value {high}", words[0], words[1]);
                causes.push(path.child(field).key(resource).invalid(shown.to_string(), &message));
            }
        };
        ordered("min", min, max, min, ["min", "max"]);
        ordered("defaultRequest", min, request, request, ["min", "default request"]);
        ordered("defaultRequest", request, max, request, ["default request", "max"]);
        ordered("defaultRequest", request, default, request, ["default request", "default limit"]);
        ordered("default", min, default, min, ["min", "default"]);
        ordered("default", default, max, max, ["default", "max"]);
        if let Some(ratio) = ratio {
            self.check_ratio(ratio, &path.child("maxLimitRequestRatio").key(resource), causes);
        }
        if let (Some(default), Some(request)) = (default, request)
            && !resources::is_overcommittable(resource)
            && default != request
        {
            let message =
                format!("default value {default} must equal to defaultRequest value {request} in {resource}");
            causes.push(path.child("defaultRequest").key(resource).invalid(request.to_string(), &message));
        }
    }

    fn check_ratio(&self, ratio: &Quantity, path: &Path, causes: &mut Vec<Cause>) {
        if ratio.as_f64() < 1.0 {
            causes.push(path.invalid(ratio.to_string(), &format!("ratio {ratio} is less than 1")));
        }
        if let (Some(min), Some(max)) = (&self.min, &self.max) {
            let bound = max.as_f64() / min.as_f64();
            if ratio.as_f64() > bound {
                let message = format!("ratio {ratio} is greater than max/min = {bound:.6}");
                causes.push(path.invalid(ratio.to_string(), &message));
            }
        }
    }
}
