//! A DPUService.

use std::sync::Arc;

use lockstep_crds::dpuservice::{DPUServiceSpec, DPUServiceStatus};
use lockstep_engine::cache::Cached;
use lockstep_engine::finalizer;
use lockstep_engine::object::{self, Name, ObjectRef, ResourceVersion, Uid, generation, is_deleting};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::names::{self, FINALIZER};

/// A service.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Service {
    /// Its uid.
    pub uid: Uid,
    /// Its generation.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its spec, or why that can't be parsed.
    pub spec: Result<DPUServiceSpec, String>,
    /// Its status as last seen.
    pub status: DPUServiceStatus,
    /// Its metadata.
    pub metadata: Arc<Value>,
}

impl Service {
    /// Parses a service.
    pub fn read(object: &Value) -> Self {
        let mut trimmed = object["metadata"].clone();
        if let Some(trimmed) = trimmed.as_object_mut() {
            trimmed.remove("managedFields");
        }
        Self {
            uid: Uid::of(object),
            generation: generation(object),
            deleting: is_deleting(object),
            spec: object::read(object, "spec"),
            status: object::read(object, "status").unwrap_or_default(),
            metadata: Arc::new(serde_json::json!({ "metadata": trimmed })),
        }
    }

    /// Returns whether its Applications stay as they are.
    pub fn is_paused(&self) -> bool {
        self.spec.as_ref().is_ok_and(|spec| spec.paused)
    }

    /// Returns whether it differs at most in its status. The controller's own status write must not enqueue the service.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.uid, self.generation, self.deleting) == (&other.uid, other.generation, other.deleting)
            && finalizer::is_held(&self.metadata, FINALIZER) == finalizer::is_held(&other.metadata, FINALIZER)
    }
}

impl Cached for Service {
    /// Whether it is being deleted.
    type Index = bool;

    fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::of(&self.metadata)
    }

    fn indexes(&self) -> Vec<bool> {
        vec![self.deleting]
    }
}

/// Returns the reference of the service itself.
pub fn service_ref(name: &Name) -> ObjectRef {
    name.object(&names::service())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_is_no_change() {
        let service = |change: &dyn Fn(&mut Value)| {
            let metadata =
                json!({ "uid": "a", "generation": 1, "finalizers": [FINALIZER], "resourceVersion": "1" });
            let mut object = json!({ "metadata": metadata, "spec": {}, "status": {} });
            change(&mut object);
            Service::read(&object)
        };
        let before = service(&|_| ());
        let status = service(&|it| it["status"]["observedGeneration"] = json!(1));
        let annotated = service(&|it| it["metadata"]["annotations"] = json!({ "a": "b" }));
        assert!(before.is_same(&status) && before.is_same(&annotated));
        assert!(!before.is_same(&service(&|it| it["metadata"]["uid"] = json!("b"))));
        assert!(!before.is_same(&service(&|it| it["metadata"]["generation"] = json!(2))));
        assert!(
            !before
                .is_same(&service(&|it| it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")))
        );
        assert!(!before.is_same(&service(&|it| it["metadata"]["finalizers"] = json!([]))));
        let others = service(&|it| it["metadata"]["finalizers"] = json!([FINALIZER, "example.com/hold"]));
        assert!(before.is_same(&others));
    }
}
