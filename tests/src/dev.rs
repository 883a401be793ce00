//! `lockstep dev` as a process of its own.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// A running `lockstep dev`, and the URLs of its API server and its page. It is killed when dropped.
#[derive(Debug)]
pub struct Dev {
    process: Child,
    /// The URL of its API server.
    pub api: String,
    /// The URL of its live page.
    pub page: String,
    _directory: tempfile::TempDir,
}

impl Dev {
    /// Starts the program with these controllers, and waits until it has printed its URLs.
    pub fn start(program: &Path, controllers: &str) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut process = Command::new(program)
            .args(["dev", "--listen=127.0.0.1:0", "--controllers", controllers])
            .current_dir(directory.path())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(process.stdout.take().context("no output")?).lines();
        let mut url = |label: &str| -> anyhow::Result<String> {
            loop {
                let line =
                    lines.next().with_context(|| format!("it ended before it printed its {label}"))??;
                if let Some(url) = line.strip_prefix(label) {
                    return Ok(url.trim().to_owned());
                }
            }
        };
        let (api, page) = (url("API server")?, url("page")?);
        // All output is read, so that the pipe never fills up.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { process, api, page, _directory: directory })
    }

    /// Returns the id of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
