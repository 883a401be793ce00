//! Rows of admission policies and their bindings.

use super::format::label_selector;
use super::row::{Cells, Row, row};
use crate::builtin::view::{given, list, part, text};

impl Row<'_> {
    /// Returns the row of a policy; `rules` is the name of its rules field.
    pub(super) fn policy(self, rules: &str) -> Cells {
        let kind = given(self.spec, "paramKind")
            .map(|kind| format!("{}/{}", text(kind, "apiVersion"), text(kind, "kind")));
        row![self.name, list(self.spec, rules).len(), kind.unwrap_or_else(|| "<unset>".to_owned()), self.age]
    }

    pub(super) fn policy_binding(self) -> Cells {
        let parameters = part(self.spec, "paramRef");
        let shown = match (text(parameters, "name"), text(parameters, "namespace")) {
            ("", _) => given(parameters, "selector").map_or_else(|| "<unset>".to_owned(), label_selector),
            (name, "") => format!("*/{name}"),
            (name, namespace) => format!("{namespace}/{name}"),
        };
        row![self.name, text(self.spec, "policyName"), shown, self.age]
    }
}
