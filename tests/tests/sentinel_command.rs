//! Tests `lockstep sentinel` on the command line, and the same program under the name `sentinel`.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

use anyhow::ensure;
use kube::{Client, Config};
use lockstep_apiserver::host::{Host, Options};
use lockstep_tests::ground::{eventually, install_crds};
use lockstep_tests::program::{Program, program};
use lockstep_tests::sentinel::{self, spec};

const FREE_PORTS: [&str; 2] =
    ["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"];

/// Returns the program under the name that it has in its container.
fn sentinel() -> anyhow::Result<Command> {
    let mut command = Command::new(program()?);
    command.arg0("/sentinel");
    Ok(command)
}

fn lockstep() -> anyhow::Result<Command> {
    let mut command = Command::new(program()?);
    command.arg("sentinel");
    Ok(command)
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn help_lists_every_flag_and_variable() -> anyhow::Result<()> {
    let (by_command, _) = text(&lockstep()?.arg("--help").output()?);
    let (by_name, _) = text(&sentinel()?.arg("--help").output()?);
    for word in [
        "--config <NAME>",
        "--namespace <NAMESPACE>",
        "--metrics-bind-address <ADDR>",
        "--health-probe-bind-address <ADDR>",
        "--status-bind-address <ADDR>",
        "--leader-elect[=<BOOL>]",
        "--lease-name <NAME>",
        "HYPERFLEET_API_TOKEN_FILE",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "PUBSUB_EMULATOR_HOST",
        "LOCKSTEP_SHUTDOWN_TIMEOUT",
        "LOCKSTEP_LOG_LEVEL",
        "LOCKSTEP_LOG_FORMAT",
        "LOCKSTEP_TRACEPARENT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ] {
        assert!(by_command.contains(word), "{word}: {by_command}");
        assert!(by_name.contains(word), "{word}: {by_name}");
    }
    assert!(by_command.contains("Usage: lockstep sentinel "), "{by_command}");
    assert!(by_name.contains("Usage: sentinel "), "{by_name}");
    Ok(())
}

#[test]
fn missing_and_invalid_settings_are_reported_at_startup() -> anyhow::Result<()> {
    for (flags, variables, expected) in [
        (vec![], vec![], "--config <NAME>"),
        (vec!["--config=a", "--metrics-bind-address=here"], vec![], "expected HOST:PORT"),
        (
            vec!["--config=a"],
            vec![("LOCKSTEP_LOG_FORMAT", "xml")],
            "LOCKSTEP_LOG_FORMAT is \"xml\"; it must be text or json",
        ),
        (
            vec!["--config=a"],
            vec![("LOCKSTEP_SHUTDOWN_TIMEOUT", "soon")],
            "LOCKSTEP_SHUTDOWN_TIMEOUT: \"soon\" is not a duration",
        ),
        (
            vec!["--config=a"],
            vec![("LOCKSTEP_TRACEPARENT", "yes")],
            "LOCKSTEP_TRACEPARENT is \"yes\"; it must be true or false",
        ),
        (
            vec!["--config=a"],
            vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")],
            "error: OTEL_EXPORTER_OTLP_ENDPOINT: it is no URL of HTTP or HTTPS; write the URL of a collector",
        ),
        (
            vec!["--config=a"],
            vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            "OTEL_EXPORTER_OTLP_PROTOCOL is \"grpc\"; it must be http/protobuf",
        ),
        (vec!["--config=a"], vec![("KUBECONFIG", "/nowhere")], "/nowhere"),
    ] {
        for mut command in [lockstep()?, sentinel()?] {
            let output = command.args(&flags).envs(variables.clone()).output()?;
            let (_, stderr) = text(&output);
            assert!(matches!(output.status.code(), Some(1 | 2)), "{flags:?} {variables:?}: {output:?}");
            assert!(stderr.contains(expected), "{flags:?} {variables:?}: {stderr}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn of_two_replicas_only_the_leader_polls_until_it_ends() -> anyhow::Result<()> {
    let host = Host::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Options::default()).await?;
    let client = Client::try_from(Config::new(host.url().parse()?))?;
    install_crds(&client).await?;
    let config = sentinel::Config::new(&client, "default", "shard");
    config.create(&spec()).await?;
    let replica = async || {
        let mut command = sentinel()?;
        command.args(["--config=shard", "--namespace=default", "--leader-elect"]).args(FREE_PORTS);
        command.env("LOCKSTEP_LOG_FORMAT", "json");
        Program::start(command, &host.kubeconfig_yaml()).await
    };
    let polls = async |replica: &Program| {
        eventually("it polls", async || {
            let failures = replica.metric("hyperfleet_sentinel_api_errors_total", "fetch_resources").await?;
            ensure!(failures > 0, "{}", replica.log());
            Ok(())
        })
        .await
    };
    let leader = replica().await?;
    polls(&leader).await?;
    let standby = replica().await?;
    eventually("the standby is ready", async || {
        let ready = standby.probe("/readyz").await?;
        ensure!(ready.0 == 200, "{ready:?} {}", standby.log());
        Ok(())
    })
    .await?;
    assert_eq!(standby.probe("/healthz").await?.0, 200);
    assert_eq!(standby.metric("hyperfleet_sentinel_api_errors_total", "fetch_resources").await?, 0);
    // It releases the Lease, so the standby need not wait until it expires.
    assert!(leader.terminate().await?.success());
    polls(&standby).await?;
    assert!(standby.terminate().await?.success());
    Ok(())
}

#[tokio::test]
async fn a_running_sentinel_serves_and_ends_at_sigterm() -> anyhow::Result<()> {
    let host = Host::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Options::default()).await?;
    let client = Client::try_from(Config::new(host.url().parse()?))?;
    install_crds(&client).await?;
    let config = sentinel::Config::new(&client, "default", "shard");
    config.create(&spec()).await?;
    for mut command in [lockstep()?, sentinel()?] {
        // The namespace comes from the environment, as in a pod.
        command.arg("--config=shard").args(FREE_PORTS);
        command.env("POD_NAMESPACE", "default").env("LOCKSTEP_LOG_FORMAT", "json");
        let sentinel = Program::start(command, &host.kubeconfig_yaml()).await?;

        // The second process finds the conditions of the first one, but has its own metrics.
        for metric in ["hyperfleet_sentinel_api_errors_total", "hyperfleet_sentinel_broker_errors_total"] {
            eventually(metric, async || {
                ensure!(sentinel.metric(metric, "shard=\"\"").await? > 0, "{}", sentinel.log());
                Ok(())
            })
            .await?;
        }
        config.until_condition("ConfigValid", "True", "ConfigLoaded").await?;
        config.until_condition("FleetReachable", "False", "Unreachable").await?;
        assert_eq!(sentinel.probe("/healthz").await?, (200, "ok\n".to_owned()));
        assert_eq!(sentinel.probe("/readyz").await?, (503, "not yet synced: sentinel\n".to_owned()));
        let metrics = sentinel.metrics().await?;
        for line in [
            r#"hyperfleet_sentinel_events_published_total{resource_type="clusters",shard=""} 0"#,
            r#"hyperfleet_sentinel_resources_skipped_total{ready_state="not_ready",resource_type="clusters",shard=""} 0"#,
            r#"hyperfleet_sentinel_config_reloads_total{resource_type="clusters",shard=""} 0"#,
        ] {
            assert!(metrics.lines().any(|served| served == line), "{line} is not in {metrics}");
        }
        assert!(sentinel.terminate().await?.success());
    }
    Ok(())
}
