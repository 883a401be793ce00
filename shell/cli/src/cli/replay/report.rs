//! What `lockstep replay --what-if` prints.

use lockstep_engine::machine::DeadlineReason;
use lockstep_engine::recording::what_if::Requested;
use lockstep_engine::recording::{Header, RecordedStep};
use lockstep_engine::time::Now;

use super::super::brief::{self, Brief};
use super::super::count::count;
use super::comparison::{Comparison, ConditionDifference, StatusDifference, writes_event};
use super::edited::EditedStep;

/// The maximum number of lines of a list.
const LINES_MAX: usize = 40;

/// Returns the differences of the runs.
pub(super) fn text(edited: &EditedStep, header: &Header, comparison: &Comparison) -> String {
    let report = Report { edited, comparison, lines: Vec::new() };
    let lines = report.written(header);
    // Control characters in the file must not break the lines.
    lines.into_iter().map(|line| line.replace(char::is_control, " ").trim_end().to_owned() + "\n").collect()
}

struct Report<'a> {
    edited: &'a EditedStep,
    comparison: &'a Comparison,
    lines: Vec<String>,
}

impl Report<'_> {
    fn written(mut self, header: &Header) -> Vec<String> {
        let steps = count(self.comparison.steps.len() as u64, "step");
        let (machine, program) = (&header.machine, &header.program);
        self.lines
            .push(format!("{machine} of lockstep {program}, {steps}, with the edit {}", self.edited.text));
        let Some(first) = self.comparison.first().map(|step| step.recorded.number) else {
            self.lines.push(String::new());
            self.lines.push("The edit makes no difference: the same requests and notes follow.".to_owned());
            return self.lines;
        };
        self.first(first);
        let rest = &self.comparison.rest;
        let [recorded, what_if] = [&rest.only_recorded, &rest.only_what_if]
            .map(|all| all.iter().filter(|requested| !writes_event(requested)).collect::<Vec<_>>());
        self.requests("Requests only in the recording:", "", &recorded);
        let title = "Requests only in the counterfactual; what needs their answers waits:";
        self.requests(title, "not recorded: ", &what_if);
        let dropped: Vec<_> = rest.dropped.iter().collect();
        self.requests("Requests that wait for the dropped answer:", "", &dropped);
        let statuses = self.comparison.statuses();
        self.statuses(&statuses);
        self.events();
        self.remarks();
        self.lines.push(String::new());
        self.lines.push(format!(
            "{} only in the recording, {} only in the counterfactual; {}",
            count(recorded.len() as u64, "request"),
            count(what_if.len() as u64, "request"),
            match statuses.len() {
                0 => "no status differs".to_owned(),
                1 => "1 status differs".to_owned(),
                more => format!("{more} statuses differ"),
            }
        ));
        self.lines
    }

    fn title(&mut self, title: &str) {
        self.lines.extend([String::new(), title.to_owned()]);
    }

    /// Shows the edited step and the first step that differs.
    fn first(&mut self, first: u64) {
        let edited = self.edited.step;
        let title = if first == edited {
            format!("The runs differ from the edited step {edited} on:")
        } else {
            format!("Step {edited} is edited, and the runs differ from step {first} on:")
        };
        self.title(&title);
        let shown = |step: &RecordedStep| step.number == edited || step.number == first;
        let runs = [
            ("recorded", lines(self.comparison.recorded(), shown)),
            ("what if", lines(self.comparison.what_if(), shown)),
        ];
        for number in [edited, first].into_iter().take(if first == edited { 1 } else { 2 }) {
            for (run, steps) in &runs {
                let of_step: Vec<&String> =
                    steps.iter().filter(|(step, _)| *step == number).map(|(_, line)| line).collect();
                if of_step.is_empty() {
                    self.lines.push(format!("{run:<8} {number:>7}{:15}nothing happens", ""));
                }
                self.lines.extend(of_step.into_iter().map(|line| format!("{run:<8} {line}")));
            }
        }
    }

    /// Lists requests. Those with the same description are one line.
    fn requests(&mut self, title: &str, mark: &str, requests: &[&Requested]) {
        let mut entries: Vec<(&Requested, String, u64)> = Vec::new();
        for requested in requests {
            let text = brief::action(&requested.request.action);
            match entries.iter_mut().find(|(_, other, _)| *other == text) {
                Some((_, _, times)) => *times += 1,
                None => entries.push((requested, text, 1)),
            }
        }
        let lines = entries.into_iter().map(|(requested, text, times)| {
            let times = if times == 1 { String::new() } else { format!("  ({times} times)") };
            format!("{}  {mark}{text}{times}", at(requested.number, requested.now))
        });
        self.list(title, lines.collect());
    }

    fn list(&mut self, title: &str, mut lines: Vec<String>) {
        if lines.is_empty() {
            return;
        }
        self.title(title);
        let more = lines.len().saturating_sub(LINES_MAX);
        lines.truncate(LINES_MAX);
        self.lines.append(&mut lines);
        if more > 0 {
            self.lines.push(format!("{:22}and {more} more", ""));
        }
    }

    fn statuses(&mut self, statuses: &[StatusDifference]) {
        let mut lines = Vec::new();
        for StatusDifference { object, conditions, fields } in statuses {
            lines.push(format!("  {object}"));
            for ConditionDifference { condition, recorded, what_if } in conditions {
                let [recorded, what_if] =
                    [recorded, what_if].map(|text| text.as_deref().unwrap_or("not written"));
                lines.push(format!("    {condition}"));
                lines.push(format!("      recorded: {recorded}"));
                lines.push(format!("      what if:  {what_if}"));
            }
            if !fields.is_empty() {
                lines.push(format!("    other fields: {}", fields.join(", ")));
            }
        }
        self.list("Statuses that the runs requested last and that differ:", lines);
    }

    fn events(&mut self) {
        let both = [
            (
                "Kubernetes Events only in the recording:",
                Comparison::only_announced(self.comparison.recorded(), self.comparison.what_if()),
            ),
            (
                "Kubernetes Events only in the counterfactual:",
                Comparison::only_announced(self.comparison.what_if(), self.comparison.recorded()),
            ),
        ];
        for (title, events) in both {
            let lines =
                events.into_iter().map(|(step, text)| format!("{}  {text}", at(step.number, step.now)));
            self.list(title, lines.collect());
        }
    }

    /// Says what limits the comparison.
    fn remarks(&mut self) {
        let rest = &self.comparison.rest;
        let mut remarks = Vec::new();
        if rest.left_out > 0 {
            remarks.push(format!(
                "{} left out, of watches that the counterfactual did not request",
                count(rest.left_out, "event")
            ));
        }
        for number in &rest.unrestored {
            remarks.push(format!(
                "after step {number} the recording has other placeholders; texts in the counterfactual may differ for that \
                 reason alone"
            ));
        }
        let end = self.comparison.steps.last().map(|step| step.recorded.now.monotonic);
        if let (Some(deadline), Some(end)) = (rest.deadline, end)
            && deadline.reason != DeadlineReason::Resync
        {
            remarks.push(format!(
                "the counterfactual continues at {}s ({}); the recording ends at {}s",
                seconds(deadline.at.elapsed()),
                deadline.reason.name(),
                seconds(end.elapsed())
            ));
        }
        self.list("Remarks:", remarks.into_iter().map(|remark| format!("  {remark}")).collect());
    }
}

/// Returns the lines of the chosen steps of a run.
fn lines<'a>(
    steps: impl Iterator<Item = &'a RecordedStep>,
    is_chosen: impl Fn(&RecordedStep) -> bool,
) -> Vec<(u64, String)> {
    let mut brief = Brief::default();
    // Every step is described, because answers are described by the requests of earlier steps.
    let lines = steps.map(|step| (is_chosen(step), step.number, brief.line(step)));
    lines.filter(|(chosen, ..)| *chosen).map(|(_, number, line)| (number, line)).collect()
}

fn at(number: u64, now: Now) -> String {
    format!("{number:>7} {:>11}s", seconds(now.monotonic.elapsed()))
}

fn seconds(time: std::time::Duration) -> String {
    format!("{}.{:03}", time.as_secs(), time.subsec_millis())
}
