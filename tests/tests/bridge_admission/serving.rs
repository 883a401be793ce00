//! Tests how the API server stores and shows a DPFHCPBridge.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use anyhow::Context as _;
use lockstep_engine::yaml;
use lockstep_tests::admission::MERGE;
use lockstep_tests::chart::{apply, install_crd};
use lockstep_tests::program::workspace;

use super::{Court, Value, bridge, ensure, json, set, spec};

/// The three examples in "Custom Resource Definition: DPFHCPBridge", "Examples".
const DOCUMENTED: [&str; 3] = [
    include_str!("documented/production.yaml"),
    include_str!("documented/development.yaml"),
    include_str!("documented/staging.yaml"),
];
const PRODUCTION: &str = include_str!("../../../deploy/examples/bridge/production.yaml");
const INFRASTRUCTURE: &str = include_str!("../../../deploy/examples/bridge/00-infrastructure.yaml");
const EXAMPLES: [&str; 3] = [
    PRODUCTION,
    include_str!("../../../deploy/examples/bridge/development.yaml"),
    include_str!("../../../deploy/examples/bridge/staging.yaml"),
];

pub(super) async fn what_is_left_out_is_filled_in(court: Court) -> anyhow::Result<()> {
    let mut sparse = spec();
    set(&mut sparse, "sshKeySecretRef", Some(json!({})));
    set(&mut sparse, "pullSecretRef", Some(json!({"name": null})));
    set(&mut sparse, "exposeThroughLoadBalancer", Some(json!(false)));
    let mut wanted = sparse.clone();
    wanted["sshKeySecretRef"] = json!({"name": ""});
    wanted["pullSecretRef"] = json!({"name": ""});
    wanted["metalLBVirtualIP"] = json!("");
    for address in [None, Some(Value::Null)] {
        set(&mut sparse, "metalLBVirtualIP", address);
        let below = "?dryRun=All";
        let stored = court.ask("POST", below, "application/json", &bridge(Some(sparse.clone()))).await?;
        assert_eq!(stored.map_err(anyhow::Error::msg)?["spec"], wanted);
    }
    Ok(())
}

pub(super) async fn unknown_fields_are_pruned_or_rejected(court: Court) -> anyhow::Result<()> {
    let mut more = spec();
    set(&mut more, "replicas", Some(json!(3)));
    set(&mut more, "dpuClusterRef.kind", Some(json!("DPUCluster")));
    set(&mut more, "pullSecretRef.namespace", Some(json!("other")));
    let mut object = bridge(Some(more));
    object["note"] = json!("no client reads this");
    let stored = court.ask("POST", "?dryRun=All", "application/json", &object).await?;
    let stored = stored.map_err(anyhow::Error::msg)?;
    assert_eq!(stored["spec"], spec());
    ensure!(stored.get("note").is_none(), "{stored}");

    let below = "?dryRun=All&fieldValidation=Strict";
    let refusal =
        court.ask("POST", below, "application/json", &object).await?.err().context("it was taken")?;
    insta::assert_snapshot!("unknown_fields_are_pruned_or_rejected", refusal);
    Ok(())
}

pub(super) async fn tables_show_what_matters(court: Court) -> anyhow::Result<()> {
    court.create(&bridge(Some(spec()))).await?;
    let mut results = String::new();
    for status in [
        json!({}),
        json!({
            "phase": "Ready",
            "apiEndpoint": "https://192.168.1.100:6443",
            "message": "All is well.",
            "conditions": [
                {"type": "DPUClusterValid", "status": "False", "reason": "A", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "Ready", "status": "True", "reason": "A", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ],
        }),
    ] {
        let patch = json!({ "status": status });
        let answer = court.ask("PATCH", "/bridge/status", MERGE, &patch).await?;
        answer.map_err(anyhow::Error::msg)?;
        results += &court.table().await?;
    }
    insta::assert_snapshot!("tables_show_what_matters", results);
    Ok(())
}

pub(super) async fn names_are_discovered(court: Court) -> anyhow::Result<()> {
    insta::assert_json_snapshot!("names_are_discovered", court.discovered().await?);
    Ok(())
}

pub(super) async fn the_documented_patterns_are_taken(court: Court) -> anyhow::Result<()> {
    taken(&court, &DOCUMENTED).await
}

pub(super) async fn the_examples_are_taken(court: Court) -> anyhow::Result<()> {
    taken(&court, &EXAMPLES).await
}

/// Checks that each is accepted with strict validation, and that no field is lost.
async fn taken(court: &Court, texts: &[&str]) -> anyhow::Result<()> {
    for (mut object, stored) in court.take(texts).await? {
        if object["spec"]["metalLBVirtualIP"].is_null() {
            set(&mut object["spec"], "metalLBVirtualIP", Some(json!("")));
        }
        assert_eq!(stored["spec"], object["spec"]);
    }
    Ok(())
}

/// Checks that the CRDs of DPF and MetalLB accept the objects that the first example refers to.
pub(super) async fn the_infrastructure_is_taken(court: Court) -> anyhow::Result<()> {
    let mut served = HashSet::new();
    for definition in lockstep_external::definitions(&lockstep_external::BRIDGE) {
        served.insert(definition["spec"]["names"]["kind"].clone());
        install_crd(&court.client, &definition).await?;
    }
    for mut object in infrastructure()?.into_iter().filter(|object| served.contains(&object["kind"])) {
        object["metadata"]["namespace"] = json!(court.namespace);
        let stored = apply(&court.client, &object).await?;
        for (field, value) in object["spec"].as_object().context("no spec")? {
            assert_eq!(stored.data["spec"][field], *value, "{field}");
        }
    }
    Ok(())
}

fn infrastructure() -> anyhow::Result<Vec<Value>> {
    Ok(yaml::read_all(INFRASTRUCTURE)?)
}

/// `kubectl apply -f` of a folder applies its files in the order of their names.
#[test]
fn each_folder_of_examples_can_be_applied_as_a_whole() -> anyhow::Result<()> {
    // The namespaces of the external systems, and one that users choose.
    let mut namespaces =
        HashSet::from(["dpf-operator-system", "metallb-system", "dpu-services"].map(str::to_owned));
    for folder in std::fs::read_dir(workspace().join("deploy/examples"))? {
        let files = std::fs::read_dir(folder?.path())?.map(|file| Ok(file?.path()));
        let mut files = files.collect::<anyhow::Result<Vec<_>>>()?;
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(&file)?;
            for object in yaml::read_all(&text)? {
                let (named, what) = (&object["metadata"]["name"], format!("{}: {object}", file.display()));
                ensure!(object["apiVersion"].is_string() && named.is_string(), "no object in {what}");
                let namespace = object["metadata"]["namespace"].as_str();
                ensure!(namespace.is_none_or(|name| namespaces.contains(name)), "no namespace for {what}");
                if object["kind"] == "Namespace" {
                    namespaces.extend(named.as_str().map(str::to_owned));
                }
            }
        }
    }
    Ok(())
}

#[test]
fn the_examples_refer_to_each_other() -> anyhow::Result<()> {
    let bridge: Value = yaml::read(PRODUCTION)?;
    let objects = infrastructure()?;
    let of = |kind: &str| objects.iter().find(|object| object["kind"] == kind).context("no such example");
    let (cluster, named) = (&of("DPUCluster")?["metadata"], &bridge["spec"]["dpuClusterRef"]);
    assert_eq!((&cluster["name"], &cluster["namespace"]), (&named["name"], &named["namespace"]));

    let (pool, advertisement) = (of("IPAddressPool")?, of("L2Advertisement")?);
    assert_eq!(advertisement["spec"]["ipAddressPools"], json!([pool["metadata"]["name"]]));
    let range = pool["spec"]["addresses"][0].as_str().and_then(|range| range.split_once('-'));
    let (first, last) = range.context("no range")?;
    let address: Ipv4Addr = bridge["spec"]["metalLBVirtualIP"].as_str().context("no address")?.parse()?;
    assert!(
        (first.parse::<Ipv4Addr>()?..=last.parse()?).contains(&address),
        "{address} is not in {first}-{last}"
    );
    Ok(())
}
