//! Pull secrets: `.dockerconfigjson`.

use std::cmp::Reverse;
use std::fmt;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use lockstep_engine::broker::SecretString;
use lockstep_engine::image::{DOCKER_HUB, ImageReference};
use lockstep_engine::recording::Hide;
use lockstep_engine::wire::cut;
use serde_json::{Map, Value};

/// The credentials of a pull secret. No output format shows any of them.
#[derive(Clone, PartialEq, Eq)]
pub struct DockerConfig {
    /// The most specific one first.
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Eq)]
struct Entry {
    place: Place,
    credentials: SecretString,
}

/// The images that credentials are for.
#[derive(Clone, PartialEq, Eq)]
struct Place {
    /// With the port; labels may contain wildcards.
    host: String,
    /// Without slashes at its ends; empty for all repositories.
    path: String,
}

impl DockerConfig {
    /// Parses `{"auths": {"<registry>": {"auth": "<base64 of user:password>"}}}`; `username` and `password` may replace
    /// `auth`. Entries without credentials are allowed, but at least one must have some. Errors state what is wrong, where,
    /// and how to fix it; they never show credentials.
    pub fn parse(data: &[u8]) -> Result<Self, String> {
        let document: Value = serde_json::from_slice(data).map_err(|error| {
            // The parser's own message might quote the text.
            format!("it is not JSON (line {}, column {})", error.line(), error.column())
        })?;
        let auths = match document.get("auths") {
            Some(Value::Object(auths)) => auths,
            Some(_) => return Err("`auths` is not an object with a key for each registry".to_owned()),
            None => return Err("it has no `auths`, which holds a key for each registry".to_owned()),
        };
        let mut entries = Vec::new();
        for (key, auth) in auths {
            let place = Place::parse(key);
            let at = |problem| format!("auths[{}]{problem}", cut(&format!("{place:?}")));
            let Value::Object(auth) = auth else { return Err(at(" is not an object with `auth`")) };
            if let Some(credentials) = credentials(auth).map_err(at)? {
                entries.push(Entry { place, credentials });
            }
        }
        if entries.is_empty() {
            return Err("`auths` has no credentials, so that nothing can be pulled with it; add a registry with `auth`, \
                        the base64 of user:password"
                .to_owned());
        }
        entries.sort_by_key(|entry| (Reverse(entry.place.path.len()), entry.place.host.contains('*')));
        Ok(Self { entries })
    }

    /// Returns the credentials for an image, as `user:password`. The longest path that is a prefix of its repository wins; an
    /// exact host wins over a wildcard.
    pub fn credentials_for(&self, image: &ImageReference) -> Option<SecretString> {
        let entry = self.entries.iter().find(|entry| entry.place.holds(image))?;
        Some(entry.credentials.clone())
    }
}

impl fmt::Debug for DockerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DockerConfig(***)")
    }
}

impl Place {
    fn parse(key: &str) -> Self {
        let place = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
        // The text before an `@` may be credentials, also with slashes. No repository contains one.
        let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
        let (host, path) = place.split_once('/').unwrap_or((place, ""));
        let host = host.to_ascii_lowercase();
        let host = match host.as_str() {
            "index.docker.io" | "registry-1.docker.io" => DOCKER_HUB.to_owned(),
            _ => host,
        };
        let path = path.trim_matches('/');
        // The API version of the registry does not belong to the repository.
        let path = match path.split_once('/').unwrap_or((path, "")) {
            ("v1" | "v2", rest) => rest,
            _ => path,
        };
        Self { host, path: path.to_owned() }
    }

    fn holds(&self, image: &ImageReference) -> bool {
        let rest = image.repository.strip_prefix(&self.path);
        let in_path =
            self.path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        in_path && host_matches(&self.host, &image.registry.to_ascii_lowercase())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.path.is_empty() { "" } else { "/" };
        write!(f, "{:?}", format!("{}{separator}{}", self.host, self.path))
    }
}

/// Returns whether a pattern matches a host. A wildcard matches any text within one label, as in the kubelet.
fn host_matches(pattern: &str, host: &str) -> bool {
    let label_matches = |(pattern, label): (&str, &str)| match pattern.split_once('*') {
        Some((start, end)) => {
            label.len() >= start.len() + end.len() && label.starts_with(start) && label.ends_with(end)
        }
        None => pattern == label,
    };
    pattern.split('.').count() == host.split('.').count()
        && pattern.split('.').zip(host.split('.')).all(label_matches)
}

/// Returns `user:password`, if an entry has them. An error begins with the location below the entry.
fn credentials(auth: &Map<String, Value>) -> Result<Option<SecretString>, &'static str> {
    let [encoded, user, password] = ["auth", "username", "password"].map(|key| auth.get(key));
    let text = |value: Option<&Value>, problem| match value {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(problem),
    };
    let encoded = text(encoded, ".auth is not a string")?;
    let user = text(user, ".username is not a string")?;
    let password = text(password, ".password is not a string")?;
    if encoded.is_empty() {
        return match (user.is_empty(), password.is_empty()) {
            (true, true) => Ok(None),
            (true, false) => Err(" has a password without a username; add it"),
            (false, true) => Err(" has a username without a password; add it"),
            (false, false) => Ok(Some(SecretString::new(format!("{user}:{password}")))),
        };
    }
    let decoded =
        BASE64.decode(encoded).map_err(|_| ".auth is not base64; write the base64 of user:password")?;
    match String::from_utf8(decoded) {
        Ok(decoded) if decoded.contains(':') => Ok(Some(SecretString::new(decoded))),
        Ok(_) => Err(".auth has no colon; write the base64 of user:password"),
        Err(_) => Err(".auth is not the base64 of a text; write the base64 of user:password"),
    }
}

/// With or without padding, as container tools accept it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns a text that [`DockerConfig::parse`] reads in the same way, for the same registries, and that contains no
/// credentials of this one: for recordings.
pub fn stand_in(data: &[u8], hide: Hide<'_>) -> String {
    let mut document: Value = match serde_json::from_slice(data) {
        Ok(document) => document,
        Err(error) => return no_json(data, &error, hide),
    };
    for (field, value) in document.as_object_mut().into_iter().flatten() {
        if field != "auths" {
            *value = Value::from(hide(value.to_string().as_bytes()));
        }
    }
    let auths = document.get_mut("auths").and_then(Value::as_object_mut);
    for (_, auth) in auths.into_iter().flatten() {
        let Value::Object(fields) = auth else {
            *auth = Value::from(hide(auth.to_string().as_bytes()));
            continue;
        };
        for (field, value) in fields {
            match value {
                Value::String(text) if !text.is_empty() => *text = hidden(field, text, hide),
                Value::Number(_) => *value = Value::from(0),
                _ => {}
            }
        }
    }
    document.to_string()
}

/// Returns a text that is invalid JSON at the same location.
fn no_json(data: &[u8], error: &serde_json::Error, hide: Hide<'_>) -> String {
    let hidden = hide(data);
    let (lines, spaces) = ("\n".repeat(error.line().saturating_sub(1)), |count: usize| " ".repeat(count));
    let column = error.column();
    let candidates = [
        format!("{lines}{}!{hidden}", spaces(column.saturating_sub(1))),
        format!("[\"{hidden}\"{lines}{}", spaces(column)),
        format!("[{lines}{}", spaces(column.saturating_sub(1))),
        format!("[{lines}"),
        lines.clone(),
    ];
    let place =
        |text: &str| serde_json::from_str::<Value>(text).err().map(|error| (error.line(), error.column()));
    let same = |text: &String| place(text) == Some((error.line(), column));
    candidates.into_iter().find(same).unwrap_or(hidden)
}

fn hidden(field: &str, text: &str, hide: Hide<'_>) -> String {
    let Some(decoded) = BASE64.decode(text).ok().filter(|_| field == "auth") else {
        return hide(text.as_bytes());
    };
    match String::from_utf8(decoded) {
        Ok(decoded) => match decoded.split_once(':') {
            Some((user, password)) => {
                BASE64.encode(format!("{}:{}", hide(user.as_bytes()), hide(password.as_bytes())))
            }
            None => BASE64.encode(hide(decoded.as_bytes())),
        },
        Err(_) => BASE64.encode(b"\xff"),
    }
}

#[cfg(test)]
mod tests;
