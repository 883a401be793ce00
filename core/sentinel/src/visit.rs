//! The pages of the list, and the decision on each resource.
//!
//! Source: HyperFleet Sentinel, "Main Reconciler", steps 2 and 3.

use std::sync::Arc;

use lockstep_engine::action::{Action, ErrorKind, Failure, Fetch, Outcome, Success};
use lockstep_engine::machine::{Note, Step};
use lockstep_engine::time::Now;

use super::cycle::Cycle;
use super::decision::{self, Decision, Judgement};
use super::fleet::{self, Malformed};
use super::metrics::{self, operation};
use super::pager::PageVerdict;
use super::resource::Resource;
use super::rules::{Evaluator, ExpressionError};
use super::state::{Asked, Sentinel};
use super::status::{self, Finding};
use super::unvisited::Unvisited;
use super::{config, event};

/// The reason if a page is too large to be read.
const TOO_LARGE: &str = "AnswerTooLarge";
/// The maximum number of malformed resources in a cycle that are reported and stored.
const REPORTED_MAX: usize = 1000;
/// The maximum number of causes of failed expressions that are reported for one configuration.
const CAUSES_MAX: usize = 100;

impl Sentinel {
    pub(super) fn fetch(&mut self, now: Now, step: &mut Step) {
        let Some(cycle) = self.cycle.as_mut().filter(|cycle| cycle.has_room()) else { return };
        let Some((place, _)) = cycle.pager.next().filter(|(_, not_before)| *not_before <= now.monotonic)
        else {
            return;
        };
        let config = &cycle.loaded.config;
        let url = fleet::url(&config.url, config.dialect, &config.resource_type, &config.selector, place);
        let keep = Arc::clone(&cycle.keep);
        let headers = config.headers.clone();
        let action = Action::Http(Fetch { url: url.clone(), headers, timeout: config.timeout, keep });
        cycle.is_fetching = true;
        let asked = Asked::Page { cycle: cycle.number, url };
        self.ask(action, asked, step);
    }

    pub(super) fn fetched(&mut self, number: u64, url: &str, outcome: Outcome, now: Now, step: &mut Step) {
        let Some(mut cycle) = self.cycle.take_if(|cycle| cycle.number == number) else { return };
        cycle.is_fetching = false;
        let loaded = Arc::clone(&cycle.loaded);
        let page = match outcome {
            Ok(Success::Document(document)) => {
                let page = loaded.config.parser().page(&document).and_then(|mut page| {
                    self.leave_out(&mut cycle, std::mem::take(&mut page.malformed), page.spoiled, step);
                    cycle.pager.took(&mut page).map(|()| Unvisited::new(page, document))
                });
                page.map_err(|problem| (Some("InvalidAnswer"), Failure::new(ErrorKind::Unknown, problem)))
            }
            Ok(Success::Oversized { why, is_late }) => {
                let class = if is_late { ErrorKind::Unknown } else { ErrorKind::Invalid };
                Err((Some(TOO_LARGE), Failure::new(class, why)))
            }
            Ok(answer) => unreachable!("a fetch was answered with {answer:?}"),
            Err(failure) => Err((None, failure)),
        };
        match page {
            Ok(unvisited) => cycle.unvisited = unvisited,
            Err((reason, failure)) => self.page_failed(&mut cycle, url, reason, &failure, now, step),
        }
        self.cycle = Some(cycle);
        self.visit(now, step);
    }

    /// Visits the resources that were read, as long as there is room for the events.
    pub(super) fn visit(&mut self, now: Now, step: &mut Step) {
        let Some(mut cycle) = self.cycle.take() else { return };
        while let Some(resources) = cycle.visit() {
            self.decide(&mut cycle, resources, now, step);
        }
        if cycle.pager.is_done() && cycle.unvisited.is_empty() {
            // A page that can't be read does not make this process unready: FleetReachable reports it.
            self.has_polled |= cycle.pager.has_read();
        }
        if !cycle.is_listed && cycle.pager.is_complete() && cycle.unvisited.is_empty() {
            cycle.is_listed = true;
            self.listed(&cycle, now, step);
        }
        self.cycle = Some(cycle);
    }

    /// Handles the end of the list.
    fn listed(&mut self, cycle: &Cycle, now: Now, step: &mut Step) {
        step.notes.push(cycle.loaded.shard.pending(cycle.tally.resources));
        let finding = match cycle.tally.malformed {
            0 if cycle.selects_nothing() => {
                let message = format!(
                    "the last poll read the whole list: no resource matches the selector {:?}; check spec.shardSelector",
                    cycle.loaded.shard.shard
                );
                Finding::valid(status::FLEET_REACHABLE, status::NOTHING_SELECTED, message)
            }
            0 => {
                Finding::valid(status::FLEET_REACHABLE, "FleetListed", "the last poll brought the whole list")
            }
            n => Finding::valid(
                status::FLEET_REACHABLE,
                "MalformedResources",
                format!(
                    "the last poll brought the whole list, but {n} of its resources can't be understood ({}); the log names them",
                    cycle.example.as_deref().unwrap_or_default()
                ),
            ),
        };
        self.find(finding, now, step);
    }

    fn page_failed(
        &mut self,
        cycle: &mut Cycle,
        url: &str,
        reason: Option<&'static str>,
        failure: &Failure,
        now: Now,
        step: &mut Step,
    ) {
        let verdict = if cycle.pager.is_done() {
            PageVerdict::GiveUp
        } else if reason == Some(TOO_LARGE) {
            cycle.pager.oversized(failure, now.monotonic, &mut self.random)
        } else {
            cycle.pager.failed(failure, now.monotonic, &mut self.random)
        };
        let follows = match verdict {
            PageVerdict::Retry => "requesting it again",
            PageVerdict::RetrySmaller => "requesting fewer resources at a time",
            PageVerdict::Skip => "skipping the page",
            PageVerdict::GiveUp if cycle.pager.given_up().is_some() => {
                "the list was given up; the next poll continues here"
            }
            PageVerdict::GiveUp => "the list was given up; the next poll begins at page 1",
        };
        let message = format!("GET {} failed: {failure}; {follows}", config::without_credentials(url));
        // The API may ask for a long pause.
        let is_put_off = failure.class == ErrorKind::Throttled || failure.retry_after.is_some();
        if matches!(verdict, PageVerdict::Retry | PageVerdict::RetrySmaller) && !is_put_off {
            step.notes.push(Note::debug(message));
            return;
        }
        // A poll fails once, however many of its pages do (the specification's "Total API errors by operation").
        if std::mem::replace(&mut cycle.has_failed, true) {
            step.notes.push(Note::debug(message.clone()));
        } else {
            step.notes.push(cycle.loaded.shard.count_of(metrics::API_ERRORS, operation::FETCH_RESOURCES, 1));
            step.notes.push(Note::Warning { message: message.clone() });
        }
        let reason = reason.unwrap_or(match failure.class {
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::Gone => "RequestRefused",
            ErrorKind::Throttled => "Throttled",
            _ => "Unreachable",
        });
        self.find(Finding::broken(status::FLEET_REACHABLE, reason, message), now, step);
    }

    /// Decides about each of these resources.
    fn decide(&mut self, cycle: &mut Cycle, resources: Vec<Resource>, now: Now, step: &mut Step) {
        let loaded = Arc::clone(&cycle.loaded);
        let config = &loaded.config;
        let mut due = Vec::with_capacity(resources.len());
        let (mut ready, mut not_ready, mut failed) = (0_usize, 0_usize, 0_usize);
        let evaluator = config.rules.as_deref().map(Evaluator::new);
        for resource in resources {
            // The server could not filter these.
            if !resource.is_selected {
                continue;
            }
            cycle.tally.resources += 1;
            let Judgement { decision, data, failures } =
                decision::judge(&resource, &config.backoffs, evaluator.as_ref(), now.wall);
            failed += failures.len();
            self.expressions_failed(failures, &resource.id, step);
            if self.settings.logs_decisions {
                step.notes.push(Note::debug(decision_text(&resource, decision)));
            }
            match decision {
                Decision::Publish { reason } => {
                    let id = self.ids.next(now.wall, &mut self.random);
                    let trace = cycle.trace.as_ref().map(|trace| trace.span(&mut self.random));
                    let resource_type = &config.resource_type;
                    due.push(event::reconcile(resource, resource_type, reason, data, id, trace, now.wall));
                }
                Decision::Skip { .. } if resource.is_ready => ready += 1,
                Decision::Skip { .. } => not_ready += 1,
            }
        }
        cycle.tally.skipped_ready += ready as u64;
        cycle.tally.skipped_not_ready += not_ready as u64;
        for (state, skipped) in [("ready", ready), ("not_ready", not_ready)] {
            if skipped > 0 {
                step.notes.push(loaded.shard.count_of(metrics::SKIPPED, state, skipped));
            }
        }
        if failed > 0 {
            step.notes.push(loaded.shard.count(metrics::EXPRESSION_ERRORS, failed));
        }
        cycle.push(due);
    }

    /// Reports failed expressions, each cause once.
    fn expressions_failed(&mut self, failures: Vec<ExpressionError>, resource: &str, step: &mut Step) {
        for failure in failures {
            if self.failures.len() < CAUSES_MAX && !self.failures.contains(&failure) {
                let message = format!(
                    "evaluate {failure} (resource {resource:?}); until the expression is corrected, the backoffs decide about such resources, and their events lack a field that failed"
                );
                step.notes.push(Note::Warning { message });
                self.failures.insert(failure);
            }
        }
    }

    /// Reports resources that can't be parsed.
    fn leave_out(&self, cycle: &mut Cycle, malformed: Vec<Malformed>, count: usize, step: &mut Step) {
        if count == 0 {
            return;
        }
        cycle.tally.malformed += count as u64;
        step.notes.push(cycle.loaded.shard.count(metrics::MALFORMED, count));
        for item in malformed {
            cycle.example.get_or_insert_with(|| item.problem.clone());
            if cycle.malformed.len() == REPORTED_MAX {
                return;
            }
            // Resources that were reported in the last cycle are not reported again.
            if !self.malformed.contains(&item.flaw) {
                let message = format!("a resource is left out because it can't be understood: {item}");
                step.notes.push(Note::Warning { message });
            }
            cycle.malformed.insert(item.flaw);
        }
    }
}

/// Returns a decision as text.
fn decision_text(resource: &Resource, decision: Decision) -> String {
    let state = if resource.is_ready { "ready" } else { "not ready" };
    match decision {
        Decision::Publish { reason } => format!("{}: {reason}, {state}", resource.id),
        Decision::Skip { until: Some(until) } => {
            format!("{}: skipped, {state}, its backoff expires at {until}", resource.id)
        }
        Decision::Skip { until: None } => {
            format!("{}: skipped, {state}, the result of messageDecision is false", resource.id)
        }
    }
}
