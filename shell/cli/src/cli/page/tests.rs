use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Method, Request};
use lockstep_engine::action::{Action, ActionId, ErrorKind, Failure, KubeRequest, Request as Asked};
use lockstep_engine::machine::{Deadline, Event, Machine, Note, ReconcileResult, Step};
use lockstep_engine::object::{Kind, Name, ObjectRef};
use lockstep_engine::recording::Traits;
use lockstep_engine::time::{Monotonic, Now, Wall};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;

mod sentinel;

/// A text that is a secret in these tests, and in base64.
const SECRET: [&str; 2] = ["correct horse battery", "Y29ycmVjdCBob3JzZSBiYXR0ZXJ5"];

/// A machine with given steps.
struct Scripted(std::vec::IntoIter<Step>);

impl Machine for Scripted {
    fn name(&self) -> &'static str {
        "namespaceclass"
    }

    fn step(&mut self, _event: Event, _now: Now) -> Step {
        self.0.next().unwrap_or_default()
    }

    fn deadline(&self) -> Option<Deadline> {
        None
    }

    fn is_synced(&self) -> bool {
        true
    }
}

/// Returns the routes of a page that has seen these steps of the NamespaceClass operator, which has ended.
async fn page(steps: Vec<(Event, Step)>) -> Router {
    let (page, machine) = page_of("namespaceclass", Traits::NONE, steps).await;
    drop(machine);
    page.wait_until(|feed| feed.is_ended).await;
    page.routes()
}

/// Returns a page that has seen these steps of a controller, and the controller, which ends when it is dropped.
async fn page_of(
    controller: &str,
    traits: Traits,
    steps: Vec<(Event, Step)>,
) -> (Page, Box<dyn Machine + Send>) {
    let mut page = Page::new();
    let sets = controllers::select(&[controller.to_owned()]).unwrap();
    let (events, gave): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
    let count = events.len();
    let machine = Box::new(Scripted(gave.into_iter()));
    let mut machine = page.follow(machine, traits, &sets[0], controller).unwrap();
    for (second, event) in (0..).zip(events) {
        let time = jiff::Timestamp::from_second(1_700_000_000 + second).unwrap();
        let now = Now { wall: Wall::from_timestamp(time), monotonic: Monotonic::START };
        let _ = machine.step(event, now);
    }
    page.wait_until(|feed| feed.taken == count as u64).await;
    (page, machine)
}

impl Page {
    /// Waits until the feed of the only controller meets a condition.
    async fn wait_until(&self, is_so: impl Fn(&Feed) -> bool) {
        let mut changes = self.changes.subscribe();
        while !is_so(&feed::lock(&self.feeds[0])) {
            changes.changed().await.unwrap();
        }
    }
}

async fn send(routes: &Router, request: Request<Body>) -> (u16, http::HeaderMap, String) {
    let answer = routes.clone().oneshot(request).await.unwrap();
    let (code, headers) = (answer.status().as_u16(), answer.headers().clone());
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (code, headers, String::from_utf8(body.to_vec()).unwrap())
}

async fn get(routes: &Router, path: &str) -> Value {
    let request = Request::get(path).header("host", "127.0.0.1:8082").body(Body::empty()).unwrap();
    let (code, _, body) = send(routes, request).await;
    assert_eq!(code, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn kind(name: &str) -> Arc<Kind> {
    match name {
        "Secret" => Kind::known("", "v1", "Secret", "secrets", true),
        "Namespace" => Kind::known("", "v1", "Namespace", "namespaces", false),
        _ => {
            let sets = controllers::select(&["namespaceclass".to_owned()]).unwrap();
            controllers::kinds(&sets).into_iter().find(|kind| kind.kind == name).unwrap()
        }
    }
}

fn applied(name: &str, object: Value) -> (Event, Step) {
    (Event::Applied { kind: kind(name), object: Arc::new(object) }, Step::default())
}

fn class(name: &str, status: &str, message: &str) -> (Event, Step) {
    let condition = json!({
        "type": "Valid", "status": status, "reason": "Reason", "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let object = json!({"metadata": {"name": name}, "status": {"conditions": [condition]}});
    applied("NamespaceClass", object)
}

fn names(view: &Value) -> Vec<&str> {
    view["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn requests_that_another_site_caused_are_refused() {
    let routes = page(Vec::new()).await;
    let request = |host: Option<&str>, site: Option<&str>| {
        let request = Request::get("/api/view");
        let request = host.into_iter().fold(request, |request, host| request.header("host", host));
        let request = site.into_iter().fold(request, |request, site| request.header("sec-fetch-site", site));
        request.body(Body::empty()).unwrap()
    };
    for (host, site, code) in [
        (Some("localhost:8082"), None, 200),
        (Some("[::1]:8082"), Some("same-origin"), 200),
        (Some("127.0.0.1:8082"), Some("none"), 200),
        (Some("rebound.example:8082"), None, 403),
        (Some("rebound.example:8082"), Some("same-origin"), 403),
        (Some("localhost:8082"), Some("cross-site"), 403),
        (Some("localhost:8082"), Some("same-site"), 403),
        (None, None, 403),
    ] {
        assert_eq!(send(&routes, request(host, site)).await.0, code, "{host:?} {site:?}");
    }
}

#[tokio::test]
async fn every_answer_restricts_what_a_browser_may_load() {
    let routes = page(Vec::new()).await;
    for path in ["/", "/page.css", "/page.js", "/icon.svg", "/api/view", "/api/explanation", "/missing"] {
        let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
        let (_, headers, _) = send(&routes, request).await;
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert!(!headers.contains_key("access-control-allow-origin"), "{path}");
    }
}

#[tokio::test]
async fn nothing_can_be_written() {
    let routes = page(Vec::new()).await;
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
        for path in ["/", "/api/view", "/api/stream", "/api/explanation"] {
            let request = Request::builder().method(&method).uri(path).header("host", "localhost");
            let (code, ..) = send(&routes, request.body(Body::empty()).unwrap()).await;
            assert_eq!(code, 405, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn no_answer_contains_the_value_of_a_secret() {
    let [text, base64] = SECRET;
    let object = ObjectRef::cluster(&kind("NamespaceClass"), "web");
    let changed = Note::ConditionChanged {
        object: object.clone(),
        condition: "Valid".to_owned(),
        status: "False".to_owned(),
        reason: "Refused".to_owned(),
        message: format!("the server refuses {text}"),
        warning: true,
    };
    let get_class = Action::Kube(KubeRequest::Get { target: object, metadata_only: false });
    let asked = Step { requests: vec![Asked { id: ActionId(1), action: get_class }], notes: vec![changed] };
    let failed = Failure::new(ErrorKind::Invalid, format!("bad value {text}"));
    let manifest =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"key": base64}});
    let in_class = json!({"metadata": {"name": "web"}, "spec": {"resources": [manifest]}});
    let routes = page(vec![
        // The text occurs before the page knows that it is a secret.
        class("web", "False", &format!("before: {text}")),
        applied("NamespaceClass", in_class),
        (Event::TimerFired, asked),
        (Event::Finished { id: ActionId(1), outcome: Err(failed) }, Step::default()),
        class("web", "False", &format!("after: {text}")),
        class("long", "False", &format!("{}{text}", "x".repeat(view::MESSAGE_MAX - 9))),
    ])
    .await;
    let path = "object=namespaceclass/NamespaceClass.namespaceclass.akuity.io//web";
    let view = get(&routes, &format!("/api/view?{path}")).await.to_string();
    let explained =
        get(&routes, "/api/explanation?kind=NamespaceClass.namespaceclass.akuity.io&namespace=&name=web")
            .await
            .to_string();
    // The process has ended.
    assert!(explained.contains("unknown, because the live page has stopped"), "{explained}");
    for answer in [&view, &explained] {
        assert!(answer.contains("the server refuses hidden-"), "{answer}");
        assert!(!answer.contains(text) && !answer.contains(base64), "{answer}");
    }
    assert!(view.contains("bad value hidden-"), "{view}");
    assert!(view.contains("after: hidden-"), "{view}");
    assert!(!view.contains(&text[..9]), "the beginning of a secret in a message that is cut: {view}");
}

#[tokio::test]
async fn objects_are_filtered_by_words_kind_and_problems() {
    let bad = "no such kind";
    let labels = json!({"namespaceclass.akuity.io/name": "web"});
    let routes = page(vec![
        class("web", "True", ""),
        class("restricted", "False", bad),
        applied("Namespace", json!({"metadata": {"name": "shop", "labels": labels}})),
        applied("Namespace", json!({"metadata": {"name": "other"}})),
    ])
    .await;
    let all = get(&routes, "/api/view").await;
    assert_eq!(names(&all), ["restricted", "web", "other", "shop"], "own kinds are first");
    assert_eq!(all["counts"]["kinds"], json!({"Namespace": 2, "NamespaceClass": 2}));
    for (query, expected) in [
        ("filter=WEB", &["web", "shop"][..]),
        ("filter=class+such", &["restricted"]),
        ("kind=Namespace", &["other", "shop"]),
        ("problems=1", &["restricted"]),
        ("kind=Namespace&filter=sh", &["shop"]),
        ("rows=1", &["restricted"]),
        ("filter=%00", &[]),
    ] {
        let view = get(&routes, &format!("/api/view?{query}")).await;
        if expected.is_empty() {
            assert_eq!(view["counts"]["matching"], 0, "{query}");
        } else {
            assert_eq!(names(&view), expected, "{query}");
        }
    }
    let limited = get(&routes, "/api/view?rows=1").await;
    assert_eq!(limited["counts"]["matching"], 4, "all are counted");
}

#[tokio::test]
async fn an_object_that_is_deleted_or_not_listed_again_disappears() {
    let list = |complete: bool| {
        let kind = kind("NamespaceClass");
        let event = if complete { Event::ListCompleted { kind } } else { Event::ListStarted { kind } };
        (event, Step::default())
    };
    let gone = json!({"metadata": {"name": "deleted"}});
    let routes = page(vec![
        class("listed", "True", ""),
        class("vanished", "True", ""),
        class("deleted", "True", ""),
        (Event::Deleted { kind: kind("NamespaceClass"), object: Arc::new(gone) }, Step::default()),
        list(false),
        class("listed", "True", ""),
        list(true),
    ])
    .await;
    assert_eq!(names(&get(&routes, "/api/view").await), ["listed"]);
}

#[tokio::test]
async fn the_details_show_relations_in_both_directions_and_until_when_it_waits() {
    let binding = json!({"metadata": {"namespace": "shop", "name": "shop"}, "spec": {"className": "web"}});
    let object = Name::new("shop", "shop").object(&kind("NamespaceClassBinding"));
    let failed = ReconcileResult::Failed {
        reason: "refused".to_owned(),
        retry_after: std::time::Duration::from_secs(5),
        user_error: false,
    };
    let ended = Note::Reconciled {
        reconciler: "binding".to_owned(),
        object,
        result: failed,
        waited: std::time::Duration::ZERO,
        took: std::time::Duration::ZERO,
    };
    let routes = page(vec![
        class("web", "True", ""),
        applied("NamespaceClassBinding", binding),
        (Event::TimerFired, Step { requests: Vec::new(), notes: vec![ended] }),
    ])
    .await;
    let of = |path: &str| format!("/api/view?object=namespaceclass/{path}");
    let binding = "NamespaceClassBinding.namespaceclass.akuity.io/shop/shop";
    let detail = get(&routes, &of(binding)).await["detail"].take();
    assert_eq!(detail["relations"]["to"][0]["text"], "NamespaceClass web");
    assert!(
        detail["relations"]["to"][0]["path"].is_string() && detail["relations"]["to"][1]["path"].is_null()
    );
    assert_eq!(detail["due"], 1_700_000_007_000_i64, "two seconds after the start, and five more");
    assert!(detail["explanation"]["next"].as_str().unwrap().contains("the last reconcile failed: refused"));
    let class = get(&routes, &of("NamespaceClass.namespaceclass.akuity.io//web")).await["detail"].take();
    assert_eq!(class["relations"]["from"][0]["path"], format!("namespaceclass/{binding}"));
    for unknown in ["nothing", "namespaceclass/A/b/c", "other/NamespaceClass.namespaceclass.akuity.io//web"] {
        let detail = get(&routes, &format!("/api/view?object={unknown}")).await["detail"].take();
        assert_eq!(detail["found"], false, "{unknown}");
    }
}

#[test]
fn a_message_contains_only_what_has_changed() {
    let sets = controllers::select(&["namespaceclass".to_owned()]).unwrap();
    let tracker = record::tracker(Traits::NONE).unwrap();
    let redactor = Arc::clone(tracker.redactor());
    let feed = Feed::new(0, "namespaceclass", "namespaceclass", controllers::kinds(&sets), redactor);
    let feeds = [Arc::new(Mutex::new(feed))];
    let mut number = 0;
    let mut add = |(event, gave): (Event, Step)| {
        number += 1;
        let wall = Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH);
        let now = Now { wall, monotonic: Monotonic::START };
        let step = lockstep_engine::recording::RecordedStep { number, now, event, gave };
        feed::lock(&feeds[0]).step(step);
    };
    for index in 0..300 {
        add(class(&format!("class-{index}"), "True", ""));
    }
    let mut view = view::View::new(query::Query::read(&http::Uri::from_static("/?rows=200")));
    let first = view.message(&feeds).unwrap();
    assert_eq!((first["rows"].as_array().unwrap().len(), &first["first"]), (200, &json!(true)));
    assert_eq!(view.message(&feeds), None, "nothing has changed");
    add(class("class-1", "False", "changed"));
    let second = view.message(&feeds).unwrap();
    assert_eq!(names(&second), ["class-1"]);
    assert!(second.get("order").is_none() && second.get("first").is_none(), "{second}");
    assert_eq!(second["timeline"].as_array().unwrap().len(), 1);
    // A changed object that is not among the rows changes the counts only.
    add(class("class-99", "False", "changed"));
    let third = view.message(&feeds).unwrap();
    assert!(third.get("rows").is_none() && third["counts"]["problems"] == 2, "{third}");
}
