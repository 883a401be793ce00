//! Paths of the Kubernetes API.

use std::fmt::Write as _;

use crate::action::{ErrorKind, Failure, Scope};
use crate::object::{Kind, ObjectRef};

/// Returns the path at which an API version lists its resources.
pub fn api_version(api_version: &str) -> String {
    match api_version.split_once('/') {
        Some((group, version)) => format!("/apis/{}/{}", segment(group), segment(version)),
        None => format!("/api/{}", segment(api_version)),
    }
}

/// Returns the path of the objects of a kind, in one namespace or in all.
pub fn collection(kind: &Kind, namespace: Option<&str>) -> String {
    let mut path = api_version(&kind.api_version());
    if let Some(namespace) = namespace {
        path = format!("{path}/namespaces/{}", segment(namespace));
    }
    format!("{path}/{}", segment(&kind.plural))
}

/// Returns the path and query that list the objects of a kind.
pub fn list(kind: &Kind, scope: &Scope) -> String {
    let mut path = collection(kind, scope.namespace.as_deref());
    if !scope.selector.is_empty() {
        path.push_str("?labelSelector=");
        path.push_str(&segment(&scope.selector));
    }
    path
}

/// Returns the path of one object. An object without a name is refused, because its path would be that of all objects.
pub fn object(target: &ObjectRef) -> Result<String, Failure> {
    if target.name.is_empty() {
        return Err(Failure::new(ErrorKind::Invalid, format!("{} has no name", target.kind)));
    }
    Ok(format!("{}/{}", collection(&target.kind, target.namespace.as_deref()), segment(&target.name)))
}

/// Returns one segment with every character encoded that could end it, such as a slash that a user wrote into a name.
fn segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        let dots_only = matches!(text, "." | "..");
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' | b':' => {
                encoded.push(char::from(byte));
            }
            b'.' if !dots_only => encoded.push('.'),
            _ => {
                // Writing to a string can't fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_all_shapes() {
        let config_map = Kind::known("", "v1", "ConfigMap", "configmaps", true);
        let role = Kind::known("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false);
        assert_eq!(collection(&config_map, None), "/api/v1/configmaps");
        let target = ObjectRef::namespaced(&config_map, "a", "b.c");
        assert_eq!(object(&target).unwrap(), "/api/v1/namespaces/a/configmaps/b.c");
        let target = ObjectRef::cluster(&role, "system:x");
        assert_eq!(object(&target).unwrap(), "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:x");
    }

    #[test]
    fn a_list_names_its_selector() {
        let config_map = Kind::known("", "v1", "ConfigMap", "configmaps", true);
        let scope =
            Scope { namespace: Some("a".to_owned()), selector: "x/y=z&w".to_owned(), ..Scope::default() };
        assert_eq!(list(&config_map, &scope), "/api/v1/namespaces/a/configmaps?labelSelector=x%2Fy%3Dz%26w");
    }

    #[test]
    fn a_name_never_leaves_its_segment() {
        let config_map = Kind::known("", "v1", "ConfigMap", "configmaps", true);
        let path = |name| object(&ObjectRef::namespaced(&config_map, "a", name)).unwrap();
        assert_eq!(path("../x?y#z%"), "/api/v1/namespaces/a/configmaps/..%2Fx%3Fy%23z%25");
        assert_eq!(path(".."), "/api/v1/namespaces/a/configmaps/%2E%2E");
        assert!(object(&ObjectRef::namespaced(&config_map, "a", "")).is_err());
    }
}
