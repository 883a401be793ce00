//! What Argo CD says of an Application, cut to what a status can hold.
//!
//! Argo CD writes of every object and every deployment; a service on fifty clusters would outgrow what the API server stores.
//!
//! Source: "Status".

use lockstep_crds::dpuservice::{ApplicationCondition, HealthStatus, SyncStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest::digest;
use crate::engine::conditions::cut;
use crate::object::text;

/// Most objects that are kept of one Application.
pub const RESOURCES_MAX: usize = 100;
/// Most deployments that are kept of one Application, the latest.
pub const HISTORY_MAX: usize = 10;
/// Most bytes that the objects of one Application take, as JSON.
const RESOURCES_MAX_BYTES: usize = 40_000;
/// Most bytes that the deployments of one Application take, and its images, and its URLs.
const LIST_MAX_BYTES: usize = 10_000;
/// Most complaints that are kept of one Application.
const CONDITIONS_MAX: usize = 10;
/// Most images and URLs, each, that are kept of one Application.
const SUMMARY_MAX: usize = 20;
/// The longest text that is kept, in bytes.
const TEXT_MAX_BYTES: usize = 1024;

/// What Argo CD says of an Application.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Whether the cluster has what the chart says. None, until Argo CD has looked.
    pub sync: Option<SyncStatus>,
    /// Whether it is well there.
    pub health: Option<HealthStatus>,
    /// Its complaints.
    pub conditions: Vec<ApplicationCondition>,
    /// The objects that it manages.
    pub resources: Vec<Value>,
    /// What it has deployed.
    pub history: Vec<Value>,
    /// What it does.
    pub operation_state: Option<Value>,
    /// What it takes the chart for.
    pub source_type: Option<String>,
    /// Images and URLs.
    pub summary: Option<Value>,
    /// When it last looked. Changes with every look, so that nothing must follow from it.
    pub reconciled_at: Option<String>,
    /// What it has compared the cluster with.
    pub compared_to: Value,
}

impl Report {
    /// Reads the status of an Application.
    pub fn read(status: &Value) -> Self {
        let owned = |pointer: &str| text(status, pointer).map(short);
        let known = |pointer: &str| status.pointer(pointer).filter(|value| !value.is_null());
        let sync = known("/sync").map(|sync| SyncStatus {
            status: text(sync, "/status").map(short).unwrap_or_default(),
            revision: text(sync, "/revision").map(short).unwrap_or_default(),
        });
        let health = known("/health").map(|health| HealthStatus {
            status: text(health, "/status").map(short).unwrap_or_default(),
            message: text(health, "/message").map(short).unwrap_or_default(),
            last_transition_time: text(health, "/lastTransitionTime").map(short).unwrap_or_default(),
        });
        let conditions =
            items(status, "conditions").take(CONDITIONS_MAX).map(|condition| ApplicationCondition {
                type_: text(condition, "/type").map(short).unwrap_or_default(),
                message: text(condition, "/message").map(short).unwrap_or_default(),
                last_transition_time: text(condition, "/lastTransitionTime").map(short).unwrap_or_default(),
            });
        let history = items(status, "history").rev().take(HISTORY_MAX).map(deployment);
        let mut history = within(LIST_MAX_BYTES, history);
        let resources = items(status, "resources").take(RESOURCES_MAX).map(resource);
        history.reverse();
        Self {
            sync,
            health,
            conditions: conditions.collect(),
            resources: within(RESOURCES_MAX_BYTES, resources),
            history,
            operation_state: known("/operationState").map(operation),
            source_type: owned("/sourceType"),
            summary: known("/summary").map(summary),
            reconciled_at: owned("/reconciledAt"),
            compared_to: status.pointer("/sync/comparedTo").map(compared).unwrap_or_default(),
        }
    }

    /// Whether it is deployed and well.
    pub fn is_well(&self) -> bool {
        let is = |status: Option<&str>, wanted: &str| status == Some(wanted);
        is(self.sync.as_ref().map(|sync| &*sync.status), "Synced")
            && is(self.health.as_ref().map(|health| &*health.status), "Healthy")
    }

    /// Whether Argo CD says that something is wrong, rather than under way.
    pub fn has_failed(&self) -> bool {
        let health = self.health.as_ref().map(|health| &*health.status);
        let phase = self.operation_state.as_ref().and_then(|state| text(state, "/phase"));
        matches!(health, Some("Degraded"))
            || matches!(phase, Some("Failed" | "Error"))
            || self.conditions.iter().any(|condition| condition.type_.ends_with("Error"))
    }

    /// Where it stands, in a few words.
    pub fn words(&self) -> String {
        let sync = self.sync.as_ref().map_or("Argo CD has not looked at it yet", |sync| &*sync.status);
        let health = self.health.as_ref().map(|health| &*health.status).filter(|_| self.sync.is_some());
        let states: Vec<&str> = [Some(sync), health].into_iter().flatten().collect();
        let failed = self.operation_state.as_ref().filter(|state| state["phase"] != "Succeeded");
        let complaint = self.conditions.iter().find(|condition| condition.type_.ends_with("Error"));
        let why = complaint
            .map(|condition| condition.message.as_str())
            .or_else(|| self.health.as_ref().map(|health| &*health.message))
            .filter(|why| !why.is_empty())
            .or_else(|| failed.and_then(|state| text(state, "/message")));
        match why {
            Some(why) => format!("{}: {why}", states.join(", ")),
            None => states.join(", "),
        }
    }
}

fn items<'a>(status: &'a Value, field: &str) -> std::slice::Iter<'a, Value> {
    status[field].as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

/// The first values, as many as fit.
fn within(max_bytes: usize, values: impl Iterator<Item = Value>) -> Vec<Value> {
    let fits = |left: &mut usize, value: Value| {
        *left = left.checked_sub(value.to_string().len())?;
        Some(value)
    };
    values.scan(max_bytes, fits).collect()
}

/// Control characters would each take six bytes as JSON.
fn short(text: &str) -> String {
    let is_odd = |letter: char| letter.is_control() && letter != '\n';
    cut(text.replace(is_odd, " "), TEXT_MAX_BYTES)
}

/// The fields of an object that are kept, without nulls and with texts that are not too long.
fn kept(value: &Value, fields: &[&str]) -> Value {
    let kept = fields.iter().filter_map(|field| {
        let found = value.get(*field)?;
        let found = match found {
            Value::Null | Value::Array(_) => return None,
            Value::String(text) => short(text).into(),
            Value::Object(fields) => Value::Object(flat(fields)),
            Value::Bool(_) | Value::Number(_) => found.clone(),
        };
        Some(((*field).to_owned(), found))
    });
    kept.collect()
}

/// What is kept of a source, of a destination and of a health.
const INNER: [&str; 10] = [
    "repoURL",
    "chart",
    "targetRevision",
    "path",
    "server",
    "namespace",
    "name",
    "status",
    "message",
    "lastTransitionTime",
];

/// The texts, numbers and booleans among the fields of an object.
fn flat(fields: &Map<String, Value>) -> Map<String, Value> {
    let fields = fields.iter().filter(|(field, _)| INNER.contains(&field.as_str()));
    let kept = fields.filter_map(|(field, value)| {
        let value = match value {
            Value::String(text) => short(text).into(),
            Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some((field.clone(), value))
    });
    kept.collect()
}

fn resource(resource: &Value) -> Value {
    let fields = [
        "group",
        "version",
        "kind",
        "namespace",
        "name",
        "status",
        "health",
        "hook",
        "requiresPruning",
        "syncWave",
    ];
    kept(resource, &fields)
}

/// Without the values of the chart, which stand in the spec.
fn deployment(deployment: &Value) -> Value {
    kept(deployment, &["id", "revision", "deployedAt", "deployStartedAt", "source"])
}

/// Without `syncResult`, which tells of every object once more.
fn operation(state: &Value) -> Value {
    kept(state, &["phase", "message", "startedAt", "finishedAt", "retryCount"])
}

fn summary(summary: &Value) -> Value {
    let lists = ["images", "externalURLs"].into_iter().filter_map(|field| {
        let items = summary[field].as_array()?.iter().filter_map(Value::as_str).take(SUMMARY_MAX);
        let items = within(LIST_MAX_BYTES, items.map(|item| short(item).into()));
        Some((field.to_owned(), Value::Array(items)))
    });
    lists.collect()
}

/// With a digest of the chart's values instead of these, where Argo CD tells them.
pub(super) fn compared(compared: &Value) -> Value {
    let mut kept = kept(compared, &["source", "destination"]);
    if let Some(values) = compared.pointer("/source/helm/valuesObject") {
        kept["values"] = digest_of_values(values).into();
    }
    kept
}

/// A digest of values as Argo CD repeats them: without nulls, which its merge patch does not carry, and with numbers as 64-bit
/// floats, which round integers beyond 2^53.
pub fn digest_of_values(values: &Value) -> String {
    fn repeated(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let kept = fields.iter().filter(|(_, value)| !value.is_null());
                kept.map(|(field, value)| (field.clone(), repeated(value))).collect()
            }
            Value::Array(items) => items.iter().map(repeated).collect(),
            // Adding zero turns -0.0, which an API server stores as 0, into 0.0.
            Value::Number(number) => {
                number.as_f64().map_or_else(|| value.clone(), |float| (float + 0.0).into())
            }
            other => other.clone(),
        }
    }
    digest(&repeated(values))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status() -> Value {
        let resource = |index: usize| {
            json!({
                "kind": "Pod", "version": "v1", "namespace": "a", "name": format!("p{index}"), "status": "Synced",
                "health": { "status": "Healthy", "message": null }, "unheard-of": { "a": 1 },
            })
        };
        let deployment = |index: usize| {
            json!({
                "id": index, "revision": "1.0.0", "deployedAt": "2026-01-01T00:00:00Z",
                "source": { "repoURL": "r", "chart": "c", "targetRevision": "1.0.0", "helm": { "valuesObject": { "p": "s3cret" } } },
            })
        };
        json!({
            "sync": {
                "status": "OutOfSync", "revision": "1.0.0",
                "comparedTo": { "source": { "repoURL": "r", "chart": "c", "targetRevision": "1.0.0", "helm": {} }, "destination": {} },
            },
            "health": { "status": "Degraded", "message": "x".repeat(5000), "lastTransitionTime": "2026-01-01T00:00:00Z" },
            "operationState": {
                "phase": "Failed", "message": "one object is invalid", "startedAt": "2026-01-01T00:00:00Z",
                "syncResult": { "resources": [1, 2, 3] }, "operation": { "sync": { "revision": "1.0.0" } }, "retryCount": 2,
            },
            "conditions": [{ "type": "SyncError", "message": "boom", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
            "resources": (0..150).map(resource).collect::<Vec<_>>(),
            "history": (0..15).map(deployment).collect::<Vec<_>>(),
            "summary": { "images": (0..30).map(|index| format!("i{index}")).collect::<Vec<_>>() },
            "sourceType": "Helm",
            "reconciledAt": "2026-01-01T00:00:00Z",
        })
    }

    #[test]
    fn a_report_is_bounded_and_holds_no_values() {
        let report = Report::read(&status());
        assert_eq!((report.resources.len(), report.history.len()), (RESOURCES_MAX, HISTORY_MAX));
        let size = serde_json::to_string(&report).unwrap().len();
        assert!(size < 40_000, "{size}");
        let shown = Report {
            resources: report.resources[..1].to_vec(),
            history: report.history[9..].to_vec(),
            health: report.health.clone().map(|health| HealthStatus { message: short("x"), ..health }),
            ..report.clone()
        };
        insta::assert_yaml_snapshot!(shown);
        assert!(!serde_json::to_string(&report).unwrap().contains("s3cret"));
    }

    #[test]
    fn no_status_makes_a_report_too_large() {
        let long = "\u{1}\"".repeat(3000);
        let many: Map<String, Value> = (0..500).map(|i| (format!("f{i}"), json!(long))).collect();
        let mut object = json!({ "kind": [long, long], "name": long, "namespace": long, "health": many });
        for field in INNER {
            object["health"][field] = json!(long);
            object[field] = json!(long);
        }
        object["source"] = object["health"].clone();
        object["destination"] = object["health"].clone();
        let mut status = object.clone();
        status["sync"] = json!({ "status": long, "revision": long, "comparedTo": object });
        status["operationState"] = json!({ "phase": long, "message": long, "startedAt": long });
        let objects = json!(vec![object; 200]);
        for list in ["resources", "history", "conditions"] {
            status[list] = objects.clone();
        }
        status["conditions"] = json!(vec![json!({ "type": long, "message": long }); 200]);
        status["summary"] = json!({ "images": vec![&long; 100], "externalURLs": vec![&long; 100] });
        let size = serde_json::to_string(&Report::read(&status)).unwrap().len();
        assert!(size < 200_000, "{size}");
    }

    #[test]
    fn the_words_name_the_cause() {
        let words = |change: &dyn Fn(&mut Value)| {
            let mut status = status();
            status["health"]["message"] = json!("0 of 3 pods run");
            change(&mut status);
            Report::read(&status).words()
        };
        insta::assert_yaml_snapshot!([
            words(&|_| {}),
            words(&|status| status["conditions"] = json!(null)),
            words(&|status| {
                status["conditions"] = json!(null);
                status["health"] = json!({ "status": "Progressing" });
            }),
            words(&|status| *status =
                json!({ "sync": { "status": "Synced" }, "health": { "status": "Healthy" } })),
            words(&|status| *status = json!(null)),
        ]);
    }

    proptest::proptest! {
        /// Go writes a float with the fewest digits that tell it from others, as Rust does, and no exponent below 1e21.
        #[test]
        fn an_integer_and_what_argo_cd_makes_of_it_have_one_digest(integer: i64) {
            #[expect(clippy::cast_precision_loss, reason = "that is what Argo CD does")]
            let rounded: Value = serde_json::from_str(&format!("{}", integer as f64)).unwrap();
            let values = |number: Value| json!({ "a": [{ "b": number }] });
            proptest::prop_assert_eq!(
                digest_of_values(&values(json!(integer))),
                digest_of_values(&values(rounded))
            );
        }
    }

    #[test]
    fn anything_can_be_read() {
        for status in
            [json!(null), json!("x"), json!({ "sync": 1, "resources": {}, "history": [1], "summary": [] })]
        {
            let report = Report::read(&status);
            assert!(!report.is_well() && !report.has_failed(), "{status}");
        }
    }
}
