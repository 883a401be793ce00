//! Runs the suites: those that compute at the same time as those that wait.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::outcome::{Outcome, Test};
use crate::progress::Progress;
use crate::suites::{Job, Lane, Tier};
use crate::watchdog::Watchdog;

/// How often a binary without events is examined.
const EXAMINE_EVERY: Duration = Duration::from_mins(1);

/// The number of suites of a lane that run at a time.
const COMPUTING: usize = 1;
const WAITING: usize = 2;

/// A line of libtest's JSON output.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    about: String,
    #[serde(rename = "event")]
    result: Option<String>,
    name: Option<String>,
    exec_time: Option<f64>,
    stdout: Option<String>,
}

/// Runs all jobs and returns their results.
pub(crate) fn run_all(jobs: Vec<Job>, tier: Tier) -> Vec<Outcome> {
    let progress = Progress::new(jobs.len());
    let queue = Mutex::new(VecDeque::from(jobs));
    let outcomes = Mutex::new(Vec::new());
    let (done, finished) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let (progress, queue, outcomes) = (&progress, &queue, &outcomes);
        scope.spawn(move || progress.print_until(&finished));
        for lane in [Lane::Computes; COMPUTING].into_iter().chain([Lane::Waits; WAITING]) {
            let done = done.clone();
            scope.spawn(move || {
                while let Some(job) = next(queue, lane) {
                    let outcome = run(&job, tier, progress);
                    progress.ended(&outcome);
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
                }
                drop(done);
            });
        }
        drop(done);
    });
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the next job of the lane, or of the other one if this lane has none left.
fn next(queue: &Mutex<VecDeque<Job>>, lane: Lane) -> Option<Job> {
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    let place = queue.iter().position(|job| job.lane == lane);
    queue.remove(place.unwrap_or(0))
}

fn run(job: &Job, tier: Tier, progress: &Progress) -> Outcome {
    let start = Instant::now();
    let mut outcome = Outcome {
        suite: job.name.clone(),
        took: Duration::ZERO,
        tests: Vec::new(),
        ignored: 0,
        broken: None,
        stderr: String::new(),
    };
    if let Err(error) = follow(job, tier, progress, &mut outcome) {
        outcome.broken = Some(format!("{error:#}"));
    }
    outcome.took = start.elapsed();
    outcome
}

/// Starts the binary and reads its events until it ends.
fn follow(job: &Job, tier: Tier, progress: &Progress, outcome: &mut Outcome) -> anyhow::Result<()> {
    let mut child = Command::new(&job.executable)
        .args(["-Z", "unstable-options", "--format", "json", "--report-time"])
        .args(&job.filters)
        .current_dir(&job.directory)
        // No test compiles with this variable: the tests that call cargo run `cargo tree`.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("LOCKSTEP_TIER", tier.name())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (lines, events) = mpsc::channel();
    let stdout = child.stdout.take().map(BufReader::new);
    let stderr = child.stderr.take();
    // The run does not wait for these two threads if a test hangs: processes that the binary has started keep its pipes open.
    thread::spawn(move || {
        for line in stdout.into_iter().flat_map(BufReader::lines).map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    let errors = thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stderr.map(|mut stderr| stderr.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    });
    read_events(job, progress, &events, &mut child, outcome)?;
    outcome.stderr.push_str(&errors.join().unwrap_or_default());
    let status = child.wait()?;
    let failed = outcome.tests.iter().any(|test| !test.passed);
    if !status.success() && !failed {
        outcome.broken = Some(format!("it ended with {status}"));
    }
    if !job.filters.is_empty() && outcome.tests.is_empty() {
        outcome.broken = Some("no test has a name that SUITES in the test runner chooses".to_owned());
    }
    Ok(())
}

fn read_events(
    job: &Job,
    progress: &Progress,
    events: &mpsc::Receiver<String>,
    child: &mut Child,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let mut watchdog = Watchdog::new(child.id());
    loop {
        let line = match events.recv_timeout(EXAMINE_EVERY) {
            Ok(line) => line,
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let Some(why) = watchdog.expired() else { continue };
                child.kill()?;
                let running = progress.running(&job.name).join(", ");
                anyhow::bail!("{why}; it was ended while these ran: {running}");
            }
        };
        watchdog.reset();
        // A line that a test writes without the harness, such as to a file descriptor, is no event.
        let Ok(event) = serde_json::from_str::<Event>(&line) else {
            outcome.stderr.push_str(&line);
            continue;
        };
        let (Some(name), "test") = (event.name, event.about.as_str()) else { continue };
        match event.result.as_deref() {
            Some("started") => progress.test_started(&job.name, &name),
            Some("ignored") => outcome.ignored += 1,
            Some(result @ ("ok" | "failed")) => {
                progress.test_ended(&job.name, &name);
                if result == "failed" {
                    progress.test_failed(&job.name, &name);
                }
                let took = Duration::from_secs_f64(event.exec_time.unwrap_or_default().max(0.0));
                let output = event.stdout.unwrap_or_default();
                outcome.tests.push(Test { name, passed: result == "ok", took, output });
            }
            _ => {}
        }
    }
}
