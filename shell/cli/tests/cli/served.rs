//! Programs that run until they are told to end.

use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use super::lockstep;

/// How long what must come may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// How long it may take to end, as Kubernetes gives a pod.
const FAREWELL: Duration = Duration::from_secs(30);

/// A program whose lines are read; killed if the test ends before it does.
pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    /// Starts one whose logs are read.
    pub(crate) fn logging(folder: &Path, args: &[&str]) -> Self {
        let mut child = lockstep(folder).args(args).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        Self::new(child, BufReader::new(stderr))
    }

    fn new(child: Child, output: BufReader<impl Read + Send + 'static>) -> Self {
        let (sender, lines) = mpsc::channel();
        // All that it prints is read, so that the pipe never fills up.
        let printed = output.lines().map_while(Result::ok);
        std::thread::spawn(move || printed.for_each(|line| drop(sender.send(line))));
        Self { child, lines }
    }

    /// Waits for lines that hold the texts, in any order.
    pub(crate) fn shows(&self, texts: &[&str]) {
        let end = Instant::now() + PATIENCE;
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

    /// Waits for a line that holds the text, and returns it.
    pub(crate) fn line(&self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) else {
                panic!("{text:?} not shown");
            };
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Asks it to end and tells how it did.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        let start = Instant::now();
        while start.elapsed() < FAREWELL {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("still runs after SIGTERM");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `lockstep dev`, once it serves.
pub(crate) struct Served {
    program: Program,
    pub(crate) url: String,
}

impl Served {
    pub(crate) fn start(folder: &Path, args: &[&str]) -> Self {
        let mut child = lockstep(folder).args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        stdout.read_line(&mut first).unwrap();
        let url = first.trim_end().strip_prefix("API server  ").expect(&first).to_owned();
        Self { program: Program::new(child, stdout), url }
    }

    /// Waits for lines that hold the texts, in any order.
    pub(crate) fn shows(&self, texts: &[&str]) {
        self.program.shows(texts);
    }

    /// Waits for a line that holds the text, and returns it.
    pub(crate) fn line(&self, text: &str) -> String {
        self.program.line(text)
    }

    /// Asks it to end and tells how it did.
    pub(crate) fn terminate(self) -> Option<i32> {
        self.program.terminate()
    }
}
