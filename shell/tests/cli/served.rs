//! `lockstep dev` as a process that serves.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use super::lockstep;

/// A program that serves; killed if the test ends before it does.
pub(crate) struct Served {
    child: Child,
    pub(crate) url: String,
    lines: Receiver<String>,
}

impl Served {
    pub(crate) fn start(folder: &Path, args: &[&str]) -> Self {
        let mut child = lockstep(folder).args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let url = first.strip_prefix("API server  ").expect(&first).to_owned();
        let (sender, receiver) = mpsc::channel();
        // All that it prints is read, so that the pipe never fills up.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        Self { child, url, lines: receiver }
    }

    /// Waits for lines that hold the texts, in any order, for half a minute at most.
    pub(crate) fn shows(&self, texts: &[&str]) {
        let end = Instant::now() + Duration::from_secs(30);
        let mut missing = texts.to_vec();
        let mut seen = Vec::new();
        while !missing.is_empty() {
            let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) else {
                panic!("{missing:?} not shown in:\n{}", seen.join("\n"));
            };
            missing.retain(|text| !line.contains(text));
            seen.push(line);
        }
    }

    /// Asks it to end and tells how it did; it has two seconds.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("still runs two seconds after SIGTERM");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
