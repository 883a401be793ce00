//! Parses HTTP requests.

use std::num::{IntErrorKind, ParseIntError};

use bytes::Bytes;
use http::{HeaderName, Method, header};

use super::status::Status;

/// Decoded query parameters, in order.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the part of a URI after `?`.
    pub fn parse(query: &str) -> Self {
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(&key.replace('+', " ")), decode(&value.replace('+', " ")))
        };
        Self(query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect())
    }

    /// Returns the first value of a parameter.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns the first value of a parameter, empty if there is none.
    pub fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or_default()
    }

    /// Returns all values of a parameter.
    pub fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns a boolean parameter, parsed as in the server: anything but `0`, `false` and absence is true.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| !matches!(value, "0" | "false" | "False" | "FALSE"))
    }

    /// Returns a whole number; an empty value is refused.
    pub fn number(&self, key: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.get(key) else { return Ok(None) };
        text.parse().map(Some).map_err(|error: ParseIntError| {
            let why = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            Status::bad_request(format!("strconv.ParseInt: parsing {}: {why}", super::status::quote(text)))
        })
    }
}

/// A parsed request.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a Method,
    pub(crate) segments: Vec<String>,
    pub(crate) query: Query,
    pub(crate) accept: &'a str,
    pub(crate) content_type: &'a str,
    pub(crate) user_agent: &'a str,
    pub(crate) if_none_match: &'a str,
    pub(crate) body: &'a Bytes,
}

impl<'a> Request<'a> {
    pub(crate) fn new(request: &'a http::Request<Bytes>) -> Self {
        let text = |name: HeaderName| {
            request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
        };
        let mut segments = segments(request.uri().path());
        let mut query = Query::parse(request.uri().query().unwrap_or_default());
        let version = if segments.first().is_some_and(|first| first == "api") { 1 } else { 2 };
        // The old form of a watch: `watch` in the path, of all objects or of one.
        if segments.get(version + 1).is_some_and(|word| word == "watch") {
            segments.remove(version + 1);
            query.0.push(("watch".to_owned(), "true".to_owned()));
            let path = ResourcePath::parse(&segments).filter(|path| path.subresource.is_empty());
            if let Some(path) = path.filter(|path| !path.name.is_empty()) {
                segments.pop();
                query.0.push(("fieldSelector".to_owned(), format!("metadata.name={}", path.name)));
            }
        }
        Self {
            method: request.method(),
            segments,
            query,
            accept: text(header::ACCEPT),
            content_type: text(header::CONTENT_TYPE),
            user_agent: text(header::USER_AGENT),
            if_none_match: text(header::IF_NONE_MATCH),
            body: request.body(),
        }
    }

    /// Returns the content type without parameters.
    pub(crate) fn media_type(&self) -> &'a str {
        self.content_type.split(';').next().unwrap_or_default().trim()
    }

    /// Returns the field manager: the requested one, or the first word of the user agent.
    pub(crate) fn field_manager(&self) -> &str {
        match self.query.text("fieldManager") {
            "" => {
                let prefix = self.user_agent.split('/').next().unwrap_or_default();
                if prefix.is_empty() { "unknown" } else { prefix }
            }
            manager => manager,
        }
    }
}

/// The path below a group version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) plural: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
}

impl ResourcePath {
    /// Parses `/api/v1/...` and `/apis/<group>/<version>/...`; none if the path ends at the version.
    pub(crate) fn parse(segments: &[String]) -> Option<Self> {
        let (group, version, rest) = match segments {
            [api, version, rest @ ..] if api == "api" => ("", version, rest),
            [apis, group, version, rest @ ..] if apis == "apis" && !group.is_empty() => {
                (group.as_str(), version, rest)
            }
            _ => return None,
        };
        let (namespace, rest) = match rest {
            [word, _, sub, ..] if word == "namespaces" && (sub == "status" || sub == "finalize") => {
                ("", rest)
            }
            [word, namespace, below @ ..] if word == "namespaces" && !below.is_empty() => {
                (namespace.as_str(), below)
            }
            _ => ("", rest),
        };
        if rest.is_empty() || rest.len() > 3 {
            return None;
        }
        let part = |index: usize| rest.get(index).cloned().unwrap_or_default();
        Some(Self {
            group: group.to_owned(),
            version: version.clone(),
            namespace: namespace.to_owned(),
            plural: part(0),
            name: part(1),
            subresource: part(2),
        })
    }
}

/// Returns the segments of a path. A doubled slash encloses an empty segment, and so does a slash at the end where the server
/// takes paths as they are; below `/api`, `/apis` and `/version` it trims them.
fn segments(path: &str) -> Vec<String> {
    let path = decode(path);
    let path = path.strip_prefix('/').unwrap_or(&path);
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let trims = matches!(first, "api" | "apis" | "version") && !(first == "apis" && rest.starts_with('/'));
    let path = if trims { path.trim_end_matches('/') } else { path };
    if path.is_empty() { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
}

/// Decodes percent encoding; a broken escape is kept as it is.
pub fn decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let hex = |index: usize| bytes.get(index).and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let escape = (bytes[index] == b'%').then(|| Some(hex(index + 1)? * 16 + hex(index + 2)?)).flatten();
        if let Some(byte) = escape.and_then(|value| u8::try_from(value).ok()) {
            decoded.push(byte);
            index += 3;
        } else {
            decoded.push(bytes[index]);
            index += 1;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str) -> Option<ResourcePath> {
        ResourcePath::parse(&segments(path))
    }

    #[test]
    fn paths_are_taken_apart() {
        let path = parse("/apis/apps/v1/namespaces/team-a/deployments/web/scale").unwrap();
        assert_eq!((path.group.as_str(), path.version.as_str()), ("apps", "v1"));
        assert_eq!((path.namespace.as_str(), path.plural.as_str()), ("team-a", "deployments"));
        assert_eq!((path.name.as_str(), path.subresource.as_str()), ("web", "scale"));
        let path = parse("/api/v1/namespaces/team-a").unwrap();
        assert_eq!((path.plural.as_str(), path.name.as_str()), ("namespaces", "team-a"));
        let path = parse("/api/v1/namespaces/team-a/finalize").unwrap();
        assert_eq!((path.plural.as_str(), path.subresource.as_str()), ("namespaces", "finalize"));
        assert_eq!(parse("/api/v1"), None);
        assert_eq!(parse("/api/v1/a/b/c/d"), None);
    }

    #[test]
    fn a_doubled_slash_leads_elsewhere() {
        assert_eq!(segments("/api/v1/pods//"), ["api", "v1", "pods"]);
        assert_eq!(segments("//api/v1"), ["", "api", "v1"]);
        assert_eq!(segments("/healthz/"), ["healthz", ""]);
        assert_eq!(parse("/apis//v1/deployments"), None);
        let path = parse("/api/v1/namespaces//pods").unwrap();
        assert_eq!((path.namespace.as_str(), path.plural.as_str()), ("", "pods"));
        let path = parse("/api/v1/namespaces/a/pods//b").unwrap();
        assert_eq!((path.name.as_str(), path.subresource.as_str()), ("", "b"));
        let path = parse("/api/v1/namespaces/a/pods/b%2Fstatus").unwrap();
        assert_eq!((path.name.as_str(), path.subresource.as_str()), ("b", "status"));
    }

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+(d)&watch&limit=x%zz");
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert_eq!(query.flag("watch"), Some(true));
        assert!(query.number("limit").is_err());
        assert!(query.number("watch").is_err());
        assert_eq!(query.number("timeoutSeconds").unwrap(), None);
    }
}
