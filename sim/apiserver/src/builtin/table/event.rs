//! The row of an event.

use super::format::age;
use super::row::{Cells, Row, row};
use crate::builtin::view::{given, integer, part, text};

impl Row<'_> {
    /// Returns the row of an event of either group.
    pub(super) fn event(self) -> Cells {
        let Self { object, now, .. } = self;
        let either = |new: &'static str, old: &'static str| match text(object, new) {
            "" => text(object, old),
            text => text,
        };
        let seen = |field: &str| given(object, field).map(|time| age(time, now));
        let regarding = given(object, "involvedObject").unwrap_or(part(object, "regarding"));
        let first = seen("firstTimestamp").or_else(|| seen("deprecatedFirstTimestamp"));
        let first = first.unwrap_or_else(|| age(part(object, "eventTime"), now));
        let series = given(object, "series");
        let last = match series {
            Some(series) => age(part(series, "lastObservedTime"), now),
            None => seen("lastTimestamp")
                .or_else(|| seen("deprecatedLastTimestamp"))
                .unwrap_or_else(|| first.clone()),
        };
        let counted = integer(object, "count").or_else(|| integer(object, "deprecatedCount")).unwrap_or(1);
        let count = series.and_then(|series| integer(series, "count")).unwrap_or(counted);
        let kind = text(regarding, "kind").to_lowercase();
        let target = match text(regarding, "name") {
            "" => kind,
            name => format!("{kind}/{name}"),
        };
        let source = given(object, "source").unwrap_or(part(object, "deprecatedSource"));
        let or =
            |first: &str, second: &str| if first.is_empty() { second.to_owned() } else { first.to_owned() };
        let controller = either("reportingComponent", "reportingController");
        let component = or(text(source, "component"), controller);
        let instance = or(text(source, "host"), text(object, "reportingInstance"));
        let source = if instance.is_empty() { component } else { format!("{component}, {instance}") };
        row![
            last,
            text(object, "type"),
            text(object, "reason"),
            target,
            text(regarding, "fieldPath"),
            source,
            either("message", "note").trim(),
            first,
            count,
            self.name,
        ]
    }
}
