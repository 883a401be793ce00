//! The operations of users on a simulated cluster, in a short form for tests.

use bytes::Bytes;
use http::Method;
use lockstep_engine::object::metadata;
use lockstep_sim::cluster::Cluster;
use serde_json::Value;

/// The API paths of the kinds in tests.
const COLLECTIONS: [(&str, &str, &str); 9] = [
    ("DPUService", "/apis/svc.dpu.nvidia.com/v1alpha1", "dpuservices"),
    ("DPUCluster", "/apis/provisioning.dpu.nvidia.com/v1alpha1", "dpuclusters"),
    ("Application", "/apis/argoproj.io/v1alpha1", "applications"),
    ("AppProject", "/apis/argoproj.io/v1alpha1", "appprojects"),
    ("Secret", "/api/v1", "secrets"),
    ("ConfigMap", "/api/v1", "configmaps"),
    ("Event", "/apis/events.k8s.io/v1", "events"),
    ("Namespace", "/api/v1", "namespaces"),
    ("CustomResourceDefinition", "/apis/apiextensions.k8s.io/v1", "customresourcedefinitions"),
];

/// Returns the path of the objects of a kind in a namespace; without one, in the whole cluster.
fn collection(kind: &str, namespace: &str) -> String {
    let found = COLLECTIONS.iter().find(|(known, ..)| *known == kind);
    let (_, api, plural) = found.unwrap_or_else(|| panic!("{kind} is not in the table"));
    if namespace.is_empty() {
        format!("{api}/{plural}")
    } else {
        format!("{api}/namespaces/{namespace}/{plural}")
    }
}

/// The operations of a user. A refusal by the server fails the test.
pub(crate) trait User {
    /// Sends a request and returns the code and the body of the answer.
    fn send(&mut self, method: Method, path: &str, kind: &str, body: &Value) -> (u16, Value);

    /// Creates an object.
    fn create(&mut self, object: &Value) {
        let path = collection(object["kind"].as_str().expect("a kind"), metadata(object, "namespace"));
        let (code, answer) = self.send(Method::POST, &path, "application/json", object);
        assert_eq!(code, 201, "{answer:#}");
    }

    /// Changes an object, or a subresource of it, by a merge patch.
    fn merge(&mut self, kind: &str, namespace: &str, name: &str, patch: &Value) {
        let path = format!("{}/{name}", collection(kind, namespace));
        let (code, answer) = self.send(Method::PATCH, &path, "application/merge-patch+json", patch);
        assert_eq!(code, 200, "{answer:#}");
    }

    /// Deletes an object.
    fn delete(&mut self, kind: &str, namespace: &str, name: &str) {
        let path = format!("{}/{name}", collection(kind, namespace));
        let (code, answer) = self.send(Method::DELETE, &path, "application/json", &Value::Null);
        assert_eq!(code, 200, "{answer:#}");
    }

    /// Reads an object; null if it does not exist.
    fn get(&mut self, kind: &str, namespace: &str, name: &str) -> Value {
        let path = format!("{}/{name}", collection(kind, namespace));
        let (code, answer) = self.send(Method::GET, &path, "application/json", &Value::Null);
        if code == 200 { answer } else { Value::Null }
    }

    /// Lists the objects of a kind.
    fn list(&mut self, kind: &str, namespace: &str) -> Vec<Value> {
        let (code, mut answer) =
            self.send(Method::GET, &collection(kind, namespace), "application/json", &Value::Null);
        assert_eq!(code, 200, "{answer:#}");
        serde_json::from_value(answer["items"].take()).expect("a list")
    }
}

impl User for Cluster {
    fn send(&mut self, method: Method, path: &str, kind: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.header("accept", "application/json").header("user-agent", "user/1");
        let response = self.request(&request.body(body).expect("a request"));
        (response.status().as_u16(), serde_json::from_slice(response.body()).unwrap_or_default())
    }
}
