//! The validation of the conversion between the versions of a CRD. The server does not call webhooks.

use serde_json::Value;

use super::definition::text;
use crate::cause::Cause;
use crate::server::{meta, names};

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Checks `spec.conversion`; causes name the fields of the server's internal form.
pub(super) fn check(definition: &Value) -> Vec<Cause> {
    let Some(conversion) = definition.pointer("/spec/conversion") else { return Vec::new() };
    let field = "spec.conversion";
    let client = conversion.pointer("/webhook/clientConfig").filter(|client| client.is_object());
    let versions = meta::strings(conversion.pointer("/webhook/conversionReviewVersions"));
    let mut causes = Vec::new();
    let strategy = text(conversion, "/strategy");
    if strategy == "Webhook" {
        causes.extend(webhook(client, &format!("{field}.webhookClientConfig")));
        causes.extend(review_versions(&versions, &format!("{field}.conversionReviewVersions")));
        return causes;
    }
    if strategy.is_empty() {
        causes.push(Cause::required(format!("{field}.strategy"), ""));
    } else if strategy != "None" {
        let strategy = Value::from(strategy);
        causes.push(Cause::unsupported(format!("{field}.strategy"), &strategy, &["None", "Webhook"]));
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if client.is_some() {
        causes.push(Cause::forbidden(format!("{field}.webhookClientConfig"), detail));
    }
    if !versions.is_empty() {
        causes.push(Cause::forbidden(format!("{field}.conversionReviewVersions"), detail));
    }
    causes
}

fn webhook(client: Option<&Value>, field: &str) -> Option<Cause> {
    let Some(client) = client else {
        return Some(Cause::required(field, "required when strategy is set to Webhook"));
    };
    let is_set = |key: &str| client.get(key).is_some_and(|value| !value.is_null());
    (is_set("url") == is_set("service"))
        .then(|| Cause::required(field, "exactly one of url or service is required"))
}

fn review_versions(versions: &[&str], field: &str) -> Vec<Cause> {
    if versions.is_empty() {
        return vec![Cause::required(field, "")];
    }
    let mut causes = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if versions[..index].contains(version) {
            causes.push(Cause::invalid(field, &Value::from(*version), "duplicate version"));
            continue;
        }
        let problems = names::label_1035(version);
        causes.extend(problems.iter().map(|why| Cause::invalid(&field, &Value::from(*version), why)));
    }
    if !versions.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        causes.push(Cause::invalid(field, &Value::from(versions.to_vec()), &detail));
    }
    causes
}
