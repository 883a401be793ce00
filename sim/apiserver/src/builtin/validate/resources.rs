//! Names and amounts of resources such as `cpu` and `requests.storage`.

use serde_json::Value;

use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::quantity::Quantity;
use crate::cause::Cause;

/// Compute resources that containers request.
const CONTAINER: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Object counts that a quota may limit.
const COUNTS: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_quota(name: &str) -> bool {
    let compute = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    CONTAINER.contains(&compute)
        || COUNTS.contains(&name)
        || name == "requests.storage"
        || is_huge_pages(name)
        || name.strip_prefix("requests.").is_some_and(is_huge_pages)
}

/// Returns whether Kubernetes itself defines a resource.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Returns whether it is a resource of an extension, such as `example.com/gpu`.
pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Returns whether the limit of a resource may exceed its request.
pub(super) fn is_overcommittable(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// Checks the name of any resource.
pub(super) fn name(name: &str, path: &Path, causes: &mut Vec<Cause>) {
    let messages = names::qualified_name(name);
    if messages.is_empty() && !name.contains('/') && !is_quota(name) && name != "storage" {
        causes.push(path.invalid(name, "must be a standard resource type or fully qualified"));
    }
    causes.extend(path.all_invalid(name, messages));
}

/// Checks the name of a resource under quota.
pub(super) fn quota_name(name: &str, path: &Path, causes: &mut Vec<Cause>) {
    self::name(name, path, causes);
    if !name.contains('/') && !is_quota(name) {
        causes.push(path.invalid(name, "must be a standard resource for quota"));
    }
}

/// Checks the name of a resource that containers use.
pub(super) fn container_name(name: &str, path: &Path, causes: &mut Vec<Cause>) {
    self::name(name, path, causes);
    if !name.contains('/') {
        if !CONTAINER.contains(&name) && !is_huge_pages(name) {
            causes.push(path.invalid(name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        causes.push(path.invalid(name, "doesn't follow extended resource name standard"));
    }
}

/// Checks an amount: it is not negative, and whole for counted resources.
pub(super) fn amount(name: &str, value: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let Some(quantity) = Quantity::of(value) else { return };
    if quantity.is_negative() {
        causes.push(path.invalid(value.clone(), "must be greater than or equal to 0"));
    }
    if (COUNTS.contains(&name) || is_extended(name)) && !quantity.is_integer() {
        causes.push(path.invalid(value.clone(), "must be an integer"));
    }
}
