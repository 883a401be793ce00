//! The conditions that worlds write.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_core::engine::conditions::{self, Finding, Status};
use lockstep_core::object;
use lockstep_core::time::Now;
use serde_json::Value;

/// The conditions of one object, being worked out anew.
#[derive(Debug)]
pub(super) struct Findings {
    conditions: Vec<Condition>,
    generation: i64,
    now: Now,
}

impl Findings {
    /// Begins with the conditions that the object has.
    pub(super) fn of(object: &Value, now: Now) -> Self {
        let conditions = serde_json::from_value(object["status"]["conditions"].clone());
        Self { conditions: conditions.unwrap_or_default(), generation: object::generation(object), now }
    }

    /// Enters what was found out.
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

    /// Takes a condition away.
    pub(super) fn remove(&mut self, condition: &str) {
        self.conditions.retain(|found| found.type_ != condition);
    }

    pub(super) fn into_conditions(self) -> Vec<Condition> {
        self.conditions
    }
}

/// Whether the object has the condition, and it holds.
pub(super) fn is_true(object: &Value, condition: &str) -> bool {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().any(|found| found["type"] == condition && found["status"] == "True")
}
