//! The fleet of `lockstep dev`, as its metrics and its API tell of it.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long it may take on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_mins(3);

/// The program with its Sentinel; killed if the test ends before it does.
struct Dev {
    child: Child,
    lines: Receiver<String>,
}

impl Dev {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
        command.env_clear().env("HOME", folder).current_dir(folder).stdout(Stdio::piped());
        command.args(["dev", "--controllers", "sentinel", "--listen", "127.0.0.1:0"]);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, receiver) = mpsc::channel();
        // All that it prints is read, so that the pipe never fills up.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        Self { child, lines: receiver }
    }

    /// The URL on the next line that begins so.
    fn url(&self, name: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let line = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())).unwrap();
            if let Some(url) = line.strip_prefix(name) {
                return url.trim().to_owned();
            }
        }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(url: &str) -> String {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// A cluster as the API shows it.
#[derive(Debug)]
struct Cluster {
    name: String,
    is_ready: bool,
    /// How many adapters have reported on it.
    reports: usize,
}

/// The clusters by their names.
fn clusters(url: &str) -> Vec<Cluster> {
    let list: Value = serde_json::from_str(&get(url)).unwrap();
    let cluster = |item: &Value| {
        let conditions = item["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        let is_report = |condition: &&Value| condition["type"].as_str().unwrap().ends_with("Successful");
        Cluster {
            name: item["name"].as_str().unwrap_or_default().to_owned(),
            is_ready: item["status"]["phase"] == "Ready"
                || conditions.iter().any(|c| c["type"] == "Reconciled" && c["status"] == "True"),
            reports: conditions.iter().filter(is_report).count(),
        }
    };
    list["items"].as_array().unwrap().iter().map(cluster).collect()
}

/// The value of the only series with this name whose labels hold the text.
fn value(metrics: &str, name: &str, holding: &str) -> u64 {
    let mut found = metrics.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{') && rest.contains(holding))
    });
    let line = found.next().unwrap_or("none 0");
    assert_eq!(found.next(), None);
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// The page has the steps of both Sentinels.
fn explains_each_sentinel(page: &str) {
    for config in ["default/clusters", "default/clusters-by-label"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
        let output = command.args(["explain", "sentinelconfig", config, "--url", page]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        for part in [
            "Ready=True",
            "FleetReachable=True",
            "fetch http://",
            "next: the Sentinel begins a cycle 1s after",
        ] {
            assert!(text.contains(part), "{part}: {output:?}");
        }
    }
}

#[test]
fn metrics_show_one_shard_becoming_ready_and_the_others_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let mut dev = Dev::start(folder.path());
    let (page, metrics) = (dev.url("page "), dev.url("metrics "));
    let (fleet, documented) = (dev.url("fleet "), dev.url("fleet "));
    let start = Instant::now();
    loop {
        let (scraped, clusters) = (get(&metrics), clusters(&format!("{fleet}?order=name")));
        let published = value(&scraped, "hyperfleet_sentinel_events_published_total", "region=eu-west");
        let skipped = value(
            &scraped,
            "hyperfleet_sentinel_resources_skipped_total",
            r#"ready_state="ready",resource_type="clusters",shard="region=eu-west""#,
        );
        // Each cluster of the shard becomes ready at its second event, and is left alone then.
        let expected = ["batch", "payments", "search", "web"];
        if skipped > 0 && clusters.iter().filter(|cluster| cluster.is_ready).map(|c| &*c.name).eq(expected) {
            assert!(published >= 8, "{scraped}");
            assert_eq!(value(&scraped, "hyperfleet_sentinel_pending_resources", "region=eu-west"), 4);
            let others: Vec<_> = clusters.iter().filter(|cluster| !cluster.is_ready).collect();
            assert!(matches!(&others[..], [other] if other.name == "elsewhere" && other.reports == 0));
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{scraped}\n{clusters:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    // The API as it is documented speaks of phases, and answers selectors.
    let start = Instant::now();
    while !clusters(&format!("{documented}?labels=region%3Dap-south")).iter().all(|cluster| cluster.is_ready)
    {
        assert!(start.elapsed() < PATIENCE, "{}", get(&documented));
        std::thread::sleep(Duration::from_millis(50));
    }
    let all = clusters(&documented);
    assert_eq!((all.len(), all.iter().filter(|cluster| cluster.is_ready).count()), (3, 2));
    assert!(!dev.lines.try_iter().any(|line| line.contains("elsewhere")));
    explains_each_sentinel(&page);

    rustix::process::kill_process(
        rustix::process::Pid::from_child(&dev.child),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert!(dev.child.wait().unwrap().success());
}
