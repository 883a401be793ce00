//! Rows of Jobs and autoscalers.

use serde_json::Value;

use super::format::{age, label_selector, or_none};
use super::row::{Cells, Row, row};
use crate::builtin::time::epoch_seconds;
use crate::builtin::view::{given, integer, list, part, text};

impl Row<'_> {
    pub(super) fn job(self) -> Cells {
        let Self { spec, status, name, .. } = self;
        let succeeded = self.count("succeeded");
        let completions = match (integer(spec, "completions"), integer(spec, "parallelism").unwrap_or(0)) {
            (Some(wanted), _) => format!("{succeeded}/{wanted}"),
            (None, parallel @ 2..) => format!("{succeeded}/1 of {parallel}"),
            (None, _) => format!("{succeeded}/1"),
        };
        let holds = |kind: &str| {
            let conditions = list(status, "conditions");
            conditions
                .iter()
                .find(|condition| text(condition, "type") == kind)
                .is_some_and(|c| text(c, "status") == "True")
        };
        let shown = match () {
            () if holds("Complete") => "Complete",
            () if holds("Failed") => "Failed",
            () if self.is_deleted() => "Terminating",
            () if holds("Suspended") => "Suspended",
            () if holds("FailureTarget") => "FailureTarget",
            () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
            () => "Running",
        };
        let end = given(status, "completionTime").and_then(Value::as_str).and_then(epoch_seconds);
        let duration = given(status, "startTime").map(|start| age(start, end.unwrap_or(self.now)));
        let (names, images) = self.template_containers();
        let selector = label_selector(part(spec, "selector"));
        row![
            name,
            shown,
            completions,
            duration.unwrap_or_default(),
            self.age,
            names,
            images,
            or_none(&selector)
        ]
    }

    pub(super) fn metrics(&self) -> String {
        let current = |index: usize, pointer: &str| {
            let status = list(self.status, "currentMetrics").get(index)?.pointer(pointer)?;
            Some(status.as_str().map_or_else(|| status.to_string(), str::to_owned))
        };
        let unknown = || "<unknown>".to_owned();
        let metrics = list(self.spec, "metrics").iter().enumerate().map(|(index, metric)| {
            let (source, named) = match text(metric, "type") {
                "Resource" => ("resource", true),
                "ContainerResource" => ("containerResource", true),
                "External" => ("external", false),
                "Object" => ("object", false),
                "Pods" => ("pods", false),
                _ => return "<unknown type>".to_owned(),
            };
            let target = part(part(metric, source), "target");
            let prefix =
                if named { format!("{}: ", text(part(metric, source), "name")) } else { String::new() };
            let average = given(target, "averageValue").and_then(Value::as_str);
            let value =
                |field: &str| current(index, &format!("/{source}/current/{field}")).unwrap_or_else(unknown);
            match average {
                Some(average) if matches!(source, "external" | "object") => {
                    format!("{}/{average} (avg)", value("averageValue"))
                }
                Some(average) => format!("{prefix}{}/{average}", value("averageValue")),
                None if named => {
                    let now = current(index, &format!("/{source}/current/averageUtilization"));
                    let now = now.map_or_else(unknown, |percent| format!("{percent}%"));
                    let wanted = integer(target, "averageUtilization");
                    let wanted = wanted.map_or_else(|| "<auto>".to_owned(), |percent| format!("{percent}%"));
                    format!("{prefix}{now}/{wanted}")
                }
                None => format!("{}/{}", value("value"), text(target, "value")),
            }
        });
        // The old version has a field for the most common metric.
        let processors = integer(self.spec, "targetCPUUtilizationPercentage").map(|wanted| {
            let now = integer(self.status, "currentCPUUtilizationPercentage");
            let now = now.map_or_else(unknown, |percent| format!("{percent}%"));
            format!("cpu: {now}/{wanted}%")
        });
        let metrics: Vec<String> = processors.into_iter().chain(metrics).collect();
        match metrics.len() {
            0 => "<none>".to_owned(),
            1 | 2 => metrics.join(", "),
            count => format!("{} + {} more...", metrics[..2].join(", "), count - 2),
        }
    }
}
