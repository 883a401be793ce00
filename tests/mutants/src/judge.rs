//! Runs tests with each mutant, and notes which mutants they notice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};

use crate::switch::{CHOSEN, REACHED};

/// With a mutant, tests may take this many times as long as without one, and [`GRACE`].
const FACTOR: u32 = 8;
const GRACE: Duration = Duration::from_secs(10);

/// How many tests a process runs.
const AT_A_TIME: usize = 10;

/// Tests of one program.
pub(crate) struct Suite {
    pub(crate) program: PathBuf,
    /// Where it runs.
    pub(crate) directory: PathBuf,
    /// What the names of its tests contain.
    pub(crate) filter: &'static str,
    /// What their names do not contain.
    pub(crate) skipped: &'static [&'static str],
    pub(crate) tier: &'static str,
}

/// What a test does without a mutant.
struct Passed {
    time: Duration,
    /// The mutants whose code it reaches.
    reached: BTreeSet<u32>,
    /// The lines that it prints with a hash of everything that happened.
    hashes: BTreeSet<String>,
}

/// What is known about mutants and a suite.
#[derive(Clone, Default)]
pub(crate) struct Judgement {
    /// The mutants whose code its tests reach.
    pub(crate) reached: BTreeSet<u32>,
    /// The mutants with which a test fails, or does not end in time.
    pub(crate) noticed: BTreeSet<u32>,
    /// The mutants with which every test passes, but with another hash.
    pub(crate) differing: BTreeSet<u32>,
}

impl Suite {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("LOCKSTEP_TIER", self.tier).env("CARGO_MANIFEST_DIR", &self.directory);
        // Snapshots are only compared. As many mutants are tested at a time as there are processors.
        command.env("INSTA_UPDATE", "no").env("RUST_BACKTRACE", "0").env("RUST_TEST_THREADS", "1");
        command
    }

    /// Lets the tests judge mutants. What they said earlier is in `memory`, a folder, and is valid for the same program.
    pub(crate) fn judge(&self, mutants: &BTreeSet<u32>, memory: &Path) -> Result<Judgement> {
        let path = memory.join(self.identity()?);
        let known = fs::read_to_string(&path).unwrap_or_default();
        let mut judgement = Judgement::default();
        let mut open = mutants.clone();
        for (id, verdict) in known.lines().filter_map(|line| line.split_once(' ')) {
            let id: u32 = id.parse().context("a number of a mutant")?;
            open.remove(&id);
            judgement.note(id, verdict);
        }
        if open.is_empty() {
            return Ok(judgement);
        }

        let tests = self.tests(memory)?;
        let file = Mutex::new(OpenOptions::new().create(true).append(true).open(&path)?);
        let verdicts = in_parallel(&open.into_iter().collect::<Vec<_>>(), |id| {
            let verdict = self.verdict(*id, &tests, memory)?;
            // In one write, so that a run that is interrupted leaves whole lines.
            let line = format!("{id} {verdict}\n");
            file.lock().expect("no thread panics").write_all(line.as_bytes())?;
            Ok((*id, verdict))
        })?;
        for (id, verdict) in verdicts {
            judgement.note(id, verdict);
        }
        Ok(judgement)
    }

    /// Returns a name for the program and what is run of it.
    fn identity(&self) -> Result<String> {
        let data = self.program.metadata()?;
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        let modified = data.modified()?.duration_since(UNIX_EPOCH)?.as_nanos();
        let skipped = self.skipped.join("-").replace(':', "");
        Ok(format!("{name}-{}-{skipped}-{}-{modified}", self.filter, data.len()))
    }

    /// Runs each test without a mutant.
    fn tests(&self, scratch: &Path) -> Result<BTreeMap<String, Passed>> {
        let listed = self.command().args(["--list", "--format=terse"]).stdout(Stdio::piped()).output()?;
        let listed = String::from_utf8(listed.stdout)?;
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        let is_wanted = |name: &&str| {
            name.contains(self.filter) && !self.skipped.iter().any(|skipped| name.contains(skipped))
        };
        let names: Vec<&str> = names.filter(is_wanted).collect();
        let passed = in_parallel(&names, |name| {
            let path = scratch.join(format!("reached-{}", name.replace(':', "-")));
            File::create(&path)?;
            let start = Instant::now();
            let mut command = self.command();
            let ended =
                command.args(["--nocapture", "--exact", name]).env(REACHED, &path).stdout(Stdio::piped());
            let ended = ended.output()?;
            ensure!(ended.status.success(), "without a mutant, {name} fails in {}", self.program.display());
            let time = start.elapsed();
            let hashes = hashes(&ended.stdout);
            let reached = fs::read_to_string(&path)?;
            let reached = reached.lines().map(str::parse).collect::<Result<_, _>>()?;
            fs::remove_file(&path)?;
            Ok(((*name).to_owned(), Passed { time, reached, hashes }))
        });
        Ok(passed?.into_iter().collect())
    }

    fn verdict(&self, id: u32, tests: &BTreeMap<String, Passed>, scratch: &Path) -> Result<&'static str> {
        let mut reaching: Vec<_> = tests.iter().filter(|(_, passed)| passed.reached.contains(&id)).collect();
        if reaching.is_empty() {
            return Ok("unreached");
        }
        // Those that reach little are about the code of the mutant, more likely than others. The first failure is enough.
        reaching.sort_by_key(|(_, passed)| passed.reached.len());
        let path = scratch.join(format!("printed-{id}"));
        let mut differs = false;
        for some in reaching.chunks(AT_A_TIME) {
            let names = some.iter().map(|(name, _)| name);
            let mut command = self.command();
            command.args(["--nocapture", "--exact"]).args(names).env(CHOSEN, id.to_string());
            let mut child = command.stdout(File::create(&path)?).spawn()?;
            let limit = some.iter().map(|(_, passed)| passed.time).sum::<Duration>() * FACTOR + GRACE;
            if wait(&mut child, limit)?.is_none_or(|status| !status.success()) {
                fs::remove_file(&path)?;
                return Ok("noticed");
            }
            let expected: BTreeSet<String> =
                some.iter().flat_map(|(_, passed)| passed.hashes.clone()).collect();
            differs |= hashes(&fs::read(&path)?) != expected;
            fs::remove_file(&path)?;
        }
        Ok(if differs { "differs" } else { "missed" })
    }
}

impl Judgement {
    fn note(&mut self, id: u32, verdict: &str) {
        if verdict != "unreached" {
            self.reached.insert(id);
        }
        match verdict {
            "noticed" => self.noticed.insert(id),
            "differs" => self.differing.insert(id),
            _ => false,
        };
    }
}

/// Returns the lines with a hash.
fn hashes(printed: &[u8]) -> BTreeSet<String> {
    let printed = String::from_utf8_lossy(printed);
    printed.lines().filter(|line| line.contains("hash ")).map(str::to_owned).collect()
}

/// Returns how a program ended, or stops it.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Does something with each item, on all processors.
fn in_parallel<I: Sync, T: Send>(items: &[I], work: impl Fn(&I) -> Result<T> + Sync) -> Result<Vec<T>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let some = || {
        let rest = std::iter::from_fn(|| items.get(next.fetch_add(1, Ordering::Relaxed)));
        rest.map(&work).collect::<Result<Vec<T>>>()
    };
    let parts: Result<Vec<Vec<T>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        threads.into_iter().map(|thread| thread.join().expect("the work does not panic")).collect()
    });
    Ok(parts?.into_iter().flatten().collect())
}
