//! Tests which objects an API server accepts, rejects and defaults. The texts of the results are the same for the embedded
//! server and a real one.
//!
//! No controller runs: only the tests change objects.

use std::fmt::Write as _;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client, Config};
use lockstep_apiserver::host::{Host, Options};
use lockstep_engine::yaml;
use serde_json::{Value, json};

use crate::chart::install_crd;
use crate::control_plane::ControlPlane;

mod words;

pub use words::{refusal, set, shown};

/// The content type of a merge patch.
pub const MERGE: &str = "application/merge-patch+json";
/// The content type of a JSON patch.
pub const JSON: &str = "application/json-patch+json";
/// The content type of server-side apply.
pub const APPLY: &str = "application/apply-patch+yaml";

/// An API server with a CRD, and a namespace on it.
pub struct Court {
    /// A client with the permissions of an administrator.
    pub client: Client,
    /// The namespace, which no other test uses.
    pub namespace: String,
    path: String,
    sound: Value,
    _host: Option<Host>,
}

impl Court {
    /// Starts an embedded API server for the caller alone; see [`Court::real`].
    pub async fn embedded(crd: &CustomResourceDefinition, sound: Value, test: &str) -> anyhow::Result<Self> {
        let host = Host::bind("127.0.0.1:0".parse()?, Options::default()).await?;
        let client = Client::try_from(Config::new(host.url().parse()?))?;
        Self::new(client, crd, sound, test, Some(host)).await
    }

    /// Uses the real API server of this test binary. `sound` is a valid object.
    pub async fn real(crd: &CustomResourceDefinition, sound: Value, test: &str) -> anyhow::Result<Self> {
        Self::new(ControlPlane::shared().client().await?, crd, sound, test, None).await
    }

    async fn new(
        client: Client,
        crd: &CustomResourceDefinition,
        sound: Value,
        test: &str,
        host: Option<Host>,
    ) -> anyhow::Result<Self> {
        install_crd(&client, &serde_json::to_value(crd)?).await?;
        let namespace = test.replace('_', "-");
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &object).await?;
        let (group, version) = (&crd.spec.group, &crd.spec.versions[0].name);
        let path = format!("/apis/{group}/{version}/namespaces/{namespace}/{}", crd.spec.names.plural);
        Ok(Self { client, namespace, path, sound, _host: host })
    }

    /// Returns the valid object.
    pub fn sound(&self) -> Value {
        self.sound.clone()
    }

    /// Returns the server's answer to a request below the kind's path in the namespace; see [`refusal`].
    pub async fn ask(
        &self,
        method: &str,
        below: &str,
        kind: &str,
        body: &Value,
    ) -> anyhow::Result<Result<Value, String>> {
        ask(&self.client, method, &format!("{}{below}", self.path), kind, body).await
    }

    /// Creates the object. An error is the rejection.
    pub async fn create(&self, object: &Value) -> anyhow::Result<Value> {
        self.ask("POST", "", "application/json", object).await?.map_err(anyhow::Error::msg)
    }

    /// Returns the result of a dry run that creates the object.
    pub async fn judge(&self, object: &Value) -> anyhow::Result<String> {
        let answer = self.ask("POST", "?dryRun=All", "application/json", object).await?;
        Ok(answer.map_or_else(|refusal| refusal, |_| "taken".to_owned()))
    }

    /// Returns the results for the valid object with each of these values of a field of its spec in turn; [`None`] removes the
    /// field.
    pub async fn judge_each(
        &self,
        field: &str,
        values: impl IntoIterator<Item = Option<Value>>,
    ) -> anyhow::Result<String> {
        let mut results = String::new();
        for value in values {
            let case = value.as_ref().map_or_else(|| "left out".to_owned(), shown);
            let mut object = self.sound();
            set(&mut object["spec"], field, value);
            writeln!(results, "{field} {case}\n    {}", self.judge(&object).await?)?;
        }
        Ok(results)
    }

    /// Returns the stored object with the name of the valid one.
    pub async fn stored(&self) -> anyhow::Result<Value> {
        let name = format!("/{}", self.name());
        self.ask("GET", &name, "application/json", &Value::Null).await?.map_err(anyhow::Error::msg)
    }

    /// Returns the result of a dry run that changes the stored object.
    pub async fn judge_change(&self, method: &str, kind: &str, body: &Value) -> anyhow::Result<String> {
        let name = self.name();
        let below = match kind {
            APPLY => format!("/{name}?dryRun=All&fieldManager=other&force=true"),
            _ => format!("/{name}?dryRun=All"),
        };
        let answer = self.ask(method, &below, kind, body).await?;
        Ok(answer.map_or_else(
            |refusal| refusal,
            |object| format!("taken, generation {}", object["metadata"]["generation"]),
        ))
    }

    /// Returns the results for a new value of one field of the valid object, which is stored: by replace, by merge patch and by
    /// server-side apply.
    pub async fn judge_value(&self, field: &str, value: &Value) -> anyhow::Result<String> {
        let mut changed = self.sound();
        set(&mut changed["spec"], field, Some(value.clone()));
        let mut results = format!("{field} {}\n", shown(value));
        let mut replacement = self.stored().await?;
        replacement["spec"] = changed["spec"].clone();
        writeln!(
            results,
            "    PUT    {}",
            self.judge_change("PUT", "application/json", &replacement).await?
        )?;
        let patch = json!({ "spec": changed["spec"] });
        writeln!(results, "    merge  {}", self.judge_change("PATCH", MERGE, &patch).await?)?;
        writeln!(results, "    apply  {}", self.judge_change("PATCH", APPLY, &changed).await?)?;
        Ok(results)
    }

    /// Creates objects from these texts with strict validation. Returns each with the stored object.
    pub async fn take(&self, texts: &[&str]) -> anyhow::Result<Vec<(Value, Value)>> {
        let mut taken = Vec::new();
        for text in texts {
            let mut object: Value = yaml::read(text)?;
            object["metadata"]["namespace"] = json!(self.namespace);
            let answer = self.ask("POST", "?fieldValidation=Strict", "application/json", &object).await?;
            let stored = answer.map_err(anyhow::Error::msg)?;
            taken.push((object, stored));
        }
        Ok(taken)
    }

    /// Returns the only object of the namespace as `kubectl get --output wide` shows it: a line for each column.
    pub async fn table(&self) -> anyhow::Result<String> {
        let request =
            http::Request::get(&self.path).header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
        let table: Value = self.client.request(request.body(Vec::new())?).await?;
        let columns = table["columnDefinitions"].as_array().context("no columns")?;
        let cells = table["rows"][0]["cells"].as_array().context("no cells")?;
        ensure!(columns.len() == cells.len(), "{table}");
        let mut text = String::new();
        for (column, cell) in columns.iter().zip(cells) {
            // The age grows while the test runs.
            let cell = if column["name"] == "Age" { "an age".into() } else { cell.clone() };
            writeln!(text, "{} {} {}: {cell}", column["priority"], column["type"], column["name"])?;
        }
        Ok(text)
    }

    /// Returns the discovery of the group and version, without the hashes.
    pub async fn discovered(&self) -> anyhow::Result<Vec<Value>> {
        let (group, _) = self.path.split_once("/namespaces/").context("a path without a namespace")?;
        let mut served: Value = self.client.request(http::Request::get(group).body(Vec::new())?).await?;
        let resources = served["resources"].as_array_mut().context("no resources")?;
        for resource in resources.iter_mut() {
            drop(resource.as_object_mut().and_then(|fields| fields.remove("storageVersionHash")));
        }
        Ok(std::mem::take(resources))
    }

    fn name(&self) -> &str {
        self.sound["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// [`Court::judge_each`] for strings.
    pub async fn judge_texts<T: Into<String>>(
        &self,
        field: &str,
        texts: impl IntoIterator<Item = T>,
    ) -> anyhow::Result<String> {
        self.judge_each(field, texts.into_iter().map(|text| Some(Value::String(text.into())))).await
    }
}

/// Returns the server's answer to a request; a null body sends none. See [`refusal`].
pub async fn ask(
    client: &Client,
    method: &str,
    path: &str,
    kind: &str,
    body: &Value,
) -> anyhow::Result<Result<Value, String>> {
    let request = http::Request::builder().method(method).uri(path).header("Content-Type", kind);
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
    match client.request(request.body(body)?).await {
        Ok(answer) => Ok(Ok(answer)),
        Err(kube::Error::Api(status)) => Ok(Err(refusal(&status))),
        Err(error) => Err(error.into()),
    }
}
