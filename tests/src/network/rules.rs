//! The invariants of every run, with any faults.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_engine::lease::RENEW_DEADLINE;

use super::trace::{Fact, Process};

/// How late a timer of the runtime may fire.
const TIMER: Duration = Duration::from_millis(5);

type Facts = [(Duration, Fact)];

/// Checks **one leader**: when a process begins to lead, every earlier leader has ended. A process ends with its last requested
/// write. All clocks that count here are monotonic, and in a simulation they run alike, so no overlap is allowed. The network
/// may delay writes that were requested in time, so that they *arrive* while another process leads. Preconditions make these
/// harmless, which the check of the final state shows.
pub fn one_leader(facts: &Facts) -> Result<(), String> {
    let mut leader: Option<Process> = None;
    for (at, fact) in facts {
        match fact {
            Fact::Leads(process) => {
                if let Some(other) = leader.filter(|other| other != process) {
                    return Err(format!("at {at:?} {process} leads while {other} still does"));
                }
                leader = Some(*process);
            }
            Fact::Ended(process) if leader == Some(*process) => leader = None,
            Fact::Writes(process, what) if leader != Some(*process) => {
                return Err(format!("at {at:?} {process} writes though it does not lead: {what}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks **a lease behind every write**: a controller requests a write at most [`RENEW_DEADLINE`] (10 s) after its process
/// *sent* the last request that was granted the lease. Another process may take the lease 15 s after it was granted, and it is
/// never granted before it was requested. So the last write of one leader is requested 5 s before the first of the next,
/// however slow the network was.
pub fn leased(facts: &Facts) -> Result<(), String> {
    let mut granted: BTreeMap<Process, Duration> = BTreeMap::new();
    for (at, fact) in facts {
        match fact {
            Fact::Granted(process, sent) => {
                // Answers to abandoned requests may arrive after those to later requests.
                let last = granted.entry(*process).or_default();
                *last = (*last).max(*sent);
            }
            Fact::Writes(process, what) => {
                let since = granted.get(process).map(|sent| at.saturating_sub(*sent));
                if since.is_none_or(|since| since > RENEW_DEADLINE + TIMER) {
                    return Err(format!("at {at:?} {process} writes {since:?} after its last lease: {what}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks **quiet**: from this time on operators write nothing except their lease. Kubernetes Events are ignored, because
/// nothing depends on them.
pub fn quiet(facts: &Facts, from: Duration) -> Result<(), String> {
    match facts.iter().find(|(at, fact)| *at >= from && is_write_of_operator(fact)) {
        Some((at, fact)) => Err(format!("at {at:?} a write though nothing has changed: {fact:?}")),
        None => Ok(()),
    }
}

/// Returns when an operator last wrote anything except its lease and Kubernetes Events.
pub fn last_write(facts: &Facts) -> Duration {
    let written = facts.iter().rev().find(|(_, fact)| is_write_of_operator(fact));
    written.map_or(Duration::ZERO, |(at, _)| *at)
}

/// Returns whether an operator has requested a write at this time or later.
pub fn writing(facts: &Facts, since: Duration) -> bool {
    let mut recent = facts.iter().rev().take_while(|(at, _)| *at >= since);
    recent.any(|(_, fact)| matches!(fact, Fact::Writes(..)))
}

/// Returns the leader at the end.
pub fn leader(facts: &Facts) -> Option<Process> {
    facts.iter().fold(None, |leader, (_, fact)| match fact {
        Fact::Leads(process) => Some(*process),
        Fact::Ended(process) if leader == Some(*process) => None,
        _ => leader,
    })
}

fn is_write_of_operator(fact: &Fact) -> bool {
    let Fact::Written(agent, what) = fact else { return false };
    agent.starts_with("operator-") && !what.contains("/events.k8s.io/")
}

/// Returns how often the server executed each write of the operators, by method and plural of the kind.
pub fn writes(facts: &Facts) -> BTreeMap<String, usize> {
    let mut writes = BTreeMap::new();
    for (_, fact) in facts.iter().filter(|(_, fact)| is_write_of_operator(fact)) {
        let Fact::Written(_, what) = fact else { continue };
        let (method, path) = what.split_once(' ').unwrap_or_default();
        let mut parts = path.split('/').skip_while(|part| *part != "namespaces").skip(2);
        *writes.entry(format!("{method} {}", parts.next().unwrap_or(path))).or_insert(0) += 1;
    }
    writes
}

/// Returns how many writes the server executed for a process after another one had begun to lead.
pub fn late_writes(facts: &Facts) -> usize {
    let mut leader: Option<String> = None;
    let mut late = 0;
    for (_, fact) in facts {
        match fact {
            Fact::Leads(process) => leader = Some(process.to_string()),
            Fact::Written(agent, _) if agent.starts_with("operator-") => {
                late += usize::from(leader.as_ref().is_some_and(|leader| leader != agent));
            }
            _ => {}
        }
    }
    late
}
