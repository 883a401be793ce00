//! Discovery: groups, versions and resources, as single documents or aggregated.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::registry::{Origin, Registry, Resource, Version};
use crate::builtin;

const CUSTOM_VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];
/// Returns whether the client prefers the aggregated form.
pub(super) fn wants_aggregated(accept: &str) -> bool {
    accept.split(',').next().is_some_and(|first| {
        let has = |part: &str| first.split(';').any(|other| other.trim() == part);
        has("as=APIGroupDiscoveryList") && has("v=v2")
    })
}

/// The resources of one group version.
type Served<'a> = Vec<(&'a Arc<Resource>, &'a Version)>;

/// One group with its versions, the preferred one first, and the resources of each.
struct Group<'a> {
    name: &'a str,
    versions: Vec<(&'a str, Served<'a>)>,
}

/// Returns the sort key of a version in Kubernetes' order: stable versions first, newer before older.
pub(super) fn priority(version: &str) -> (u8, i64, i64, String) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: i64 = rest[..digits].parse().ok()?;
        let (rank, minor) = match &rest[digits..] {
            "" => (0, 0),
            pre => {
                let (rank, minor) = pre
                    .strip_prefix("beta")
                    .map(|minor| (1, minor))
                    .or_else(|| pre.strip_prefix("alpha").map(|minor| (2, minor)))?;
                (rank, minor.parse::<i64>().ok()?)
            }
        };
        Some((rank, -major, -minor, String::new()))
    };
    parse().unwrap_or((3, 0, 0, version.to_owned()))
}

/// Returns the groups in the order of the real server: built-in ones first, then those of CRDs by name.
fn discovered(registry: &Registry) -> Vec<Group<'_>> {
    let mut order: Vec<&str> = Vec::new();
    for resource in builtin::resources() {
        if !order.contains(&resource.group) {
            order.push(resource.group);
        }
    }
    let custom = registry.groups().keys().map(String::as_str);
    let custom: Vec<&str> = custom.filter(|group| !order.contains(group)).collect();
    order.extend(custom);
    order.into_iter().filter_map(|name| find_group(registry, name)).collect()
}

/// Returns a group with its served versions, the preferred one first.
fn find_group<'a>(registry: &'a Registry, name: &'a str) -> Option<Group<'a>> {
    let resources = registry.groups().get(name)?;
    let mut versions: BTreeMap<&str, Served<'_>> = BTreeMap::new();
    for resource in resources.values() {
        for version in resource.versions.iter().filter(|version| version.served) {
            versions.entry(&version.name).or_default().push((resource, version));
        }
    }
    let mut versions: Vec<_> = versions.into_iter().collect();
    versions.sort_by_key(|(version, _)| priority(version));
    for (_, resources) in &mut versions {
        resources.sort_by_key(|(resource, _)| resource.table);
    }
    (!versions.is_empty()).then_some(Group { name, versions })
}

/// Returns `/api` and `/apis` in the aggregated form.
pub(super) fn aggregated(registry: &Registry, core: bool) -> Value {
    let items: Vec<Value> = discovered(registry)
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(|group| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|(version, resources)| {
                    let resources = aggregate(group.name, version, resources);
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if core { json!({}) } else { json!({"name": group.name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items,
    })
}

/// Returns `/apis`.
pub(super) fn api_groups(registry: &Registry) -> Value {
    let groups: Vec<Value> =
        discovered(registry).iter().filter(|group| !group.name.is_empty()).map(summary).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns `/apis/<group>`.
pub(super) fn api_group(registry: &Registry, name: &str) -> Option<Value> {
    let mut group = summary(&find_group(registry, name).filter(|group| !group.name.is_empty())?);
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

/// Returns `/api/v1` and `/apis/<group>/<version>`.
pub(super) fn api_resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let found = find_group(registry, group)?;
    let (_, resources) = found.versions.iter().find(|(name, _)| *name == version)?;
    let entries = entries(group, version, resources);
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": entries});
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Some(list)
}

/// Returns the paths of the API groups, for `/`.
pub(super) fn group_version_paths(registry: &Registry) -> Vec<String> {
    let mut paths = Vec::new();
    for group in discovered(registry) {
        for (version, _) in &group.versions {
            paths.push(if group.name.is_empty() {
                format!("api/{version}")
            } else {
                format!("apis/{}/{version}", group.name)
            });
        }
    }
    paths
}

fn summary(group: &Group<'_>) -> Value {
    let version = |name: &str| json!({"groupVersion": format!("{}/{name}", group.name), "version": name});
    let versions: Vec<Value> = group.versions.iter().map(|(name, _)| version(name)).collect();
    json!({"name": group.name, "versions": versions, "preferredVersion": versions[0]})
}

/// Returns the resources of a group version as entries of an `APIResourceList`.
fn entries(group: &str, version: &str, resources: &[(&Arc<Resource>, &Version)]) -> Vec<Value> {
    let path = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
    let mut entries = builtin::api_resources(&path).unwrap_or_default();
    let custom = resources.iter().filter(|(resource, _)| resource.is_custom());
    entries.extend(custom.flat_map(|(resource, version)| custom_entries(resource, version)));
    entries
}

/// Returns the entries of a custom resource and its subresources.
fn custom_entries(resource: &Resource, version: &Version) -> Vec<Value> {
    let mut main = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": CUSTOM_VERBS, "storageVersionHash": storage_version_hash(resource),
    });
    if !resource.short_names.is_empty() {
        main["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        main["categories"] = resource.categories.clone().into();
    }
    let mut entries = vec![main];
    for name in version.subresources() {
        let mut entry = json!({
            "name": format!("{}/{name}", resource.plural), "singularName": "",
            "namespaced": resource.namespaced, "kind": resource.kind, "verbs": SUBRESOURCE_VERBS,
        });
        if name == "scale" {
            entry["group"] = "autoscaling".into();
            entry["version"] = "v1".into();
            entry["kind"] = "Scale".into();
        }
        entries.push(entry);
    }
    entries
}

/// Returns a hash that changes with the storage version of a resource.
fn storage_version_hash(resource: &Resource) -> String {
    let text = format!("{}/{}/{}", resource.group, resource.storage_version().name, resource.kind);
    STANDARD.encode(&Sha256::digest(text.as_bytes())[..8])
}

/// Returns the entries of [`entries`] in the aggregated form.
fn aggregate(group: &str, version: &str, resources: &[(&Arc<Resource>, &Version)]) -> Vec<Value> {
    let custom: Vec<&str> = resources
        .iter()
        .filter(|(resource, _)| resource.is_custom())
        .map(|(resource, _)| resource.plural.as_str())
        .collect();
    let mut items: Vec<Value> = Vec::new();
    for entry in entries(group, version, resources) {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        let (plural, subresource) = text("name").split_once('/').unwrap_or((text("name"), ""));
        // Built-in resources leave out group and version if they are the surrounding ones.
        let own = if custom.contains(&plural) && text("group").is_empty() {
            (group, version)
        } else {
            (text("group"), text("version"))
        };
        let kind = json!({"group": own.0, "version": own.1, "kind": text("kind")});
        if subresource.is_empty() {
            let scope = if entry["namespaced"] == true { "Namespaced" } else { "Cluster" };
            let mut item = json!({
                "resource": plural, "responseKind": kind, "scope": scope,
                "singularResource": text("singularName"), "verbs": entry["verbs"],
            });
            for key in ["shortNames", "categories"] {
                if let Some(names) = entry.get(key) {
                    item[key] = names.clone();
                }
            }
            items.push(item);
        } else if let Some(item) = items.iter_mut().find(|item| item["resource"] == plural) {
            let sub = json!({"subresource": subresource, "responseKind": kind, "verbs": entry["verbs"]});
            if let Some(list) = item.as_object_mut() {
                let list = list.entry("subresources").or_insert_with(|| json!([]));
                if let Some(list) = list.as_array_mut() {
                    list.push(sub);
                }
            }
        }
    }
    items
}

/// Returns the versions of CRDs from which a group version's OpenAPI document is generated.
pub(super) fn custom_versions<'a>(
    registry: &'a Registry,
    group: &str,
    version: &str,
) -> Vec<(&'a Arc<Resource>, &'a Value)> {
    let Some(resources) = registry.groups().get(group) else { return Vec::new() };
    resources
        .values()
        .filter_map(|resource| {
            let version = resource.versions.iter().find(|known| known.served && known.name == version)?;
            match &version.origin {
                Origin::Builtin(_) => None,
                Origin::Custom(entry) => Some((resource, &**entry)),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::priority;

    #[test]
    fn versions_sort_by_maturity_then_age() {
        let mut versions = ["foo", "v1alpha1", "v1", "v1beta2", "v10", "v2", "v1beta1"];
        versions.sort_by_key(|version| priority(version));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
    }
}
