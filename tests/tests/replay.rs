//! Records a run on a live API server and replays it: the actions are the same, and the file contains no secret.

#[path = "replay/bridge.rs"]
mod bridge;

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use anyhow::ensure;
use bridge::the_lifecycle_of_a_bridge_replays;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Config};
use lockstep_apiserver::host::{Host, Options};
use lockstep_crds::namespaceclass::{NamespaceClass, NamespaceClassBinding};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::ground::{eventually, install_crds};
use lockstep_tests::program;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

/// Returns the program, built once for all tests.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| program::program().expect("the program can be built"))
}

/// An API server, and a folder for the recording.
struct Site {
    client: Client,
    kubeconfig: PathBuf,
    folder: TempDir,
    _host: Option<Host>,
    _alone: Option<MutexGuard<'static, ()>>,
}

/// Only one operator may run on the control plane: two would do each other's work.
static REAL: Mutex<()> = Mutex::const_new(());

impl Site {
    async fn embedded() -> anyhow::Result<Self> {
        let host = Host::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Options::default()).await?;
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        fs::write(&kubeconfig, host.kubeconfig_yaml())?;
        let client = Client::try_from(Config::new(host.url().parse()?))?;
        install_crds(&client).await?;
        Ok(Self { client, kubeconfig, folder, _host: Some(host), _alone: None })
    }

    async fn real() -> anyhow::Result<Self> {
        let alone = Some(REAL.lock().await);
        let plane = ControlPlane::shared();
        let client = plane.client().await?;
        install_crds(&client).await?;
        let folder = tempfile::tempdir()?;
        Ok(Self { client, kubeconfig: plane.kubeconfig(), folder, _host: None, _alone: alone })
    }

    fn run(&self, controller: &str, max_size: &str) -> anyhow::Result<Operator> {
        let mut command = Command::new(program());
        command.args(["run", "--controllers", controller, "--record", "run.jsonl"]);
        command.args(["--record-max-size", max_size, "--kubeconfig"]).arg(&self.kubeconfig);
        command.args(["--metrics-bind-address", "0", "--health-probe-bind-address", "0"]);
        let child = command.env_remove("KUBECONFIG").current_dir(self.folder.path()).stdin(Stdio::null());
        Ok(Operator(child.spawn()?))
    }

    fn replay(&self, args: &[&str]) -> anyhow::Result<Output> {
        Ok(Command::new(program()).arg("replay").args(args).current_dir(self.folder.path()).output()?)
    }

    /// Replays a file and returns the number of its steps.
    fn replays(&self, file: &str) -> anyhow::Result<u64> {
        let output = self.replay(&[file, "--diff"])?;
        let shown = String::from_utf8(output.stdout)?;
        ensure!(output.status.success(), "{}{shown}", String::from_utf8_lossy(&output.stderr));
        let last = shown.lines().last().unwrap_or_default();
        let (count, how) = last.split_once(' ').unwrap_or_default();
        let is_as_recorded = ["step replayed, as recorded", "steps replayed, all as recorded"].contains(&how);
        ensure!(is_as_recorded, "{last}");
        Ok(count.parse()?)
    }

    fn read(&self, file: &str) -> anyhow::Result<String> {
        let path = self.folder.path().join(file);
        ensure!(fs::metadata(&path)?.permissions().mode() & 0o777 == 0o600, "{file} is not private");
        Ok(fs::read_to_string(path)?)
    }

    async fn define(&self, name: &str, resources: &[Value]) -> anyhow::Result<()> {
        let classes: Api<NamespaceClass> = Api::all(self.client.clone());
        let class = json!({
            "apiVersion": "namespaceclass.akuity.io/v1alpha1",
            "kind": "NamespaceClass",
            "metadata": { "name": name },
            "spec": { "resources": resources },
        });
        let params = PatchParams::apply("users").force();
        classes.patch(name, &params, &Patch::Apply(class)).await?;
        Ok(())
    }

    async fn namespace(&self, name: &str, class: &str) -> anyhow::Result<()> {
        let labels = BTreeMap::from([("namespaceclass.akuity.io/name".to_owned(), class.to_owned())]);
        let namespace = json!({ "metadata": { "name": name, "labels": labels } });
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;
        Ok(())
    }

    /// Waits until the namespace has the resources of the current class.
    async fn ready(&self, namespace: &str, class: &str) -> anyhow::Result<()> {
        let classes: Api<NamespaceClass> = Api::all(self.client.clone());
        let bindings: Api<NamespaceClassBinding> = Api::namespaced(self.client.clone(), namespace);
        eventually("the binding is ready", async || {
            let generation = classes.get(class).await?.metadata.generation;
            let status = bindings.get(namespace).await?.status.unwrap_or_default();
            let ready = status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
            ensure!(ready && Some(status.observed_class_generation) == generation, "{status:?}");
            Ok(())
        })
        .await
    }
}

/// A running operator; killed if the test ends first.
struct Operator(Child);

impl Operator {
    fn terminate(mut self) -> anyhow::Result<()> {
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        let status = self.0.wait()?;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn secret(name: &str, raw: &str, encoded: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": name },
        "data": { "encoded": ByteString(encoded.as_bytes().to_owned()) },
        "stringData": { "raw": raw },
    })
}

fn config_map(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "value": value } })
}

/// Checks that a text contains no secret: neither raw, nor in base64, nor in JSON encoding.
fn hides(text: &str, secrets: &[&str]) {
    for secret in secrets {
        let base64 = json!(ByteString(secret.as_bytes().to_owned()));
        for form in
            [*secret, base64.as_str().unwrap_or_default(), json!(secret).to_string().trim_matches('"')]
        {
            assert!(!text.contains(form), "{form:?} is in the recording");
        }
    }
}

async fn a_class_update_replays_to_the_same_actions(site: Site) -> anyhow::Result<()> {
    let secrets = ["s3cret of \"old\"", "tr0ub4dor&3", "n3w horse battery", "4 staples, correct"];
    let [old_raw, old_encoded, new_raw, new_encoded] = secrets;
    let operator = site.run("namespaceclass", "64Mi")?;
    let address = format!("postgres://app:{old_raw}@db");
    site.define("replay", &[secret("login", old_raw, old_encoded), config_map("address", &address)]).await?;
    for namespace in ["replay-one", "replay-two"] {
        site.namespace(namespace, "replay").await?;
        site.ready(namespace, "replay").await?;
    }
    site.define("replay", &[secret("login", new_raw, new_encoded), config_map("copy", new_encoded)]).await?;
    for namespace in ["replay-one", "replay-two"] {
        site.ready(namespace, "replay").await?;
        let held = Api::<Secret>::namespaced(site.client.clone(), namespace).get("login").await?;
        assert_eq!(held.data.unwrap_or_default()["raw"].0, new_raw.as_bytes());
        Api::<ConfigMap>::namespaced(site.client.clone(), namespace).get("copy").await?;
    }
    operator.terminate()?;

    let text = site.read("run.jsonl")?;
    hides(&text, &secrets);
    let applies = text.matches(r#"{"Apply":{"manifest":"#).count();
    assert!(applies >= 8, "two of two resources in two namespaces: {applies}");
    let steps = text.lines().filter(|line| line.starts_with(r#"{"step":"#)).count();
    assert_eq!(site.replays("run.jsonl")?, u64::try_from(steps)?);

    // A different action is reported.
    let tampered = text.replacen(r#"{"Apply":{"manifest":"#, r#"{"Create":{"manifest":"#, 1);
    fs::write(site.folder.path().join("tampered.jsonl"), tampered)?;
    let output = site.replay(&["tampered.jsonl", "--diff"])?;
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8(output.stdout)?;
    assert!(
        shown.contains("-          \"Create\": {") && shown.contains("+          \"Apply\": {"),
        "{shown}"
    );
    Ok(())
}

async fn every_segment_of_a_long_run_replays(site: Site) -> anyhow::Result<()> {
    let operator = site.run("namespaceclass", "256Ki")?;
    let mut secrets = Vec::new();
    let file =
        |number: usize| if number == 0 { "run.jsonl".to_owned() } else { format!("run.jsonl.{number}") };
    // Until the first segment is the third youngest.
    while !site.folder.path().join(file(2)).exists() {
        let value = format!("the secret of round {}", secrets.len());
        ensure!(secrets.len() < 200, "the file never became too large");
        site.define("rotate", &[secret("login", &value, "always"), config_map("copy", &value)]).await?;
        if secrets.is_empty() {
            site.namespace("rotate", "rotate").await?;
        }
        site.ready("rotate", "rotate").await?;
        secrets.push(value);
    }
    operator.terminate()?;
    let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
    for number in 0..3 {
        let text = site.read(&file(number))?;
        hides(&text, &secrets);
        let second = text.lines().nth(1).unwrap_or_default();
        assert_eq!(second.starts_with(r#"{"checkpoint":"#), number < 2, "{number}");
        // The youngest segment may have just begun.
        assert!(site.replays(&file(number))? > if number == 0 { 0 } else { 10 });
    }
    Ok(())
}

/// Runs each test on both kinds of API servers.
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        mod embedded {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$test(super::Site::embedded().await?).await
            })*
        }
        mod real {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$test(super::Site::real().await?).await
            })*
        }
    };
}

on_both!(
    a_class_update_replays_to_the_same_actions,
    every_segment_of_a_long_run_replays,
    the_lifecycle_of_a_bridge_replays,
);
