//! The live view: one line for each change of an object and for each note of a controller.

mod changes;
mod line;

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use kube::Client;
use kube::discovery::{Discovery, verbs};
use lockstep_engine::machine::{Note, ReconcileResult};
use lockstep_engine::object::ObjectRef;
use lockstep_runtime::observe::ControllerNote;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinSet;

use self::line::{Line, Tone};

/// Kinds that change often without relevant information.
const NOISE: [&str; 4] = ["Event", "Lease", "ComponentStatus", "APIService"];

/// How long the initial lists may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// The view. It watches all kinds until it is dropped.
pub(super) struct View {
    colours: bool,
    lines: UnboundedReceiver<Line>,
    _watches: JoinSet<()>,
}

impl View {
    /// Starts to watch every kind that the server has now, and to receive the notes. Existing objects are not shown.
    pub(super) async fn start(
        client: &Client,
        mut notes: UnboundedReceiver<ControllerNote>,
    ) -> anyhow::Result<Self> {
        let (lines, shown) = mpsc::unbounded_channel();
        let discovery =
            Discovery::new(client.clone()).run().await.context("cannot list the kinds of the API")?;
        let mut watches = JoinSet::new();
        let (listed, mut all_listed) = mpsc::channel::<()>(1);
        let resources = discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
        for (resource, capabilities) in resources {
            if capabilities.supports_operation(verbs::WATCH) && !NOISE.contains(&resource.kind.as_str()) {
                watches.spawn(changes::follow(client.clone(), resource, lines.clone(), listed.clone()));
            }
        }
        drop(listed);
        // This returns when every watch has dropped its sender, so no later change is missed. A watch that can't list must not
        // block the start.
        let _ = tokio::time::timeout(LIST_TIMEOUT, all_listed.recv()).await;
        watches.spawn(async move {
            while let Some(note) = notes.recv().await {
                if let Some(line) = note_line(note)
                    && lines.send(line).is_err()
                {
                    return;
                }
            }
        });
        let colours =
            io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
        Ok(Self { colours, lines: shown, _watches: watches })
    }

    /// Prints the next line.
    pub(super) async fn next(&mut self) -> io::Result<()> {
        let Some(line) = self.lines.recv().await else { return std::future::pending().await };
        let mut out = io::stdout().lock();
        writeln!(out, "{}", line.render(self.colours))?;
        out.flush()
    }
}

/// Returns a line about the first of these objects, or about the controller if there are none.
fn about(controller: &str, objects: &[ObjectRef], message: String, tone: Tone) -> Line {
    match objects.first() {
        Some(ObjectRef { kind, namespace, name }) => {
            Line::now(&kind.kind, namespace.as_deref(), name, message, tone)
        }
        None => Line::now(controller, None, "", message, tone),
    }
}

fn note_line(note: ControllerNote) -> Option<Line> {
    Some(match note.note {
        Note::Reconciled { reconciler, object, result, took, .. } => {
            let (what, tone) = match result {
                // The reconcile made no request, so there is nothing to show.
                ReconcileResult::Converged | ReconcileResult::Requeued { .. } if took.is_zero() => {
                    return None;
                }
                ReconcileResult::Converged => {
                    (format!("{reconciler} reconciled in {} ms", took.as_millis()), Tone::Quiet)
                }
                ReconcileResult::Requeued { after } => {
                    (format!("{reconciler} reconciled, again in {after:?}"), Tone::Quiet)
                }
                ReconcileResult::Abandoned => {
                    (format!("{reconciler} abandoned: no longer the leader"), Tone::Quiet)
                }
                ReconcileResult::Failed { reason, retry_after, .. } => {
                    (format!("{reconciler} failed, again in {retry_after:?}: {reason}"), Tone::Bad)
                }
            };
            Line::now(&object.kind.kind, object.namespace.as_deref(), &object.name, what, tone)
        }
        Note::ConditionChanged { object, condition, status, reason, message, .. } => {
            let tone = match status.as_str() {
                "True" => Tone::Good,
                "False" => Tone::Bad,
                _ => Tone::Plain,
            };
            let what = format!("{condition}={status} {reason}: {message}");
            Line::now(&object.kind.kind, object.namespace.as_deref(), &object.name, what, tone)
        }
        Note::Warning { message } => Line::now(note.controller, None, "", message, Tone::Bad),
        Note::Error { message, objects } => about(note.controller, &objects, message, Tone::Bad),
        Note::Log { debug: false, message, objects } => {
            about(note.controller, &objects, message, Tone::Plain)
        }
        Note::Log { debug: true, .. }
        | Note::Published { .. }
        | Note::EventAnnounced { .. }
        | Note::Measured(_)
        | Note::Traced(_)
        | Note::LeadershipChanged { .. } => return None,
    })
}
