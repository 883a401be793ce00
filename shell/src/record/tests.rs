//! Runs are recorded in the simulator, under virtual time, and replayed.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lockstep_core::engine::recording::read::{self, Unreadable};
use lockstep_core::engine::recording::{Again, Line, Origin, Replay};
use lockstep_core::engine::machine::Machine;
use lockstep_sim::cluster::Cluster;
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::controllers::{self, Settings};

const CLASSES: &str = "/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses";
const NAMESPACES: &str = "/api/v1/namespaces";

/// A simulated cluster whose operator is recorded.
struct Bench {
    cluster: Cluster,
    folder: TempDir,
    recording: Arc<Mutex<Option<Recording>>>,
}

impl Bench {
    fn new(max_bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = Self { cluster: Cluster::new(1), folder, recording: Arc::default() };
        for crd in lockstep_crds::all().into_iter().flat_map(|set| set.crds) {
            bench.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &json!(crd));
        }
        let path = bench.file();
        let recording = Arc::clone(&bench.recording);
        bench.cluster.start(move || {
            let settings =
                Settings { concurrency: 4, resync: Duration::from_mins(10), instance: "a".to_owned(), seed: 1 };
            let machine = controllers::machine("namespaceclass", &settings).unwrap();
            let options = Options { path: path.clone(), max_bytes };
            let (recorded, begun) = start(machine, json!(settings), options).unwrap();
            *recording.lock().unwrap() = Some(begun);
            Box::new(recorded)
        });
        bench.settle();
        bench
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("run.jsonl")
    }

    fn settle(&mut self) {
        self.cluster.settle(50_000).unwrap();
    }

    fn send(&mut self, method: &str, path: &str, kind: &str, body: &Value) {
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let response = self.cluster.request(&request.body(body).unwrap());
        assert!(response.status().is_success(), "{method} {path}: {:?}", response.body());
    }

    fn post(&mut self, path: &str, body: &Value) {
        self.send("POST", path, "application/json", body);
    }

    fn define(&mut self, name: &str, resources: &Value) {
        let metadata = json!({ "name": name });
        self.post(CLASSES, &json!({ "apiVersion": "namespaceclass.akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": metadata, "spec": { "resources": resources } }));
    }

    fn redefine(&mut self, name: &str, resources: &Value) {
        let patch = json!({ "spec": { "resources": resources } });
        self.send("PATCH", &format!("{CLASSES}/{name}"), "application/merge-patch+json", &patch);
    }

    fn namespace(&mut self, name: &str, class: &str) {
        let labels = json!({ "namespaceclass.akuity.io/name": class });
        self.post(NAMESPACES, &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } }));
    }

    /// Ends the run and returns the folder with what was recorded.
    fn end(self) -> TempDir {
        drop(self.cluster);
        let recording = self.recording.lock().unwrap().take();
        recording.unwrap().finish();
        self.folder
    }
}

fn config_map(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "value": value } })
}

fn secret(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": { "value": value } })
}

/// Replays a file; returns the number of its steps and checkpoints, and the first step that differs.
fn replay(bytes: &[u8]) -> (usize, usize, Option<Again>) {
    let (header, lines) = read::open(bytes).unwrap();
    let lines = lines.collect::<Result<Vec<_>, Unreadable>>().unwrap();
    let checkpoints = lines.iter().filter(|line| matches!(line, Line::Checkpoint(_))).count();
    let steps = lines.len() - checkpoints;
    let make = |origin: Origin<'_>| controllers::revive(&header.machine, origin).map(|machine| machine as Box<dyn Machine>);
    let differs = Replay::new(&header, make).unwrap().run(lines).unwrap();
    (steps, checkpoints, differs)
}

fn replays(folder: &Path) -> (usize, usize) {
    let (steps, checkpoints, differs) = replay(&fs::read(folder.join("run.jsonl")).unwrap());
    if let Some(Again { taken, differs: Some(given) }) = differs {
        panic!("step {} gave\n{}\nand now\n{}", taken.number, json!(taken.gave), json!(given));
    }
    (steps, checkpoints)
}

#[test]
fn a_recorded_run_replays_to_the_same_steps() {
    let mut bench = Bench::new(1 << 26);
    bench.define("web", &json!([config_map("a", "1"), secret("b", "hunter2hunter2")]));
    bench.namespace("one", "web");
    bench.namespace("two", "web");
    bench.settle();
    bench.redefine("web", &json!([config_map("a", "2"), secret("b", "correct horse battery")]));
    bench.settle();
    bench.cluster.advance(Duration::from_mins(11));
    let folder = bench.end();
    let (steps, _) = replays(folder.path());
    assert!(steps > 50, "{steps}");
}
