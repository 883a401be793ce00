//! Bridges at the API server: what it takes, refuses, fills in and shows, on the embedded one and on a real one.
//!
//! Each table of cases is written once and has one snapshot, so both servers give the same verdicts in the same words.
//! No controller runs: nobody but the tests changes an object.

use std::fmt::Write as _;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::core::Status;
use kube::{Api, Client, Config};
use lockstep_sim::host::{Host, Options};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::ground::install_crds;
use serde_json::{Value, json};

#[path = "bridge_admission/exposure.rs"]
mod exposure;
#[path = "bridge_admission/fields.rs"]
mod fields;
#[path = "bridge_admission/serving.rs"]
mod serving;
#[path = "bridge_admission/status.rs"]
mod status;
#[path = "bridge_admission/update.rs"]
mod update;

/// Runs each test on both grounds.
macro_rules! on_both_grounds {
    ($($module:ident::$test:ident),* $(,)?) => {
        mod embedded {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$module::$test(super::World::embedded(stringify!($test)).await?).await
            })*
        }
        mod real {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$module::$test(super::World::real(stringify!($test)).await?).await
            })*
        }
    };
}

on_both_grounds!(
    fields::fields_are_required_and_typed,
    fields::lengths_end_at_their_limits,
    fields::base_domains,
    fields::release_images,
    fields::cluster_types,
    fields::policies,
    fields::references,
    exposure::addresses,
    exposure::exposure_and_address_go_together,
    exposure::several_mistakes_are_told_at_once,
    update::what_is_immutable_stays,
    update::what_is_mutable_changes,
    update::the_spec_cannot_be_dropped,
    status::the_status_has_an_endpoint_of_its_own,
    status::what_a_status_may_say,
    serving::what_is_left_out_is_filled_in,
    serving::unknown_fields_are_pruned_or_told,
    serving::tables_show_what_matters,
    serving::names_are_discovered,
    serving::the_documented_patterns_are_taken,
    serving::the_examples_are_taken,
    serving::the_infrastructure_is_taken,
);

/// A spec that is in order, with a load balancer.
fn spec() -> Value {
    json!({
        "dpuClusterRef": {"name": "dpu", "namespace": "dpf-operator-system"},
        "baseDomain": "clusters.example.com",
        "ocpReleaseImage": "quay.io/openshift-release-dev/ocp-release:4.19.0-multi",
        "sshKeySecretRef": {"name": "ssh"},
        "pullSecretRef": {"name": "pull"},
        "etcdStorageClass": "fast",
        "controlPlaneAvailabilityPolicy": "HighlyAvailable",
        "infrastructureAvailabilityPolicy": "SingleReplica",
        "exposeThroughLoadBalancer": true,
        "metalLBVirtualIP": "192.168.1.100",
        "clusterType": "dpf-test",
    })
}

/// The DPFHCPBridge with a spec, or without one.
fn bridge(spec: Option<Value>) -> Value {
    let mut object = json!({
        "apiVersion": "dpf.hcp.bridge.com/v1alpha1",
        "kind": "DPFHCPBridge",
        "metadata": {"name": "bridge"},
    });
    if let Some(spec) = spec {
        object["spec"] = spec;
    }
    object
}

/// Gives the field at a path, such as `dpuClusterRef.name`, a value, or leaves it out.
fn set(spec: &mut Value, field: &str, value: Option<Value>) {
    let (place, name) = match field.rsplit_once('.') {
        Some((parent, name)) => (&mut spec[parent], name),
        None => (spec, field),
    };
    match (value, place.as_object_mut()) {
        (Some(value), _) => place[name] = value,
        (None, Some(fields)) => drop(fields.remove(name)),
        (None, None) => {}
    }
}

/// The JSON of a value; long runs of one character are told by their length.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    let longest = text.split(|c: char| !c.is_alphanumeric()).max_by_key(|run| run.len()).unwrap_or_default();
    if longest.len() <= 48 {
        return text;
    }
    let count = value.as_str().map_or(0, |text| text.chars().count());
    format!("{}… ({count} characters)", text.chars().take(12).collect::<String>())
}

/// The code and reason of a refusal and its causes, a line for each. A real server tells them in any order.
fn refusal(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut lines: Vec<String> =
        causes.map(|cause| format!("{}: {} ({})", cause.field, cause.message, cause.reason)).collect();
    if lines.is_empty() {
        lines.push(status.message.clone());
    }
    lines.sort();
    format!("{} {}\n        {}", status.code, status.reason, lines.join("\n        "))
}

/// An API server with our definitions, and a namespace on it.
struct World {
    client: Client,
    namespace: String,
    _host: Option<Host>,
}

impl World {
    async fn embedded(test: &str) -> anyhow::Result<Self> {
        let host = Host::bind("127.0.0.1:0".parse()?, Options::default()).await?;
        let client = Client::try_from(Config::new(host.url().parse()?))?;
        Self::new(client, test, Some(host)).await
    }

    async fn real(test: &str) -> anyhow::Result<Self> {
        Self::new(ControlPlane::shared().client().await?, test, None).await
    }

    async fn new(client: Client, test: &str, host: Option<Host>) -> anyhow::Result<Self> {
        install_crds(&client).await?;
        let namespace = test.replace('_', "-");
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &object).await?;
        Ok(Self { client, namespace, _host: host })
    }

    /// What the server answers to a request below `dpfhcpbridges`; see [`refusal`].
    async fn ask(
        &self,
        method: &str,
        below: &str,
        kind: &str,
        body: &Value,
    ) -> anyhow::Result<Result<Value, String>> {
        let path =
            format!("/apis/dpf.hcp.bridge.com/v1alpha1/namespaces/{}/dpfhcpbridges{below}", self.namespace);
        let request = http::Request::builder().method(method).uri(path).header("Content-Type", kind);
        match self.client.request(request.body(serde_json::to_vec(body)?)?).await {
            Ok(answer) => Ok(Ok(answer)),
            Err(kube::Error::Api(status)) => Ok(Err(refusal(&status))),
            Err(error) => Err(error.into()),
        }
    }

    async fn create(&self, object: &Value) -> anyhow::Result<Value> {
        self.ask("POST", "", "application/json", object).await?.map_err(anyhow::Error::msg)
    }

    /// The verdict on an object that would be created.
    async fn judge(&self, object: &Value) -> anyhow::Result<String> {
        let answer = self.ask("POST", "?dryRun=All", "application/json", object).await?;
        Ok(answer.map_or_else(|refusal| refusal, |_| "taken".to_owned()))
    }

    /// The verdicts on the spec with each of these values of a field in turn; without the field for [`None`].
    async fn judge_each(
        &self,
        field: &str,
        values: impl IntoIterator<Item = Option<Value>>,
    ) -> anyhow::Result<String> {
        let mut told = String::new();
        for value in values {
            let case = value.as_ref().map_or_else(|| "left out".to_owned(), shown);
            let mut spec = spec();
            set(&mut spec, field, value);
            writeln!(told, "{field} {case}\n    {}", self.judge(&bridge(Some(spec))).await?)?;
        }
        Ok(told)
    }

    /// [`World::judge_each`] of strings.
    async fn judge_texts<T: Into<String>>(
        &self,
        field: &str,
        texts: impl IntoIterator<Item = T>,
    ) -> anyhow::Result<String> {
        self.judge_each(field, texts.into_iter().map(|text| Some(Value::String(text.into())))).await
    }
}
