//! What Argo CD reports about the Application of a service on a cluster.

use lockstep_engine::object::is_deleting;
use lockstep_external::argocd::repeated;
use serde_json::Value;

/// A cluster of a service that stays.
pub(super) struct Member<'a> {
    pub(super) cluster: &'a Value,
    pub(super) application: Option<&'a Value>,
}

impl Member<'_> {
    pub(super) fn report(&self, pointer: &str) -> Option<&Value> {
        self.application?.pointer(pointer).filter(|value| !value.is_null())
    }

    pub(super) fn is_ready(&self) -> bool {
        self.cluster["status"]["phase"] == "Ready"
    }

    /// Returns whether the Application is well on a cluster that is ready; none if that is a matter of details.
    pub(super) fn is_well(&self) -> Option<bool> {
        let Some(application) = self.application else { return Some(false) };
        let is = |field: &str, wanted: &str| application["status"][field]["status"] == wanted;
        if !self.is_ready() || is_deleting(application) || !is("sync", "Synced") || !is("health", "Healthy") {
            return Some(false);
        }
        let operation = &application["status"]["operationState"];
        if self.is_unfinished() && array(&operation["operation"]["sync"]["resources"]).next().is_none() {
            return Some(false);
        }
        let is_plain = operation.is_null() || operation["phase"] == "Succeeded";
        (is_plain && self.is_compared()).then_some(true)
    }

    /// Returns whether Argo CD reports that a sync of the present source has not succeeded.
    fn is_unfinished(&self) -> bool {
        let Some(application) = self.application else { return false };
        let (source, operation) = (&application["spec"]["source"], &application["status"]["operationState"]);
        operation["phase"] != "Succeeded" && operation["syncResult"]["source"] == repeated(source)
    }

    /// Returns whether Argo CD has compared the cluster with exactly the present spec.
    pub(super) fn is_compared(&self) -> bool {
        let (Some(application), Some(compared)) = (self.application, self.report("/status/sync/comparedTo"))
        else {
            return false;
        };
        let spec = &application["spec"];
        compared["source"] == repeated(&spec["source"]) && compared["destination"] == spec["destination"]
    }

    /// Returns whether Argo CD reports a failure; none if that is a matter of details.
    pub(super) fn has_failed(&self) -> Option<bool> {
        let Some(application) = self.application else { return Some(false) };
        let status = &application["status"];
        let is_error = |condition: &Value| {
            let name = condition["type"].as_str().unwrap_or_default();
            name.ends_with("Error") && name != "DeletionError"
        };
        if status["health"]["status"] == "Degraded" || array(&status["conditions"]).any(is_error) {
            return Some(true);
        }
        let operation = &status["operationState"];
        let is_retried = operation["retryCount"].as_u64().is_some_and(|count| count > 0);
        match operation["phase"].as_str() {
            Some("Failed" | "Error") => self.is_unfinished().then_some(true),
            Some("Running") if is_retried => None,
            _ => Some(false),
        }
    }

    /// Returns what a message says about a cluster that is not well, as far as that is no matter of details.
    pub(super) fn words(&self) -> Vec<String> {
        let Some(application) = self.application else { return vec!["no Application".to_owned()] };
        if is_deleting(application) {
            return vec!["being deleted".to_owned()];
        }
        let status = &application["status"];
        let states = ["sync", "health"].map(|field| status[field]["status"].as_str());
        let ([Some(sync), Some(health)], true) = (states, self.is_compared()) else { return Vec::new() };
        let mut words = vec![format!("{sync}, {health}")];
        if self.is_unfinished() && array(&status["conditions"]).next().is_none() {
            let results = array(&status["operationState"]["syncResult"]["resources"]);
            let hooks = results.filter(|it| it["hookType"].is_string());
            let mut failed = hooks.filter(|hook| hook["hookPhase"] == "Failed");
            words.extend(failed.next().map(|hook| {
                let [kind, name] = ["kind", "name"].map(|field| hook[field].as_str().unwrap_or_default());
                format!("hook {kind} {name} failed")
            }));
        }
        words
    }
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
