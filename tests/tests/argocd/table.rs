//! The operations of users on an Application and the resulting states, as rows that apply to Argo CD and to its model.

use serde_json::{Value, json};

/// An operation on an Application, or a check of its state.
pub(crate) enum Step {
    /// Change its spec with a merge patch.
    Change(Value),
    /// Set `status.operationState.phase` to `Terminating`.
    Terminate,
    /// Delete its resources on its cluster.
    Drift,
    /// Delete it.
    Delete,
    /// Request a new comparison, as a user does.
    Refresh,
    /// Make its cluster refuse connections.
    Cut,
    /// Make its cluster accept connections again.
    Restore,
    /// Wait for a state with these fields of [`seen`]. The current state counts.
    Until(Value),
    /// Check that it was in no state with these fields since the last `Until`.
    Never(Value),
    /// Wait until it is deleted.
    Gone,
    /// Check whether its chart is deployed.
    IsDeployed(bool),
}

/// One row of the table.
pub(crate) struct Row {
    pub(crate) what: &'static str,
    /// The fields of its Application beyond [`spec`], which are merged into it.
    pub(crate) spec: Value,
    pub(crate) steps: Vec<Step>,
}

/// The initial version of Applications, and a newer one.
pub(crate) const VERSIONS: [&str; 2] = ["1.0.0", "1.1.0"];
/// The name of the Application in all expected texts.
const NAME: &str = "NAME";

/// Returns the spec of an Application.
pub(crate) fn spec(name: &str, repository: &str, chart: &str, server: &str) -> Value {
    json!({
        "project": "platform",
        "destination": { "server": server, "namespace": name },
        "source": {
            "repoURL": repository,
            "chart": chart,
            "targetRevision": VERSIONS[0],
            "helm": { "releaseName": name, "valuesObject": {} },
        },
        "syncPolicy": {
            "automated": { "prune": true, "selfHeal": true },
            "syncOptions": ["CreateNamespace=true"],
            "retry": { "limit": -1, "refresh": true, "backoff": { "duration": "2s", "factor": 1, "maxDuration": "2s" } },
        },
    })
}

/// Returns the fields of an Application that the table compares.
pub(crate) fn seen(application: &Value) -> Value {
    let name = application["metadata"]["name"].as_str().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().replace(name, NAME);
    let status = &application["status"];
    let (operation, compared) = (&status["operationState"], &status["sync"]["comparedTo"]["source"]);
    let all = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let results = all(&operation["syncResult"]["resources"]);
    let hook = |result: &Value| {
        let [kind, name, phase, message] =
            ["kind", "name", "hookPhase", "message"].map(|field| text(&result[field]));
        format!("{} {kind} {name} {phase}: {message}", text(&result["hookType"]))
    };
    let (hooks, objects): (Vec<&Value>, Vec<&Value>) =
        results.iter().partition(|result| result["hookType"].is_string());
    let daemon_set = objects.iter().find(|result| result["kind"] == "DaemonSet");
    let condition =
        |condition: &Value| format!("{}: {}", text(&condition["type"]), text(&condition["message"]));
    json!({
        "sync": status["sync"]["status"],
        "health": status["health"]["status"],
        "compared": compared["targetRevision"],
        "values": compared["helm"]["valuesObject"],
        "conditions": all(&status["conditions"]).iter().map(condition).collect::<Vec<_>>(),
        "phase": operation["phase"],
        "message": without_time(&text(&operation["message"])),
        "began_with": operation["operation"]["sync"]["source"]["targetRevision"],
        "is_partial": !all(&operation["operation"]["sync"]["resources"]).is_empty(),
        "retries": operation["retryCount"].as_u64().unwrap_or(0),
        "has_ended": operation["finishedAt"].is_string(),
        "result": operation["syncResult"]["revision"],
        "hooks": hooks.into_iter().map(hook).collect::<Vec<_>>(),
        "object": daemon_set.map(|result| format!("{} {}", text(&result["status"]), text(&result["hookPhase"]))),
        "is_wanted": application["operation"].is_object(),
        "deployments": all(&status["history"]).iter().map(|entry| entry["revision"].clone()).collect::<Vec<_>>(),
        "is_deleting": application["metadata"]["deletionTimestamp"].is_string(),
    })
}

/// Removes the time of the next attempt.
fn without_time(message: &str) -> String {
    match message.split_once("Retrying attempt #").and_then(|(_, rest)| rest.split_once(" at ")) {
        Some((_, time)) => message.replace(time, "TIME"),
        None => message.to_owned(),
    }
}

const UNSUCCESSFUL: &str = "one or more synchronization tasks completed unsuccessfully";
const HOOK_FAILED: &str = "PostSync Job NAME-check Failed: Job has reached the specified backoff limit";
const HOOK_RUNS: &str = "PostSync Job NAME-check Running: job.batch/NAME-check created";
const WAITS: &str = "waiting for completion of hook batch/Job/NAME-check";

fn deployed() -> Step {
    Step::Until(json!({
        "sync": "Synced", "health": "Healthy", "phase": "Succeeded", "result": VERSIONS[0], "is_wanted": false,
    }))
}

fn values(values: &Value) -> Value {
    json!({ "source": { "helm": { "valuesObject": values } } })
}

fn version(version: &str) -> Value {
    json!({ "source": { "targetRevision": version } })
}

/// Returns the rows of Applications whose cluster is reachable.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = successes();
    rows.extend(hooks());
    rows.extend(deletions());
    rows.extend(mistakes());
    rows
}

fn row(what: &'static str, spec: Value, steps: impl IntoIterator<Item = Step>) -> Row {
    Row { what, spec, steps: steps.into_iter().collect() }
}

fn successes() -> Vec<Row> {
    use Step::{Change, Drift, IsDeployed, Never, Refresh, Until};
    let [first, second] = VERSIONS;
    vec![
        row(
            "a chart is deployed, by an operation that names its source",
            json!({}),
            [
                Until(
                    json!({ "phase": "Running", "began_with": first, "is_wanted": true, "is_partial": false }),
                ),
                deployed(),
                Until(json!({
                    "message": "successfully synced (all tasks run)", "deployments": [first], "conditions": [],
                    "object": "Synced Running", "has_ended": true, "retries": 0,
                })),
                IsDeployed(true),
            ],
        ),
        row(
            "a newer version is deployed",
            json!({}),
            [
                deployed(),
                Change(version(second)),
                Until(json!({ "phase": "Running", "began_with": second })),
                Until(json!({
                    "sync": "Synced", "phase": "Succeeded", "result": second, "compared": second,
                    "deployments": [first, second],
                })),
            ],
        ),
        row(
            "numbers are rounded to 64-bit floats, and nulls left out",
            values(&json!({ "number": 9_007_199_254_740_993_i64, "null": null, "nested": { "small": 3 } })),
            [
                deployed(),
                Until(json!({ "values": { "number": 9_007_199_254_740_992_i64, "nested": { "small": 3 } } })),
            ],
        ),
        row(
            "what was deleted on the cluster is deployed again, without an entry in the history",
            json!({}),
            [
                deployed(),
                Drift,
                Until(json!({ "sync": "OutOfSync" })),
                Until(
                    json!({ "sync": "Synced", "health": "Healthy", "phase": "Succeeded", "is_partial": true, "deployments": [first] }),
                ),
                IsDeployed(true),
            ],
        ),
        row(
            "nothing is deployed if that is not automatic",
            json!({ "syncPolicy": { "automated": null } }),
            [
                Until(json!({ "sync": "OutOfSync", "health": "Missing" })),
                Refresh,
                Never(json!({ "is_wanted": true })),
                IsDeployed(false),
            ],
        ),
    ]
}

fn hooks() -> Vec<Row> {
    use Step::{Change, Never, Refresh, Terminate, Until};
    let [first, second] = VERSIONS;
    let (failing, hanging) =
        (values(&json!({ "failingHook": true })), values(&json!({ "hangingHook": true })));
    let fixed = || values(&json!({ "failingHook": null, "hangingHook": null }));
    let limited = || {
        let mut spec = failing.clone();
        spec["syncPolicy"] = json!({ "retry": { "limit": 1 } });
        spec
    };
    let between = |retries: u64| {
        Until(json!({
            "phase": "Running", "retries": retries, "has_ended": true, "hooks": [HOOK_FAILED], "result": first,
            "message": format!("{UNSUCCESSFUL}. Retrying attempt #{retries} at TIME"), "is_wanted": true,
        }))
    };
    vec![
        row(
            "a sync with a failing hook is retried; its result stays meanwhile",
            failing.clone(),
            [
                between(1),
                Until(json!({
                    "message": "Retrying operation with latest revisions. Attempt #1", "has_ended": false, "hooks": [HOOK_FAILED],
                })),
                between(2),
                // The comparison is made on its own: it may come after several attempts.
                Until(
                    json!({ "sync": "Synced", "health": "Healthy", "phase": "Running", "hooks": [HOOK_FAILED] }),
                ),
            ],
        ),
        row(
            "after the last attempt the operation has failed, and the same source is not tried again",
            limited(),
            [
                Until(json!({
                    "phase": "Failed", "message": format!("{UNSUCCESSFUL} (retried 1 times)."), "sync": "Synced",
                    "health": "Healthy", "is_wanted": false, "hooks": [HOOK_FAILED], "conditions": [],
                })),
                Refresh,
                Never(json!({ "is_wanted": true })),
                Change(fixed()),
                deployed(),
            ],
        ),
        row(
            "a hook that never ends keeps its operation; one that is terminated has failed, and the change is deployed",
            hanging.clone(),
            [
                Until(
                    json!({ "phase": "Running", "message": WAITS, "hooks": [HOOK_RUNS], "has_ended": false, "retries": 0 }),
                ),
                Change(version(second)),
                Until(
                    json!({ "compared": second, "sync": "OutOfSync", "phase": "Running", "result": first, "hooks": [HOOK_RUNS] }),
                ),
                Change(fixed()),
                Terminate,
                Until(json!({ "phase": "Failed", "message": "Operation terminated", "is_wanted": false })),
                Until(json!({ "phase": "Succeeded", "result": second, "sync": "Synced" })),
            ],
        ),
        row(
            "an operation that is tried again keeps its source; terminated between two attempts, it makes room for the change",
            failing.clone(),
            [
                between(1),
                Change(version(second)),
                Until(json!({ "compared": second, "sync": "OutOfSync" })),
                Change(fixed()),
                // The attempt that runs may have begun before the comparison; the next one has not.
                Until(json!({ "has_ended": true, "compared": second })),
                Until(json!({ "has_ended": false, "compared": second })),
                Until(json!({ "has_ended": true, "compared": second, "result": first, "began_with": first })),
                Never(json!({ "result": second })),
                Terminate,
                Until(json!({ "phase": "Succeeded", "result": second, "sync": "Synced", "retries": 0 })),
            ],
        ),
    ]
}

fn deletions() -> Vec<Row> {
    use Step::{Delete, Gone, IsDeployed, Refresh, Terminate, Until};
    vec![
        row(
            "an Application goes with what it deployed",
            json!({}),
            [deployed(), IsDeployed(true), Delete, Gone, IsDeployed(false)],
        ),
        row(
            "deletion waits for the operation",
            values(&json!({ "hangingHook": true })),
            [
                Until(json!({ "phase": "Running", "message": WAITS })),
                // Of a hook that is terminated before Argo CD has it in its cache, the finalizer would stay for ever.
                Refresh,
                Delete,
                Until(json!({ "is_deleting": true, "phase": "Running" })),
                Terminate,
                Gone,
                IsDeployed(false),
            ],
        ),
    ]
}

fn mistakes() -> Vec<Row> {
    use Step::{Change, Until};
    let [first, _] = VERSIONS;
    let invalid = |message: &str| {
        Until(
            json!({ "sync": "Unknown", "health": "Unknown", "conditions": [format!("InvalidSpecError: {message}")] }),
        )
    };
    vec![
        row(
            "a project that does not exist",
            json!({ "project": "none" }),
            [
                invalid("Application referencing project none which does not exist"),
                Change(json!({ "project": "platform" })),
                deployed(),
                Until(json!({ "conditions": [] })),
            ],
        ),
        row(
            "a namespace that the project does not permit",
            json!({ "destination": { "namespace": "forbidden" } }),
            [Until(json!({ "sync": "Unknown", "health": "Unknown" }))],
        ),
        row(
            "a repository that the project does not permit",
            json!({ "source": { "repoURL": "https://forbidden.example.com" } }),
            [invalid(
                "application repo https://forbidden.example.com is not permitted in project 'platform'",
            )],
        ),
        row(
            "a cluster that Argo CD does not know",
            json!({ "destination": { "server": "https://unknown.example.com" } }),
            [invalid(
                "error getting cluster by server \"https://unknown.example.com\": rpc error: code = NotFound desc = cluster \"https://unknown.example.com\" not found",
            )],
        ),
        row(
            "a version that the repository does not have",
            json!({}),
            [
                deployed(),
                Change(version("0.0.0-missing")),
                Until(
                    json!({ "sync": "Unknown", "health": "Healthy", "phase": "Succeeded", "result": first }),
                ),
                Change(version(first)),
                Until(json!({ "sync": "Synced", "health": "Healthy", "conditions": [] })),
            ],
        ),
    ]
}

/// Returns the rows of two Applications on a cluster that fails. The second one does not change. Its first step runs before
/// those of the first Application, its others after them.
pub(crate) fn outage() -> [Row; 2] {
    use Step::{Change, Cut, Never, Restore, Until};
    let [first, second] = VERSIONS;
    [
        row(
            "a change for a cluster that is down is tried until that is back",
            json!({}),
            [
                deployed(),
                Cut,
                Change(version(second)),
                Until(json!({
                    "phase": "Running", "retries": 1, "has_ended": true, "object": "SyncFailed ",
                    "message": "one or more synchronization tasks are not valid. Retrying attempt #1 at TIME",
                })),
                Restore,
                Until(json!({
                    "sync": "Synced", "health": "Healthy", "phase": "Succeeded", "result": second,
                    "deployments": [first, second],
                })),
            ],
        ),
        row(
            "of a cluster that is down nothing is seen without a change",
            json!({}),
            [deployed(), Never(json!({ "sync": "Unknown" }))],
        ),
    ]
}
