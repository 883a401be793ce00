//! The forms of `/openapi/v2`: JSON and protobuf, and what a client needs to keep the document.

use bytes::Bytes;
use http::{HeaderValue, header};
use serde_json::Value;
use sha2::{Digest as _, Sha512};

use super::gnostic;
use crate::server::form::write_json;
use crate::server::request::Request;
use crate::server::respond;
use crate::server::status::Status;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Protobuf,
}

/// The subtypes that are served, in the order in which the server prefers them. One of protobuf's is no valid media type, but
/// client-go sends it.
const SUBTYPES: [(&str, Form); 3] = [
    ("json", Form::Json),
    ("com.github.proto-openapi.spec.v2@v1.0+protobuf", Form::Protobuf),
    ("com.github.proto-openapi.spec.v2.v1.0+protobuf", Form::Protobuf),
];

/// Returns the document in the form that the client prefers.
pub(super) fn answer(
    request: &Request<'_>,
    document: impl FnOnce() -> Value,
) -> Result<http::Response<Bytes>, Status> {
    let mut response = match preferred(request.accept) {
        Some(form) => with_tag(form, &document(), request.if_none_match)?,
        None => respond::plain(406, ""),
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

/// Returns the document with its entity tag, or only the tag if the client has the document.
fn with_tag(form: Form, document: &Value, known: &str) -> Result<http::Response<Bytes>, Status> {
    let mut json = Vec::new();
    write_json(&mut json, document);
    // Both forms have this tag: a cache keeps them apart because of `Vary`.
    let tag = format!("\"{:X}\"", Sha512::digest(&json));
    let is_known = |known: &str| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag;
    let mut response = if known.split(',').map(str::trim).any(is_known) {
        respond::plain(304, "")
    } else {
        match form {
            Form::Json => respond::response(200, "application/json", json.into(), &[]),
            Form::Protobuf => {
                let message = gnostic::encode(document)
                    .map_err(|error| Status::internal(&format!("the document has no protobuf: {error}")))?;
                let media_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
                respond::response(200, media_type, message.into(), &[])
            }
        }
    };
    let tag = HeaderValue::try_from(tag).expect("hexadecimal digits in quotes are printable");
    response.headers_mut().insert(header::ETAG, tag);
    Ok(response)
}

/// Returns the form that is served for an `Accept` header.
fn preferred(accept: &str) -> Option<Form> {
    let accept = if accept.is_empty() { "*/*" } else { accept };
    ranges(accept).iter().find_map(|range| {
        let is_served = |(subtype, _): &&(&str, Form)| {
            ["application", "*"].contains(&range.kind) && [*subtype, "*"].contains(&range.subtype)
        };
        SUBTYPES.iter().find(is_served).map(|(_, form)| *form)
    })
}

/// A media range of an `Accept` header.
#[derive(Debug, Clone, Copy)]
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f64,
}

impl<'a> Range<'a> {
    fn parse(entry: &'a str) -> Option<Self> {
        let mut parts = entry.split(';');
        let mut names = parts.next()?.split('/').map(str::trim);
        let (kind, subtype) = match (names.next()?, names.next(), names.next()) {
            ("*", None, None) => ("*", "*"),
            (kind, Some(subtype), None) if !subtype.is_empty() => (kind, subtype),
            _ => return None,
        };
        let quality = parts.filter_map(|part| part.split_once('=')).find(|(name, _)| name.trim() == "q");
        let quality = quality.map_or(1.0, |(_, value)| value.parse().unwrap_or_default());
        Some(Self { kind, subtype, quality })
    }

    /// Returns whether the server tries this range before the other. Both may precede each other: then the later one is first.
    fn precedes(&self, other: &Self) -> bool {
        self.quality > other.quality
            || (self.kind != "*" && other.kind == "*")
            || (self.subtype != "*" && other.subtype == "*")
    }
}

/// Returns the ranges in the order in which the server tries them.
fn ranges(accept: &str) -> Vec<Range<'_>> {
    let mut ranges: Vec<Range<'_>> = Vec::new();
    for range in accept.split(',').filter_map(Range::parse) {
        let place = ranges.iter().rposition(|earlier| !range.precedes(earlier)).map_or(0, |place| place + 1);
        ranges.insert(place, range);
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_depends_on_the_media_types() {
        let older = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
        let newer = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
        let cases = [
            (String::new(), Some(Form::Json)),
            ("*/*".into(), Some(Form::Json)),
            ("*".into(), Some(Form::Json)),
            ("application/*".into(), Some(Form::Json)),
            ("text/plain".into(), None),
            ("application".into(), None),
            ("application/json/x".into(), None),
            ("application/vnd.kubernetes.protobuf".into(), None),
            ("application/json;as=Table".into(), Some(Form::Json)),
            (older.into(), Some(Form::Protobuf)),
            (newer.into(), Some(Form::Protobuf)),
            (format!("application/json, {newer}"), Some(Form::Json)),
            (format!("{newer}, application/json"), Some(Form::Protobuf)),
            (format!("{older};q=0.5,application/json"), Some(Form::Json)),
            (format!("application/json;q=0.5, {older};q=0.6"), Some(Form::Protobuf)),
            (format!("*/*, {newer}"), Some(Form::Protobuf)),
            (format!("text/html, {newer};q=none, application/json;q=0.1"), Some(Form::Json)),
        ];
        for (accept, form) in cases {
            assert_eq!(preferred(&accept), form, "{accept}");
        }
    }
}
