//! Connects to the broker, and publishes events.
//!
//! Source: HyperFleet Sentinel, "Message Publisher", "Error Handling".

use std::sync::Arc;

use lockstep_engine::action::{Action, ActionId, Answer as _, BrokerRequest, ErrorKind, Failure, Outcome};
use lockstep_engine::broker::{Broker, CloudEvent};
use lockstep_engine::machine::{Note, Step};
use lockstep_engine::time::{Monotonic, Now};

use super::cycle::{AfterFailure, Batch, Cycle};
use super::state::{Asked, Publication, Sentinel};
use super::status::{self, Finding};
use super::{event, metrics};

impl Sentinel {
    /// Returns when the connection to the broker is due.
    pub(super) fn link_due(&self) -> Option<Monotonic> {
        let is_needed = self.cycle.is_some() && self.broker.is_some();
        self.link.due().filter(|_| is_needed)
    }

    /// Connects, and checks the connection at the beginning of each cycle.
    pub(super) fn connect(&mut self, now: Now, step: &mut Step) {
        if self.link_due().is_none_or(|at| at > now.monotonic) {
            return;
        }
        let Some(broker) = self.broker.clone() else { return };
        let action = Action::Broker(BrokerRequest::Connect { broker });
        self.link.asking = Some(self.ask(action, Asked::Connect, step));
    }

    pub(super) fn connected(&mut self, id: ActionId, outcome: Outcome, now: Now, step: &mut Step) {
        // A configuration that has changed twice may name the same broker again, so brokers are not compared.
        let Some(broker) = self.broker.clone().filter(|_| self.link.asking == Some(id)) else { return };
        self.link.asking = None;
        match outcome {
            Ok(_) => {
                self.link.up = Some(id);
                self.has_connected = true;
                // A broker that has refused events may refuse the next ones as well.
                if !self.link.is_refusing {
                    self.link.is_troubled = false;
                    self.find_connected(&broker, now, step);
                }
            }
            Err(failure) => {
                let reason = reason(failure.class).unwrap_or("ConnectionFailed");
                self.lose_link(now, step);
                let secret = self.loader.secret_problem.as_ref();
                let message = secret.map_or_else(String::new, |problem| format!("; {problem}"));
                self.not_connected(reason, format!("{}{message}", failure.message), now, step);
            }
        }
    }

    /// Records that the broker has confirmed events, or that a cycle without any has ended with a connection.
    pub(super) fn link_worked(&mut self, now: Now, step: &mut Step) {
        self.link.works();
        let Some(broker) = self.broker.clone().filter(|_| self.link.is_refusing) else { return };
        (self.link.is_troubled, self.link.is_refusing) = (false, false);
        self.find_connected(&broker, now, step);
    }

    fn find_connected(&mut self, broker: &Broker, now: Now, step: &mut Step) {
        let message = format!("connected to {}", broker.name());
        self.find(Finding::valid(status::BROKER_CONNECTED, "Connected", message), now, step);
    }

    fn lose_link(&mut self, now: Now, step: &mut Step) {
        self.link.lost(now.monotonic, &mut self.random);
        // The credentials may have been replaced.
        self.loader.is_secret_suspect = true;
        step.notes.push(self.shard().count(metrics::BROKER_ERRORS, 1));
    }

    /// Records that events can't be published to the broker.
    pub(super) fn not_connected(&mut self, reason: &'static str, message: String, now: Now, step: &mut Step) {
        self.link.is_troubled = true;
        self.find(self.publishing(None), now, step);
        self.report_problem(Finding::broken(status::BROKER_CONNECTED, reason, message), now, step);
    }

    /// Returns whether all due events are published, for a cycle that has ended, if there is one.
    pub(super) fn publishing(&self, ended: Option<&Cycle>) -> Finding {
        let failed = ended.map_or(0, |cycle| cycle.tally.failed);
        let malformed = ended.map_or(0, |cycle| cycle.tally.malformed);
        let broken = |reason, message: String| Finding::broken(status::PUBLISHING, reason, message);
        if failed > 0 {
            let next = "the next cycle publishes what is still due";
            broken("EventsGivenUp", format!("{failed} events of the last cycle were given up; {next}"))
        } else if self.link.is_refusing {
            broken(
                "EventsRefused",
                "nothing is published until the broker accepts events: see BrokerConnected".to_owned(),
            )
        } else if self.link.is_troubled {
            broken("NotConnected", "nothing is published until the broker is connected".to_owned())
        } else if ended.is_some_and(|cycle| !cycle.pager.is_complete()) {
            let message = "the last poll could not read the whole list, and published what it could: see FleetReachable";
            broken("FleetNotListed", message.to_owned())
        } else if malformed > 0 {
            let message = format!(
                "malformed resources get no events ({malformed} in the last poll): see FleetReachable"
            );
            broken("MalformedResources", message)
        } else if ended.is_some_and(Cycle::selects_nothing) {
            let message = "there is nothing to publish: no resource matches spec.shardSelector";
            Finding::valid(status::PUBLISHING, status::NOTHING_SELECTED, message)
        } else {
            let message = "every due event of the last cycle was confirmed";
            Finding::valid(status::PUBLISHING, "AllConfirmed", message)
        }
    }

    pub(super) fn publish(&mut self, now: Now, step: &mut Step) {
        let Some((broker, connection)) = self.broker.clone().zip(self.link.up) else { return };
        while let Some(cycle) = &mut self.cycle
            && let Some(batch) = cycle.take(now.monotonic)
        {
            let loaded = Arc::clone(&cycle.loaded);
            if batch.attempts > 0 {
                step.notes.push(loaded.shard.count(metrics::REPUBLISHED, batch.events.len()));
            }
            let action = Action::Broker(BrokerRequest::Publish {
                broker: Arc::clone(&broker),
                events: Arc::clone(&batch.events),
            });
            let publication = Publication { cycle: cycle.number, batch, loaded, connection };
            self.ask(action, Asked::Publish(publication), step);
        }
    }

    pub(super) fn published(
        &mut self,
        publication: Publication,
        outcome: Outcome,
        now: Now,
        step: &mut Step,
    ) {
        let Publication { cycle: number, batch, loaded, connection } = publication;
        let results = match outcome.published() {
            // None was sent.
            Err(failure) if failure.class == ErrorKind::Unavailable => {
                self.link_lost(connection, &failure, now, step);
                self.unsent(number, batch);
                return;
            }
            Ok(results) => results,
            Err(failure) => vec![Err(failure); batch.events.len()],
        };
        if let Some(refusal) = refusal_of_all(&results) {
            self.link_refuses(connection, refusal, now, step);
            self.unsent(number, batch);
            return;
        }
        let (mut left, mut throttled): (Vec<CloudEvent>, Vec<CloudEvent>) = Default::default();
        let (mut why, mut pause): (Option<Failure>, Option<Failure>) = (None, None);
        let mut results = results.into_iter();
        for sent in &*batch.events {
            let silence = || Err(Failure::new(ErrorKind::Unknown, "no answer for this event"));
            let Err(failure) = results.next().unwrap_or_else(silence) else {
                step.notes.push(event::published(sent));
                continue;
            };
            let again = event::again(sent, &mut self.random);
            if failure.class == ErrorKind::Throttled {
                throttled.push(again);
                pause = Some(failure);
                continue;
            }
            left.push(again);
            // A broken connection is the most useful reason.
            if why.as_ref().is_none_or(|why| why.class != ErrorKind::Unknown) {
                why = Some(failure);
            }
        }
        let confirmed = batch.events.len() - left.len() - throttled.len();
        if confirmed > 0 {
            step.notes.push(loaded.shard.count(metrics::PUBLISHED, confirmed));
            // A broker that asks for a pause gets a longer one each time, until it confirms all events of a batch.
            if pause.is_none() && self.link.up == Some(connection) {
                self.link_worked(now, step);
            }
        }
        if let Some(pause) = pause {
            self.link_refuses(connection, &pause, now, step);
            self.unsent(number, Batch { events: throttled.into(), attempts: batch.attempts });
        }
        if let Some(why) = why.as_ref().filter(|why| why.class == ErrorKind::Unknown) {
            self.link_lost(connection, why, now, step);
        }
        let Some(cycle) = self.cycle.as_mut().filter(|cycle| cycle.number == number) else { return };
        cycle.confirmed(confirmed);
        let Some(why) = why else { return };
        let first = left[0].data["id"].as_str().unwrap_or_default().to_owned();
        let count = left.len();
        let message = match cycle.unconfirmed(left, batch.attempts, now.monotonic, &mut self.random) {
            AfterFailure::Retry => {
                format!("{} not confirmed and will be sent again (the first: {first}): {why}", were(count))
            }
            AfterFailure::GiveUp => {
                step.notes.push(loaded.shard.count(metrics::BROKER_ERRORS, count));
                format!("{} given up for this cycle (the first: {first}): {why}", were(count))
            }
        };
        step.notes.push(Note::Warning { message });
    }

    /// Records that a connection was lost, unless it is not the current one.
    fn link_lost(&mut self, connection: ActionId, failure: &Failure, now: Now, step: &mut Step) {
        if self.link.up == Some(connection) {
            self.lose_link(now, step);
            let message = format!("the connection to the broker was lost: {}", failure.message);
            self.not_connected("ConnectionLost", message, now, step);
        }
    }

    /// Records that the broker refuses all events that are sent over a connection, unless it is not the current one. The next ones are
    /// sent after the backoff for connections.
    fn link_refuses(&mut self, connection: ActionId, refusal: &Failure, now: Now, step: &mut Step) {
        if self.link.up == Some(connection) {
            self.lose_link(now, step);
            self.link.is_refusing = true;
            let reason = reason(refusal.class).unwrap_or("EventsThrottled");
            self.not_connected(reason, refusal.message.clone(), now, step);
        }
    }

    /// Puts a batch back into its cycle.
    fn unsent(&mut self, cycle: u64, batch: Batch) {
        if let Some(cycle) = self.cycle.as_mut().filter(|current| current.number == cycle) {
            cycle.unsent(batch);
        }
    }
}

/// Returns the reason of `BrokerConnected` for a failure that is about the configuration.
fn reason(class: ErrorKind) -> Option<&'static str> {
    match class {
        ErrorKind::Forbidden => Some("CredentialsRefused"),
        ErrorKind::Invalid | ErrorKind::NotFound => Some("ConfigurationRefused"),
        _ => None,
    }
}

/// Returns why a broker takes none of the events of a batch: it does not permit that, has no such topic, or asks for a pause. That is
/// not about these events, so it is no reason to give them up.
fn refusal_of_all(results: &[Result<(), Failure>]) -> Option<&Failure> {
    let is_refusal = |failure: &Failure| {
        matches!(failure.class, ErrorKind::Forbidden | ErrorKind::NotFound | ErrorKind::Throttled)
    };
    let all = results.iter().all(|result| result.as_ref().is_err_and(is_refusal));
    results.first()?.as_ref().err().filter(|_| all)
}

/// Returns a number of events, as the beginning of a sentence.
fn were(events: usize) -> String {
    if events == 1 { "1 event was".to_owned() } else { format!("{events} events were") }
}
