//! Writes a recording of a machine's run to a file, beside the run.
//!
//! ```text
//!  driver ──▶ Recorded: tracks secrets, executes the step ──▶ queue ──▶ thread: inserts placeholders, writes, rotates
//! ```
//!
//! The machine never waits for the file. If the queue is full or the file can't be written, the recording ends with one warning
//! and the run continues. A new secret makes the machine copy its state, which the thread redacts again.

mod files;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::time::Duration;

use anyhow::Context as _;
use lockstep_engine::machine::{Event, Machine, Step, Wrapper};
use lockstep_engine::recording::learn::{SecretTracker, TrackerUpdate};
use lockstep_engine::recording::{FORMAT, Header, Recordable, RecordedStep, Traits};
use lockstep_engine::time::Now;
use serde_json::Value;
use tracing::warn;

use self::writer::{Message, Writer};

pub use self::files::{KEPT, Options};

/// The maximum number of steps that wait to be written.
const QUEUE: usize = 16_384;
/// How long the end of a recording may take.
const GRACE: Duration = Duration::from_secs(10);

/// A machine whose steps are recorded.
pub struct Recorded {
    machine: Box<dyn Recordable + Send>,
    tap: Option<Tap>,
}

/// A recording that is being written.
#[derive(Debug)]
#[must_use]
pub struct Recording {
    ended: Receiver<()>,
    path: PathBuf,
}

/// Starts to record a machine that has taken no step yet. `config` is the configuration of the machine.
///
/// # Errors
///
/// If the file can't be created, or exists and is no recording.
pub fn start(
    machine: Box<dyn Recordable + Send>,
    config: Value,
    options: Options,
) -> anyhow::Result<(Recorded, Recording)> {
    let learner = tracker(machine.traits())?;
    let header = Header {
        format: FORMAT,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        machine: machine.name().to_owned(),
        config,
        segment: 0,
    };
    let path = options.path.clone();
    let full = Arc::new(AtomicBool::new(false));
    let writer = Writer::create(options, header, Arc::clone(learner.redactor()), Arc::clone(&full))?;
    let (sender, messages) = mpsc::sync_channel(QUEUE);
    // The thread keeps the other end until it has finished.
    let (running, ended) = mpsc::channel();
    let thread = std::thread::Builder::new().name("recording".to_owned());
    thread
        .spawn(move || {
            let _running = running;
            writer.run(&messages);
        })
        .context("cannot start a thread that writes the recording")?;
    let tap = Tap { learner, messages: sender, full, taken: 0 };
    Ok((Recorded { machine, tap: Some(tap) }, Recording { ended, path }))
}

/// Returns a tracker of the secrets in one run of a machine with these traits.
///
/// # Errors
///
/// If the system has no random bytes.
pub fn tracker(traits: Traits) -> anyhow::Result<SecretTracker> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).context("the system gives no random bytes to hide secrets with")?;
    Ok(SecretTracker::new(key, traits))
}

impl Recording {
    /// Waits until everything is written. The machine must have been dropped.
    pub fn finish(self) {
        if self.ended.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
            let path = self.path.display();
            warn!("the end of the recording {path} was not written within {} s", GRACE.as_secs());
        }
    }
}

/// Passes steps to the writer.
struct Tap {
    learner: SecretTracker,
    messages: SyncSender<Message>,
    /// Set by the writer when a new segment should begin.
    full: Arc<AtomicBool>,
    taken: u64,
}

impl Tap {
    /// Sends what the writer needs before it can write the step. Returns whether the recording continues.
    fn prepare(&mut self, machine: &dyn Recordable, event: &Event) -> bool {
        let is_sent = self.learner.learn(event).is_none_or(|TrackerUpdate { redactor, rewrites }| {
            let state = rewrites.then(|| machine.checkpoint());
            self.send(Message::Redactor(redactor, state))
        });
        is_sent
            && (!self.full.swap(false, Ordering::Relaxed)
                || self.send(Message::Segment(machine.checkpoint())))
    }

    fn send(&self, message: Message) -> bool {
        match self.messages.try_send(message) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                warn!(
                    "recording stopped: {QUEUE} steps are waiting to be written, because the disk or the \
                     processor is too slow; the controller continues, and the recording so far can be \
                     replayed"
                );
                false
            }
            // The writer has logged why it ended.
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

impl Wrapper for Recorded {
    fn inner(&self) -> &dyn Machine {
        &*self.machine
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        self.tap.take_if(|tap| !tap.prepare(&*self.machine, &event));
        let Some(tap) = &mut self.tap else { return self.machine.step(event, now) };
        let gave = self.machine.step(event.clone(), now);
        tap.taken += 1;
        let taken = RecordedStep { number: tap.taken, now, event, gave: gave.clone() };
        if !tap.send(Message::Step(Box::new(taken))) {
            self.tap = None;
        }
        gave
    }
}

#[cfg(test)]
mod tests;
