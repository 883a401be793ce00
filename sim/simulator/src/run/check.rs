//! Checks one journal entry against the invariants of all controllers and those of the controllers under test.

use lockstep_apiserver::server::ApiServer;

use super::outcome::Violation;
use crate::cluster::Entry;
use crate::history::History;
use crate::invariant::{Invariant, Moment, SAFETY};
use crate::subject::SystemUnderTest;

/// Checks an entry that the history does not have yet. The server is in the state just after the entry. An entry about a process
/// is checked against the invariants of its controller only.
pub(crate) fn check(
    subject: &dyn SystemUnderTest,
    server: &ApiServer,
    history: &History,
    entry: &Entry,
) -> Result<(), Violation> {
    let permitted = match entry.by_process() {
        Some((_, change)) => subject.may_change(change, server, history),
        None => Ok(()),
    };
    let controller = entry.process().and_then(|process| history.controller(process));
    let is_concerned =
        |member: &&&dyn SystemUnderTest| controller.is_none_or(|controller| controller == member.name());
    let members = || subject.members().iter().filter(is_concerned);
    let backoffs = members().next().map_or_else(|| subject.backoffs(), |member| member.backoffs());
    let moment = Moment { permitted, backoffs, server, history, entry };
    let of_members = members().flat_map(|member| member.invariants());
    for Invariant { name, sentence, holds } in SAFETY.iter().chain(subject.invariants()).chain(of_members) {
        if let Err(seen) = holds(&moment) {
            return Err(Violation { invariant: name, sentence, seen, at: entry.at });
        }
    }
    Ok(())
}
