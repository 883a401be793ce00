//! The service and the cluster that an object was created for: an annotation and labels of the object name them.

use lockstep_engine::digest::shortened;
use lockstep_engine::object::{Name, annotation, label};
use serde_json::Value;

/// Returns the name of the object that another object was created for. The annotation has the full name. If another client
/// has removed it, the labels are used.
pub fn identity(object: &Value, whole: &str, namespace: &str, name: &str) -> Option<Name> {
    let labels = label(object, namespace).zip(label(object, name));
    annotated(object, whole).or_else(|| labels.map(|(namespace, name)| Name::new(namespace, name)))
}

/// Returns the name in the annotation alone.
pub(super) fn annotated(object: &Value, whole: &str) -> Option<Name> {
    let (namespace, name) = annotation(object, whole)?.split_once('/')?;
    Some(Name::new(namespace, name))
}

/// Returns a name as the value of a label.
pub fn label_value(name: &str) -> String {
    shortened(name, 63)
}
