//! `lockstep dev`.

use std::net::TcpListener;
use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Config, ResourceExt as _};

use super::served::{PATIENCE, Served};
use super::{fails, folder, lockstep, run};

/// What it writes if not told otherwise.
const KUBECONFIG: &str = "lockstep.kubeconfig";

#[test]
fn bare_dev_serves_the_api_and_ends_at_sigterm() {
    let folder = folder();
    let served = Served::start(folder.path(), &["dev", "--bare", "--listen", "127.0.0.1:0"]);
    let kubeconfig = std::fs::read_to_string(folder.path().join(KUBECONFIG)).unwrap();
    assert!(kubeconfig.contains(&served.url), "{kubeconfig}");
    assert_eq!(served.terminate(), Some(0));
    assert!(!folder.path().join(KUBECONFIG).exists());
}

#[test]
fn dev_reports_in_one_line_why_it_can_not_start() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fails(&run(folder.path(), &["dev", "--listen", &address]), &[&address, "in use", "--listen"]);
    // What the environment says of other commands is no contradiction.
    let bare = lockstep(folder.path())
        .args(["dev", "--bare", "--listen", &address])
        .env("LOCKSTEP_CONTROLLERS", "namespaceclass")
        .output();
    fails(&bare.unwrap(), &[&address, "in use", "--listen"]);

    let free = ["dev", "--bare", "--listen", "127.0.0.1:0", "--kubeconfig"];
    std::fs::write(folder.path().join("precious"), "x").unwrap();
    let no_folder = run(folder.path(), &[&free[..], &["precious/config"]].concat());
    fails(&no_folder, &["precious/config", "--kubeconfig"]);
    fails(&run(folder.path(), &[&free[..], &["precious"]].concat()), &["precious", "not ours"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("precious")).unwrap(), "x");
}

#[test]
fn dev_makes_the_folder_of_its_kubeconfig() {
    let folder = folder();
    let args = ["dev", "--bare", "--listen", "127.0.0.1:0", "--kubeconfig", "new/folder/config"];
    let served = Served::start(folder.path(), &args);
    assert!(folder.path().join("new/folder/config").exists());
    assert_eq!(served.terminate(), Some(0));
}

#[tokio::test]
async fn dev_runs_the_controllers_on_the_examples() {
    let folder = folder();
    let served = Served::start(folder.path(), &["dev", "--listen", "127.0.0.1:0"]);
    served.shows(&[
        "shop/web-settings               created by lockstep-namespaceclass",
        "vault/closed                    created by lockstep-namespaceclass",
        "shop/shop                       Ready=True",
        "vault/vault                     Ready=True",
        "Publishing=True",
        "cluster payments is Pending, validated",
        "cluster payments is Ready",
    ]);
    let done = tokio::time::timeout(PATIENCE, a_bridge_comes_and_goes(&folder.path().join(KUBECONFIG))).await;
    done.expect("the bridge becomes ready, and goes");
    assert_eq!(served.terminate(), Some(0));
    assert!(!folder.path().join(KUBECONFIG).exists());
}

#[tokio::test]
async fn dev_installs_and_runs_only_what_is_chosen() {
    let folder = folder();
    let dev = ["dev", "--controllers", "namespaceclass", "--listen", "127.0.0.1:0"];
    let served = Served::start(folder.path(), &dev);
    assert_eq!(served.line("controllers "), "controllers namespaceclass");
    served.shows(&["shop/shop", "Ready=True"]);
    let client = Client::try_from(Config::new(served.url.parse().unwrap())).unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(client);
    let groups = crds.list_metadata(&ListParams::default()).await.unwrap().items.into_iter();
    let groups = groups.map(|crd| crd.name_any().split_once('.').unwrap().1.to_owned());
    assert_eq!(groups.collect::<Vec<_>>(), ["namespaceclass.akuity.io"; 2]);
    assert_eq!(served.terminate(), Some(0));
}

/// What a user with kubectl sees of the example, who deletes it in the end.
async fn a_bridge_comes_and_goes(kubeconfig: &Path) {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let kind = GroupVersionKind::gvk("dpf.hcp.bridge.com", "v1alpha1", "DPFHCPBridge");
    let resource = ApiResource::from_gvk(&kind);
    let bridges: Api<DynamicObject> =
        Api::namespaced_with(Client::try_from(config).unwrap(), "dpf-hcp-bridge-system", &resource);
    let in_phase = |phase: &'static str| {
        move |bridge: Option<&DynamicObject>| {
            bridge.is_some_and(|bridge| bridge.data["status"]["phase"] == phase)
        }
    };
    await_condition(bridges.clone(), "prod-cluster", in_phase("Ready")).await.unwrap();
    bridges.delete("prod-cluster", &DeleteParams::default()).await.unwrap();
    await_condition(bridges.clone(), "prod-cluster", in_phase("Deleting")).await.unwrap();
    let gone = |bridge: Option<&DynamicObject>| bridge.is_none();
    await_condition(bridges, "prod-cluster", gone).await.unwrap();
}
