//! What happened in a run, for people.

use std::fmt::Write as _;

use lockstep_core::engine::machine::Event;
use lockstep_core::object::metadata;
use lockstep_sim::cluster::{Entry, What};
use lockstep_sim::simulation::{Plan, Run};
use serde_json::Value;

/// The timeline as text and as a page of its own.
//
// PLUG IN HERE: `let timeline = Timeline::of(plan, run); (timeline.text(), timeline.html())`; the rest of this module goes.
pub(super) fn of(plan: &Plan, run: &Run) -> (String, String) {
    let text = text(plan, run);
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let title = format!("{}, seed {}", plan.controller, plan.seed);
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<pre>\n{escaped}</pre>\n</html>\n"
    );
    (text, page)
}

/// A line for each strike of a fault and each thing that happened, by time.
fn text(plan: &Plan, run: &Run) -> String {
    let struck = run.strikes.iter().map(|strike| {
        let what = plan.faults.get(strike.fault).map(|fault| fault.what.to_string()).unwrap_or_default();
        (strike.at, format!("! {what} {}", strike.befell))
    });
    let mut lines: Vec<_> = struck.chain(run.journal.iter().map(|entry| (entry.at, line(entry)))).collect();
    lines.sort_by_key(|(at, _)| *at);
    lines.iter().fold(String::new(), |mut text, (at, line)| {
        let _ = writeln!(text, "{:>10.3}  {}", at.as_secs_f64(), line.trim_end());
        text
    })
}

fn line(entry: &Entry) -> String {
    match &entry.what {
        What::Started { process } => format!("process {process} begins"),
        What::Died { process } => format!("process {process} dies"),
        What::Stepped { process, event, step, .. } => {
            let asks = step.requests.iter().map(|request| {
                let target = request.action.target().map(ToString::to_string).unwrap_or_default();
                format!("; asks {} {} {target}", request.id.0, request.action.name())
            });
            let notes = step.notes.iter().map(|note| format!("; notes {note:?}"));
            format!("process {process} {}{}", told(event), asks.chain(notes).collect::<String>())
        }
        What::Carried(carried) => {
            let target = carried.action.target().map(ToString::to_string).unwrap_or_default();
            let failed = carried.failed.map(|class| format!(": {class}")).unwrap_or_default();
            let (process, id, action) = (carried.process, carried.id.0, carried.action.name());
            format!("server takes {id} of process {process}, {action} {target}{failed}")
        }
        What::Changed(change) => {
            let what = match &change.new {
                None => "gone".to_owned(),
                Some(object) => format!("at {}", metadata(object, "resourceVersion")),
            };
            format!("{} changes {}: {what}", change.by.title(), change.object)
        }
    }
}

fn told(event: &Event) -> String {
    let name = |object: &Value| format!("{}/{}", metadata(object, "namespace"), metadata(object, "name"));
    match event {
        Event::Observed { kind, object } => {
            format!("sees {kind} {} at {}", name(object), metadata(object, "resourceVersion"))
        }
        Event::Vanished { kind, object } => format!("sees {kind} {} go", name(object)),
        Event::Finished { id, outcome: Ok(_) } => format!("learns that {} is done", id.0),
        Event::Finished { id, outcome: Err(failure) } => format!("learns that {} failed: {failure}", id.0),
        other => format!("{other:?}"),
    }
}
