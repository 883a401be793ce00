//! Limits how often drift in a namespace is repaired. If another writer keeps changing a resource, the operator must not spin
//! and must report it.
//!
//! A repair is an apply of a resource that the status lists as applied already: another client changed or removed it. The
//! first repair of each resource happens at once. While repairs of one resource follow one another closely, each waits twice
//! as long as the one before. The count starts from zero after a quiet time of twice the next delay, or when the class
//! or a variable changes the resource. Repairs of other resources do not affect this.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::backoff::Backoff;
use lockstep_engine::time::Monotonic;
use serde::{Deserialize, Serialize};

use super::resolved_class::{ClassResource, Content};

/// The delays between repairs that follow one another closely.
const WAITS: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_mins(5) };
/// After this many repairs in a row, the binding reports that another client keeps changing its resources.
const CONTESTED_AFTER: u32 = 4;

/// The resources of one namespace that were repaired recently.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DriftBackoff {
    rows: Vec<Row>,
}

/// The repairs of one resource that followed one another closely.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    entry: Arc<ClassResource>,
    drift_backoff: u32,
    last: Monotonic,
    /// Whether it could not be applied in the last pass. That is no repair: it is reported and retried like every failure.
    failed: bool,
}

impl Row {
    /// Returns the delay until the next repair is allowed.
    fn wait(&self, now: Monotonic) -> Option<Duration> {
        left(WAITS.ceiling(self.drift_backoff), now.since(self.last))
    }

    /// Returns the quiet time that is left until the next repair counts as a first one again.
    fn unsettled(&self, now: Monotonic) -> Option<Duration> {
        left(WAITS.ceiling(self.drift_backoff) * 2, now.since(self.last))
    }
}

impl DriftBackoff {
    /// Records a pass: the resources that it repaired, and those that it could not apply.
    pub fn take_in(
        &mut self,
        repaired: Vec<Arc<ClassResource>>,
        failed: &[Arc<ClassResource>],
        now: Monotonic,
    ) {
        for row in &mut self.rows {
            row.failed = failed.contains(&row.entry);
        }
        for entry in repaired {
            if let Some(row) = self.rows.iter_mut().find(|row| row.entry == entry) {
                row.drift_backoff = row.drift_backoff.saturating_add(1);
                row.last = now;
            } else {
                self.rows.push(Row { entry, drift_backoff: 1, last: now, failed: false });
            }
        }
    }

    /// Removes the resources that have been quiet for long enough, and those whose entry in the class has changed. Returns
    /// whether any are left.
    pub fn settle(&mut self, content: &Content, now: Monotonic) -> bool {
        self.rows.retain_mut(|row| {
            let is_it = |entry: &&Arc<ClassResource>| {
                // The content includes the kind and the name.
                (&entry.content, &entry.values) == (&row.entry.content, &row.entry.values)
            };
            let Some(entry) = content.entries.iter().find(is_it) else { return false };
            // Its index within the class may have changed.
            row.entry = Arc::clone(entry);
            row.unsettled(now).is_some()
        });
        !self.rows.is_empty()
    }

    /// Returns the delay until the next repair of an entry is allowed.
    pub fn wait(&self, entry: &Arc<ClassResource>, now: Monotonic) -> Option<Duration> {
        self.rows.iter().find(|row| row.entry == *entry && !row.failed)?.wait(now)
    }

    /// Returns the resources that another client keeps changing, and for how much longer each is reported.
    pub fn contested(&self, now: Monotonic) -> impl Iterator<Item = (&ClassResource, Duration)> {
        let contested = self.rows.iter().filter(|row| row.drift_backoff >= CONTESTED_AFTER);
        contested.filter_map(move |row| Some((&*row.entry, row.unsettled(now)?)))
    }
}

fn left(whole: Duration, passed: Duration) -> Option<Duration> {
    whole.checked_sub(passed).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use lockstep_engine::object::Kind;
    use serde_json::{Value, json};

    use super::super::kinds::Kinds;
    use super::super::resolved_class;
    use super::super::variables::Variables;
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::START + Duration::from_secs(seconds)
    }

    fn content(names: &[&str]) -> Content {
        let config_map =
            |name: &&str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        resolved(&names.iter().map(config_map).collect::<Vec<_>>())
    }

    fn resolved(resources: &[Value]) -> Content {
        let mut kinds = Kinds::default();
        let kind = |kind: &str, plural: &str| Kind::known("", "v1", kind, plural, true);
        kinds.learn("v1", vec![kind("ConfigMap", "configmaps"), kind("ServiceAccount", "serviceaccounts")]);
        resolved_class::resolve("web", resources, Variables::default(), &kinds)
    }

    fn entry(name: &str) -> Arc<ClassResource> {
        Arc::clone(&content(&[name]).entries[0])
    }

    fn is_contested(drift_backoff: &DriftBackoff, now: Monotonic) -> bool {
        drift_backoff.contested(now).next().is_some()
    }

    #[test]
    fn repairs_in_a_row_wait_longer_and_longer() {
        let mut drift_backoff = DriftBackoff::default();
        let (mut now, mut waits) = (at(0), Vec::new());
        for _ in 0..12 {
            drift_backoff.take_in(vec![entry("a")], &[], now);
            let wait = drift_backoff.wait(&entry("a"), now).expect("waits");
            waits.push(wait.as_millis() / 500);
            now = now + wait;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        assert!(is_contested(&drift_backoff, now));
        assert!(drift_backoff.settle(&content(&["a"]), now));
        assert!(!drift_backoff.settle(&content(&["a"]), now + Duration::from_mins(5)), "it was quiet");
    }

    #[test]
    fn an_entry_that_is_another_now_does_not_wait() {
        let repaired = || {
            let mut drift_backoff = DriftBackoff::default();
            drift_backoff.take_in(vec![entry("a")], &[], at(0));
            drift_backoff
        };
        let object = |kind: &str, data: &Value| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "a" }, "data": data });
        let is_kept = |resources: &[Value]| repaired().settle(&resolved(resources), at(0));
        let same = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
        assert!(is_kept(&[object("ServiceAccount", &json!({})), same]), "it has another index");
        assert!(!is_kept(&[object("ConfigMap", &json!({ "a": "b" }))]), "it has other content");
        assert!(!repaired().settle(&content(&["b"]), at(0)), "it has another name");
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "a" } });
        assert!(!is_kept(&[account]), "it has another kind");
    }

    #[test]
    fn an_edit_now_and_then_is_repaired_at_once() {
        let mut drift_backoff = DriftBackoff::default();
        for minute in 0..20 {
            drift_backoff.settle(&content(&["a"]), at(minute * 60));
            drift_backoff.take_in(vec![entry("a")], &[], at(minute * 60));
            assert!(!is_contested(&drift_backoff, at(minute * 60)));
            assert_eq!(drift_backoff.wait(&entry("a"), at(minute * 60 + 1)), None);
        }
    }

    #[test]
    fn a_fight_over_one_resource_holds_up_no_other() {
        let mut drift_backoff = DriftBackoff::default();
        for minute in 0..10 {
            drift_backoff.take_in(vec![entry("a")], &[], at(minute * 60));
        }
        assert_eq!(drift_backoff.wait(&entry("b"), at(540)), None);
        drift_backoff.take_in(vec![entry("b")], &[], at(541));
        assert_eq!(drift_backoff.wait(&entry("b"), at(541)), Some(Duration::from_millis(500)));
        assert_eq!(
            drift_backoff.wait(&entry("a"), at(541)),
            Some(Duration::from_secs(255)),
            "nor restarts it"
        );
        let contested: Vec<&str> = drift_backoff.contested(at(541)).map(|(entry, _)| &*entry.name).collect();
        assert_eq!(contested, ["a"]);
        assert!(drift_backoff.settle(&content(&["c", "a", "b"]), at(550)));
        assert!(
            drift_backoff.wait(&content(&["c", "a", "b"]).entries[1], at(550)).is_some(),
            "it has only moved"
        );
        assert!(
            !drift_backoff.settle(&content(&["b"]), at(550)),
            "b was quiet, and a is no longer in the class"
        );
    }

    #[test]
    fn what_fails_is_tried_again_and_counts_when_it_is_repaired() {
        let mut drift_backoff = DriftBackoff::default();
        drift_backoff.take_in(vec![entry("a")], &[], at(0));
        assert!(drift_backoff.wait(&entry("a"), at(0)).is_some());
        drift_backoff.take_in(Vec::new(), &[entry("a")], at(0));
        assert_eq!(drift_backoff.wait(&entry("a"), at(0)), None);
        drift_backoff.take_in(vec![entry("a")], &[], at(0));
        assert_eq!(drift_backoff.wait(&entry("a"), at(0)), Some(Duration::from_secs(1)));
    }
}
