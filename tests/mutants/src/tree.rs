//! A copy of the workspace with all mutants, which is compiled once. Mutants that do not compile are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::edit::{self, Edits};
use crate::mutant::{self, Mutant};
use crate::suites::{CRATES, Programs};
use crate::switch;
use crate::weave::{self, Woven};

/// A copy of the workspace, with mutants in it.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    /// The results of earlier tests.
    pub(crate) memory: PathBuf,
    target: PathBuf,
    /// The sources with mutants, as they are in the workspace.
    sources: BTreeMap<String, String>,
    /// The workspace.
    original: PathBuf,
}

#[derive(Deserialize)]
struct Line {
    reason: String,
    message: Option<Diagnostic>,
    executable: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    message: String,
    rendered: Option<String>,
    spans: Vec<At>,
}

#[derive(Deserialize)]
struct At {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
}

impl Tree {
    /// Copies what has changed in a workspace since the last time, into its target directory.
    pub(crate) fn copy(workspace: &Path) -> Result<Self> {
        let original = workspace.canonicalize()?;
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| original.join("target"), PathBuf::from);
        let target = target.join("mutants");
        let (root, memory) = (target.join("tree"), target.join("memory"));
        fs::create_dir_all(&memory)?;
        let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let files = output(Command::new("git").args(list).current_dir(&original))?;
        let files: BTreeSet<&str> = files.split('\0').filter(|file| original.join(file).is_file()).collect();
        let copied = memory.join("files");
        for gone in
            fs::read_to_string(&copied).unwrap_or_default().lines().filter(|file| !files.contains(file))
        {
            fs::remove_file(root.join(gone)).with_context(|| gone.to_owned())?;
        }
        fs::write(&copied, files.iter().copied().collect::<Vec<_>>().join("\n"))?;
        let mut sources = BTreeMap::new();
        for file in files {
            let is_rust = Path::new(file).extension().is_some_and(|it| it == "rs");
            let is_of = |name: &&str| is_rust && file.starts_with(&format!("core/{name}/src/"));
            let copy = root.join(file);
            fs::create_dir_all(copy.parent().context("the root is not a file")?)?;
            if CRATES.iter().any(is_of) {
                sources.insert(file.to_owned(), fs::read_to_string(original.join(file))?);
            } else if fs::read(&copy).ok() != Some(fs::read(original.join(file))?) {
                // With its permissions.
                fs::copy(original.join(file), &copy).with_context(|| file.to_owned())?;
            }
        }
        Ok(Self { root, memory, target, sources, original })
    }

    /// Returns the mutants that cargo-mutants generates for the workspace.
    pub(crate) fn mutants(&self) -> Result<Vec<Mutant>> {
        let packages = CRATES.map(|name| format!("--package=lockstep-{name}"));
        let mut list = Command::new(cargo_mutants()?);
        list.args(["mutants", "--list", "--json"]).args(packages).current_dir(&self.original);
        mutant::read(&output(&mut list)?, &self.sources)
    }

    fn cargo(&self, command: &str, arguments: &[String]) -> Command {
        let mut cargo = Command::new("cargo");
        cargo
            .current_dir(&self.root)
            .arg(command)
            .args(["--locked", "--message-format=json"])
            .args(arguments);
        cargo.env("CARGO_TARGET_DIR", self.target.join("target")).env("CARGO_INCREMENTAL", "0");
        // The sources with mutants may use what is not stable.
        cargo.env("RUSTC_BOOTSTRAP", CRATES.map(|name| format!("lockstep_{name}")).join(","));
        cargo.env("RUSTFLAGS", "--cap-lints=allow");
        cargo
    }

    /// Writes the mutants into the sources, without those that do not compile, and returns the latter. They are remembered for the
    /// next time.
    pub(crate) fn weave(&self, mutants: &[Mutant]) -> Result<BTreeSet<u32>> {
        let keys = self.keys(mutants);
        let memory = self.memory.join("rejected");
        let known = fs::read_to_string(&memory).unwrap_or_default();
        let known: BTreeSet<&str> = known.lines().collect();
        let mut rejected: BTreeSet<u32> =
            keys.iter().filter(|(_, key)| known.contains(key.as_str())).map(|(id, _)| *id).collect();
        let mut arguments = vec!["--keep-going".to_owned(), "--lib".to_owned()];
        arguments.extend(CRATES.map(|name| format!("--package=lockstep-{name}")));
        loop {
            let mut files: BTreeMap<&str, Woven> = BTreeMap::new();
            for (file, source) in &self.sources {
                let is_left = |it: &&Mutant| it.file == *file && !rejected.contains(&it.id);
                let own: Vec<&Mutant> = mutants.iter().filter(is_left).collect();
                let Edits { edits, invalid } = edit::edits(source, &own).with_context(|| file.clone())?;
                let woven = weave::weave(source, edits);
                rejected.extend(invalid);
                if let Some(lost) = own.iter().find(|it| !woven.has(it.id) && !rejected.contains(&it.id)) {
                    bail!("there is no place for a mutant: {}", lost.name);
                }
                let text = if file.ends_with("src/lib.rs") {
                    format!("{}{}{}", switch::FEATURES, woven.source, switch::function(mutants.len()))
                } else {
                    woven.source.clone()
                };
                write(&self.root.join(file), &text)?;
                files.insert(file, woven);
            }
            let output = self.cargo("check", &arguments).stderr(Stdio::null()).output()?;
            if output.status.success() {
                let lines = rejected.iter().map(|id| format!("{}\n", keys[id]));
                fs::write(&memory, lines.collect::<String>())?;
                return Ok(rejected);
            }
            let (before, mut unexplained) = (rejected.len(), String::new());
            for line in serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Line>() {
                let Some(error) = line?.message.filter(|it| it.level == "error" && !it.spans.is_empty())
                else {
                    continue;
                };
                let ids = rejected_by(&error, &files);
                if ids.is_empty() {
                    unexplained.push_str(error.rendered.as_deref().unwrap_or(&error.message));
                }
                rejected.extend(ids);
            }
            // The compiler finds further mistakes when the earlier ones are corrected.
            ensure!(
                rejected.len() > before,
                "the compiler rejects the sources, but no mutant: {unexplained}"
            );
            eprintln!("{} mutants do not compile", rejected.len());
        }
    }

    /// Returns what identifies each mutant as long as its file does not change.
    fn keys(&self, mutants: &[Mutant]) -> BTreeMap<u32, String> {
        let hash = |source: &String| STANDARD.encode(Sha256::digest(source));
        let hashes: BTreeMap<&str, String> =
            self.sources.iter().map(|(file, source)| (file.as_str(), hash(source))).collect();
        mutants.iter().map(|it| (it.id, format!("{} {}", hashes[it.file.as_str()], it.name))).collect()
    }

    /// Compiles tests, and returns their programs by name.
    pub(crate) fn tests(&self, arguments: &[String]) -> Result<Programs> {
        let mut cargo = self.cargo("test", &[&["--no-run".to_owned()], arguments].concat());
        let output = cargo.stderr(Stdio::inherit()).output()?;
        let mut programs = BTreeMap::new();
        for line in serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Line>() {
            let line = line?;
            if line.reason == "compiler-artifact"
                && let (Some(program), Some(target)) = (line.executable, line.target)
            {
                programs.insert(target.name, program);
            } else if let Some(error) = line.message.filter(|it| it.level == "error") {
                eprintln!("{}", error.rendered.unwrap_or(error.message));
            }
        }
        ensure!(output.status.success(), "the tests do not compile with the mutants");
        Ok(programs)
    }
}

/// Returns the mutants that an error is about: those where it is, or else those at any place that it names.
fn rejected_by(error: &Diagnostic, woven: &BTreeMap<&str, Woven>) -> Vec<u32> {
    let at = |is_primary: bool| {
        let spans = error.spans.iter().filter(move |it| it.is_primary == is_primary);
        spans.flat_map(|it| {
            let before = if it.file_name.ends_with("src/lib.rs") { switch::FEATURES.len() } else { 0 };
            let range = it.byte_start.saturating_sub(before)..it.byte_end.saturating_sub(before);
            woven.get(it.file_name.as_str()).map(|file| file.mutants_at(&range)).unwrap_or_default()
        })
    };
    let primary: Vec<u32> = at(true).collect();
    if primary.is_empty() { at(false).collect() } else { primary }
}

/// So that nothing is compiled again that is the same.
fn write(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// Returns where cargo-mutants is. It is built once.
fn cargo_mutants() -> Result<PathBuf> {
    let folder = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let cache = folder("LOCKSTEP_CACHE")
        .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("lockstep")))
        .or_else(|| Some(folder("HOME")?.join(".cache/lockstep")))
        .context("set HOME or LOCKSTEP_CACHE")?;
    let root = cache.join("cargo-mutants-27.0.0");
    let program = root.join("bin/cargo-mutants");
    if !program.exists() {
        let mut install = Command::new("cargo");
        install
            .args(["install", "--quiet", "--locked", "--version=27.0.0", "cargo-mutants", "--root"])
            .arg(&root);
        // It only lists mutants: what takes time is to compile it.
        install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0").env("CARGO_PROFILE_RELEASE_LTO", "off");
        ensure!(install.status()?.success(), "cargo-mutants can't be installed");
    }
    Ok(program)
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
