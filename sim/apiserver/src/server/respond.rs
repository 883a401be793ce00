//! Encodes answers in the form that the client accepts.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use lockstep_engine::yaml;
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Value, json};

use super::form::{Form, Partial, write_json};
use super::negotiate::Negotiated;
use super::scope::Scope;
use super::status::Status;
use super::watch::WatchId;
use super::{meta, table};

/// The content type of [`Answer::Aggregated`].
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The body of the answer to a path that does not exist.
pub(super) const NOT_FOUND: &str = "404 page not found\n";

/// An answer before it is encoded.
#[derive(Debug)]
pub(super) enum Answer {
    Object {
        code: u16,
        scope: Scope,
        object: Arc<Value>,
    },
    List(Box<List>),
    Json(u16, Value),
    /// Discovery in the aggregated form, which clients recognise by its content type.
    Aggregated(Value),
    Text(u16, &'static str),
    /// A response with headers of its own.
    Complete(http::Response<Bytes>),
    Watch(WatchId),
}

impl Answer {
    /// Returns an answer with an object of the scope's resource, in the scope's version.
    pub(super) fn object(code: u16, scope: &Scope, object: &Arc<Value>) -> Self {
        let object = scope.resource.view(scope.version(), object);
        Self::Object { code, scope: scope.clone(), object }
    }

    /// Refuses an answer that is a list where one object was requested, or the reverse.
    pub(super) fn fit(self, form: &Form) -> Result<Self, Status> {
        let (asked, is, scope, list) = match (form, &self) {
            (Form::Partial(_), Self::List(list)) => ("", "a list", &list.scope, "List"),
            (Form::PartialList(_), Self::Object { scope, .. }) => ("List", "not a list", scope, ""),
            _ => return Ok(self),
        };
        let resource = &scope.resource;
        let package = match resource.group.split('.').next() {
            _ if resource.is_custom() => "unstructured",
            Some("" | "events") | None => "core",
            Some(package) => package,
        };
        let kind = if resource.is_custom() { "Unstructured" } else { &resource.kind };
        Err(Status::new(
            406,
            "NotAcceptable",
            format!(
                "you requested PartialObjectMetadata{asked}, but the requested object is {is} (*{package}.{kind}{list})"
            ),
        ))
    }
}

/// A list before it is encoded.
#[derive(Debug)]
pub(super) struct List {
    pub(super) scope: Scope,
    pub(super) items: Vec<Arc<Value>>,
    pub(super) revision: u64,
    pub(super) token: String,
    pub(super) remaining: Option<usize>,
}

/// An object without its type, as in lists of built-in kinds.
struct Untyped<'a>(&'a Value);

impl Serialize for Untyped<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self.0.as_object().into_iter().flatten();
        serializer.collect_map(fields.filter(|(key, _)| *key != "kind" && *key != "apiVersion"))
    }
}

impl List {
    /// Returns the list's metadata; `whole` if the items are full objects.
    fn metadata(&self, whole: bool) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if !self.token.is_empty() || whole && self.scope.resource.is_custom() {
            metadata["continue"] = self.token.clone().into();
        }
        if let Some(remaining) = self.remaining.filter(|remaining| *remaining > 0) {
            metadata["remainingItemCount"] = remaining.into();
        }
        metadata
    }

    fn write(&self, out: &mut Vec<u8>, form: &Form, now: jiff::Timestamp) {
        if let Form::Table(version, include) = form {
            let mut table = table::render(&self.scope, &self.items, version, *include, now);
            table["metadata"] = self.metadata(false);
            write_json(out, &table);
            return;
        }
        let resource = &self.scope.resource;
        let (kind, version) = match form {
            Form::PartialList(version) => ("PartialObjectMetadataList", (*version).to_owned()),
            _ => (resource.list_kind.as_str(), resource.api_version(self.scope.version())),
        };
        out.extend_from_slice(b"{\"kind\":");
        write_json(out, kind);
        out.extend_from_slice(b",\"apiVersion\":");
        write_json(out, &version);
        out.extend_from_slice(b",\"metadata\":");
        write_json(out, &self.metadata(*form == Form::Full));
        // As Go encodes a list without any items.
        if self.items.is_empty() && matches!(form, Form::PartialList(_)) {
            out.extend_from_slice(b",\"items\":null}");
            return;
        }
        out.extend_from_slice(b",\"items\":[");
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            match form {
                Form::PartialList(version) => write_json(out, &Partial { version, object: item }),
                _ if resource.is_custom() => write_json(out, &**item),
                _ => write_json(out, &Untyped(item)),
            }
        }
        out.extend_from_slice(b"]}");
    }
}

/// In the extensions of a request: its client is in the same process, and takes an object or a list itself instead of its JSON.
#[derive(Debug, Clone, Copy)]
pub struct TakesShared;

/// In the extensions of the response to such a request: the object. The body is empty then.
#[derive(Debug, Clone)]
pub struct Shared(pub Arc<Value>);

/// In the extensions of the response to such a request: the whole list. The body is empty then.
#[derive(Debug, Clone)]
pub struct SharedList {
    /// Its objects.
    pub items: Vec<Arc<Value>>,
    /// Its resource version.
    pub revision: u64,
}

/// Returns an object or a list to a client in the same process.
pub(super) fn shared<T>(code: u16, shared: T, warnings: &[String]) -> http::Response<Bytes>
where
    T: Clone + Send + Sync + 'static,
{
    let mut response = response(code, "application/json", Bytes::new(), warnings);
    response.extensions_mut().insert(shared);
    response
}

/// Encodes an answer other than a watch.
pub(super) fn encode(
    answer: &Answer,
    negotiated: &Negotiated,
    warnings: &[String],
    now: jiff::Timestamp,
) -> http::Response<Bytes> {
    let mut body = Vec::new();
    let code = match answer {
        Answer::Object { code, scope, object } => {
            if let Form::Table(version, include) = &negotiated.form {
                let mut table = table::render(scope, &[Arc::clone(object)], version, *include, now);
                table["metadata"] = json!({"resourceVersion": meta::resource_version(object)});
                write_json(&mut body, &table);
            } else {
                negotiated.form.write_object(&mut body, object);
            }
            *code
        }
        Answer::List(list) => {
            list.write(&mut body, &negotiated.form, now);
            200
        }
        Answer::Json(code, value) => {
            write_json(&mut body, value);
            *code
        }
        Answer::Aggregated(value) => {
            write_json(&mut body, value);
            return response(200, AGGREGATED, body.into(), warnings);
        }
        Answer::Text(code, text) => return plain(*code, text),
        Answer::Complete(response) => return response.clone(),
        Answer::Watch(_) => 200,
    };
    if negotiated.yaml {
        // In a list, an object is nested deeper than in its request.
        let Ok(value) = serde_json::from_slice::<Value>(&body) else {
            let status = Status::internal("what is nested too deeply can't be written as YAML");
            return failure(&status, warnings);
        };
        let text = yaml::write(&value).expect("values with string keys are always YAML");
        return response(code, "application/yaml", text.into(), warnings);
    }
    response(code, "application/json", body.into(), warnings)
}

/// Returns a failure as a response.
pub(super) fn failure(status: &Status, warnings: &[String]) -> http::Response<Bytes> {
    let mut body = Vec::new();
    write_json(&mut body, &status.to_value());
    let mut response = response(status.code, "application/json", body.into(), warnings);
    if status.details.retry_after_seconds > 0 {
        let seconds = HeaderValue::from(status.details.retry_after_seconds);
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

/// Returns a response in plain text, or one without a body.
pub(super) fn plain(code: u16, text: &'static str) -> http::Response<Bytes> {
    let mut response = response(code, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()), &[]);
    if text.is_empty() {
        response.headers_mut().remove(header::CONTENT_TYPE);
    }
    response
}

pub(super) fn response(
    code: u16,
    media_type: &'static str,
    body: Bytes,
    warnings: &[String],
) -> http::Response<Bytes> {
    let mut response = http::Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    for warning in warnings {
        let text = format!("299 - {}", super::status::quote(warning));
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            headers.append(header::WARNING, value);
        }
    }
    response
}
