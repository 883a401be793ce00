//! The changed conditions that the documentation of a controller promises as Kubernetes Events.

use std::collections::BTreeMap;

use lockstep_engine::machine::Note;
use lockstep_sim::cluster::What;
use lockstep_sim::invariant::{Invariant, Moment};

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
    const COPIES: [&str; 3] = ["HostedClusterAvailable", "HostedClusterProgressing", "HostedClusterDegraded"];
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
