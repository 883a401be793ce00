//! The cost of a process, as Linux measures it, for benchmarks.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::program::cargo;

/// Returns the CPU time that a process has used.
///
/// # Errors
/// If there is no such process.
pub fn processor_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field =
        |index: usize| fields.get(index).context("no such field")?.parse::<u64>().context("no figure");
    // Linux measures in hundredths of a second.
    Ok(Duration::from_millis((field(11)? + field(12)?) * 10))
}

/// Returns the resident memory of a process, in MiB: now, and at its peak so far.
///
/// # Errors
/// If there is no such process.
pub fn resident_mib(pid: u32) -> anyhow::Result<(f64, f64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let figure = |which: &str| -> anyhow::Result<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(which));
        let kib: f64 = line.and_then(|line| line.split_whitespace().next()).context("no figure")?.parse()?;
        Ok(kib / 1024.0)
    };
    Ok((figure("VmRSS:")?, figure("VmHWM:")?))
}

/// Builds the `lockstep` program with the profile of benchmarks, unless `LOCKSTEP_BIN` names one, and returns its path.
///
/// # Errors
/// If it does not build.
pub fn program() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("LOCKSTEP_BIN") {
        return Ok(PathBuf::from(path));
    }
    let status =
        cargo().args(["build", "--release", "--locked", "--workspace", "--bin", "lockstep"]).status()?;
    ensure!(status.success(), "lockstep does not build");
    let own = std::env::current_exe()?;
    let profile = own.ancestors().nth(2).context("a benchmark lies in target/<profile>/deps")?;
    Ok(profile.join("lockstep"))
}
