//! The `lockstep` program as a process of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::ground::eventually;

/// The running program, with its log and its addresses. It is killed when dropped.
#[derive(Debug)]
pub struct Program {
    process: Child,
    metrics: String,
    probes: String,
    /// The directory of the kubeconfig and the log.
    directory: tempfile::TempDir,
}

impl Program {
    /// Starts the command, which must log JSON, against the API server of the kubeconfig. Waits until it serves metrics and
    /// probes.
    pub async fn start(mut command: Command, kubeconfig: &str) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("kubeconfig");
        std::fs::write(&file, kubeconfig)?;
        command.env("KUBECONFIG", &file);
        Self::spawn(command, directory).await
    }

    /// Starts the command, which must log JSON and finds the API server as pods do. Waits until it serves metrics and probes.
    pub async fn start_as_pod(command: Command) -> anyhow::Result<Self> {
        Self::spawn(command, tempfile::tempdir()?).await
    }

    async fn spawn(mut command: Command, directory: tempfile::TempDir) -> anyhow::Result<Self> {
        let log = File::create(directory.path().join("log"))?;
        let process = command.stderr(log).spawn()?;
        let mut program = Self { process, metrics: String::new(), probes: String::new(), directory };
        program.metrics = program.address("serving metrics").await?;
        program.probes = program.address("serving probes").await?;
        Ok(program)
    }

    /// Returns the id of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns its memory in bytes, as the operating system reports it: `VmRSS` is resident now, `VmHWM` is the peak.
    pub fn memory(&self, which: &str) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let mut lines = status.lines().filter_map(|line| line.split_once(':'));
        let (_, size) = lines.find(|(name, _)| *name == which).context("no such figure")?;
        let kib: u64 = size.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024)
    }

    /// Waits for the log line with the address of a server.
    async fn address(&self, message: &str) -> anyhow::Result<String> {
        eventually(message, async || {
            let line = self.logged(message).with_context(|| self.log())?;
            Ok(line["address"].as_str().context("no address")?.to_owned())
        })
        .await
    }

    /// Returns the log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Returns the first log line with the text in its message.
    pub fn logged(&self, text: &str) -> Option<Value> {
        let log = self.log();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["message"].as_str().is_some_and(|message| message.contains(text)))
    }

    /// Returns all metrics, in Prometheus' text format.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        Ok(get(&self.metrics, "/metrics").await?.1)
    }

    /// Returns the sum of a counter over all series with the text in their labels.
    pub async fn metric(&self, metric: &str, holding: &str) -> anyhow::Result<u64> {
        Ok(sum(&self.metrics().await?, metric, holding))
    }

    /// Checks that a counter is zero in all series with the text in their labels.
    ///
    /// # Errors
    /// With the other series, and the warnings of the log.
    pub async fn never_counted(&self, metric: &str, holding: &str) -> anyhow::Result<()> {
        self.never_counted_but(metric, holding, |_| false).await
    }

    /// Does the same, except for the series that are permitted.
    pub async fn never_counted_but(
        &self,
        metric: &str,
        holding: &str,
        is_permitted: impl Fn(&str) -> bool,
    ) -> anyhow::Result<()> {
        let metrics = self.metrics().await?;
        let counted: Vec<&str> = series(&metrics, metric, holding)
            .filter(|line| !line.ends_with(" 0") && !is_permitted(line))
            .collect();
        let log = self.log();
        let warnings: Vec<&str> = log.lines().filter(|line| line.contains(r#""level":"WARN""#)).collect();
        ensure!(counted.is_empty(), "{}\n{}", counted.join("\n"), warnings.join("\n"));
        Ok(())
    }

    /// Queries a probe. Returns the status and the text.
    pub async fn probe(&self, path: &str) -> anyhow::Result<(u16, String)> {
        get(&self.probes, path).await
    }

    /// Sends SIGTERM and waits for the end of the process.
    pub async fn terminate(self) -> anyhow::Result<ExitStatus> {
        self.ask_to_end()?;
        self.ended().await
    }

    /// Sends SIGTERM.
    pub fn ask_to_end(&self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).context("no process")?;
        Ok(kill_process(pid, Signal::TERM)?)
    }

    /// Waits for the end of the process.
    pub async fn ended(mut self) -> anyhow::Result<ExitStatus> {
        tokio::task::spawn_blocking(move || Ok(self.process.wait()?)).await?
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Gets a path from a process. Returns the status and the text.
pub async fn get(address: &str, path: &str) -> anyhow::Result<(u16, String)> {
    let mut connection = tokio::net::TcpStream::connect(address).await?;
    connection.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("no answer: {answer:?}"))?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, body.to_owned()))
}

/// Returns the sum of a counter over all series with the text in their labels.
pub fn sum(metrics: &str, metric: &str, holding: &str) -> u64 {
    series(metrics, metric, holding).filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

/// Returns the lines of a metric with the text in their labels.
fn series<'a>(metrics: &'a str, metric: &'a str, holding: &'a str) -> impl Iterator<Item = &'a str> {
    metrics.lines().filter(move |line| {
        let name = line.split(['{', ' ']).next();
        name == Some(metric) && line.contains(holding)
    })
}

/// Builds the program, unless `LOCKSTEP_BIN` names one, and returns its path.
pub fn program() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("LOCKSTEP_BIN") {
        return Ok(PathBuf::from(path));
    }
    let output = cargo()
        .args(["build", "--locked", "--package", "lockstep-cli", "--bin", "lockstep"])
        .arg("--message-format=json")
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "lockstep can't be built; the compiler's message is above");
    let messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let mut executables =
        messages.filter_map(|message| Some(message.ok()?["executable"].as_str()?.to_owned()));
    match executables.next() {
        Some(executable) => Ok(PathBuf::from(executable)),
        None => bail!("cargo named no executable"),
    }
}

/// Returns a cargo command in the workspace that is independent of the cargo that runs this process.
///
/// That one describes its package in variables. The build script of ring reads them, so ring and all that depends on it would be
/// compiled again, and once more by the next cargo without these variables.
pub fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    command.current_dir(workspace());
    command
}

/// Returns the root of the checkout.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}
