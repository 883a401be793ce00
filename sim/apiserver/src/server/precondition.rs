//! The uid that a PUT may require.

use serde_json::Value;

use super::meta;
use super::scope::Scope;
use super::status::Status;

/// The places of built-in resources in storage that differ from their plural names.
const PLACES: [(&str, &str); 5] = [
    ("endpoints", "services/endpoints"),
    ("ingresses", "ingress"),
    ("nodes", "minions"),
    ("replicationcontrollers", "controllers"),
    ("services", "services/specs"),
];

/// Checks the uid of a PUT, if it has one, against the live object, if there is one.
pub(super) fn check_uid(scope: &Scope, live: Option<&Value>, object: &Value) -> Result<(), Status> {
    let (wanted, found) = (meta::uid(object), live.map(meta::uid).unwrap_or_default());
    if wanted.is_empty() || wanted == found {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
        place(scope),
        scope.key()
    );
    Err(Status::conflict(scope.resource.qualified(), &scope.name, &why))
}

/// Returns the place of a resource in storage. Only custom resources and their definitions are grouped there.
fn place(scope: &Scope) -> String {
    let (group, plural) = (&scope.resource.group, &scope.resource.plural);
    if scope.resource.is_custom() || group == "apiextensions.k8s.io" {
        return format!("{group}/{plural}");
    }
    let special = PLACES.iter().find(|(name, _)| name == plural);
    special.map_or_else(|| plural.clone(), |(_, place)| (*place).to_owned())
}
