//! One row of a table.

use serde_json::{Value, json};

use super::format::containers_and_images;
use crate::builtin::view::{given, integer, part};

/// A list of cells of various types.
macro_rules! row {
    ($($cell:expr),* $(,)?) => { Some(vec![$(serde_json::Value::from($cell)),*]) };
}

pub(super) use row;

/// The cells of a row; none for a kind without a rule.
pub(super) type Cells = Option<Vec<Value>>;

/// The object of a row, with what most kinds show.
pub(super) struct Row<'a> {
    pub(super) object: &'a Value,
    pub(super) spec: &'a Value,
    pub(super) status: &'a Value,
    pub(super) name: &'a str,
    pub(super) age: String,
    /// Seconds since the epoch.
    pub(super) now: i64,
}

impl Row<'_> {
    /// Returns a count in the status, zero if absent.
    pub(super) fn count(&self, field: &str) -> i64 {
        integer(self.status, field).unwrap_or(0)
    }

    /// Returns the names and the images of the containers of the Pod template.
    pub(super) fn template_containers(&self) -> (String, String) {
        containers_and_images(part(part(part(self.spec, "template"), "spec"), "containers"))
    }

    /// Returns whether the object is being deleted.
    pub(super) fn is_deleted(&self) -> bool {
        given(part(self.object, "metadata"), "deletionTimestamp").is_some()
    }
}

/// Returns the name, with a mark if one of the annotations makes the object the default of its kind.
pub(super) fn marked_default(object: &Value, name: &str, annotations: &[&str]) -> String {
    let given = part(part(object, "metadata"), "annotations");
    let is_default = annotations.iter().any(|annotation| given.get(annotation) == Some(&json!("true")));
    if is_default { format!("{name} (default)") } else { name.to_owned() }
}
