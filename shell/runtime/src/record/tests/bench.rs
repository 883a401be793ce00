//! A simulated cluster with a recorded operator, and the operations of users.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lockstep_engine::machine::{Event, Machine, Step, Wrapper};
use lockstep_engine::operator::Config;
use lockstep_engine::recording::read::{self, Unreadable};
use lockstep_engine::recording::{Line, Origin, Recordable, Replay, ReplayedStep};
use lockstep_engine::time::Now;
use lockstep_namespaceclass::Operator;
use lockstep_sim::cluster::Cluster;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::record::{Options, Recorded, Recording, start};

pub(super) const CLASSES: &str = "/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses";
const NAMESPACES: &str = "/api/v1/namespaces";

pub(super) fn settings() -> Config {
    Config { concurrency: 4, resync: Duration::from_mins(10), instance: "a".to_owned(), seed: 1 }
}

pub(super) fn operator() -> Box<dyn Recordable + Send> {
    Box::new(Operator::new(settings()))
}

/// A simulated cluster with a recorded operator.
pub(super) struct Bench {
    pub(super) cluster: Cluster,
    folder: TempDir,
    recording: Arc<Mutex<Option<Recording>>>,
    /// The number of steps of the process.
    steps: Arc<AtomicU64>,
}

/// Counts the steps of a process.
struct Counted {
    machine: Recorded,
    steps: Arc<AtomicU64>,
}

impl Wrapper for Counted {
    fn inner(&self) -> &dyn Machine {
        &self.machine
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        self.steps.fetch_add(1, Ordering::Relaxed);
        Machine::step(&mut self.machine, event, now)
    }
}

impl Bench {
    pub(super) fn new(max_bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let begun = Arc::new(Mutex::new(None));
        let recording = Arc::clone(&begun);
        let steps = Arc::new(AtomicU64::new(0));
        let taken = Arc::clone(&steps);
        let make = move || {
            taken.store(0, Ordering::Relaxed);
            let options = Options { path: path.clone(), max_bytes };
            let (recorded, begun) = start(operator(), json!(settings()), options).unwrap();
            *recording.lock().unwrap() = Some(begun);
            Box::new(Counted { machine: recorded, steps: Arc::clone(&taken) }) as _
        };
        Self { steps, ..Self::running(make, folder, begun) }
    }

    pub(super) fn running(
        make: impl Fn() -> Box<dyn Machine> + 'static,
        folder: TempDir,
        recording: Arc<Mutex<Option<Recording>>>,
    ) -> Self {
        let mut bench = Self { cluster: Cluster::new(1), folder, recording, steps: Arc::default() };
        for crd in lockstep_crds::all().into_iter().flat_map(|set| set.crds) {
            bench.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &json!(crd));
        }
        bench.cluster.start(make, true);
        bench.settle();
        bench
    }

    pub(super) fn settle(&mut self) {
        self.cluster.settle(50_000).unwrap();
    }

    /// Lets the cluster come to rest, and waits until the thread has written all steps. Otherwise the size of a segment depends
    /// on how much faster the steps are than the thread.
    pub(super) fn settle_and_write(&mut self) {
        self.settle();
        let last = self.steps.load(Ordering::Relaxed);
        let path = self.folder.path().join("run.jsonl");
        // While a line is being written, or a segment begins, the last line is incomplete.
        let is_written = || {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let line = text.lines().next_back().unwrap_or_default();
            serde_json::from_str::<Value>(line).is_ok_and(|line| line["step"]["number"] == last)
        };
        let deadline = Instant::now() + Duration::from_mins(2);
        while !is_written() {
            assert!(Instant::now() < deadline, "step {last} is not written");
            std::thread::yield_now();
        }
    }

    pub(super) fn send(&mut self, method: &str, path: &str, kind: &str, body: &Value) {
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let response = self.cluster.request(&request.body(body).unwrap());
        assert!(response.status().is_success(), "{method} {path}: {:?}", response.body());
    }

    pub(super) fn post(&mut self, path: &str, body: &Value) {
        self.send("POST", path, "application/json", body);
    }

    pub(super) fn define(&mut self, name: &str, resources: &Value) {
        let metadata = json!({ "name": name });
        self.post(CLASSES, &json!({ "apiVersion": "namespaceclass.akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": metadata, "spec": { "resources": resources } }));
    }

    pub(super) fn redefine(&mut self, name: &str, resources: &Value) {
        let patch = json!({ "spec": { "resources": resources } });
        self.send("PATCH", &format!("{CLASSES}/{name}"), "application/merge-patch+json", &patch);
    }

    pub(super) fn namespace(&mut self, name: &str, class: &str) {
        let labels = json!({ "namespaceclass.akuity.io/name": class });
        self.post(NAMESPACES, &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } }));
    }

    /// Ends the run and returns the folder of the recording.
    pub(super) fn end(self) -> TempDir {
        drop(self.cluster);
        let recording = self.recording.lock().unwrap().take();
        recording.unwrap().finish();
        self.folder
    }
}

pub(super) fn config_map(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "value": value } })
}

pub(super) fn secret(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": { "value": value } })
}

/// Replays a file. Returns the number of its steps and checkpoints, and the first step that differs.
pub(super) fn replay(bytes: &[u8]) -> (usize, usize, Option<ReplayedStep>) {
    let (header, lines) = read::open(bytes).unwrap();
    let lines = lines.collect::<Result<Vec<_>, Unreadable>>().unwrap();
    let checkpoints = lines.iter().filter(|line| matches!(line, Line::Checkpoint(_))).count();
    let steps = lines.len() - checkpoints;
    let make =
        |origin: Origin<'_>| Operator::revive(origin).map(|machine| Box::new(machine) as Box<dyn Machine>);
    let differs = Replay::new(&header, make).unwrap().run(lines).unwrap();
    (steps, checkpoints, differs)
}

pub(super) fn replays(folder: &Path) -> (usize, usize) {
    let (steps, checkpoints, differs) = replay(&fs::read(folder.join("run.jsonl")).unwrap());
    if let Some(ReplayedStep { taken, differs: Some(given) }) = differs {
        panic!("step {} gave\n{}\nand now\n{}", taken.number, json!(taken.gave), json!(given));
    }
    (steps, checkpoints)
}

/// Checks that no file of the folder contains any form of a secret.
pub(super) fn hides(folder: &Path, secret: &str) {
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for form in [secret.to_owned(), STANDARD.encode(secret), json!(secret).to_string()] {
            assert!(!text.contains(&form), "{form}: {}", around(&text, &form));
        }
    }
}

pub(super) fn around<'a>(text: &'a str, form: &str) -> &'a str {
    let at = text.find(form).unwrap_or_default();
    let from = text.floor_char_boundary(at.saturating_sub(200));
    &text[from..text.ceil_char_boundary(at + form.len() + 100)]
}
