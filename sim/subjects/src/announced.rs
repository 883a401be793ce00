//! The changed conditions that the documentation of a controller promises as Kubernetes Events, and those that are warnings.

use std::collections::BTreeMap;

use lockstep_engine::machine::Note;
use lockstep_sim::cluster::What;
use lockstep_sim::invariant::{Invariant, Moment};

/// The conditions of a Bridge that it copies from the HostedCluster.
const COPIES: [&str; 3] = ["HostedClusterAvailable", "HostedClusterProgressing", "HostedClusterDegraded"];

/// The reasons of a Bridge's conditions while its cluster comes up.
const PENDING: [&str; 9] = [
    "WaitingForControlPlane",
    "WaitingForInfrastructure",
    "WaitingForNodes",
    "LoadBalancerPending",
    "AddressChangePending",
    "KubeconfigPending",
    "InProgress",
    "AllMet",
    "Applied",
];

/// Returns the invariant that changed conditions are Events, from the check of a controller.
pub(crate) const fn invariant(holds: fn(&Moment<'_>) -> Result<(), String>) -> Invariant {
    Invariant {
        name: "changed_conditions_are_events",
        sentence: "A change of a condition that is documented to be an Event is announced as one when it is logged.",
        holds,
    }
}

pub(crate) fn of_namespaceclass(moment: &Moment<'_>) -> Result<(), String> {
    changes_are_events(moment, |_, _, reason| !["Applying", "RollingOut"].contains(&reason))
}

/// Pending work of a cluster that was ready before is an Event as well; this is not checked.
pub(crate) fn of_bridge(moment: &Moment<'_>) -> Result<(), String> {
    changes_are_events(moment, |condition, status, reason| {
        status != "Unknown" && !COPIES.contains(&condition) && !PENDING.contains(&reason)
    })
}

pub(crate) fn of_dpuservice(moment: &Moment<'_>) -> Result<(), String> {
    changes_are_events(moment, |condition, status, reason| match (condition, status) {
        ("Ready", status) => status == "Unknown",
        (_, "Unknown") => false,
        ("Paused", _) => true,
        _ => !["Pending", "RollingOut", "Paused"].contains(&reason),
    })
}

/// Checks that a step that logs changed conditions of an object announces as many Events about it as are required. The arguments of
/// `is_event` are the type, the status and the reason.
fn changes_are_events(
    moment: &Moment<'_>,
    is_event: impl Fn(&str, &str, &str) -> bool,
) -> Result<(), String> {
    let What::Stepped { step, .. } = &moment.entry.what else { return Ok(()) };
    let (mut required, mut announced) = (BTreeMap::new(), BTreeMap::new());
    for note in &step.notes {
        match note {
            Note::ConditionChanged { object, condition, status, reason, .. }
                if is_event(condition, status, reason) =>
            {
                let change = format!("{condition} {status}, {reason}");
                required.entry(object).or_insert_with(Vec::new).push(change);
            }
            Note::EventAnnounced { object, .. } => *announced.entry(object).or_insert(0) += 1,
            _ => {}
        }
    }
    for (object, changes) in required {
        let events = announced.get(object).copied().unwrap_or(0);
        if events < changes.len() {
            return Err(format!(
                "{object}: only {events} of these changes are Events: {}",
                changes.join("; ")
            ));
        }
    }
    Ok(())
}

/// Returns the invariant that problems are warnings in the log, and nothing else is, from the check of a controller.
pub(crate) const fn warnings(holds: fn(&Moment<'_>) -> Result<(), String>) -> Invariant {
    Invariant {
        name: "problems_are_warnings",
        sentence: "A changed condition is logged as a warning exactly if it reports a problem, not success or normal progress.",
        holds,
    }
}

pub(crate) fn warnings_of_namespaceclass(moment: &Moment<'_>) -> Result<(), String> {
    problems_are_warnings(moment, |condition, status, reason| match (condition, status) {
        ("ObjectsAdopted", "True") => Some(true),
        ("ObjectsAdopted", _) => None,
        (_, status) => Some(status != "True" && !["Applying", "RollingOut", "Paused"].contains(&reason)),
    })
}

/// Pending work is a problem only if the cluster was ready before; this is not checked.
pub(crate) fn warnings_of_bridge(moment: &Moment<'_>) -> Result<(), String> {
    problems_are_warnings(moment, |condition, status, reason| match (condition, status) {
        ("Ready", "False") if PENDING.contains(&reason) => None,
        (_, "False") => Some(!COPIES.contains(&condition) && !PENDING.contains(&reason)),
        _ => Some(false),
    })
}

pub(crate) fn warnings_of_dpuservice(moment: &Moment<'_>) -> Result<(), String> {
    problems_are_warnings(moment, |_, status, reason| match (status, reason) {
        ("True", reason) => Some(reason == "ValuesRounded"),
        (_, reason) => Some(!["Pending", "AwaitingDeletion", "Paused", "RollingOut"].contains(&reason)),
    })
}

/// Checks the level of each changed condition that a step logs. The arguments of `is_problem` are the type, the status and the reason; it
/// returns nothing if they do not decide.
fn problems_are_warnings(
    moment: &Moment<'_>,
    is_problem: impl Fn(&str, &str, &str) -> Option<bool>,
) -> Result<(), String> {
    let What::Stepped { step, .. } = &moment.entry.what else { return Ok(()) };
    for note in &step.notes {
        let Note::ConditionChanged { object, condition, status, reason, warning, .. } = note else {
            continue;
        };
        if is_problem(condition, status, reason).is_some_and(|problem| problem != *warning) {
            let level = if *warning { "a warning" } else { "no warning" };
            return Err(format!("{condition} {status}, {reason}, of {object} is logged as {level}"));
        }
    }
    Ok(())
}
