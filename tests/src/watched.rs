//! A controller in this process, with a record of its requests and notes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use http::Request;
use kube::Config;
use kube::client::{Body, ClientBuilder};
use lockstep_bridge as bridge;
use lockstep_cli::controllers;
use lockstep_engine::machine::Note;
use lockstep_engine::operator;
use lockstep_runtime::clock::Clock;
use lockstep_runtime::manager::Manager;
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::shutdown::{self, Trigger};
use prometheus::Registry;
use tokio::sync::mpsc;
use tower::util::MapRequestLayer;

type Lines = Arc<Mutex<Vec<String>>>;

/// A running controller; it stops when this is dropped.
#[derive(Debug)]
pub struct Watched {
    metrics: Metrics,
    requests: Lines,
    notes: Arc<Mutex<Vec<Note>>>,
    _running: Trigger,
}

impl Watched {
    /// Starts the controller of that name on the current runtime.
    pub fn start(controller: &str, config: Config) -> anyhow::Result<Self> {
        let requests = Lines::default();
        let seen = Arc::clone(&requests);
        let layer = MapRequestLayer::new(move |request: Request<Body>| {
            let line = format!("{} {}", request.method(), request.uri().path());
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            request
        });
        let client = ClientBuilder::try_from(config)?.with_layer(&layer).build();
        let (concurrency, resync) = (bridge::CONCURRENCY.into(), Duration::from_mins(10));
        let settings = operator::Config { concurrency, resync, instance: format!("{controller}-0"), seed: 1 };
        let metrics = Metrics::new(Registry::new())?;
        let mut manager = Manager::new(client, Clock::start(jiff::Timestamp::now), 1, metrics.clone());
        let (sink, mut incoming) = mpsc::unbounded_channel();
        manager.send_notes_to(sink);
        manager.add(controllers::machine(controller, &settings).context("there is no such controller")?);
        let notes = Arc::<Mutex<Vec<Note>>>::default();
        let kept = Arc::clone(&notes);
        tokio::spawn(async move {
            while let Some(received) = incoming.recv().await {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(received.note);
            }
        });
        let (trigger, stopping) = shutdown::channel();
        tokio::spawn(manager.run(stopping));
        Ok(Self { metrics, requests, notes, _running: trigger })
    }

    /// Returns its reconciles so far: each object as `namespace/name`, with the duration.
    pub fn passes(&self) -> Vec<(String, Duration)> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let pass = |note: &Note| match note {
            Note::Reconciled { object, took, .. } => {
                Some((format!("{}/{}", object.namespace.as_deref().unwrap_or_default(), object.name), *took))
            }
            _ => None,
        };
        notes.iter().filter_map(pass).collect()
    }

    /// Returns the number of its reconciles of one object.
    pub fn passes_of(&self, namespace: &str, name: &str) -> usize {
        let object = format!("{namespace}/{name}");
        self.passes().iter().filter(|(of, _)| *of == object).count()
    }

    /// Returns the number of its requests so far, and how many of them were writes.
    pub fn requests(&self) -> (usize, usize) {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        (requests.len(), requests.iter().filter(|line| !line.starts_with("GET ")).count())
    }

    /// Returns its writes so far into namespaces whose names have this prefix, as methods and paths.
    pub fn writes(&self, namespaces: &str) -> Vec<String> {
        let within = format!("/namespaces/{namespaces}");
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let is_write = |line: &&String| !line.starts_with("GET ") && line.contains(&within);
        requests.iter().filter(is_write).cloned().collect()
    }

    /// Returns everything that it has reported: notes and metrics.
    pub fn reported(&self) -> anyhow::Result<String> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(format!("{notes:?}\n{}", String::from_utf8(self.metrics.encode()?)?))
    }
}
