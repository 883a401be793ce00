//! Rows of nodes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::format::or_none;
use super::row::{Cells, Row, row};
use crate::builtin::view::{entries, flag, list, part, text};

impl Row<'_> {
    pub(super) fn node(self) -> Cells {
        let Self { object, spec, status, name, .. } = self;
        let ready = list(status, "conditions").iter().rfind(|condition| text(condition, "type") == "Ready");
        let mut shown = match ready.map(|condition| text(condition, "status")) {
            None => "Unknown",
            Some("True") => "Ready",
            Some(_) => "NotReady",
        }
        .to_owned();
        if flag(spec, "unschedulable") {
            shown.push_str(",SchedulingDisabled");
        }
        let info = part(status, "nodeInfo");
        let known = |field: &str| match text(info, field) {
            "" => "<unknown>".to_owned(),
            value => value.to_owned(),
        };
        let mut kernel = known("kernelVersion");
        if !text(info, "architecture").is_empty() {
            kernel = format!("{kernel} ({})", text(info, "architecture"));
        }
        row![
            name,
            shown,
            or_none(&roles(object)),
            self.age,
            text(info, "kubeletVersion"),
            address(status, "InternalIP"),
            address(status, "ExternalIP"),
            known("osImage"),
            kernel,
            known("containerRuntimeVersion"),
        ]
    }
}

fn roles(node: &Value) -> String {
    let labels = entries(part(node, "metadata"), "labels");
    let roles = labels.filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role),
        None if key == "kubernetes.io/role" => value.as_str(),
        None => None,
    });
    let roles: BTreeSet<&str> = roles.filter(|role| !role.is_empty()).collect();
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn address(status: &Value, kind: &str) -> String {
    let found = list(status, "addresses").iter().find(|address| text(address, "type") == kind);
    or_none(found.map(|address| text(address, "address")).unwrap_or_default())
}
