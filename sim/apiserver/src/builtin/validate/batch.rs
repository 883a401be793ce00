//! `Job` and `CronJob`.

use serde_json::{Map, Value};

use super::common::{choice, immutable, label_selector, not_negative, selects};
use super::{cron, pod};
use crate::builtin::field::Path;
use crate::builtin::view::{given, integer, part, text};
use crate::cause::Cause;

const COUNTS: [&str; 7] = [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
];

/// Generated labels of the template, with the uid and the name of the Job.
const PREFIXED: [&str; 2] = ["batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"];

pub(super) fn job(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let path = Path::root("spec");
    let spec = part(object, "spec");
    generated_selector(object, old, causes);
    job_spec(spec, &path, causes);
    job_selector(spec, &path, causes);
    let old = old.map(|old| part(old, "spec"));
    let indexed = text(spec, "completionMode") == "Indexed";
    if !indexed {
        immutable(&path.child("completions"), spec, old, "completions", causes);
    }
    for field in [
        "selector",
        "template",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        immutable(&path.child(field), spec, old, field, causes);
    }
}

fn job_selector(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let labels = template_labels(spec);
    let selector = given(spec, "selector");
    let before = causes.len();
    match selector {
        Some(selector) => label_selector(selector, &path.child("selector"), causes),
        None => causes.push(path.child("selector").required("")),
    }
    let is_sound = selector.is_none() || causes.len() == before;
    if is_sound && selector.is_none_or(|selector| !selects(selector, labels)) {
        let path = path.child("template").child("metadata").child("labels");
        causes.push(path.invalid(labels.clone(), "`selector` does not match template `labels`"));
    }
}

/// Checks that the selector of a Job selects the generated labels, and that its template has the generated labels, unless
/// the Job has a manual selector.
fn generated_selector(job: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = part(job, "spec");
    if part(spec, "manualSelector") == &Value::Bool(true) {
        return;
    }
    let Some(selector) = given(spec, "selector") else { return };
    let metadata = part(job, "metadata");
    let (name, uid) = (text(metadata, "name"), text(metadata, "uid"));
    let mut expected = vec![("controller-uid", uid), ("job-name", name)];
    // A Job from before the labels had prefixes does not need those.
    if old.is_none_or(|old| {
        PREFIXED.iter().all(|label| template_labels(part(old, "spec")).get(label).is_some())
    }) {
        expected.extend(PREFIXED.into_iter().zip([uid, name]));
    }
    let labels = template_labels(spec);
    let path = Path::root("spec").child("template").child("metadata").child("labels");
    for (label, value) in &expected {
        let message = format!("must be '{value}'");
        match labels.get(label) {
            None => causes.push(path.key(label).required(&message)),
            Some(found) if found != value => causes.push(path.key(label).invalid(labels.clone(), &message)),
            Some(_) => {}
        }
    }
    let path = Path::root("spec").child("selector");
    let mut malformed = Vec::new();
    label_selector(selector, &path, &mut malformed);
    let generated: Map<String, Value> =
        expected.iter().map(|(label, value)| ((*label).to_owned(), Value::from(*value))).collect();
    if malformed.is_empty() && !selects(selector, &generated.into()) {
        causes.push(path.invalid(selector.clone(), "`selector` not auto-generated"));
    }
}

fn template_labels(spec: &Value) -> &Value {
    part(part(part(spec, "template"), "metadata"), "labels")
}

fn job_spec(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    for field in COUNTS {
        not_negative(spec, field, path, causes);
    }
    let mode = text(spec, "completionMode");
    if !mode.is_empty() && !["NonIndexed", "Indexed"].contains(&mode) {
        causes.push(path.child("completionMode").not_supported(mode, &["NonIndexed", "Indexed"]));
    }
    if mode == "Indexed" && integer(spec, "completions").is_none() {
        causes.push(path.child("completions").required("when completion mode is Indexed"));
    }
    if matches!(mode, "" | "NonIndexed") {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(number) = integer(spec, field) {
                causes.push(path.child(field).invalid(number, "requires indexed completion mode"));
            }
        }
    }
    pod::template(part(spec, "template"), &path.child("template"), causes);
    let policy = text(part(part(spec, "template"), "spec"), "restartPolicy");
    let path = path.child("template").child("spec").child("restartPolicy");
    match policy {
        "" | "Always" => causes.push(path.required("valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if given(spec, "podFailurePolicy").is_some() => {
            let message = "only \"Never\" is supported when podFailurePolicy is specified";
            causes.push(path.invalid(policy, message));
        }
        "OnFailure" | "Never" => {}
        _ => causes.push(path.not_supported(policy, &["OnFailure", "Never"])),
    }
}

pub(super) fn cron_job(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    /// Jobs add eleven characters to the name.
    const NAME_LENGTH_MAX: usize = 52;
    let name = text(part(object, "metadata"), "name");
    if old.is_none() && name.len() > NAME_LENGTH_MAX {
        let message = format!("must be no more than {NAME_LENGTH_MAX} characters");
        causes.push(Path::root("metadata").child("name").invalid(name, &message));
    }
    let path = Path::root("spec");
    let spec = part(object, "spec");
    let schedule = text(spec, "schedule");
    let schedule_path = path.child("schedule");
    if schedule.is_empty() {
        causes.push(schedule_path.required(""));
    } else if let Err(message) = cron::check(schedule) {
        causes.push(schedule_path.invalid(schedule, &message));
    }
    if schedule.contains("TZ") && old.is_none_or(|old| !text(part(old, "spec"), "schedule").contains("TZ")) {
        let message = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        causes.push(schedule_path.invalid(schedule, message));
    }
    not_negative(spec, "startingDeadlineSeconds", &path, causes);
    time_zone(spec, &path.child("timeZone"), causes);
    choice(&path, spec, "concurrencyPolicy", &["Allow", "Forbid", "Replace"], causes);
    let template = path.child("jobTemplate").child("spec");
    job_spec(part(part(spec, "jobTemplate"), "spec"), &template, causes);
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        not_negative(spec, field, &path, causes);
    }
}

fn time_zone(spec: &Value, path: &Path, causes: &mut Vec<Cause>) {
    let Some(zone) = given(spec, "timeZone").and_then(Value::as_str) else { return };
    if zone.is_empty() {
        causes.push(path.invalid(zone, "timeZone must be nil or non-empty string"));
    } else if zone.eq_ignore_ascii_case("local") {
        causes.push(path.invalid(
            zone,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        ));
    } else if !is_plausible_zone(zone) {
        causes.push(path.invalid(zone, &format!("unknown time zone {zone}")));
    }
}

/// Returns whether a zone may exist. The server has the full list of zones; here the region decides.
fn is_plausible_zone(zone: &str) -> bool {
    const REGIONS: [&str; 14] = [
        "Africa",
        "America",
        "Antarctica",
        "Arctic",
        "Asia",
        "Atlantic",
        "Australia",
        "Brazil",
        "Canada",
        "Etc",
        "Europe",
        "Indian",
        "Pacific",
        "US",
    ];
    const ALONE: [&str; 10] = ["UTC", "GMT", "UCT", "Zulu", "CET", "EET", "EST", "MET", "MST", "WET"];
    let (region, place) = zone.split_once('/').unwrap_or((zone, ""));
    if place.is_empty() { ALONE.contains(&zone) } else { REGIONS.contains(&region) }
}
