//! Mistakes that a Sentinel could make.

use std::borrow::Cow;
use std::time::Duration;

use jiff::SignedDuration;
use lockstep_engine::action::{
    Action, BrokerRequest, ErrorKind, Failure, Fetch, KubeRequest, Outcome, Request, Success,
};
use lockstep_engine::machine::{Amount, Event, Measure, Note, Step};
use lockstep_engine::time::{Now, Wall};
use lockstep_sentinel::metrics::{self, PUBLISHED};
use lockstep_sim::bugs::{Bug, Flaw, plant};
use serde_json::Value;

use self::confirms::{MissingTopicIsALoss, NackIsAConfirm, PauseIsANack, SilenceIsAConfirm};
use super::common::Asked;

mod confirms;

/// The controller in which these bugs are planted.
const HOST: &str = lockstep_crds::sentinel::CONTROLLER;

const fn bug(
    name: &'static str,
    sentence: &'static str,
    plant: fn(Box<dyn lockstep_engine::machine::Machine>) -> Box<dyn lockstep_engine::machine::Machine>,
) -> Bug {
    Bug { name, sentence, controller: HOST, plant, garble: None }
}

pub(super) const BUGS: &[Bug] = &[
    bug("publishes_early", "Backoffs are too short.", plant::<PublishesEarly>),
    bug(
        "silence_is_a_confirm",
        "An event that was never confirmed counts as confirmed.",
        plant::<SilenceIsAConfirm>,
    ),
    bug(
        "a_nack_is_a_confirm",
        "An event that the broker refused counts as confirmed.",
        plant::<NackIsAConfirm>,
    ),
    bug(
        "a_pause_is_a_nack",
        "Events for which the broker has no quota are given up like refused ones.",
        plant::<PauseIsANack>,
    ),
    bug(
        "a_missing_topic_is_a_lost_connection",
        "If the topic does not exist, the connection is reported as lost, and as working again.",
        plant::<MissingTopicIsALoss>,
    ),
    bug(
        "counts_what_is_sent",
        "Events are counted as published when they are sent.",
        plant::<CountsWhatIsSent>,
    ),
    bug("forgets_the_last_item", "The last item of each page is dropped.", plant::<ForgetsTheLastItem>),
    bug(
        "one_bad_item_spoils_a_page",
        "A page with a malformed item is discarded.",
        plant::<OneBadItemSpoilsAPage>,
    ),
    bug("publishes_twice", "The first event of a request is sent twice.", plant::<PublishesTwice>),
    bug("never_connects_again", "A connection that failed is never retried.", plant::<NeverConnectsAgain>),
    bug("never_reloads", "Changes of the configuration are ignored.", plant::<NeverReloads>),
    bug("skips_are_not_counted", "Skipped resources are not counted.", plant::<SkipsAreNotCounted>),
    bug("logs_broker_url", "The broker's URL is logged after connecting.", plant::<LogsTheUrl>),
    bug(
        "never_retries_a_busy_api",
        "After a response with Retry-After, the API is never requested again.",
        plant::<GivesUp>,
    ),
    bug("outages_are_not_reported", "All conditions are True during every outage.", plant::<AllIsWell>),
    bug(
        "treats_retry_after_as_a_failure",
        "A page that the API delays (429) counts as failed and is skipped.",
        plant::<TakesPleasForFailures>,
    ),
    bug(
        "a_failing_page_ends_the_cycle",
        "When a page can't be read, the following pages are left for the next cycle.",
        plant::<FailingPageEndsTheCycle>,
    ),
    bug(
        "a_failing_page_is_the_last",
        "A page that can't be read counts as empty, and so as the end of the list.",
        plant::<FailingPageIsTheLast>,
    ),
    bug(
        "requests_pages_beyond_the_end",
        "Pages beyond the end of the list are requested.",
        plant::<AsksBeyondTheEnd>,
    ),
    bug(
        "skips_what_is_too_large",
        "A page that is too large counts as failed and is skipped.",
        plant::<SkipsWhatIsTooLarge>,
    ),
    bug(
        "begins_at_page_6",
        "After a poll that read nothing, the next one begins at page 6.",
        plant::<BeginsAnywhere>,
    ),
    bug(
        "continues_without_a_configuration",
        "The deletion of the configuration is ignored.",
        plant::<ContinuesWithoutAConfiguration>,
    ),
    bug(
        "status_lags_behind",
        "The status is updated half a minute after a change of the configuration.",
        plant::<StatusLagsBehind>,
    ),
    bug(
        "counts_failed_pages",
        "Each failed page is counted as a failure of the API.",
        plant::<CountsFailedPages>,
    ),
];

#[derive(Default)]
struct PublishesEarly;

impl Flaw for PublishesEarly {
    fn now(&mut self, now: Now) -> Now {
        let ahead = now.wall.timestamp().saturating_add(SignedDuration::from_secs(3));
        Now { wall: Wall::from_timestamp(ahead.unwrap_or(now.wall.timestamp())), ..now }
    }
}

#[derive(Default)]
struct CountsWhatIsSent(u64);

impl Flaw for CountsWhatIsSent {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if let Action::Broker(BrokerRequest::Publish { events, .. }) = &request.action {
            self.0 += events.len() as u64;
        }
        None
    }

    fn step(&mut self, step: &mut Step) {
        for note in &mut step.notes {
            if let Note::Measured(measure) = note
                && measure.metric == PUBLISHED
            {
                measure.by = Amount::Add(std::mem::take(&mut self.0));
            }
        }
    }
}

/// Changes the document in an event.
fn document(event: &mut Event, change: impl FnOnce(&mut Value) -> bool) {
    if let Event::Finished { outcome, .. } = event
        && let Ok(Success::Document(kept)) = outcome
        && let Ok(mut document) = serde_json::from_str::<Value>(&kept.text())
    {
        *outcome = if change(&mut document) {
            Ok(Success::Document(document.to_string().into()))
        } else {
            Err(Failure::new(ErrorKind::Invalid, "malformed"))
        };
    }
}

#[derive(Default)]
struct ForgetsTheLastItem;

impl Flaw for ForgetsTheLastItem {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        document(&mut event, |page| {
            // All but one item of the page, so that the next page begins at the right item.
            if let Some(items) = page["items"].as_array_mut().filter(|items| items.len() > 1) {
                let before_last = items.len() - 2;
                items.remove(before_last);
            }
            true
        });
        Some(event)
    }
}

#[derive(Default)]
struct OneBadItemSpoilsAPage;

impl Flaw for OneBadItemSpoilsAPage {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        let is_good = |page: &mut Value| {
            page["items"].as_array().is_some_and(|items| items.iter().all(|item| item["id"].is_string()))
        };
        document(&mut event, is_good);
        Some(event)
    }
}

#[derive(Default)]
struct PublishesTwice;

impl Flaw for PublishesTwice {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if let Action::Broker(BrokerRequest::Publish { events, .. }) = &mut request.action {
            let first = events.first().cloned();
            *events = events.iter().cloned().chain(first).collect::<Vec<_>>().into();
        }
        None
    }
}

#[derive(Default)]
struct NeverConnectsAgain {
    connects: Vec<lockstep_engine::action::ActionId>,
    has_failed: bool,
}

impl Flaw for NeverConnectsAgain {
    fn event(&mut self, event: Event) -> Option<Event> {
        if let Event::Finished { id, outcome: Err(_) } = &event {
            self.has_failed |= self.connects.contains(id);
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if matches!(request.action, Action::Broker(BrokerRequest::Connect { .. })) {
            self.connects.push(request.id);
            let gone = || Err(Failure::new(ErrorKind::Unavailable, "never again"));
            return self.has_failed.then(gone);
        }
        None
    }
}

#[derive(Default)]
struct NeverReloads {
    seen: bool,
}

impl Flaw for NeverReloads {
    fn event(&mut self, event: Event) -> Option<Event> {
        let is_config = matches!(&event, Event::Applied { .. });
        if is_config && std::mem::replace(&mut self.seen, true) { None } else { Some(event) }
    }
}

#[derive(Default)]
struct SkipsAreNotCounted;

impl Flaw for SkipsAreNotCounted {
    fn step(&mut self, step: &mut Step) {
        step.notes
            .retain(|note| !matches!(note, Note::Measured(measure) if measure.metric == metrics::SKIPPED));
    }
}

#[derive(Default)]
struct LogsTheUrl(Option<String>);

impl Flaw for LogsTheUrl {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if let Action::Broker(BrokerRequest::Connect { broker }) = &request.action
            && let lockstep_engine::broker::Broker::RabbitMq { url, .. } = &**broker
        {
            self.0 = Some(format!("connecting to {}", url.reveal()));
        }
        None
    }

    fn step(&mut self, step: &mut Step) {
        step.notes.extend(self.0.take().map(Note::info));
    }
}

#[derive(Default)]
struct GivesUp {
    is_offended: bool,
}

impl Flaw for GivesUp {
    fn event(&mut self, event: Event) -> Option<Event> {
        let is_throttled = |failure: &Failure| failure.class == ErrorKind::Throttled;
        if let Event::Finished { outcome: Err(failure), .. } = &event {
            self.is_offended |= is_throttled(failure) && failure.retry_after > Some(Duration::ZERO);
        }
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if self.is_offended && matches!(request.action, Action::Http(_)) {
            return Some(Err(Failure::new(ErrorKind::Forbidden, "never again")));
        }
        None
    }
}

/// Replaces the outcome of a failed page.
fn failed_page(asked: &mut Asked, mut event: Event, becomes: fn() -> Outcome) -> Event {
    let action = asked.answered(&event);
    if let (Some(Action::Http(_)), Event::Finished { outcome: outcome @ Err(_), .. }) = (action, &mut event) {
        *outcome = becomes();
    }
    event
}

#[derive(Default)]
struct FailingPageEndsTheCycle(Asked);

impl Flaw for FailingPageEndsTheCycle {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(failed_page(&mut self.0, event, || Err(Failure::new(ErrorKind::Gone, "the rest can wait"))))
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        self.0.note(request);
        None
    }
}

#[derive(Default)]
struct FailingPageIsTheLast(Asked);

impl Flaw for FailingPageIsTheLast {
    fn event(&mut self, event: Event) -> Option<Event> {
        let empty = || Ok(Success::Document(r#"{"items":[],"total":0}"#.into()));
        Some(failed_page(&mut self.0, event, empty))
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        self.0.note(request);
        None
    }
}

#[derive(Default)]
struct AllIsWell;

impl Flaw for AllIsWell {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if let Action::Kube(KubeRequest::Patch { patch, .. }) = &mut request.action {
            let mut well = (**patch).clone();
            for condition in
                well.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten()
            {
                condition["status"] = "True".into();
            }
            *patch = well.into();
        }
        None
    }
}

#[derive(Default)]
struct TakesPleasForFailures;

impl Flaw for TakesPleasForFailures {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        if let Event::Finished { outcome: Err(failure), .. } = &mut event
            && failure.class == ErrorKind::Throttled
        {
            (failure.class, failure.retry_after) = (ErrorKind::Unavailable, None);
        }
        Some(event)
    }
}

#[derive(Default)]
struct SkipsWhatIsTooLarge;

impl Flaw for SkipsWhatIsTooLarge {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        if let Event::Finished { outcome, .. } = &mut event
            && let Ok(Success::Oversized { why, .. }) = outcome
        {
            *outcome = Err(Failure::new(ErrorKind::Invalid, std::mem::take(why)));
        }
        Some(event)
    }
}

#[derive(Default)]
struct AsksBeyondTheEnd;

impl Flaw for AsksBeyondTheEnd {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        document(&mut event, |page| {
            if let Some(total) = page["total"].as_u64() {
                page["total"] = (total + 1000).into();
            }
            true
        });
        Some(event)
    }
}

#[derive(Default)]
struct BeginsAnywhere {
    asked: Asked,
    has_read: bool,
    follows_nothing: bool,
}

impl Flaw for BeginsAnywhere {
    fn event(&mut self, event: Event) -> Option<Event> {
        let is_page = matches!(self.asked.answered(&event), Some(Action::Http(_)));
        self.has_read |= is_page && matches!(event, Event::Finished { outcome: Ok(_), .. });
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        if let Action::Http(Fetch { url, .. }) = &mut request.action
            && std::mem::take(&mut self.follows_nothing)
        {
            *url = url.replace("&page=1&", "&page=6&");
        }
        self.asked.note(request);
        None
    }

    fn step(&mut self, step: &mut Step) {
        let is_end =
            |note: &Note| matches!(note, Note::Measured(measure) if measure.metric == metrics::DURATION);
        if step.notes.iter().any(is_end) {
            self.follows_nothing = !std::mem::take(&mut self.has_read);
        }
    }
}

#[derive(Default)]
struct ContinuesWithoutAConfiguration;

impl Flaw for ContinuesWithoutAConfiguration {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(event).filter(|event| !matches!(event, Event::Deleted { .. }))
    }
}

#[derive(Default)]
struct StatusLagsBehind(Value);

impl Flaw for StatusLagsBehind {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let Action::Kube(KubeRequest::Patch { patch, .. }) = &request.action else { return None };
        let generation = patch["status"]["observedGeneration"].clone();
        let is_new = std::mem::replace(&mut self.0, generation.clone()) != generation;
        is_new.then(|| Err(Failure::new(ErrorKind::Unavailable, "later")))
    }
}

#[derive(Default)]
struct CountsFailedPages {
    asked: Asked,
    failed: bool,
}

impl Flaw for CountsFailedPages {
    fn event(&mut self, event: Event) -> Option<Event> {
        let is_page = matches!(self.asked.answered(&event), Some(Action::Http(_)));
        self.failed |= is_page && matches!(event, Event::Finished { outcome: Err(_), .. });
        Some(event)
    }

    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        self.asked.note(request);
        None
    }

    fn step(&mut self, step: &mut Step) {
        if std::mem::take(&mut self.failed) {
            let labels = ["", "clusters", metrics::operation::FETCH_RESOURCES].map(str::to_owned).to_vec();
            let metric = Cow::Borrowed(metrics::API_ERRORS);
            step.notes.push(Note::Measured(Measure { metric, labels, by: Amount::Add(1) }));
        }
    }
}
