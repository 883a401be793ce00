//! The baseline: a plain client without an operator.

use std::time::{Duration, Instant};

use futures::stream::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, CustomResourceExt as _};
use lockstep_crds::namespaceclass::NamespaceClassBinding;
use lockstep_tests::ground::eventually;
use serde_json::json;

use super::{make_namespaces, report, resources};

/// The numbers of namespaces that the raw client has in flight; the fastest is the baseline.
const RAW_CONCURRENCY: [usize; 3] = [8, 16, 64];

/// A client that makes the writes of the operator but needs no decisions: the same manifests, with owner, label and annotation,
/// and then the status of a binding. Its bindings are of a kind with the same schema that no controller watches.
pub(super) struct Raw {
    client: Client,
    bindings: ApiResource,
    uids: Vec<String>,
    rounds: usize,
}

impl Raw {
    pub(super) async fn prepare(client: &Client, namespaces: usize) -> anyhow::Result<Self> {
        let mut crd = serde_json::to_value(NamespaceClassBinding::crd())?;
        crd["metadata"]["name"] = json!("rawbindings.raw.test");
        crd["spec"]["group"] = json!("raw.test");
        crd["spec"]["names"] = json!({ "kind": "RawBinding", "plural": "rawbindings" });
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        crds.create(&PostParams::default(), &serde_json::from_value(crd)?).await?;
        let bindings = ApiResource {
            group: "raw.test".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: "raw.test/v1alpha1".to_owned(),
            kind: "RawBinding".to_owned(),
            plural: "rawbindings".to_owned(),
        };
        make_namespaces(client, "raw", namespaces, None).await?;
        let mut raw = Self { client: client.clone(), bindings, uids: Vec::new(), rounds: 0 };
        for number in 0..namespaces {
            let name = format!("raw-{number}");
            let mut binding = DynamicObject::new(&name, &raw.bindings);
            binding.data = json!({ "spec": { "className": "raw" } });
            let api = raw.bindings_in(&name);
            let created = eventually("the kind is served", async || {
                Ok(api.create(&PostParams::default(), &binding).await?)
            });
            raw.uids.push(created.await?.metadata.uid.unwrap_or_default());
        }
        Ok(raw)
    }

    fn bindings_in(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &self.bindings)
    }

    /// Runs one round over all namespaces, this many at a time. The applies of a namespace are sent together.
    pub(super) async fn round(&self, concurrency: usize, round: usize, status: bool) -> anyhow::Result<()> {
        futures::stream::iter(0..self.uids.len())
            .map(|number| self.one(number, round, status))
            .buffer_unordered(concurrency)
            .try_collect()
            .await
    }

    async fn one(&self, number: usize, round: usize, status: bool) -> anyhow::Result<()> {
        let namespace = format!("raw-{number}");
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace);
        let applies = resources(round).into_iter().map(|mut resource| {
            resource["metadata"]["labels"] = json!({ "raw.test/name": "bench" });
            resource["metadata"]["annotations"] = json!({ "raw.test/content": format!("{round:016}") });
            resource["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "raw.test/v1alpha1", "kind": "RawBinding", "name": namespace, "uid": self.uids[number],
                "controller": true, "blockOwnerDeletion": true,
            }]);
            let maps = maps.clone();
            async move {
                let name = resource["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                maps.patch(&name, &PatchParams::apply("raw").force(), &Patch::Apply(&resource)).await
            }
        });
        futures::future::try_join_all(applies).await?;
        if status {
            let listed = (0..3).map(|index| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": format!("settings-{index}") }));
            let patch = json!({ "status": {
                "observedGeneration": 1, "observedClassName": "bench", "observedClassUid": self.uids[number],
                "observedClassGeneration": round, "appliedResources": listed.collect::<Vec<_>>(),
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "ResourcesApplied", "observedGeneration": 1,
                    "message": format!("3 resources of class bench, generation {round} applied"),
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            } });
            let params = PatchParams { field_manager: Some("raw".to_owned()), ..PatchParams::default() };
            self.bindings_in(&namespace).patch_status(&namespace, &params, &Patch::Merge(patch)).await?;
        }
        Ok(())
    }

    /// Returns the fastest number of namespaces in flight, and reports the duration of each.
    pub(super) async fn fastest(&mut self, status: bool) -> anyhow::Result<usize> {
        let what = if status { "3 applies and a status" } else { "3 applies" };
        let mut fastest = (Duration::MAX, 0);
        for concurrency in RAW_CONCURRENCY {
            let took = self.timed(concurrency, status).await?;
            report(
                &format!("raw client, {concurrency} namespaces in flight, {what} each"),
                self.uids.len(),
                took,
            );
            fastest = fastest.min((took, concurrency));
        }
        Ok(fastest.1)
    }

    /// Returns the duration of a round that changes everything.
    pub(super) async fn timed(&mut self, concurrency: usize, status: bool) -> anyhow::Result<Duration> {
        self.rounds += 1;
        let began = Instant::now();
        self.round(concurrency, self.rounds, status).await?;
        Ok(began.elapsed())
    }
}
