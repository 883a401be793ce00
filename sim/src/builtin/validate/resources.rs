//! Names and amounts of resources such as `cpu` and `requests.storage`.

use serde_json::Value;

use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::quantity::Quantity;
use crate::cause::Cause;

/// Computing resources that containers ask for.
const CONTAINER: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Counts of objects that a quota may limit.
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

/// Resources that Kubernetes itself defines.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Resources of extensions, such as `example.com/gpu`.
pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Resources of which more may be limited than requested.
pub(super) fn is_overcommittable(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// Any resource's name.
pub(super) fn name(name: &str, path: &Path, causes: &mut Vec<Cause>) {
    let messages = names::qualified_name(name);
    if messages.is_empty() && !name.contains('/') && !is_quota(name) && name != "storage" {
        causes.push(path.invalid(name, "must be a standard resource type or fully qualified"));
    }
    causes.extend(path.all_invalid(name, messages));
}

/// The name of a resource under quota.
pub(super) fn quota_name(name: &str, path: &Path, causes: &mut Vec<Cause>) {
    self::name(name, path, causes);
    if !name.contains('/') && !is_quota(name) {
        causes.push(path.invalid(name, "must be a standard resource for quota"));
    }
}

/// The name of a resource that containers use.
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

/// An amount: not negative, and whole for what is counted.
pub(super) fn amount(name: &str, value: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let Some(quantity) = Quantity::of(value) else { return };
    if quantity.is_negative() {
        causes.push(path.invalid(value.clone(), "must be greater than or equal to 0"));
    }
    if (COUNTS.contains(&name) || is_extended(name)) && !quantity.is_integer() {
        causes.push(path.invalid(value.clone(), "must be an integer"));
    }
}
