//! Converts a kubeconfig to the connection data that Argo CD needs.
//!
//! | in the kubeconfig | in the `config` of Argo CD's Secret |
//! | --- | --- |
//! | `client-certificate-data` and `client-key-data` | `tlsClientConfig.certData`, `.keyData` |
//! | `token` | `bearerToken` |
//! | `username` and `password` | `username`, `password` |
//! | `certificate-authority-data` | `tlsClientConfig.caData` |
//! | `insecure-skip-tls-verify` | `tlsClientConfig.insecure`, without `caData`: clients refuse both |
//! | `tls-server-name` | `tlsClientConfig.serverName` |
//! | paths of files, `exec`, `auth-provider`, impersonation, proxies | none: the kubeconfig can't be used |
//!
//! Error messages contain nothing of the kubeconfig except the names of its fields.
//!
//! Source: "Reconcile the secrets for each cluster".

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_engine::recording::Hide;
use lockstep_engine::yaml;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The keys of a Secret that may contain a kubeconfig: the one that DPF writes today, the one that it wrote before, and the
/// one of other tools.
pub const KEYS: [&str; 3] = ["super-admin.conf", "admin.conf", "kubeconfig"];
/// The longest URL of a server.
const SERVER_MAX_BYTES: usize = 2048;

/// The connection data of a cluster.
#[derive(Clone, PartialEq)]
pub struct Connection {
    /// The URL of its API server, without a slash at its end.
    pub server: String,
    /// The `config` in Argo CD's Secret.
    pub config: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Kubeconfig {
    #[serde(default)]
    current_context: Option<String>,
    #[serde(default)]
    contexts: Option<Vec<Named>>,
    #[serde(default)]
    clusters: Option<Vec<Named>>,
    #[serde(default)]
    users: Option<Vec<Named>>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl Named {
    /// Returns the fields of the entry under the name of its kind.
    fn body(&self, kind: &str) -> Map<String, Value> {
        self.fields.get(kind).and_then(Value::as_object).cloned().unwrap_or_default()
    }
}

/// Reads the kubeconfig in a Secret. An error states what is wrong and how to fix it.
pub fn of_secret(secret: &Value) -> Result<Connection, String> {
    let found = KEYS.iter().find_map(|key| Some((key, secret["data"][*key].as_str()?)));
    let Some((key, encoded)) = found else {
        return Err(format!(
            "it has none of the keys {}; put the kubeconfig under one of them",
            KEYS.join(", ")
        ));
    };
    let bytes = STANDARD.decode(encoded).map_err(|_| format!("its key {key} is not base64"))?;
    parse(&bytes).map_err(|problem| format!("its key {key}: {problem}"))
}

/// Parses a kubeconfig.
pub fn parse(bytes: &[u8]) -> Result<Connection, String> {
    let kubeconfig: Kubeconfig = document(bytes)
        .and_then(|document| serde_json::from_value(document.into()).ok())
        .ok_or("not a valid kubeconfig; replace the value with a kubeconfig in YAML or JSON")?;
    let clusters = kubeconfig.clusters.unwrap_or_default();
    let users = kubeconfig.users.unwrap_or_default();
    let contexts = kubeconfig.contexts.unwrap_or_default();
    let current = kubeconfig.current_context.filter(|name| !name.is_empty());
    let (cluster, user) = match current {
        Some(name) => {
            let context = contexts.iter().find(|context| context.name == name);
            let context = context
                .ok_or("its current-context names no context; name one that is there")?
                .body("context");
            let named = |field: &str, entries: &'_ [Named]| {
                let name = context.get(field).and_then(Value::as_str).unwrap_or_default();
                entries.iter().find(|entry| entry.name == name).map(|entry| entry.body(field))
            };
            let cluster = named("cluster", &clusters).ok_or("its context names no cluster that is there")?;
            let user = named("user", &users).ok_or("its context names no user that is there")?;
            (cluster, user)
        }
        None => {
            match (&clusters[..], &users[..]) {
                ([cluster], [user]) => (cluster.body("cluster"), user.body("user")),
                _ => {
                    return Err("it has no current-context, and not just one cluster and one user; set current-context".to_owned());
                }
            }
        }
    };
    Ok(Connection { server: server(&cluster)?, config: config(&cluster, &user)? })
}

/// Returns the whole document, which a placeholder is made from as well. The parser's own message is dropped, because it
/// quotes the text.
fn document(bytes: &[u8]) -> Option<Map<String, Value>> {
    yaml::read(std::str::from_utf8(bytes).ok()?).ok()
}

fn server(cluster: &Map<String, Value>) -> Result<String, String> {
    let server = text(cluster, "server")?.unwrap_or_default().trim_end_matches('/');
    if !is_server(server) {
        return Err("its cluster's server is no URL such as https://10.0.0.1:6443".to_owned());
    }
    Ok(server.to_owned())
}

/// Returns whether a text is a URL of a server without credentials.
fn is_server(server: &str) -> bool {
    let (scheme, host) = server.split_once("://").unwrap_or_default();
    matches!(scheme, "https" | "http")
        && !host.is_empty()
        && !host.contains('@')
        && server.bytes().all(|byte| byte.is_ascii_graphic())
        && server.len() <= SERVER_MAX_BYTES
}

fn config(cluster: &Map<String, Value>, user: &Map<String, Value>) -> Result<Value, String> {
    refuse(
        cluster,
        "cluster",
        &[
            (
                "certificate-authority",
                "names a file, which Argo CD does not have; use certificate-authority-data",
            ),
            ("proxy-url", "can't be passed to Argo CD; use a server that can be reached without a proxy"),
        ],
    )?;
    refuse(
        user,
        "user",
        &[
            ("client-certificate", "names a file, which Argo CD does not have; use client-certificate-data"),
            ("client-key", "names a file, which Argo CD does not have; use client-key-data"),
            ("tokenFile", "names a file, which Argo CD does not have; use token"),
            ("exec", "runs a program, which Argo CD does not have; use a client certificate or token"),
            (
                "auth-provider",
                "needs a program, which Argo CD does not have; use a client certificate or token",
            ),
            ("as", "impersonates another user, which Argo CD can't do; use the credentials of that user"),
        ],
    )?;
    let mut tls = Map::new();
    if cluster.get("insecure-skip-tls-verify") == Some(&Value::Bool(true)) {
        tls.insert("insecure".to_owned(), json!(true));
    } else if let Some(authority) = data(cluster, "certificate-authority-data")? {
        tls.insert("caData".to_owned(), json!(authority));
    }
    if let Some(name) = text(cluster, "tls-server-name")? {
        tls.insert("serverName".to_owned(), json!(name));
    }
    let mut config = Map::new();
    match (data(user, "client-certificate-data")?, data(user, "client-key-data")?) {
        (Some(certificate), Some(key)) => {
            tls.insert("certData".to_owned(), json!(certificate));
            tls.insert("keyData".to_owned(), json!(key));
        }
        (None, None) => {}
        _ => {
            return Err(
                "its user has only one of client-certificate-data and client-key-data; add the other"
                    .to_owned(),
            );
        }
    }
    let token = text(user, "token")?;
    let (name, password) = (text(user, "username")?, text(user, "password")?);
    if token.is_some() && name.is_some() {
        return Err(
            "its user has both a token and a username; remove one, because clients refuse both".to_owned()
        );
    }
    for (field, value) in [("bearerToken", token), ("username", name), ("password", password)] {
        if let Some(value) = value {
            config.insert(field.to_owned(), json!(value));
        }
    }
    let is_named = config.contains_key("bearerToken") || config.contains_key("username");
    if !is_named && !tls.contains_key("certData") {
        return Err("its user has no credentials; add a client certificate or a token".to_owned());
    }
    config.insert("tlsClientConfig".to_owned(), tls.into());
    Ok(config.into())
}

fn refuse(fields: &Map<String, Value>, of: &str, forms: &[(&str, &str)]) -> Result<(), String> {
    let is_set = |value: &Value| !value.is_null() && value != "";
    match forms.iter().find(|(field, _)| fields.get(*field).is_some_and(is_set)) {
        Some((field, why)) => Err(format!("its {of}'s {field} {why}")),
        None => Ok(()),
    }
}

fn text<'a>(fields: &'a Map<String, Value>, field: &str) -> Result<Option<&'a str>, String> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(_) => Err(format!("its {field} is no text")),
    }
}

/// Returns base64 text unchanged, except for the line breaks that YAML may have left in it.
fn data(fields: &Map<String, Value>, field: &str) -> Result<Option<String>, String> {
    let Some(text) = text(fields, field)? else { return Ok(None) };
    let joined: String = text.split_ascii_whitespace().collect();
    match STANDARD.decode(&joined) {
        Ok(bytes) if !bytes.is_empty() => Ok(Some(joined)),
        _ => Err(format!("its {field} is not base64")),
    }
}

/// Returns a kubeconfig that leads to the same decisions, for recordings. It has only the fields that decisions depend on,
/// with placeholders for the credentials in them.
pub fn stand_in(bytes: &[u8], hide: Hide<'_>) -> String {
    let Some(document) = document(bytes) else { return hide(bytes) };
    let mut kept = Map::new();
    if let Some(current) = document.get("current-context") {
        kept.insert("current-context".to_owned(), shape(current));
    }
    for (list, kind) in [("contexts", "context"), ("clusters", "cluster"), ("users", "user")] {
        let Some(entries) = document.get(list) else { continue };
        let entries =
            entries.as_array().map(|entries| entries.iter().map(|entry| named(entry, kind, hide)).collect());
        // A value that is not a list stays one that is not a list.
        kept.insert(
            list.to_owned(),
            entries.unwrap_or_else(|| if document[list].is_null() { Value::Null } else { json!(0) }),
        );
    }
    Value::from(kept).to_string()
}

/// Returns an entry of one of the lists.
fn named(entry: &Value, kind: &str, hide: Hide<'_>) -> Value {
    let Some(fields) = entry.as_object() else { return json!(0) };
    let mut kept = Map::new();
    if let Some(name) = fields.get("name") {
        kept.insert("name".to_owned(), shape(name));
    }
    if let Some(Value::Object(body)) = fields.get(kind) {
        let mut body = body.clone();
        if kind == "context" {
            body.retain(|field, value| matches!(field.as_str(), "cluster" | "user") && value.is_string());
        } else {
            hide_fields(&mut body, hide);
        }
        kept.insert(kind.to_owned(), body.into());
    }
    kept.into()
}

/// Returns a string unchanged; any other value is replaced by one of another type.
fn shape(value: &Value) -> Value {
    if value.is_string() || value.is_null() { value.clone() } else { json!(0) }
}

/// Returns the same for the `config` of Argo CD's Secret.
pub fn config_stand_in(bytes: &[u8], hide: Hide<'_>) -> String {
    let Ok(mut document @ Value::Object(_)) = serde_json::from_slice::<Value>(bytes) else {
        return hide(bytes);
    };
    let mut tls =
        document.as_object_mut().and_then(|fields| fields.remove("tlsClientConfig")).unwrap_or_default();
    for fields in [&mut document, &mut tls] {
        if let Some(fields) = fields.as_object_mut() {
            hide_fields(fields, hide);
        }
    }
    document["tlsClientConfig"] = tls;
    document.to_string()
}

/// Hides the strings in fields, except those that status and logs show anyway; base64 text stays base64.
fn hide_fields(fields: &mut Map<String, Value>, hide: Hide<'_>) {
    for (field, value) in fields {
        let Value::String(text) = value else {
            // Text in the configuration of a program may be secret too; decisions depend only on its presence.
            match value {
                Value::Object(_) | Value::Array(_) => *value = json!({}),
                Value::Number(_) => *value = json!(0),
                _ => {}
            }
            continue;
        };
        let is_public = match field.as_str() {
            "server" => is_server(text.trim_end_matches('/')),
            "tls-server-name" | "serverName" => true,
            _ => false,
        };
        if text.is_empty() || is_public {
            continue;
        }
        let is_data = field.ends_with("-data") || field.ends_with("Data");
        *text = match data(&Map::from_iter([(field.clone(), json!(text))]), field) {
            Ok(Some(data)) if is_data => STANDARD.encode(hide(data.as_bytes())),
            _ => hide(text.as_bytes()),
        };
    }
}

#[cfg(test)]
mod tests;
