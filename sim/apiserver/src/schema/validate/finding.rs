//! The errors that a validation finds.

use serde_json::Value;

use crate::cause::{Cause, text};
use crate::schema::place::Place;

/// An error, with the text that identifies it.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) text: String,
    pub(super) cause: Cause,
}

/// The errors of a traversal, and the number of matches: the best of several alternatives is the one with the most matches.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) findings: Vec<Finding>,
    pub(super) matched: usize,
}

impl Verdict {
    pub(super) fn push(&mut self, finding: Finding) {
        if self.findings.iter().all(|other| other.text != finding.text) {
            self.findings.push(finding);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.matched += other.matched;
        other.findings.into_iter().for_each(|finding| self.push(finding));
    }

    pub(super) fn is_ok(&self) -> bool {
        self.findings.is_empty()
    }
}

/// The field of the value that is validated as a whole; paths of errors are relative to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'p>(pub(super) &'p str);

impl Origin<'_> {
    pub(super) fn field(self, path: Place<'_>) -> String {
        let path = path.to_string();
        let path = path.strip_prefix('.').unwrap_or(&path);
        match (self.0, path) {
            ("", "") => "<nil>".to_owned(),
            ("", path) => path.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, path) => format!("{prefix}.{path}"),
        }
    }

    pub(super) fn invalid(self, path: Place<'_>, value: &Value, text: String) -> Finding {
        Finding { cause: Cause::invalid(self.field(path), value, &text), text }
    }

    pub(super) fn wrong_type(self, path: Place<'_>, expected: &str, actual: &str) -> Finding {
        let text = format!("{path} in body must be of type {expected}: {}", text::quote(actual));
        Finding { cause: Cause::type_invalid(self.field(path), &Value::from(actual), &text), text }
    }

    /// Returns an error without a field.
    pub(super) fn general(self, text: String) -> Finding {
        Finding { cause: Cause::invalid(self.field(Place::Root), &Value::from(""), &text), text }
    }
}
