//! The conditions that the external systems write.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_engine::conditions::{self, Finding, Status};
use lockstep_engine::object;
use lockstep_engine::time::Now;
use serde_json::Value;

/// The new conditions of one object.
#[derive(Debug)]
pub(super) struct Findings {
    conditions: Vec<Condition>,
    generation: i64,
    now: Now,
}

impl Findings {
    /// Starts with the existing conditions of the object.
    pub(super) fn of(object: &Value, now: Now) -> Self {
        let conditions = serde_json::from_value(object["status"]["conditions"].clone());
        Self { conditions: conditions.unwrap_or_default(), generation: object::generation(object), now }
    }

    /// Sets a condition.
    pub(super) fn set(
        &mut self,
        condition: &'static str,
        status: Status,
        reason: &'static str,
        message: &str,
    ) {
        let finding = Finding { condition, status, reason, message: message.to_owned() };
        conditions::set(&mut self.conditions, finding, self.generation, self.now);
    }

    /// Returns whether all conditions but this one are True.
    pub(super) fn are_true_except(&self, condition: &str) -> bool {
        self.conditions.iter().all(|found| found.type_ == condition || found.status == "True")
    }

    /// Removes a condition.
    pub(super) fn remove(&mut self, condition: &str) {
        self.conditions.retain(|found| found.type_ != condition);
    }

    pub(super) fn into_conditions(self) -> Vec<Condition> {
        self.conditions
    }
}

/// Returns whether a condition of the object is True.
pub(super) fn is_true(object: &Value, condition: &str) -> bool {
    lockstep_sim::conditions::is(object, condition, "True")
}
