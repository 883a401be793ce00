//! Tests what the README promises: `lockstep dev`, and kubectl in another terminal.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use lockstep_tests::control_plane;
use lockstep_tests::ground::eventually;
use lockstep_tests::program::program;
use serde_json::{Value, json};

/// A running `lockstep dev`, and kubectl. The process is killed when dropped.
struct Dev {
    process: Child,
    kubectl: PathBuf,
    directory: tempfile::TempDir,
}

impl Dev {
    /// Starts it and waits until it has printed the commands to try.
    fn start(controllers: &str) -> anyhow::Result<(Self, String)> {
        let directory = tempfile::tempdir()?;
        let mut process = Command::new(program()?)
            .args(["dev", "--listen=127.0.0.1:0", "--controllers", controllers])
            .current_dir(directory.path())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(process.stdout.take().context("no output")?).lines();
        let mut output = String::new();
        while !output.contains("Ctrl-C ends it") {
            output += &lines.next().context("it ended")??;
            output.push('\n');
        }
        // All output is read, so that the pipe never fills up.
        std::thread::spawn(move || lines.for_each(drop));
        Ok((Self { process, kubectl: control_plane::kubectl()?, directory }, output))
    }

    /// Runs a kubectl command from the output. Returns its output or its error.
    fn kubectl(&self, line: &str, input: &Value) -> anyhow::Result<String> {
        let mut kubectl = Command::new(&self.kubectl)
            .args(["--kubeconfig", "lockstep.kubeconfig"])
            .args(line.split_whitespace())
            .env("HOME", self.directory.path())
            .current_dir(self.directory.path())
            // A process that reads no input may end before the input is written.
            .stdin(if input.is_null() { Stdio::null() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = kubectl.stdin.take() {
            stdin.write_all(input.to_string().as_bytes())?;
        }
        let output = kubectl.wait_with_output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {line}: {error}");
        Ok(String::from_utf8(output.stdout)?)
    }

    fn try_kubectl(&self, line: &str) -> anyhow::Result<String> {
        self.kubectl(line, &Value::Null)
    }

    /// Returns the names of the objects in a namespace, as `configmap/settings`.
    fn names(&self, namespace: &str) -> anyhow::Result<Vec<String>> {
        let found = self
            .try_kubectl(&format!("get configmaps,serviceaccounts --namespace {namespace} --output name"))?;
        let theirs = ["configmap/kube-root-ca.crt", "serviceaccount/default"];
        let names = found.lines().filter(|name| !theirs.contains(name));
        Ok(names.map(str::to_owned).collect())
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn class(name: &str, resources: &Value) -> Value {
    json!({
        "apiVersion": "namespaceclass.akuity.io/v1alpha1",
        "kind": "NamespaceClass",
        "metadata": { "name": name },
        "spec": { "resources": resources },
    })
}

fn settings(name: &str, level: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "level": level } })
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_creates_labels_switches_updates_and_removes() -> anyhow::Result<()> {
    let (dev, output) = Dev::start("namespaceclass")?;
    assert!(output.contains("  kubectl --kubeconfig lockstep.kubeconfig "), "{output}");
    let account =
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "developer" } });
    let team = class("team", &json!([settings("settings", "info"), account]));
    dev.kubectl("create --filename -", &team)?;
    dev.kubectl("create --filename -", &class("quiet", &json!([settings("silence", "error")])))?;
    dev.try_kubectl("create namespace garden")?;

    let label = "namespaceclass.akuity.io/name";
    let patch = json!({ "spec": { "resources": [settings("silence", "none")] } });
    let update = format!("patch namespaceclass quiet --type merge --patch {patch}");
    let both = ["configmap/settings", "serviceaccount/developer"];
    let one = ["configmap/silence"];
    let acts = [
        (format!("label namespace garden {label}=team"), &both[..], ""),
        (format!("label namespace garden {label}=quiet --overwrite"), &one, "error"),
        (update, &one, "none"),
        (format!("label namespace garden {label}-"), &[], ""),
        (format!("label namespace garden {label}=team"), &both, ""),
        ("delete namespaceclass team".to_owned(), &[], ""),
    ];
    for (act, names, level) in acts {
        dev.try_kubectl(&act)?;
        let begun = Instant::now();
        eventually(&act, async || {
            let found = dev.names("garden")?;
            ensure!(found == names, "{found:?}");
            if !level.is_empty() {
                let shown = dev.try_kubectl(
                    "get configmap silence --namespace garden --output jsonpath={.data.level}",
                )?;
                ensure!(shown == level, "{shown}");
            }
            Ok(())
        })
        .await?;
        println!("{act}: seen {} ms after kubectl returned", begun.elapsed().as_millis());
    }
    let classes = dev.try_kubectl("get namespaceclasses")?;
    assert!(classes.lines().next().is_some_and(|head| head.contains("VALID")), "{classes}");
    // The binding is deleted after its objects.
    eventually("the binding is gone", async || {
        let bindings = dev.try_kubectl("get namespaceclassbindings --all-namespaces")?;
        ensure!(bindings.contains("shop") && !bindings.contains("garden"), "{bindings}");
        Ok(())
    })
    .await
}
