//! The API of Argo CD: its kinds, labels and annotations, and how it writes values.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockstep_engine::object::Kind;
use serde_json::Value;

use crate::dpu_clusters::release;
use crate::read_view::ReadView;

/// The namespace of Argo CD; it ignores objects in other namespaces.
pub const NAMESPACE: &str = "dpf-argo-cd-system";
/// The finalizers that keep Applications until their workloads are removed, and projects until their Applications are removed.
/// The last two select how workloads are removed; the model treats them the same.
pub const FINALIZERS: [&str; 3] = [
    "resources-finalizer.argocd.argoproj.io",
    "resources-finalizer.argocd.argoproj.io/foreground",
    "resources-finalizer.argocd.argoproj.io/background",
];
/// The label with the purpose of a Secret; `cluster` for a cluster.
pub const SECRET_TYPE: &str = "argocd.argoproj.io/secret-type";
/// On an Application or the Secret of a cluster, with the value `true`: Argo CD ignores it.
pub const SKIP_RECONCILE: &str = "argocd.argoproj.io/skip-reconcile";
/// Requests a refresh. Argo CD removes the annotation with the refresh.
pub const REFRESH: &str = "argocd.argoproj.io/refresh";

/// Returns the kind of its Applications.
pub fn application_kind() -> Arc<Kind> {
    Kind::known("argoproj.io", "v1alpha1", "Application", "applications", true)
}

/// Returns the kind of its projects.
pub fn project_kind() -> Arc<Kind> {
    Kind::known("argoproj.io", "v1alpha1", "AppProject", "appprojects", true)
}

/// Charts, by the URL of their repository as in an Application, and their name.
pub type Charts = BTreeSet<(String, String)>;

/// Returns a value as Argo CD writes it back: its merge patch contains no nulls, and it reads numbers as floats.
pub fn repeated(value: &Value) -> Value {
    fn without_nulls(value: &Value) -> Value {
        match value {
            Value::Object(fields) => fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(field, value)| (field.clone(), without_nulls(value)))
                .collect(),
            Value::Array(items) => items.iter().map(without_nulls).collect(),
            other => other.clone(),
        }
    }
    without_nulls(&release::through_floats(value))
}

/// Returns the current time as Argo CD writes it.
pub(super) fn time(look: &ReadView<'_>) -> Value {
    look.now.wall.timestamp_seconds().to_string().into()
}
