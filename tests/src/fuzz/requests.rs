//! Requests that any bytes put together from the words of the API: the server never panics, and its answers have the form
//! that clients rely on.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use lockstep_sim::apiserver::{Actors, Response};
use serde_json::{Map, Value};

use super::apiserver::{check, is_closed, prepared};

/// Requests in one run.
const REQUESTS_MAX: usize = 32;
/// Nesting of bodies.
const DEPTH_MAX: usize = 5;

const METHODS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "DELETE", "PATCH", "HEAD", "OPTIONS"];
const ROOTS: [&str; 14] = [
    "/api/v1",
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/default",
    "/apis/apps/v1/namespaces/default",
    "/apis/apps/v1/namespaces/default",
    "/apis/apiextensions.k8s.io/v1",
    "/apis/namespaceclass.akuity.io/v1alpha1",
    "/apis/namespaceclass.akuity.io/v1alpha1/namespaces/default",
    "/apis/events.k8s.io/v1/namespaces/default",
    "/apis/autoscaling/v1/namespaces/default",
    "/apis",
    "/api",
    "/openapi/v3",
    "",
];
const SEGMENTS: [&str; 38] = [
    "configmaps",
    "deployments",
    "pods",
    "secrets",
    "services",
    "events",
    "namespaces",
    "serviceaccounts",
    "nodes",
    "horizontalpodautoscalers",
    "customresourcedefinitions",
    "namespaceclasses",
    "namespaceclassbindings",
    "selfsubjectreviews",
    "a",
    "a",
    "a",
    "b",
    "default",
    "status",
    "scale",
    "token",
    "finalize",
    "exec",
    "watch",
    "v1",
    "apps",
    "",
    ".",
    "..",
    "%2F",
    "%2E",
    "%25",
    "%zz",
    "%00",
    "%F0%9F",
    "A_B",
    "healthz",
];
const PARAMETERS: [&str; 17] = [
    "watch",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "timeoutSeconds",
    "labelSelector",
    "fieldSelector",
    "fieldManager",
    "fieldValidation",
    "force",
    "dryRun",
    "propagationPolicy",
    "gracePeriodSeconds",
    "includeObject",
];
const ARGUMENTS: [&str; 32] = [
    "",
    "0",
    "1",
    "2",
    "-1",
    "true",
    "false",
    "x",
    "99999999999999999999",
    "9223372036854775807",
    "All",
    "Strict",
    "Ignore",
    "Warn",
    "Foreground",
    "Orphan",
    "Exact",
    "NotOlderThan",
    "a%3Db",
    "a%20in%20(b%2C)",
    "!a",
    "a%3E1",
    "metadata.name%3Da",
    "metadata.namespace!%3Da",
    "status.phase%3DRunning",
    "a%5C",
    "a%5C%2Cb%3D%3Dc",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0",
    "e30",
    "%01",
    "%F0%9F",
    "Object",
];
const MEDIA_TYPES: [&str; 14] = [
    "application/json",
    "application/json",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "text/plain",
    "",
];
const KEYS: [&str; 44] = [
    "apiVersion",
    "kind",
    "metadata",
    "metadata",
    "name",
    "name",
    "namespace",
    "generateName",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "managedFields",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "spec",
    "spec",
    "status",
    "data",
    "data",
    "binaryData",
    "immutable",
    "replicas",
    "selector",
    "matchLabels",
    "template",
    "containers",
    "image",
    "ports",
    "resources",
    "propagationPolicy",
    "gracePeriodSeconds",
    "preconditions",
    "op",
    "path",
    "value",
    "$patch",
    "$setElementOrder/ports",
    "a",
    "fieldsV1",
    "",
];
const TEXTS: [&str; 26] = [
    "a",
    "a",
    "b",
    "",
    "v1",
    "apps/v1",
    "ConfigMap",
    "Deployment",
    "Secret",
    "NamespaceClass",
    "namespaceclass.akuity.io/v1alpha1",
    "CustomResourceDefinition",
    "DeleteOptions",
    "default",
    "add",
    "remove",
    "replace",
    "test",
    "/metadata/labels",
    "/data/a",
    "/spec/-",
    "a.b/c",
    "foregroundDeletion",
    "2026-01-01T00:00:00Z",
    "\u{0}",
    "1Gi",
];
/// Objects that the server takes, to be changed from there.
const OBJECTS: [&str; 7] = [
    r#"{"metadata": {"name": "a"}, "data": {"a": "b"}}"#,
    r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["a.b/c"]}, "data": {"a": "b"}}"#,
    r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b", "ports": [{"containerPort": 80}]}]}}}}"#,
    r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "a", "containers": [{"name": "a", "image": "b"}]}}"#,
    r#"{"apiVersion": "namespaceclass.akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": {"name": "a"}, "spec": {"resources": []}}"#,
    r#"[{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]"#,
    r#"{"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 5}"#,
];

/// Takes the bytes as choices, one after the other; when they end, so do the requests.
pub fn requests(data: &[u8]) {
    let (mut server, mut now) = (prepared().clone(), Timestamp::UNIX_EPOCH);
    let mut choices = Choices(data);
    let mut actors = Actors::default();
    let mut watches = Vec::new();
    for _ in 0..REQUESTS_MAX {
        if choices.0.is_empty() {
            break;
        }
        let Some(request) = choices.request() else { continue };
        now += SignedDuration::from_secs(1);
        match server.handle(&request, now) {
            Response::Complete(response) => check(&request, &response),
            Response::Watch(head, id) => {
                assert_eq!(head.status(), 200);
                watches.push(id);
            }
        }
        actors.tick(&mut server, now);
        watches.retain(|id| !is_closed(&mut server, *id, now));
    }
}

struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn below(&mut self, bound: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % bound
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.below(from.len())]
    }

    fn request(&mut self) -> Option<Request<Bytes>> {
        let method = Method::from_bytes(self.pick(&METHODS).as_bytes()).ok()?;
        let mut path = self.pick(&ROOTS).to_owned();
        for _ in 0..self.below(5) {
            path.push('/');
            path.push_str(self.pick(&SEGMENTS));
        }
        if path.is_empty() {
            path.push('/');
        }
        for index in 0..self.below(4) {
            path.push(if index == 0 { '?' } else { '&' });
            path.push_str(self.pick(&PARAMETERS));
            path.push('=');
            path.push_str(self.pick(&ARGUMENTS));
        }
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(ACCEPT, self.pick(&MEDIA_TYPES))
            .header(CONTENT_TYPE, self.pick(&MEDIA_TYPES))
            .header(USER_AGENT, "fuzz");
        request.body(self.body()).ok()
    }

    fn body(&mut self) -> Bytes {
        match self.below(8) {
            0 => Bytes::new(),
            1 => Bytes::copy_from_slice(&self.0[..self.0.len().min(24)]),
            2 | 3 => Bytes::from(self.value(0).to_string()),
            _ => {
                let mut object: Value = serde_json::from_str(self.pick(&OBJECTS)).expect("an object is JSON");
                for _ in 0..self.below(4) {
                    self.change(&mut object, 0);
                }
                Bytes::from(object.to_string())
            }
        }
    }

    /// Puts any value somewhere into an object.
    fn change(&mut self, value: &mut Value, depth: usize) {
        let goes_on = depth < DEPTH_MAX && self.below(4) > 0;
        match value {
            Value::Object(map) if goes_on && !map.is_empty() => {
                let index = self.below(map.len());
                if let Some(inner) = map.values_mut().nth(index) {
                    self.change(inner, depth + 1);
                }
            }
            Value::Array(list) if goes_on && !list.is_empty() => {
                let index = self.below(list.len());
                self.change(&mut list[index], depth + 1);
            }
            Value::Object(map) => {
                let key = self.pick(&KEYS).to_owned();
                let value = self.value(depth);
                map.insert(key, value);
            }
            other => *other = self.value(depth),
        }
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth < DEPTH_MAX { 9 } else { 6 }) {
            0 => Value::Null,
            1 => true.into(),
            2 => i64::MAX.into(),
            3 => 1.5.into(),
            4 => self.below(256).into(),
            5 => self.pick(&TEXTS).into(),
            6 => {
                let length = self.below(4);
                (0..length).map(|_| self.value(depth + 1)).collect()
            }
            _ => {
                let mut map = Map::new();
                for _ in 0..self.below(4) {
                    let key = self.pick(&KEYS).to_owned();
                    map.insert(key, self.value(depth + 1));
                }
                Value::Object(map)
            }
        }
    }
}
