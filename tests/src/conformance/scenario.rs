//! Sequences of requests, as data.
//!
//! A file of hand-written scenarios looks like this; `${ns}` is a namespace of its own:
//!
//! ```yaml
//! vars: {maps: "/api/v1/namespaces/${ns}/configmaps"}
//! steps:
//! - post: ${maps}
//!   body: {metadata: {name: a}}
//!   save: {uid: /metadata/uid}
//! - patch: ${maps}/a?fieldManager=me
//!   type: merge                       # json, merge, strategic, apply or protobuf
//!   body: {metadata: {uid: "${uid}"}, data: {k: v}}
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::Context;
use http::Method;
use lockstep_engine::yaml;
use serde::Deserialize;
use serde_json::Value;

use super::answer::Answer;
use super::protobuf;

/// The media type of a JSON patch.
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
/// The media type of a merge patch.
pub(super) const MERGE: &str = "application/merge-patch+json";
/// The media type of a strategic merge patch.
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// The media type of an applied configuration.
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// The media type of an object in the encoding of [`protobuf`].
pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The media type of what `kubectl get` shows.
pub(super) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// The media type of a list of metadata alone.
pub(super) const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// The client of a request that names none.
pub(super) const CLIENT: &str = "conformance";

/// The values of `${name}` in paths and bodies.
pub(super) type Variables = BTreeMap<String, String>;

/// A sequence of requests in a namespace of its own.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The name of the scenario in a report.
    pub name: String,
    /// The namespace, which exists at the start: `${ns}`.
    pub namespace: String,
    /// Variables that are known beforehand; they may use `${ns}`.
    pub vars: Variables,
    /// The requests.
    pub steps: Vec<Step>,
}

/// One request, and what to do with its answer.
#[derive(Debug, Clone)]
pub struct Step {
    /// The client that sends the request. Each client knows only the values of its own answers, and those of the default
    /// client before its first request.
    pub client: &'static str,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The accepted media type.
    pub accept: &'static str,
    /// The body. A string is sent as it is; any other value is sent as JSON, or in protobuf if that is its type.
    pub body: Option<Value>,
    /// Values to take from the answer: variable name to JSON pointer.
    pub save: Variables,
    /// Repeat the request until the answer has this code.
    pub until: Option<u16>,
    /// Repeat the request until these JSON pointers have a value in the answer (`true`), or none (`false`).
    pub until_fields: BTreeMap<String, bool>,
    /// Repeat the request until the garbage collector no longer blocks the deletion of the object.
    pub collected: bool,
    /// How many events to take from a watch.
    pub events: Option<usize>,
    /// The end of the name of the object with the last event to take from a watch.
    pub last: Option<&'static str>,
    /// What the request does to the open watch of its client.
    pub watch: Watch,
    /// Compact the history first.
    pub compact: bool,
    /// How many characters `${pad}` in the body has.
    pub pad: usize,
    /// If not empty, named elements of lists are compared only if they are named here.
    pub keep: Vec<String>,
}

/// What a request does to the open watch of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Nothing. If the request itself is a watch, its events are read at once.
    Keep,
    /// Opens a watch; other requests follow before its events are read.
    Open,
    /// Sends no request, but reads the events of the open watch.
    Read,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    #[serde(default)]
    vars: Variables,
    steps: Vec<StepForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepForm {
    get: Option<String>,
    post: Option<String>,
    put: Option<String>,
    patch: Option<String>,
    delete: Option<String>,
    #[serde(rename = "type")]
    content_type: Option<String>,
    accept: Option<String>,
    body: Option<Value>,
    #[serde(default)]
    save: Variables,
    until: Option<u16>,
    #[serde(default, rename = "wait_for")]
    until_fields: BTreeMap<String, bool>,
    events: Option<usize>,
    #[serde(default)]
    compact: bool,
    #[serde(default)]
    pad: usize,
    #[serde(default)]
    keep: Vec<String>,
}

impl Scenario {
    /// Reads a hand-written scenario; it is named like its file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.file_stem().context("a scenario without a name")?.to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path)?;
        let form: FileForm = yaml::read(&text).with_context(|| path.display().to_string())?;
        let steps = form
            .steps
            .into_iter()
            .enumerate()
            .map(|(index, step)| Step::read(step).with_context(|| format!("{name}, step {}", index + 1)))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { namespace: format!("conformance-{name}"), name, vars: form.vars, steps })
    }

    /// Returns the variables at the start.
    pub fn variables(&self) -> Variables {
        let own = Variables::from([("ns".to_owned(), self.namespace.clone())]);
        let given = self.vars.iter().map(|(name, value)| (name.clone(), substitute(value, &own)));
        given.chain(own.clone()).collect()
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests:", self.steps.len())?;
        for (index, Step { client, method, path, content_type, body, .. }) in self.steps.iter().enumerate() {
            write!(f, "\n    {:2} {client}: {method} {path}", index + 1)?;
            if let Some(body) = body {
                write!(f, " {content_type} {body}")?;
            }
        }
        Ok(())
    }
}

impl Step {
    /// Creates a request with a JSON body or none.
    pub fn new(method: Method, path: impl Into<String>, body: Option<Value>) -> Self {
        Self {
            client: CLIENT,
            method,
            path: path.into(),
            content_type: "application/json",
            accept: "application/json",
            body,
            save: Variables::new(),
            until: None,
            until_fields: BTreeMap::new(),
            collected: false,
            events: None,
            last: None,
            watch: Watch::Keep,
            compact: false,
            pad: 0,
            keep: Vec::new(),
        }
    }

    fn read(form: StepForm) -> anyhow::Result<Self> {
        let methods = [
            (Method::GET, form.get),
            (Method::POST, form.post),
            (Method::PUT, form.put),
            (Method::PATCH, form.patch),
            (Method::DELETE, form.delete),
        ];
        let mut given = methods.into_iter().filter_map(|(method, path)| Some((method, path?)));
        let (method, path) = given.next().context("a step needs a method")?;
        anyhow::ensure!(given.next().is_none(), "a step has one method");
        Ok(Self {
            content_type: content_type(form.content_type.as_deref().unwrap_or("plain"))?,
            accept: accept(form.accept.as_deref().unwrap_or("json"))?,
            save: form.save,
            until: form.until,
            until_fields: form.until_fields,
            events: form.events,
            compact: form.compact,
            pad: form.pad,
            keep: form.keep,
            ..Self::new(method, path, form.body)
        })
    }

    /// Returns the body as it is sent.
    pub fn body(&self, variables: &Variables) -> Vec<u8> {
        match &self.body {
            None => Vec::new(),
            Some(body) if self.content_type == PROTOBUF => {
                let text = substitute(&body.to_string(), variables);
                protobuf::encode(
                    &serde_json::from_str(&text).expect("values do not break the JSON around them"),
                )
            }
            Some(Value::String(raw)) => substitute(raw, variables).into_bytes(),
            Some(body) => {
                let text = body.to_string().replace("${pad}", &"x".repeat(self.pad));
                substitute(&text, variables).into_bytes()
            }
        }
    }

    /// Returns the path and the query as they are sent.
    pub fn path(&self, variables: &Variables) -> String {
        substitute(&self.path, variables)
    }

    /// Returns whether the request need not be repeated.
    pub fn is_answered(&self, answer: &Answer) -> bool {
        const COLLECTORS: [&str; 2] = ["foregroundDeletion", "orphan"];
        let lead = |(pointer, there): (&String, &bool)| answer.body.pointer(pointer).is_some() == *there;
        let finalizers = answer.body.pointer("/metadata/finalizers").and_then(Value::as_array);
        let held = |held: &Value| COLLECTORS.iter().any(|finalizer| held == finalizer);
        self.until.is_none_or(|code| code == answer.code)
            && self.until_fields.iter().all(lead)
            && !(self.collected && finalizers.is_some_and(|finalizers| finalizers.iter().any(held)))
    }

    /// Returns whether a watch has returned enough events.
    pub fn has_enough(&self, events: &[Value]) -> bool {
        let name = |event: &Value| event.pointer("/object/metadata/name")?.as_str().map(str::to_owned);
        let is_last = |event: &Value| {
            self.last.is_some_and(|last| name(event).is_some_and(|name| name.ends_with(last)))
        };
        events.len() >= self.events.unwrap_or_default() || events.last().is_some_and(is_last)
    }

    /// Saves values from the answer.
    pub fn save(&self, answer: &Answer, variables: &mut Variables) {
        for (name, pointer) in &self.save {
            if let Some(value) = answer.body.pointer(pointer) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                variables.insert(name.clone(), text);
            }
        }
    }
}

/// Returns the media type of a body by its short name.
fn content_type(name: &str) -> anyhow::Result<&'static str> {
    Ok(match name {
        "plain" => "application/json",
        "yaml" => "application/yaml",
        "json" => JSON_PATCH,
        "merge" => MERGE,
        "strategic" => STRATEGIC,
        "apply" => APPLY,
        "protobuf" => PROTOBUF,
        "text" => "text/plain",
        other => anyhow::bail!("unknown type {other}"),
    })
}

fn accept(name: &str) -> anyhow::Result<&'static str> {
    Ok(match name {
        "json" => "application/json",
        "table" => TABLE,
        "metadata" => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "metadata-list" => METADATA_LIST,
        "aggregated" => "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
        "text" => "text/plain",
        "yaml" => "application/yaml",
        "any" => "*/*",
        "kubectl" => {
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
        }
        "old-table" => "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
        "no-table" => "application/json;as=Table;v=v7;g=meta.k8s.io",
        "picture" => "application/json;as=Picture;v=v1;g=meta.k8s.io",
        "picture-or-json" => "application/json;as=Picture;v=v1;g=meta.k8s.io, application/json",
        "html-or-json" => "text/html, application/json;q=0.5",
        "stream" => "application/json;stream=watch",
        other => anyhow::bail!("unknown accept {other}"),
    })
}

fn substitute(text: &str, variables: &Variables) -> String {
    let mut result = text.to_owned();
    for (name, value) in variables {
        result = result.replace(&format!("${{{name}}}"), value);
    }
    result
}
