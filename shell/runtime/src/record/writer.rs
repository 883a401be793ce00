//! The thread that writes a recording.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};

use anyhow::Context as _;
use lockstep_engine::recording::redact::Redactor;
use lockstep_engine::recording::{Checkpoint, Header, Line, RecordedStep};
use serde_json::Value;
use tracing::warn;

use super::files::{self, Options};

/// The messages to the writer, in the order of the run.
pub(super) enum Message {
    /// From here on this redactor hides the secrets. The machine's state is included if it may have to be written again.
    Redactor(Arc<Redactor>, Option<Checkpoint>),
    /// A new segment begins with this state.
    Segment(Checkpoint),
    /// A step.
    Step(Box<RecordedStep>),
}

/// The reason why the writer ended before the run did.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error("{0}; make room, or record to another disk")]
    File(#[from] io::Error),
    #[error("a line can't be written as JSON ({0}); this is a bug in Lockstep")]
    Json(#[from] serde_json::Error),
    #[error(
        "the state of the controller alone takes {state} bytes; let --record-max-size be more than twice that"
    )]
    TooSmall { state: usize },
}

pub(super) struct Writer {
    options: Options,
    header: Header,
    redactor: Arc<Redactor>,
    full: Arc<AtomicBool>,
    file: BufWriter<File>,
    written: u64,
    /// Whether a new segment was requested.
    asked: bool,
}

impl Writer {
    /// Creates the first segment. `full` is set whenever a new segment should begin.
    pub(super) fn create(
        options: Options,
        header: Header,
        redactor: Arc<Redactor>,
        full: Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        files::check(&options.path)?;
        let cannot = || format!("cannot record to {}", options.path.display());
        let file = BufWriter::new(files::create(&options.path).with_context(cannot)?);
        let mut writer = Self { options, header, redactor, full, file, written: 0, asked: false };
        writer.begin().with_context(|| format!("cannot record to {}", writer.options.path.display()))?;
        Ok(writer)
    }

    /// Writes until the run has ended, or until a write fails.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        if let Err(stopped) = self.write_all(messages) {
            let path = self.options.path.display();
            warn!(
                "recording stopped: {path}: {stopped}; the controller continues, and the recording so far can be replayed"
            );
        }
    }

    fn write_all(&mut self, messages: &Receiver<Message>) -> Result<(), Stopped> {
        loop {
            let message = match messages.try_recv() {
                Err(TryRecvError::Empty) => {
                    // A reader of the file, also after a crash, finds all steps up to now.
                    self.file.flush()?;
                    messages.recv().ok()
                }
                received => received.ok(),
            };
            match message {
                Some(Message::Redactor(redactor, state)) => self.renew(redactor, state)?,
                Some(Message::Segment(state)) => {
                    let state = self.redactor.redacted(&state()?)?;
                    self.next_segment(state)?;
                }
                Some(Message::Step(taken)) => {
                    let line = self.redactor.line(&Line::Step(*taken))?;
                    self.put(&line)?;
                }
                None => return Ok(self.file.flush()?),
            }
        }
    }

    /// Replaces the redactor. The state is written only if it now looks different.
    fn renew(&mut self, redactor: Arc<Redactor>, state: Option<Checkpoint>) -> Result<(), Stopped> {
        let before = std::mem::replace(&mut self.redactor, redactor);
        let Some(state) = state else { return Ok(()) };
        let state = state()?;
        let now = self.redactor.redacted(&state)?;
        if now == before.redacted(&state)? {
            return Ok(());
        }
        self.put(&Line::Checkpoint(now).to_json()?)
    }

    fn next_segment(&mut self, state: Value) -> Result<(), Stopped> {
        let line = Line::Checkpoint(state).to_json()?;
        if line.len() as u64 > self.options.max_bytes / 2 {
            return Err(Stopped::TooSmall { state: line.len() });
        }
        self.file.flush()?;
        self.file = BufWriter::new(files::create(&self.options.path)?);
        self.header.segment += 1;
        self.begin()?;
        self.put(&line)
    }

    fn begin(&mut self) -> Result<(), Stopped> {
        (self.written, self.asked) = (0, false);
        let header = self.header.to_json()?;
        self.put(&header)?;
        Ok(self.file.flush()?)
    }

    fn put(&mut self, line: &[u8]) -> Result<(), Stopped> {
        self.file.write_all(line)?;
        self.written += line.len() as u64;
        // Some more steps follow before the next segment can begin.
        if self.written > self.options.max_bytes / 8 * 7 && !self.asked {
            self.asked = true;
            self.full.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}
