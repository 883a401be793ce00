//! CRDs that tests install on an API server.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::json;

/// Installs the CRDs of a controller.
pub(super) async fn install(client: &Client, controller: &str) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in lockstep_crds::of(controller) {
        let name = format!("{}.{}", crd.spec.names.plural, crd.spec.group);
        crds.create(&PostParams::default(), &crd).await.unwrap();
        await_condition(crds.clone(), &name, is_crd_established()).await.unwrap();
    }
}

/// Installs a CRD with the names of our DPUServices and another spec, as DPF has.
pub(super) async fn install_foreign_crd(client: &Client) {
    let spec = json!({"type": "object", "properties": {"helmChart": {"type": "object"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let definition = json!({
        "metadata": {"name": "dpuservices.svc.dpu.nvidia.com"},
        "spec": {
            "group": "svc.dpu.nvidia.com",
            "names": {"kind": "DPUService", "plural": "dpuservices"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = serde_json::from_value(definition).unwrap();
    definitions.create(&PostParams::default(), &definition).await.unwrap();
}
