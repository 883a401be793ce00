//! What must hold in every run, whatever goes wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_core::engine::lease::RENEW_DEADLINE;

use super::trace::{Fact, Process};

/// How late a timer of the runtime may fire.
const TIMER: Duration = Duration::from_millis(5);

type Facts = [(Duration, Fact)];

/// **One leader.** Who begins to lead is the only one: every process that led before has ended, which is when its last
/// write was asked for. All clocks that count here are monotonic, and in a simulation they run alike, so that no overlap at
/// all is allowed. Writes that were asked for in time may *arrive* later, held by the network while another leads;
/// preconditions make these harmless, which is for the final world to show.
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

/// **A lease behind every write.** A controller asks for a write no later than [`RENEW_DEADLINE`] (10 s) after the last
/// request was *sent* by which its process was granted the lease. Another process may take the lease 15 s after it was
/// granted, and it is never granted before it was asked for: so the last write of one leader is asked for 5 s before the
/// first of the next, however slow the network was.
pub fn leased(facts: &Facts) -> Result<(), String> {
    let mut granted: BTreeMap<Process, Duration> = BTreeMap::new();
    for (at, fact) in facts {
        match fact {
            Fact::Granted(process, sent) => {
                // Answers to requests that were given up may come after those to later ones.
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

/// **Quiet.** From this time on operators write nothing but their lease. Left out are Kubernetes Events, which nothing
/// depends on.
pub fn quiet(facts: &Facts, from: Duration) -> Result<(), String> {
    match facts.iter().find(|(at, fact)| *at >= from && is_write_of_operator(fact)) {
        Some((at, fact)) => Err(format!("at {at:?} a write though nothing has changed: {fact:?}")),
        None => Ok(()),
    }
}

/// When an operator last wrote anything but its lease and Kubernetes Events.
pub fn last_write(facts: &Facts) -> Duration {
    let written = facts.iter().rev().find(|(_, fact)| is_write_of_operator(fact));
    written.map_or(Duration::ZERO, |(at, _)| *at)
}

/// Whether an operator has asked for a write at this time or later.
pub fn writing(facts: &Facts, since: Duration) -> bool {
    let mut recent = facts.iter().rev().take_while(|(at, _)| *at >= since);
    recent.any(|(_, fact)| matches!(fact, Fact::Writes(..)))
}

/// Who leads at the end.
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

/// How often the server carried out which writes for operators, by method and plural of the kind.
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

/// How many writes the server carried out for a process after another one had begun to lead.
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
