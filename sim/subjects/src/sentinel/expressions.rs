//! Expressions that the configuration may have, each with its meaning in Rust.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use lockstep_engine::random::Random;
use serde_json::{Value, json};

/// The meaning of a decision for an item; `None` if an expression fails.
type Meaning = fn(&Value, Timestamp) -> Option<bool>;
/// The meaning of an additional field of an event; `None` if its expression fails.
type Field = fn(&Value) -> Option<Value>;

struct Decision {
    params: &'static [(&'static str, &'static str)],
    result: &'static str,
    meaning: Meaning,
}

/// The third and the fourth fail for some resources: for those without a report, and for those without a specification or with a large
/// one.
const DECISIONS: [Decision; 4] = [
    Decision {
        params: &[
            ("ref_time", "condition('Reconciled').last_updated_time"),
            ("is_reconciled", "condition('Reconciled').status == 'True'"),
            ("age", "ref_time == '' ? duration('1h') : now - timestamp(ref_time)"),
        ],
        result: "age > duration(is_reconciled ? '20m' : '15s')",
        meaning: |item, now| {
            let is_reconciled = reconciled(item).is_some_and(|condition| condition["status"] == "True");
            let limit = if is_reconciled { 20 * 60 } else { 15 };
            Some(age(item, now).is_none_or(|age| age > SignedDuration::from_secs(limit)))
        },
    },
    Decision {
        params: &[],
        result: "resource.generation > 1 && resource.labels.exists(key, key == 'region')",
        meaning: |item, _| Some(item["generation"].as_i64()? > 1),
    },
    Decision {
        params: &[("age", "now - timestamp(condition('Reconciled').last_updated_time)")],
        result: "age > duration('20s')",
        meaning: |item, now| Some(age(item, now)? > SignedDuration::from_secs(20)),
    },
    Decision {
        params: &[],
        result: "resource.spec.manifest == 'due'",
        meaning: |item, _| (item["spec"]["manifest"].is_string() && !is_too_large(item)).then_some(false),
    },
];

/// The second one always fails.
const FIELDS: [(&str, &str, Field); 2] = [
    ("region", "resource.labels.region + '/' + reason", |item| {
        Some(item["labels"]["region"].as_str()?.into())
    }),
    ("zone", "resource.labels.zone", |_| None),
];

/// Returns whether expressions refuse the item. Only an expression that reads the specification keeps it.
fn is_too_large(item: &Value) -> bool {
    item["spec"]["manifest"].as_str().is_some_and(|manifest| manifest.len() > 20_000)
}

fn reconciled(item: &Value) -> Option<&Value> {
    let conditions = item["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == "Reconciled")
}

fn age(item: &Value, now: Timestamp) -> Option<SignedDuration> {
    let since: Timestamp = reconciled(item)?["last_updated_time"].as_str()?.parse().ok()?;
    Some(now.duration_since(since))
}

fn decision(decision: &Decision) -> Value {
    let params = decision.params.iter().map(|(name, expr)| json!({ "name": name, "expr": expr }));
    json!({ "params": params.collect::<Vec<_>>(), "result": decision.result })
}

/// Returns changes of a configuration that set some expressions and remove all others.
pub(super) fn any(random: &mut Random) -> Value {
    let index = usize::try_from(random.below(DECISIONS.len() as u64 + 1)).unwrap_or(0);
    let data = match random.below(3) {
        0 => none()["messageData"].clone(),
        _ => {
            json!({ "region": FIELDS[0].1, "zone": if random.below(2) == 0 { Value::Null } else { FIELDS[1].1.into() } })
        }
    };
    json!({ "messageDecision": DECISIONS.get(index).map(decision), "messageData": data })
}

/// Returns changes of a configuration that remove all expressions.
pub(super) fn none() -> Value {
    json!({ "messageDecision": null, "messageData": null })
}

/// The expressions of a configuration.
#[derive(Clone, Default)]
pub(super) struct Expressions {
    decides: Option<Meaning>,
    fields: BTreeMap<&'static str, Field>,
}

impl Expressions {
    /// Finds the expressions of a configuration by their text.
    pub(super) fn of(spec: &Value) -> Self {
        let known = DECISIONS.iter().find(|known| spec["messageDecision"]["result"] == known.result);
        let fields = FIELDS.iter().filter(|(name, source, _)| spec["messageData"][name] == *source);
        Self {
            decides: known.map(|known| known.meaning),
            fields: fields.map(|(name, _, field)| (*name, *field)).collect(),
        }
    }

    /// Returns whether an item is due; an error if an expression fails, and `None` if none decides.
    pub(super) fn is_due(&self, item: &Value, now: Timestamp) -> Option<Result<bool, ()>> {
        self.decides.map(|decides| decides(item, now).ok_or(()))
    }

    /// Returns the fields of an event that depend on the expressions, and how many expressions fail.
    pub(super) fn data(&self, item: &Value, reason: &str) -> (BTreeMap<String, Value>, u64) {
        let mut data = BTreeMap::from([("reason".to_owned(), reason.into())]);
        if is_too_large(item) {
            return (data, u64::from(!self.fields.is_empty()));
        }
        let mut failures = 0;
        for (name, field) in &self.fields {
            match field(item) {
                Some(value) => {
                    let value = format!("{}/{reason}", value.as_str().unwrap_or_default());
                    data.insert((*name).to_owned(), value.into());
                }
                None => failures += 1,
            }
        }
        (data, failures)
    }
}
