//! Handles requests.

use bytes::Bytes;
use http::{Method, StatusCode};
use jiff::Timestamp;
use lockstep_apiserver::server::request::{Query as Parameters, decode};
use lockstep_apiserver::server::selector;
use serde::Deserialize;

use super::dialect::{Dialect, Release};
use super::filter::{Filter, Query};
use super::fleet::HyperFleet;
use super::order::Order;
use super::report::{self, Report};
use super::resource::{Kind, State, Status};
use super::respond::{List, Problem, json};
use super::search::Search;

type Answer = Result<http::Response<Bytes>, Problem>;

/// Default page size of the released dialect.
const SIZE_DEFAULT: usize = 20;
const SIZE_MAX: usize = 100;
/// The page of the documented dialect holds everything, unless the request has a smaller size.
const SIZE_DOCUMENTED: usize = 100_000;

impl HyperFleet {
    /// Answers a request.
    pub fn handle(&mut self, request: &http::Request<Bytes>, now: Timestamp) -> http::Response<Bytes> {
        answer(self, request, now).unwrap_or_else(Problem::into_response)
    }
}

fn answer(fleet: &mut HyperFleet, request: &http::Request<Bytes>, now: Timestamp) -> Answer {
    let segments: Vec<String> =
        request.uri().path().split('/').filter(|part| !part.is_empty()).map(decode).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let ["api", "hyperfleet", "v1", path @ ..] = segments.as_slice() else {
        return Err(Problem::not_found("path"));
    };
    let reports = match fleet.dialect {
        Dialect::Documented => "status",
        Dialect::Released => "statuses",
    };
    match (request.method(), path) {
        (&Method::POST | &Method::PUT, [path @ .., last]) if *last == reports => {
            let id = find(fleet, path)?.to_owned();
            take_report(fleet, &id, request.body(), now)
        }
        (&Method::GET, [plural]) => {
            let kind = Kind::from_plural(plural).ok_or_else(|| Problem::not_found("path"))?;
            list(fleet, kind, None, request.uri().query())
        }
        (&Method::GET, ["clusters", cluster, "nodepools"]) => {
            find(fleet, &["clusters", cluster])?;
            list(fleet, Kind::NodePool, Some((*cluster).to_owned()), request.uri().query())
        }
        (&Method::GET, path) => {
            let id = find(fleet, path)?;
            let resource = fleet.get(id).ok_or_else(|| Problem::not_found(id))?;
            Ok(json(StatusCode::OK, resource))
        }
        _ => Err(Problem::method_not_allowed()),
    }
}

/// Returns the id of the resource at a path.
fn find<'a>(fleet: &HyperFleet, path: &[&'a str]) -> Result<&'a str, Problem> {
    let (kind, owner, id) = match path {
        ["clusters", cluster, "nodepools", id] => (Kind::NodePool, Some(*cluster), *id),
        [plural, id] => (Kind::from_plural(plural).ok_or_else(|| Problem::not_found("path"))?, None, *id),
        _ => return Err(Problem::not_found("path")),
    };
    fleet
        .get(id)
        .filter(|found| found.kind == kind && (owner.is_none() || found.owner.as_deref() == owner))
        .map(|_| id)
        .ok_or_else(|| Problem::not_found(&format!("{} with id {id:?}", kind.plural())))
}

fn list(fleet: &mut HyperFleet, kind: Kind, owner: Option<String>, query: Option<&str>) -> Answer {
    let parameters = Parameters::parse(query.unwrap_or_default());
    let (default, max) = match fleet.dialect {
        Dialect::Documented => (SIZE_DOCUMENTED, SIZE_DOCUMENTED),
        Dialect::Released => match fleet.release {
            Release::V0_3_0 => (SIZE_DEFAULT, usize::MAX),
            Release::V0_3_1 => (SIZE_DEFAULT, SIZE_MAX),
        },
    };
    let page = number(&parameters, "page", 1, usize::MAX)?;
    let size = number(&parameters, "size", default, max)?;
    let (page, size) = if fleet.knows_pages { (page, size.min(fleet.largest_page)) } else { (1, usize::MAX) };
    let (after, order, query) = match fleet.dialect {
        Dialect::Documented => {
            let labels = selector::Labels::parse(parameters.text("labels"))
                .map_err(|status| Problem::bad_request(status.message))?;
            (None, Order::by_id(), Query::Selector(labels))
        }
        Dialect::Released => {
            let (after, search) = Search::parse_as(parameters.text("search"), fleet.release)
                .map_err(|error| Problem::bad_request(format!("Failed to parse search query: {error}")))?;
            let parameter = match fleet.release {
                Release::V0_3_0 => "orderBy",
                Release::V0_3_1 => "order",
            };
            let order = parameters.get(parameter).filter(|order| !order.is_empty());
            let order = Order::parse(order.unwrap_or("created_time desc"))
                .map_err(|error| Problem::bad_request(format!("Failed to parse order: {error}")))?;
            (after, order, Query::Search(search))
        }
    };
    let rows = fleet.collection(kind).view(Filter { owner, query }).after(after.as_deref());
    let items = order.page(rows, (page - 1).saturating_mul(size), size);
    let items: Vec<_> = items.iter().map(|resource| resource.written()).collect();
    Ok(json(StatusCode::OK, &List { page, size: items.len(), total: rows.len(), items }))
}

fn number(parameters: &Parameters, name: &str, default: usize, max: usize) -> Result<usize, Problem> {
    let Some(text) = parameters.get(name).filter(|text| !text.is_empty()) else { return Ok(default) };
    text.parse().ok().filter(|number| (1..=max).contains(number)).ok_or_else(|| {
        let range = if max == usize::MAX { "at least 1".to_owned() } else { format!("between 1 and {max}") };
        Problem::bad_request(format!("{name} must be {range}, got {text:?}"))
    })
}

#[derive(Debug, Deserialize)]
struct PhaseReport {
    phase: String,
}

#[derive(Debug, Deserialize)]
struct AdapterReport {
    adapter: String,
    observed_generation: i64,
    conditions: Vec<ReportedCondition>,
}

#[derive(Debug, Deserialize)]
struct ReportedCondition {
    r#type: String,
    status: String,
}

fn take_report(fleet: &mut HyperFleet, id: &str, body: &[u8], now: Timestamp) -> Answer {
    let malformed = |error: serde_json::Error| Problem::bad_request(format!("malformed report: {error}"));
    match fleet.dialect {
        Dialect::Documented => {
            let PhaseReport { phase } = serde_json::from_slice(body).map_err(malformed)?;
            fleet.change(id, |resource| {
                resource.status = Status::Phase { phase, last_transition: now };
            });
        }
        Dialect::Released => {
            let reported: AdapterReport = serde_json::from_slice(body).map_err(malformed)?;
            let available = reported.conditions.iter().find(|condition| condition.r#type == "Available");
            let available = match available.map(|condition| condition.status.as_str()) {
                Some("True") => State::True,
                Some("False") => State::False,
                Some("Unknown") => State::Unknown,
                _ => return Err(Problem::bad_request("the report has no valid condition Available")),
            };
            let (adapter, generation) = (reported.adapter.as_str(), reported.observed_generation);
            fleet.change(id, |resource| {
                report::report(resource, &Report { adapter, generation, available }, now);
            });
        }
    }
    let resource = fleet.get(id).ok_or_else(|| Problem::not_found(id))?;
    Ok(json(StatusCode::CREATED, resource))
}
