//! Checks one journal entry against the invariants of all controllers and those of the controller under test.

use lockstep_apiserver::server::ApiServer;

use super::outcome::Violation;
use crate::cluster::Entry;
use crate::history::History;
use crate::invariant::{Invariant, Moment, SAFETY};
use crate::subject::SystemUnderTest;

/// Checks an entry that the history does not have yet. The server is in the state just after the entry.
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
    let moment = Moment { permitted, backoffs: subject.backoffs(), server, history, entry };
    for Invariant { name, sentence, holds } in SAFETY.iter().chain(subject.invariants()) {
        if let Err(seen) = holds(&moment) {
            return Err(Violation { invariant: name, sentence, seen, at: entry.at });
        }
    }
    Ok(())
}
