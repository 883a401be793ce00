//! The host of the API server model. Its state survives it, as etcd survives API servers.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use jiff::Timestamp;
use lockstep_apiserver::host::{Host, Listener, State};
use lockstep_apiserver::server::{Actors, ApiServer, Options, Response};
use serde_json::{Value, json};
use turmoil::net::{TcpListener, TcpStream};

use super::trace::{Fact, Trace};

/// The name of the host.
pub const HOST: &str = "server";
/// Its port.
pub const PORT: u16 = 6443;
/// The time at which every run starts.
pub const EPOCH: Timestamp = Timestamp::constant(1_700_000_000, 0);
/// A namespace that exists from the start, with an object of another controller.
pub const OCCUPIED: &str = "n0";
/// The name of that object, which classes contain as well, and of its owner.
pub const FOREIGN: [&str; 2] = ["settings-0", "own-0"];
/// The value in the object of the other controller.
pub const FOREIGN_VALUE: &str = "foreign";

/// Returns the correct wall-clock time.
pub fn time(trace: &Trace) -> Timestamp {
    let elapsed = trace.now().try_into().unwrap_or_default();
    EPOCH.checked_add::<jiff::SignedDuration>(elapsed).unwrap_or(Timestamp::MAX)
}

/// Creates a server whose requests are recorded in the trace.
pub fn state(server: ApiServer, trace: &Trace) -> State {
    let (clock, witness) = (trace.clone(), trace.clone());
    let witness = move |_: Timestamp, request: &Request<Bytes>, response: &Response| {
        served(&witness, request, response);
    };
    State::witnessed(server, move || time(&clock), Box::new(witness))
}

/// Serves requests until the host crashes.
pub async fn run(state: State) -> turmoil::Result {
    let listener = Simulated(TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?);
    let _host = Host::start(listener, state, Some(Actors::default()))?;
    std::future::pending().await
}

/// Queries the server directly, without the network.
pub fn ask(state: &State, path: &str) -> Value {
    let now = EPOCH.checked_add(Duration::ZERO).unwrap_or(EPOCH);
    let request = Request::get(path).body(Bytes::new()).expect("a request");
    state.with_server(|server| send(server, &request, now))
}

struct Simulated(TcpListener);

impl Listener for Simulated {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<TcpStream> {
        Ok(self.0.accept().await?.0)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

fn served(trace: &Trace, request: &Request<Bytes>, response: &Response) {
    let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let agent = agent.unwrap_or("-");
    let (code, answer) = match response {
        Response::Complete(response) => (response.status().as_u16(), response.body().clone()),
        Response::Watch(head, _) => (head.status().as_u16(), Bytes::new()),
    };
    let what = format!("{agent} {} {} -> {code}", request.method(), request.uri());
    trace.record(HOST, &what, &[request.body(), &answer]);
    let path = request.uri().path();
    if request.method() != Method::GET && code < 300 && !path.contains("/leases") {
        trace.fact(Fact::Written(agent.to_owned(), format!("{} {path}", request.method())));
    }
}

fn send(server: &mut ApiServer, request: &Request<Bytes>, now: Timestamp) -> Value {
    match server.handle(request, now) {
        Response::Complete(response) => serde_json::from_slice(response.body()).unwrap_or_default(),
        Response::Watch(..) => Value::Null,
    }
}

/// Returns a server with our CRDs and an object of another controller.
pub fn prepared() -> ApiServer {
    static PREPARED: OnceLock<ApiServer> = OnceLock::new();
    PREPARED.get_or_init(prepare).clone()
}

fn prepare() -> ApiServer {
    let mut server = ApiServer::new(&Options { seed: 1, start: EPOCH, ..Options::default() });
    let mut post = |path: &str, object: &Value| {
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Bytes::from(object.to_string())).expect("a request");
        let created = send(&mut server, &request, EPOCH);
        assert!(created["metadata"]["uid"].is_string(), "POST {path}: {created}");
        created
    };
    for crd in lockstep_crds::all().into_iter().flat_map(|set| set.crds) {
        let crd = serde_json::to_value(crd).expect("a CRD is JSON");
        post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd);
    }
    post("/api/v1/namespaces", &json!({ "metadata": { "name": OCCUPIED } }));
    let maps = format!("/api/v1/namespaces/{OCCUPIED}/configmaps");
    let owner = post(&maps, &json!({ "metadata": { "name": FOREIGN[1] } }));
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": FOREIGN[1], "uid": owner["metadata"]["uid"], "controller": true,
    });
    let object = json!({
        "metadata": { "name": FOREIGN[0], "ownerReferences": [reference] }, "data": { "value": FOREIGN_VALUE },
    });
    post(&maps, &object);
    server
}
