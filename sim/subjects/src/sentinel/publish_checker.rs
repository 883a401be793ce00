//! Checks every process: its input, and what it published because of that.

use std::collections::{BTreeMap, BTreeSet};

use lockstep_engine::action::{Action, ActionId, BrokerRequest, ErrorKind, Failure, Fetch, Outcome, Success};
use lockstep_engine::machine::{Event, Step};
use lockstep_engine::object::ResourceVersion;
use lockstep_engine::time::Now;
use lockstep_sentinel::config::{self, Config};
use lockstep_sentinel::metrics::{self, operation};
use lockstep_sim::cluster::{Entry, What};
use lockstep_sim::subject::{Checker, Testimony};
use serde_json::Value;

use super::expressions::Expressions;
use super::listing::Listing;
use super::measured::measured;
use super::oracle::{Demand, Pages, Verdict};
use super::outage_checker::{OutageChecker, is_pause, is_refusal};
use super::takeover_checker::Takeover;

/// An event may be dropped after this many attempts.
const ATTEMPTS: u32 = 5;
/// The fields of events that do not depend on expressions.
const OWN_DATA: [&str; 7] =
    ["resourceType", "resourceId", "id", "kind", "href", "generation", "owner_references"];

/// One checker for each process.
#[derive(Clone, Default)]
pub(super) struct PublishChecker(BTreeMap<usize, Eye>);

impl Checker for PublishChecker {
    fn fork(&self) -> Box<dyn Checker> {
        Box::new(self.clone())
    }

    fn see(&mut self, entry: &Entry) -> Result<(), Testimony> {
        match &entry.what {
            What::Started { process, .. } | What::Died { process } => {
                self.0.remove(process);
                Ok(())
            }
            What::Stepped { process, now, event, step } => {
                self.0.entry(*process).or_default().see(*now, event, step)
            }
            What::Carried(_) | What::Changed(_) => Ok(()),
        }
    }
}

/// The state of a due resource in the cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    Waits,
    Sent,
    Confirmed,
    Unconfirmed,
}

#[derive(Clone, Default)]
struct Eye {
    is_leading: bool,
    config: Option<Config>,
    expressions: Expressions,
    version: ResourceVersion,
    is_listed: bool,
    /// Counts cycles. A cycle ends on completion or at a change of the configuration.
    cycle: u64,
    fetches: BTreeMap<ActionId, (u64, String)>,
    pages: Pages,
    listing: Listing,
    /// Number of poll failures that were counted.
    errors: u64,
    /// The page for which the API throttled the last request.
    put_off: Option<String>,
    outages: OutageChecker,
    takeover: Takeover,
    publishes: BTreeMap<ActionId, (u64, Vec<String>)>,
    seen: BTreeSet<String>,
    due: BTreeMap<String, (Course, u32)>,
    /// The fields of the events of due resources that depend on expressions.
    data: BTreeMap<String, BTreeMap<String, Value>>,
    events: BTreeMap<String, String>,
}

impl Eye {
    fn see(&mut self, now: Now, event: &Event, step: &Step) -> Result<(), Testimony> {
        self.outages.see(now, event, step)?;
        self.takeover.see(event, step)?;
        match event {
            Event::Applied { kind, object } if kind.kind == "SentinelConfig" => self.configured(object),
            Event::LeadershipChanged { leading } => self.is_leading = *leading,
            // After a list without the object, the process accepts the next version as it is.
            Event::ListStarted { .. } => self.is_listed = false,
            Event::ListCompleted { .. } if !self.is_listed => self.deleted(),
            Event::Deleted { .. } => self.deleted(),
            Event::Finished { id, outcome } => {
                if let Some((cycle, url)) = self.fetches.remove(id) {
                    let is_throttled = |failure: &Failure| failure.class == ErrorKind::Throttled;
                    if cycle == self.cycle {
                        self.put_off = outcome.as_ref().is_err_and(is_throttled).then(|| url.clone());
                        self.fetched(&url, outcome, now, step)?;
                    }
                } else if let Some((cycle, resources)) = self.publishes.remove(id) {
                    self.published(cycle == self.cycle, &resources, outcome, step)?;
                }
            }
            _ => {}
        }
        self.errors += measured(step, metrics::API_ERRORS, Some(operation::FETCH_RESOURCES)).unwrap_or(0);
        if measured(step, metrics::DURATION, None).is_some() {
            self.ended()?;
        }
        for request in &step.requests {
            let acts = matches!(request.action, Action::Http(_) | Action::Broker(_));
            if acts && !self.is_leading {
                return Err(Testimony {
                    invariant: "a_standby_polls_nothing",
                    sentence: "Only the replica that holds the Lease polls, connects to the broker and publishes.",
                    seen: format!("{} was requested", request.action.name()),
                });
            }
            if acts && self.config.is_none() {
                return Err(Testimony {
                    invariant: "nothing_happens_without_a_configuration",
                    sentence: "Nothing is polled or published before a configuration exists, or after it is deleted.",
                    seen: format!("{} was requested", request.action.name()),
                });
            }
            match &request.action {
                Action::Http(Fetch { url, .. }) => {
                    if let Some(put_off) = self.put_off.take().filter(|put_off| put_off != url) {
                        return Err(passed_over(&put_off));
                    }
                    self.listing.asked(url)?;
                    self.fetches.insert(request.id, (self.cycle, url.clone()));
                }
                Action::Broker(BrokerRequest::Publish { events, .. }) => {
                    let mut resources = Vec::new();
                    for event in events.iter() {
                        resources.push(self.asks(&event.id, &event.data)?);
                    }
                    self.publishes.insert(request.id, (self.cycle, resources));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn deleted(&mut self) {
        (self.version, self.config) = (ResourceVersion::default(), None);
        self.begin_cycle();
    }

    fn configured(&mut self, object: &Value) {
        // Older versions in a list are ignored.
        self.is_listed = true;
        let version = ResourceVersion::of(object);
        if version < self.version {
            return;
        }
        self.version = version;
        let Ok(config) = config::read(object) else { return };
        if self.config.as_ref() != Some(&config) {
            self.config = Some(config);
            self.expressions = Expressions::of(&object["spec"]);
            self.begin_cycle();
        }
    }

    fn begin_cycle(&mut self) {
        self.cycle += 1;
        self.listing = Listing::default();
        self.errors = 0;
        self.put_off = None;
        self.seen.clear();
        self.due.clear();
        self.data.clear();
    }

    fn fetched(&mut self, url: &str, outcome: &Outcome, now: Now, step: &Step) -> Result<(), Testimony> {
        let page = match outcome {
            Ok(Success::Document(document)) => self.pages.read(url, &document.text()),
            _ => None,
        };
        self.listing.answered(url, page.as_deref(), outcome);
        let (Some(config), Some(page)) = (&self.config, page) else { return Ok(()) };
        let (mut counts, mut failed) = (BTreeMap::new(), 0);
        let verdicts = page.items(config, &self.expressions, now.wall.timestamp());
        for Verdict { id, demand, data, failures } in verdicts {
            if demand != Demand::Malformed && !self.seen.insert(id.clone()) {
                continue;
            }
            *counts.entry(demand as u8).or_insert(0) += 1;
            failed += failures;
            if demand == Demand::Publish {
                self.data.insert(id.clone(), data);
                self.due.insert(id, (Course::Waits, 0));
            }
        }
        let reported = [
            (Demand::SkipReady, measured(step, metrics::SKIPPED, Some("ready"))),
            (Demand::SkipNotReady, measured(step, metrics::SKIPPED, Some("not_ready"))),
            (Demand::Malformed, measured(step, metrics::MALFORMED, None)),
        ];
        for (demand, reported) in reported {
            let counted = counts.get(&(demand as u8)).copied().unwrap_or(0);
            if reported.unwrap_or(0) != counted {
                return Err(Testimony {
                    invariant: "skipped_resources_are_counted",
                    sentence: "The skipped resources of each page are counted by their state, and its malformed ones as malformed.",
                    seen: format!("{demand:?}: {counted} on the page, {reported:?} counted"),
                });
            }
        }
        let reported = measured(step, metrics::EXPRESSION_ERRORS, None).unwrap_or(0);
        if reported != failed {
            return Err(Testimony {
                invariant: "failed_expressions_are_counted",
                sentence: "Each expression that fails for a resource is counted once for each poll.",
                seen: format!("{failed} failed, {reported} counted"),
            });
        }
        Ok(())
    }

    fn published(
        &mut self,
        is_current: bool,
        resources: &[String],
        outcome: &Outcome,
        step: &Step,
    ) -> Result<(), Testimony> {
        let none = Vec::new();
        let results = match outcome {
            Ok(Success::Published(results)) => results,
            _ => &none,
        };
        let confirmed = results.iter().filter(|result| result.is_ok()).count() as u64;
        let reported = measured(step, metrics::PUBLISHED, None).unwrap_or(0);
        if reported != confirmed {
            return Err(Testimony {
                invariant: "published_is_counted_when_confirmed",
                sentence: "An event is counted as published only when the broker confirms it.",
                seen: format!("{confirmed} confirmed, {reported} counted"),
            });
        }
        let unsent = matches!(outcome, Err(failure) if failure.class == ErrorKind::Unavailable);
        // These are not about the events.
        let is_refused = !results.is_empty() && results.iter().all(is_refusal);
        for (index, resource) in resources.iter().enumerate() {
            let Some((course, attempts)) = self.due.get_mut(resource).filter(|_| is_current) else {
                continue;
            };
            *course = match results.get(index) {
                Some(Ok(())) => Course::Confirmed,
                Some(result) if is_refused || is_pause(result) => Course::Waits,
                _ if unsent => Course::Waits,
                _ => {
                    *attempts += 1;
                    Course::Unconfirmed
                }
            };
        }
        Ok(())
    }

    fn asks(&mut self, event: &str, data: &Value) -> Result<String, Testimony> {
        let resource = data["id"].as_str().unwrap_or_default().to_owned();
        let (course, attempts) = self.due.get(&resource).copied().ok_or_else(|| Testimony {
            invariant: "never_before_it_is_due",
            sentence: "An event is published only for a resource that the fleet returned in this cycle and that has an expired backoff.",
            seen: format!("resource {resource} was not due"),
        })?;
        let expected = self.data.get(&resource).into_iter().flatten();
        let mut wrong = expected.filter(|(field, value)| data[field.as_str()] != **value);
        let of_expressions = |field: &&String| !OWN_DATA.contains(&field.as_str());
        let count = data.as_object().map_or(0, |data| data.keys().filter(of_expressions).count());
        if wrong.next().is_some() || count != self.data.get(&resource).map_or(0, BTreeMap::len) {
            return Err(Testimony {
                invariant: "events_have_the_configured_fields",
                sentence: "An event has the fields and the reason that the loaded configuration gives it.",
                seen: format!("{data} for {:?}", self.data.get(&resource)),
            });
        }
        let is_first = course == Course::Waits && attempts == 0;
        let known = self.events.entry(event.to_owned()).or_insert_with(|| resource.clone());
        if *known != resource {
            return Err(Testimony {
                invariant: "event_ids_are_unique",
                sentence: "No two events of a process have the same id.",
                seen: format!("{event} was published for {known} and for {resource}"),
            });
        }
        if !(is_first || matches!(course, Course::Waits | Course::Unconfirmed)) {
            return Err(Testimony {
                invariant: "once_a_cycle",
                sentence: "In one cycle an event is published again only if it was not confirmed.",
                seen: format!("resource {resource} is {course:?} already"),
            });
        }
        self.due.insert(resource.clone(), (Course::Sent, attempts));
        Ok(resource)
    }

    fn ended(&mut self) -> Result<(), Testimony> {
        self.listing.ended()?;
        if self.errors > 1 || (self.errors == 0 && self.listing.has_gaps()) {
            return Err(Testimony {
                invariant: "a_poll_fails_once",
                sentence: "A poll that could not read its whole list is counted as one failure of the API.",
                seen: format!(
                    "{} failures counted; pages are missing: {}",
                    self.errors,
                    self.listing.has_gaps()
                ),
            });
        }
        if let Some(put_off) = &self.put_off {
            return Err(passed_over(put_off));
        }
        let is_settled = |(course, attempts): &(Course, u32)| match course {
            Course::Confirmed => true,
            Course::Unconfirmed => *attempts >= ATTEMPTS,
            Course::Waits | Course::Sent => false,
        };
        if let Some((resource, course)) = self.due.iter().find(|(_, course)| !is_settled(course)) {
            return Err(Testimony {
                invariant: "no_due_resource_is_forgotten",
                sentence: "A cycle ends when all due resources are confirmed, or were given up after several attempts.",
                seen: format!("the cycle ended, and resource {resource} is {course:?}"),
            });
        }
        let next = self.listing.next();
        self.begin_cycle();
        self.listing = next;
        Ok(())
    }
}

fn passed_over(url: &str) -> Testimony {
    Testimony {
        invariant: "delayed_pages_are_requested_again",
        sentence: "A page that the API delays (429) is the next page that is requested.",
        seen: format!("{url} was delayed, but was not requested again"),
    }
}
