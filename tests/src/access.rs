//! The permissions and requests of accounts, as comparable texts: verb, API group, resource, and the only name, if there is
//! one.

use std::collections::BTreeSet;

use anyhow::ensure;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::PostParams;
use kube::{Api, Client};
pub use lockstep_cli::permissions::Grant;
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::ground::eventually;

/// All verbs of resources.
pub const VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// Converts a grant to texts, one for each verb.
pub fn describe((verbs, group, resource, name): Grant) -> impl Iterator<Item = String> {
    verbs.split(' ').map(move |verb| format!("{verb} {group} {resource} {name}"))
}

/// Returns everything that the rules of roles grant, as texts.
pub fn grants<'a>(rules: impl IntoIterator<Item = &'a Value>) -> BTreeSet<String> {
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut granted = BTreeSet::new();
    for rule in rules {
        for group in list(&rule["apiGroups"]) {
            for resource in list(&rule["resources"]) {
                for verb in list(&rule["verbs"]) {
                    granted.insert(format!(
                        "{verb} {group} {resource} {}",
                        list(&rule["resourceNames"]).join(",")
                    ));
                }
            }
        }
    }
    granted
}

/// Returns the requests of a user in the API server's audit log, as texts with the name and without: first the allowed, then
/// the refused ones. An apply that has created an object also needed the permission to create, although the log has one
/// request.
///
/// # Errors
/// If the audit log of the control plane can't be read.
pub fn asked(plane: &ControlPlane, user: &str) -> anyhow::Result<(BTreeSet<String>, BTreeSet<String>)> {
    let (mut allowed, mut refused) = (BTreeSet::new(), BTreeSet::new());
    let log = std::fs::read_to_string(plane.log("audit"))?;
    // The last line may be incomplete.
    for line in log.rsplit_once('\n').map_or("", |(whole, _)| whole).lines() {
        let request: Value = serde_json::from_str(line)?;
        let object = &request["objectRef"];
        if request["user"]["username"] != user || object.is_null() {
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut resource = text(&object["resource"]);
        if let Some(subresource) = object["subresource"].as_str() {
            resource = format!("{resource}/{subresource}");
        }
        let (verb, group) = (text(&request["verb"]), text(&object["apiGroup"]));
        let created =
            (verb == "patch" && request["responseStatus"]["code"] == 201).then(|| "create".to_owned());
        let is_refused = request["annotations"]["authorization.k8s.io/decision"] != "allow";
        let words = if is_refused { &mut refused } else { &mut allowed };
        for verb in created.into_iter().chain([verb]) {
            for name in [String::new(), text(&object["name"])] {
                words.insert(format!("{verb} {group} {resource} {name}"));
            }
        }
    }
    Ok((allowed, refused))
}

/// Waits until a user has used all of its permissions except the listed ones, without a refused request.
///
/// # Errors
/// If a request was refused, if another permission is unused, or a listed one is used; if the audit log can't be read.
pub async fn needs_all_of(
    plane: &ControlPlane,
    user: &str,
    granted: &BTreeSet<String>,
    unneeded: &[&str],
) -> anyhow::Result<()> {
    eventually("every permission was used but those that are listed", async || {
        let (allowed, refused) = asked(plane, user)?;
        ensure!(refused.is_empty(), "refused: {refused:#?}");
        let unused: BTreeSet<&str> = granted.difference(&allowed).map(String::as_str).collect();
        ensure!(unused == unneeded.iter().copied().collect(), "never asked for: {unused:#?}");
        Ok(())
    })
    .await
}

/// A `ServiceAccount` whose permissions are queried from the API server.
pub struct Account {
    reviews: Api<SubjectAccessReview>,
    user: String,
}

impl Account {
    /// Returns the account with that name.
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self { reviews: Api::all(client), user: format!("system:serviceaccount:{namespace}:{name}") }
    }

    /// Returns whether it has this permission.
    ///
    /// # Errors
    /// If the API server does not answer.
    pub async fn may(
        &self,
        verb: &str,
        group: &str,
        resource: &str,
        name: &str,
        namespace: &str,
    ) -> anyhow::Result<bool> {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let review = json!({"spec": {
            "user": self.user,
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {
                "verb": verb, "group": group, "resource": resource, "subresource": subresource,
                "name": name, "namespace": namespace,
            },
        }});
        let answer = self.reviews.create(&PostParams::default(), &serde_json::from_value(review)?).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}
