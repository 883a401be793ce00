//! Restores objects of another cluster as they are, and answers what a client must know to do so.

use std::sync::Arc;

use jiff::Timestamp;
use lockstep_engine::object::Kind;
use serde_json::Value;

use super::crd::definition;
use super::state::ApiServer;
use super::store;
use super::{crd_controllers, meta};

impl ApiServer {
    /// Stores an object exactly as another server has it, with its uid and resource version. A CRD is served from then on.
    /// Returns whether the kind of the object is served.
    ///
    /// Lists and watches from revisions before this call are answered with 410.
    pub fn restore(&mut self, kind: &Kind, mut object: Value, now: Timestamp) -> bool {
        let found = self.registry.served(&kind.group, &kind.version, &kind.plural);
        let Some((resource, version)) = found.map(|(resource, version)| (Arc::clone(resource), version))
        else {
            return false;
        };
        self.now = now;
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.as_str().into();
        let stored = resource.to_storage(&resource.versions[version], object, None);
        let key = store::key(meta::namespace(&stored), meta::name(&stored));
        let stored = self.store.restore(resource.table, &key, stored);
        if definition::is_definition(&resource) {
            crd_controllers::definition_stored(self, &stored, None);
        }
        true
    }

    /// Returns whether the kind is served in its version.
    pub fn serves(&self, kind: &Kind) -> bool {
        self.registry.served(&kind.group, &kind.version, &kind.plural).is_some()
    }

    /// Returns the served kind of objects with this `apiVersion` and `kind`.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<Arc<Kind>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = self.registry.of_kind(group, version, kind)?;
        Some(Kind::known(group, version, kind, &resource.plural, resource.namespaced))
    }
}

#[cfg(test)]
mod tests {
    use lockstep_engine::object::ObjectRef;
    use serde_json::json;

    use super::super::Options;
    use super::*;

    #[test]
    fn a_restored_object_keeps_its_uid_and_resource_version() {
        let mut server = ApiServer::new(&Options::default());
        let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
        let metadata = json!({"namespace": "default", "name": "a", "uid": "u", "resourceVersion": "9000"});
        let object = json!({ "metadata": metadata, "data": {"x": "y"} });
        assert!(server.restore(&kind, object, Timestamp::UNIX_EPOCH));
        let stored = server.object(&ObjectRef::namespaced(&kind, "default", "a")).unwrap();
        assert_eq!((&stored["metadata"], &stored["kind"]), (&metadata, &json!("ConfigMap")));
        assert_eq!(server.revision(), 9000, "the next change has a later version");
        assert!(server.changes_since(9000).is_empty(), "a restored object is not a change");
        let other = Kind::known("example.com", "v1", "Other", "others", true);
        assert!(!server.restore(&other, json!({}), Timestamp::UNIX_EPOCH));
        assert_eq!((server.serves(&kind), server.serves(&other)), (true, false));
        assert_eq!(server.kind("v1", "ConfigMap"), Some(kind));
        assert_eq!(server.kind("example.com/v1", "Other"), None);
    }
}
