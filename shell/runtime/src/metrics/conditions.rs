//! The conditions of the objects of some kinds, as a metric.
//!
//! They are those that the watches show, so a restarted or standby process exports them too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockstep_engine::machine::Event;
use lockstep_engine::object::Kind;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, IntGaugeVec, Opts};
use serde_json::Value;

/// The maximum number of series: about 2 MB of a scrape.
const MAX_SERIES: usize = 10_000;

/// The conditions of all observed objects.
#[derive(Debug, Clone)]
pub(super) struct Conditions {
    objects: Arc<Mutex<BTreeMap<ObjectKey, Observed>>>,
    /// Filled while a scrape holds the lock.
    series: IntGaugeVec,
    omitted: IntGauge,
    max_series: usize,
}

/// Kind, namespace (empty for objects without one) and name.
type ObjectKey = (Arc<Kind>, String, String);

#[derive(Debug)]
struct Observed {
    /// False from the start of a list until it contains the object.
    is_listed: bool,
    conditions: Vec<Condition>,
}

#[derive(Debug)]
struct Condition {
    kind: String,
    status: String,
    reason: String,
}

impl Conditions {
    pub(super) fn new() -> prometheus::Result<Self> {
        Self::limited_to(MAX_SERIES)
    }

    fn limited_to(max_series: usize) -> prometheus::Result<Self> {
        Ok(Self {
            objects: Arc::default(),
            series: IntGaugeVec::new(
                Opts::new(
                    "lockstep_condition",
                    "The conditions of objects; 1 for the current status and reason.",
                ),
                &["kind", "namespace", "name", "type", "status", "reason"],
            )?,
            omitted: IntGauge::new(
                "lockstep_conditions_omitted",
                "Conditions without a series of lockstep_condition, because there are too many.",
            )?,
            max_series,
        })
    }

    /// Updates the conditions from an event of a watch.
    pub(super) fn observe(&self, event: &Event) {
        match event {
            Event::ListStarted { kind } => {
                self.lock()
                    .iter_mut()
                    .filter(|((of, ..), _)| of == kind)
                    .for_each(|(_, object)| object.is_listed = false);
            }
            Event::ListCompleted { kind } => {
                self.lock().retain(|(of, ..), object| of != kind || object.is_listed);
            }
            Event::Applied { kind, object } => {
                let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
                let conditions = conditions.map(Condition::read).collect();
                self.lock().insert(key(kind, object), Observed { is_listed: true, conditions });
            }
            Event::Deleted { kind, object } => {
                self.lock().remove(&key(kind, object));
            }
            Event::Started
            | Event::LeadershipChanged { .. }
            | Event::WatchFailed { .. }
            | Event::Finished { .. }
            | Event::TimerFired => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Observed>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Condition {
    fn read(condition: &Value) -> Self {
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Self { kind: text("type"), status: text("status"), reason: text("reason") }
    }
}

fn key(kind: &Arc<Kind>, object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (Arc::clone(kind), text("namespace"), text("name"))
}

impl Collector for Conditions {
    fn desc(&self) -> Vec<&Desc> {
        self.series.desc().into_iter().chain(self.omitted.desc()).collect()
    }

    /// Beyond the limit, conditions that are True are omitted first: alerts are about the others.
    fn collect(&self) -> Vec<MetricFamily> {
        let objects = self.lock();
        let all =
            || objects.iter().flat_map(|(key, object)| object.conditions.iter().map(move |it| (key, it)));
        let is_true = |(_, it): &(&ObjectKey, &Condition)| it.status == "True";
        self.series.reset();
        let in_order = all().filter(|it| !is_true(it)).chain(all().filter(is_true));
        for ((kind, namespace, name), it) in in_order.take(self.max_series) {
            let labels = [&*kind.kind, namespace, name, &it.kind, &it.status, &it.reason];
            self.series.with_label_values(&labels).set(1);
        }
        let omitted = all().count().saturating_sub(self.max_series);
        self.omitted.set(i64::try_from(omitted).unwrap_or(i64::MAX));
        self.series.collect().into_iter().chain(self.omitted.collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prometheus::{Encoder as _, TextEncoder};
    use serde_json::json;

    use super::*;

    fn kind() -> Arc<Kind> {
        Kind::known("svc.dpu.nvidia.com", "v1alpha1", "DPUService", "dpuservices", true)
    }

    fn object(name: &str, status: &str) -> Arc<Value> {
        let condition = json!({"type": "Ready", "status": status, "reason": format!("Is{status}")});
        Arc::new(
            json!({"metadata": {"namespace": "ns", "name": name}, "status": {"conditions": [condition]}}),
        )
    }

    fn applied(name: &str, status: &str) -> Event {
        Event::Applied { kind: kind(), object: object(name, status) }
    }

    /// Returns the series of conditions as `name status`, and the number of omitted ones.
    fn scraped(conditions: &Conditions) -> (Vec<String>, String) {
        let mut text = Vec::new();
        TextEncoder::new().encode(&conditions.collect(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let value = |line: &str, label: &str| {
            let (_, rest) = line.split_once(&format!("{label}=\"")).unwrap();
            rest.split('"').next().unwrap().to_owned()
        };
        let series = text.lines().filter(|line| line.starts_with("lockstep_condition{"));
        let series = series.map(|line| format!("{} {}", value(line, ",name"), value(line, "status")));
        let series = series.collect::<BTreeSet<String>>().into_iter().collect();
        let omitted = text.lines().find_map(|line| line.strip_prefix("lockstep_conditions_omitted "));
        (series, omitted.unwrap().to_owned())
    }

    #[test]
    fn a_series_ends_with_its_status_and_with_its_object() {
        let conditions = Conditions::new().unwrap();
        let series = || scraped(&conditions).0;
        conditions.observe(&applied("a", "Unknown"));
        conditions.observe(&applied("a", "True"));
        conditions.observe(&applied("b", "False"));
        assert_eq!(series(), ["a True", "b False"]);
        conditions.observe(&Event::Deleted { kind: kind(), object: object("a", "True") });
        assert_eq!(series(), ["b False"]);
        conditions.observe(&Event::ListStarted { kind: kind() });
        conditions.observe(&applied("c", "True"));
        assert_eq!(series(), ["b False", "c True"], "the list may still contain b");
        conditions.observe(&Event::ListCompleted { kind: kind() });
        assert_eq!(series(), ["c True"]);
    }

    #[test]
    fn beyond_the_limit_conditions_that_are_true_are_omitted_first() {
        let conditions = Conditions::limited_to(2).unwrap();
        for (name, status) in [("a", "True"), ("b", "True"), ("c", "False")] {
            conditions.observe(&applied(name, status));
        }
        assert_eq!(scraped(&conditions), (vec!["a True".to_owned(), "c False".to_owned()], "1".to_owned()));
    }
}
