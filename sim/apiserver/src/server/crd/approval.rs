//! The approval of APIs in groups of the Kubernetes community, which an annotation declares.

use http::Uri;
use serde_json::Value;

use crate::cause::Cause;
use crate::server::meta;

const ANNOTATION: &str = "api-approved.kubernetes.io";
const PROPOSAL: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// What the annotation of a CRD declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Approval {
    Missing,
    Invalid,
    Approved,
    Bypassed,
}

impl Approval {
    fn of(annotation: &str) -> Self {
        let is_url = || {
            annotation
                .parse::<Uri>()
                .is_ok_and(|uri| uri.scheme().is_some() && uri.host().is_some_and(|host| !host.is_empty()))
        };
        match annotation {
            "" => Self::Missing,
            text if text.starts_with("unapproved") => Self::Bypassed,
            _ if is_url() => Self::Approved,
            _ => Self::Invalid,
        }
    }

    fn message(self, annotation: &str) -> String {
        let demand = format!("protected groups must have approval annotation \"{ANNOTATION}\"");
        match self {
            Self::Missing => format!("{demand}, {PROPOSAL}"),
            Self::Invalid => {
                format!("{demand} with either a URL or a reason starting with \"unapproved\", {PROPOSAL}")
            }
            Self::Approved => format!("approved in {annotation}"),
            Self::Bypassed => format!("not approved: {annotation:?}"),
        }
    }
}

fn is_protected(definition: &Value) -> bool {
    let group = definition.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|owner| group.strip_suffix(owner).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn annotation(definition: &Value) -> &str {
    let annotations = meta::field(definition, "annotations");
    annotations.and_then(|all| all.get(ANNOTATION)).and_then(Value::as_str).unwrap_or_default()
}

/// Returns why a CRD may not be in its group. An update that does not change the kind of approval is accepted.
pub(super) fn check(definition: &Value, old: Option<&Value>) -> Option<Cause> {
    let given = annotation(definition);
    let approval = Approval::of(given);
    if !is_protected(definition) || old.is_some_and(|old| Approval::of(annotation(old)) == approval) {
        return None;
    }
    let field = format!("metadata.annotations[{ANNOTATION}]");
    match approval {
        Approval::Missing => Some(Cause::required(field, &approval.message(given))),
        Approval::Invalid => Some(Cause::invalid(field, &Value::from(given), &approval.message(given))),
        Approval::Approved | Approval::Bypassed => None,
    }
}

/// Returns status, reason and message of the condition `KubernetesAPIApprovalPolicyConformant`, which only protected groups have.
pub(super) fn condition(definition: &Value) -> Option<[String; 3]> {
    if !is_protected(definition) {
        return None;
    }
    let given = annotation(definition);
    let approval = Approval::of(given);
    let (status, reason) = match approval {
        Approval::Missing => ("False", "MissingAnnotation"),
        Approval::Invalid => ("False", "InvalidAnnotation"),
        Approval::Approved => ("True", "ApprovedAnnotation"),
        Approval::Bypassed => ("False", "UnapprovedAnnotation"),
    };
    Some([status.to_owned(), reason.to_owned(), approval.message(given)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{check, condition};

    #[test]
    fn only_protected_groups_need_an_approval() {
        let crd = |group: &str, annotation: &str| json!({"metadata": {"annotations": {"api-approved.kubernetes.io": annotation}}, "spec": {"group": group}});
        for (group, annotation, reason) in [
            ("apps.example.com", "", None),
            ("notk8s.io", "", None),
            ("x.k8s.io", "", Some("MissingAnnotation")),
            ("kubernetes.io", "yes", Some("InvalidAnnotation")),
            ("x.k8s.io", "unapproved, for a test", Some("UnapprovedAnnotation")),
            ("x.k8s.io", "https://github.com/kubernetes/enhancements/pull/1", Some("ApprovedAnnotation")),
        ] {
            let crd = crd(group, annotation);
            assert_eq!(condition(&crd).map(|[_, reason, _]| reason).as_deref(), reason, "{crd}");
            let refused = matches!(reason, Some("MissingAnnotation" | "InvalidAnnotation"));
            assert_eq!(check(&crd, None).is_some(), refused, "{crd}");
            assert_eq!(check(&crd, Some(&crd)), None, "{crd}");
        }
    }
}
