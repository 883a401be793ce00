//! Content negotiation: the form and the format of an answer.

use super::form::{Form, Include};
use super::request::{Request, ResourcePath};
use super::status::Status;

/// The result of content negotiation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Negotiated {
    pub(super) form: Form,
    /// Whether the answer is encoded as YAML instead of JSON.
    pub(super) yaml: bool,
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

    /// Returns whether objects are returned in full, as JSON.
    pub(super) fn is_plain(&self) -> bool {
        self.form == Form::Full && !self.yaml
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
