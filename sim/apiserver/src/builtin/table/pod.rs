//! The row of a Pod: its readiness, and the most specific reason for its state.

use serde_json::Value;

use super::format::{age, or_none};
use crate::builtin::view::{flag, given, integer, list, part, text};

pub(super) fn cells(pod: &Value, pod_age: String, now: i64) -> Vec<Value> {
    let spec = part(pod, "spec");
    let status = part(pod, "status");
    let summary = Summary::of(spec, status);
    let restarts = match summary.last_restart {
        Some(time) if summary.restarts != 0 => format!("{} ({} ago)", summary.restarts, age(time, now)),
        _ => summary.restarts.to_string(),
    };
    let ip = list(status, "podIPs").first().map_or("", |ip| text(ip, "ip"));
    let gates = list(spec, "readinessGates");
    let open = gates.iter().filter(|gate| condition_holds(status, text(gate, "conditionType"))).count();
    let gates = if gates.is_empty() { "<none>".to_owned() } else { format!("{open}/{}", gates.len()) };
    vec![
        text(part(pod, "metadata"), "name").into(),
        format!("{}/{}", summary.ready, summary.total).into(),
        state(pod, &summary.reason).into(),
        restarts.into(),
        pod_age.into(),
        or_none(ip).into(),
        or_none(text(spec, "nodeName")).into(),
        or_none(text(status, "nominatedNodeName")).into(),
        gates.into(),
    ]
}

fn state(pod: &Value, reason: &str) -> String {
    let status = part(pod, "status");
    let deleted = given(part(pod, "metadata"), "deletionTimestamp").is_some();
    let ended = matches!(text(status, "phase"), "Succeeded" | "Failed");
    match (deleted, text(status, "reason")) {
        (true, "NodeLost") => "Unknown".to_owned(),
        (true, _) if !ended => "Terminating".to_owned(),
        _ => reason.to_owned(),
    }
}

fn condition_holds(status: &Value, kind: &str) -> bool {
    let condition = list(status, "conditions").iter().find(|condition| text(condition, "type") == kind);
    condition.is_some_and(|condition| text(condition, "status") == "True")
}

struct Summary<'a> {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<&'a Value>,
}

impl<'a> Summary<'a> {
    fn of(spec: &Value, status: &'a Value) -> Self {
        let sidecars: Vec<&str> = list(spec, "initContainers")
            .iter()
            .filter(|container| text(container, "restartPolicy") == "Always")
            .map(|container| text(container, "name"))
            .collect();
        let gated = list(status, "conditions").iter().any(|condition| {
            text(condition, "type") == "PodScheduled" && text(condition, "reason") == "SchedulingGated"
        });
        let reason = match text(status, "reason") {
            _ if gated => "SchedulingGated",
            "" => text(status, "phase"),
            reason => reason,
        };
        let mut summary = Self {
            reason: reason.to_owned(),
            ready: 0,
            total: list(spec, "containers").len() + sidecars.len(),
            restarts: 0,
            last_restart: None,
        };
        let initializing = summary.initialization(spec, status, &sidecars);
        if !initializing || condition_holds(status, "Initialized") {
            summary.restarts = 0;
            summary.last_restart = None;
            for container in list(status, "initContainerStatuses") {
                if sidecars.contains(&text(container, "name")) {
                    summary.count_restarts(container);
                }
            }
            summary.running(status);
        }
        summary
    }

    fn count_restarts(&mut self, container: &'a Value) {
        self.restarts += integer(container, "restartCount").unwrap_or(0);
        let finished = container.pointer("/lastState/terminated/finishedAt");
        if finished.and_then(Value::as_str) > self.last_restart.and_then(Value::as_str) {
            self.last_restart = finished;
        }
    }

    /// Finds the first init container that is not complete; returns whether there is one.
    fn initialization(&mut self, spec: &Value, status: &'a Value, sidecars: &[&str]) -> bool {
        for (index, container) in list(status, "initContainerStatuses").iter().enumerate() {
            self.count_restarts(container);
            let state = part(container, "state");
            let terminated = given(state, "terminated");
            let waiting = given(state, "waiting").map_or("", |waiting| text(waiting, "reason"));
            if terminated.is_some_and(|ended| integer(ended, "exitCode") == Some(0)) {
                continue;
            }
            if sidecars.contains(&text(container, "name")) && flag(container, "started") {
                self.ready += usize::from(flag(container, "ready"));
                continue;
            }
            self.reason = match (terminated, waiting) {
                (Some(ended), _) => format!("Init:{}", end_reason(ended)),
                (None, "" | "PodInitializing") => {
                    format!("Init:{index}/{}", list(spec, "initContainers").len())
                }
                (None, waiting) => format!("Init:{waiting}"),
            };
            return true;
        }
        false
    }

    fn running(&mut self, status: &'a Value) {
        let mut has_running = false;
        let mut error = None;
        for container in list(status, "containerStatuses").iter().rev() {
            self.count_restarts(container);
            let state = part(container, "state");
            let waiting = given(state, "waiting").map_or("", |waiting| text(waiting, "reason"));
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(ended) = given(state, "terminated") {
                self.reason = end_reason(ended);
                if integer(ended, "exitCode").unwrap_or(0) != 0 {
                    error = Some(self.reason.clone());
                }
            } else if flag(container, "ready") && given(state, "running").is_some() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            let ready = condition_holds(status, "Ready");
            self.reason = match (has_running, error) {
                (true, _) if ready => "Running".to_owned(),
                (_, Some(error)) => error,
                (true, None) => "NotReady".to_owned(),
                (false, None) => "Completed".to_owned(),
            };
        }
    }
}

fn end_reason(terminated: &Value) -> String {
    match (text(terminated, "reason"), integer(terminated, "signal").unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", integer(terminated, "exitCode").unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
