//! The results of checks, as lines and as JSON.

use std::fmt;

use serde::Serialize;

/// How a check ended. The number of the level is the exit code of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Level {
    Ok = 0,
    Warn = 1,
    Fail = 2,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// The kind of check.
    pub(super) check: &'static str,
    /// The checked object, or the controller that needs it.
    pub(super) subject: String,
    pub(super) message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, subject: &str, message: impl Into<String>) -> Self {
        Self { level: Level::Ok, check, subject: subject.to_owned(), message: message.into(), remedy: None }
    }

    pub(super) fn warn(
        check: &'static str,
        subject: &str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Warn, remedy: Some(remedy.into()), ..Self::ok(check, subject, message) }
    }

    pub(super) fn fail(
        check: &'static str,
        subject: &str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Fail, ..Self::warn(check, subject, message, remedy) }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "OK",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, check, subject, message, remedy } = self;
        let mut line = format!("{level:<4}  {check:<12}  {subject}: {message}");
        if let Some(remedy) = remedy {
            line = format!("{line}; {remedy}");
        }
        // Messages of servers may contain line breaks.
        f.write_str(&line.replace(char::is_control, " "))
    }
}

/// Returns the worst level.
pub(super) fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
}

/// Returns all results as one JSON document.
pub(super) fn json(findings: &[Finding]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&serde_json::json!({ "result": worst(findings), "checks": findings }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_one_line_with_what_to_do() {
        let finding =
            Finding::fail("permissions", "bridge", "account \"a\"\nmay not get secrets", "grant it");
        assert_eq!(
            finding.to_string(),
            "FAIL  permissions   bridge: account \"a\" may not get secrets; grant it"
        );
        assert_eq!(Finding::ok("CRD", "x", "served").to_string(), "OK    CRD           x: served");
    }

    #[test]
    fn the_worst_level_is_the_result() {
        let (ok, warn) = (Finding::ok("a", "b", "c"), Finding::warn("a", "b", "c", "d"));
        assert_eq!(worst(&[]), Level::Ok);
        assert_eq!(worst(&[warn.clone(), ok.clone()]), Level::Warn);
        let document: serde_json::Value = serde_json::from_str(&json(&[ok, warn]).unwrap()).unwrap();
        assert_eq!(document["result"], "WARN");
        assert_eq!(document["checks"][1]["remedy"], "d");
        assert!(document["checks"][0].get("remedy").is_none());
    }
}
