//! A small container registry.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::raw::{Raw, answer};

/// `user:hunter2` in base64.
pub const BASIC: &str = "dXNlcjpodW50ZXIy";

/// The token that the test registry's token service issues.
pub const TOKEN: &str = "token-of-the-stand-in";

/// The digest of an index.
pub const INDEX: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

/// The digest of a manifest, the first one of the index.
pub const MANIFEST: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

/// The digest of that manifest's configuration.
pub const CONFIG: &str = "sha256:3333333333333333333333333333333333333333333333333333333333333333";

/// The head of a request.
#[derive(Debug)]
pub struct Head {
    /// The request line, such as `HEAD /v2/ocp/release/manifests/4.19.3`.
    pub line: String,
    /// The headers by their names in lowercase.
    pub headers: BTreeMap<String, String>,
}

impl Head {
    /// Parses the text of a head.
    pub fn read(text: &str) -> Self {
        let mut lines = text.lines();
        let line = lines.next().unwrap().strip_suffix(" HTTP/1.1").unwrap().to_owned();
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        Self { line, headers }
    }

    /// Returns the `Authorization` header; `-` if there is none.
    pub fn authorization(&self) -> &str {
        self.headers.get("authorization").map_or("-", String::as_str)
    }
}

/// The authentication that the registry requires.
#[derive(Debug, Clone, Copy)]
pub enum Guard {
    /// None.
    Anybody,
    /// Basic authentication with `user:hunter2`.
    Basic,
    /// A token. The token service issues it for the right credentials, or for none. The value is the field name in its answer.
    Bearer(&'static str),
}

/// Starts a registry with the repository `ocp/release`. Its tags `4.19.3`, `4.20.1` and `latest` are the index, and `odd` has
/// no digest.
pub async fn registry(guard: Guard) -> Raw {
    answering(move |head| respond(head, guard)).await
}

/// Starts a server that gives complete answers.
pub async fn answering(respond: impl Fn(&Head) -> String + Clone + Send + 'static) -> Raw {
    Raw::start(move |head, mut stream| {
        let answer = respond(&Head::read(&head));
        async move { stream.write_all(answer.as_bytes()).await }
    })
    .await
}

/// Returns the requests that it got, with their `Authorization` headers.
pub fn asked(server: &Raw) -> Vec<String> {
    let heads = server.heads();
    let heads = heads.iter().map(|head| Head::read(head));
    heads.map(|head| format!("{} {}", head.line, head.authorization())).collect()
}

/// Returns its repository, in the form of an image's name.
pub fn repository(server: &Raw) -> String {
    server.url.replace("http://", "") + "/ocp/release"
}

/// Returns the answer of the registry to a request.
pub fn respond(head: &Head, guard: Guard) -> String {
    let basic = format!("Basic {BASIC}");
    if head.line.starts_with("GET /token?") {
        let Guard::Bearer(name) = guard else { return answer("404 Not Found", &[], "") };
        return match head.authorization() {
            "-" => answer("200 OK", &[], &json!({ name: TOKEN }).to_string()),
            shown if shown == basic => answer("200 OK", &[], &json!({ name: TOKEN }).to_string()),
            shown => answer("401 Unauthorized", &[], &format!("{shown} is wrong")),
        };
    }
    let (wanted, challenge) = match guard {
        Guard::Anybody => ("-".to_owned(), String::new()),
        Guard::Basic => (basic, r#"Basic realm="registry""#.to_owned()),
        Guard::Bearer(_) => {
            let realm = format!("http://{}/token", head.headers["host"]);
            (
                format!("Bearer {TOKEN}"),
                format!(r#"Bearer realm="{realm}",service="the registry",scope="all""#),
            )
        }
    };
    if head.authorization() != wanted {
        let challenge = format!("WWW-Authenticate: {challenge}");
        return answer("401 Unauthorized", &[&challenge], head.authorization());
    }
    let (method, path) = head.line.split_once(' ').unwrap();
    let Some(name) = path.strip_prefix("/v2/ocp/release/") else { return answer("404 Not Found", &[], "") };
    let Some((digest, document)) = content(name) else { return answer("404 Not Found", &[], "") };
    let digest = format!("Docker-Content-Digest: {digest}");
    let body = if method == "HEAD" { String::new() } else { document.to_string() };
    answer("200 OK", &["Content-Type: application/json", &digest], &body)
}

/// Returns the digest and the content of a path.
pub fn content(path: &str) -> Option<(&'static str, Value)> {
    let (kind, name) = path.split_once('/')?;
    let index = json!({ "schemaVersion": 2, "manifests": [{ "digest": MANIFEST }, { "digest": CONFIG }] });
    let manifest = json!({ "schemaVersion": 2, "config": { "digest": CONFIG }, "layers": [] });
    let labels = json!({ "io.openshift.release": "4.19.3", "vendor": "other" });
    match (kind, name) {
        ("manifests", "4.19.3" | "4.20.1" | "latest" | INDEX) => Some((INDEX, index)),
        ("manifests", "single" | MANIFEST) => Some((MANIFEST, manifest)),
        ("manifests", "odd") => Some(("sha256:short", manifest)),
        ("blobs", CONFIG) => Some((CONFIG, json!({ "config": { "Labels": labels }, "rootfs": {} }))),
        _ => None,
    }
}
