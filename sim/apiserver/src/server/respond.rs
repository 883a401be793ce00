//! Encodes answers in the form that the client accepts.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use lockstep_engine::yaml;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Value, json};

use super::request::{Request, ResourcePath};
use super::scope::Scope;
use super::status::Status;
use super::watch::WatchId;
use super::{discovery, meta, table};
use crate::builtin;

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
    Watch(WatchId),
}

impl Answer {
    /// Returns an answer with an object of the scope's resource, in the scope's version.
    pub(super) fn object(code: u16, scope: &Scope, object: &Arc<Value>) -> Self {
        let object = scope.resource.view(scope.version(), object);
        Self::Object { code, scope: scope.clone(), object }
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

/// How much of an object a table row contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Include {
    Nothing,
    Metadata,
    Object,
}

/// The requested form of objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Form {
    #[default]
    Full,
    /// `PartialObjectMetadata` of this version of `meta.k8s.io`.
    Partial(&'static str),
    /// A list of `PartialObjectMetadata`.
    PartialList(&'static str),
    /// A table of this version of `meta.k8s.io`.
    Table(&'static str, Include),
}

/// The result of content negotiation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Negotiated {
    pub(super) form: Form,
    yaml: bool,
}

impl Negotiated {
    /// Returns the first media type of `Accept` that can be served; `custom` if the path is below a group of custom resources.
    pub(super) fn parse(request: &Request<'_>, custom: bool) -> Result<Self, Status> {
        let serves_resources =
            request.segments.first().is_some_and(|first| ["api", "apis"].contains(&first.as_str()));
        if request.accept.is_empty() || !serves_resources {
            return Ok(Self { form: Form::Full, yaml: false });
        }
        let include = match request.query.text("includeObject") {
            "None" => Include::Nothing,
            "Object" => Include::Object,
            _ => Include::Metadata,
        };
        let entries = request.accept.split(',');
        let path = ResourcePath::parse(&request.segments);
        // Only resources have other forms.
        let served = |found: &Self| path.is_some() || found.form == Form::Full;
        entries.clone().filter_map(|entry| accept(entry, include)).find(served).ok_or_else(|| {
            let mut types =
                "application/json, application/yaml, application/vnd.kubernetes.protobuf".to_owned();
            // The route of some paths depends on the media type too: those of built-in resources, and the core group's discovery.
            let routed = match &path {
                Some(_) => !custom,
                None => request.segments.first().is_some_and(|first| first == "api"),
            };
            if !routed || entries.clone().any(|entry| format(entry).is_some()) {
                let message = format!("only the following media types are accepted: {types}");
                return Status::new(406, "NotAcceptable", message);
            }
            if request.method == http::Method::GET && path.as_ref().is_some_and(|path| path.name.is_empty()) {
                types.push_str(
                    ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
                );
            }
            let message = format!("406: Not Acceptable\n\nAvailable representations: {types}");
            Status::generic(406, "NotAcceptable", message)
        })
    }

    /// Refuses a watch in YAML, which has no streams.
    pub(super) fn can_stream(&self) -> Result<(), Status> {
        if !self.yaml {
            return Ok(());
        }
        let types = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        let message = format!("only the following media types are accepted: {types}");
        Err(Status::new(406, "NotAcceptable", message))
    }

    /// Refuses an answer that is a list where one object was requested, or the reverse.
    pub(super) fn fit(&self, answer: Answer) -> Result<Answer, Status> {
        let (asked, is, scope, list) = match (&self.form, &answer) {
            (Form::Partial(_), Answer::List(list)) => ("", "a list", &list.scope, "List"),
            (Form::PartialList(_), Answer::Object { scope, .. }) => ("List", "not a list", scope, ""),
            _ => return Ok(answer),
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

/// Returns whether a media type can be encoded, and whether it is YAML.
fn format(entry: &str) -> Option<bool> {
    match entry.split(';').next().map(str::trim)? {
        "application/json" | "*/*" | "application/*" => Some(false),
        "application/yaml" => Some(true),
        _ => None,
    }
}

fn accept(entry: &str, include: Include) -> Option<Negotiated> {
    let yaml = format(entry)?;
    let parts = entry.split(';').skip(1).map(str::trim);
    let (mut kind, mut version) = ("", "");
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => kind = value,
            Some(("v", value)) => version = value,
            _ => {}
        }
    }
    let version = match version {
        "v1beta1" => "meta.k8s.io/v1beta1",
        "v1" | "" | "v2" | "v2beta1" => "meta.k8s.io/v1",
        _ => return None,
    };
    let form = match kind {
        "" | "APIGroupDiscoveryList" => Form::Full,
        "PartialObjectMetadata" => Form::Partial(version),
        "PartialObjectMetadataList" => Form::PartialList(version),
        "Table" => Form::Table(version, include),
        _ => return None,
    };
    Some(Negotiated { form, yaml })
}

impl Form {
    /// Writes one object as JSON.
    pub(super) fn write_object(&self, out: &mut Vec<u8>, object: &Value) {
        match self {
            Self::Partial(version) | Self::PartialList(version)
                if object.get("kind").is_some_and(|kind| kind != "Status") =>
            {
                write(out, &Partial { version, object });
            }
            _ => write(out, object),
        }
    }
}

fn write(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("values with string keys are always JSON");
}

/// The metadata of an object.
struct Partial<'a> {
    version: &'static str,
    object: &'a Value,
}

impl Serialize for Partial<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("kind", "PartialObjectMetadata")?;
        map.serialize_entry("apiVersion", self.version)?;
        map.serialize_entry("metadata", &*builtin::metadata_alone(self.object))?;
        map.end()
    }
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
            write(out, &table);
            return;
        }
        let resource = &self.scope.resource;
        let (kind, version) = match form {
            Form::PartialList(version) => ("PartialObjectMetadataList", (*version).to_owned()),
            _ => (resource.list_kind.as_str(), resource.api_version(self.scope.version())),
        };
        out.extend_from_slice(b"{\"kind\":");
        write(out, kind);
        out.extend_from_slice(b",\"apiVersion\":");
        write(out, &version);
        out.extend_from_slice(b",\"metadata\":");
        write(out, &self.metadata(*form == Form::Full));
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
                Form::PartialList(version) => write(out, &Partial { version, object: item }),
                _ if resource.is_custom() => write(out, &**item),
                _ => write(out, &Untyped(item)),
            }
        }
        out.extend_from_slice(b"]}");
    }
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
                write(&mut body, &table);
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
            write(&mut body, value);
            *code
        }
        Answer::Aggregated(value) => {
            write(&mut body, value);
            return response(200, discovery::AGGREGATED, body.into(), warnings);
        }
        Answer::Text(code, text) => return plain(*code, text),
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
    write(&mut body, &status.to_value());
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

fn response(code: u16, media_type: &'static str, body: Bytes, warnings: &[String]) -> http::Response<Bytes> {
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
