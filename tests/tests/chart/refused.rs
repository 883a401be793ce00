//! Tests which values and names of releases the chart refuses, with which message, and which it takes.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use lockstep_tests::chart::render;

#[test]
fn values_that_mean_nothing_are_refused_by_name() -> anyhow::Result<()> {
    for (values, names) in [
        ("namespaceclas: {enabled: true}", "namespaceclas"),
        ("namespaceclass: {replicas: two}", "/namespaceclass/replicas"),
        ("namespaceclass: {resync: soon}", "/namespaceclass/resync"),
        ("namespaceclass: {resync: 0h0s}", "/namespaceclass/resync"),
        ("namespaceclass: {concurrency: 0}", "/namespaceclass/concurrency"),
        ("log: {level: debgu}", "/log/level"),
        ("log: {level: 'info,lockstep=debug,debgu'}", "/log/level"),
        ("namespaceclass: {rbac: {rules: [configmaps]}}", "/namespaceclass/rbac/rules"),
        ("namespaceclass: {rbac: {rules: {apps: {apiGroups: [apps]}}}}", "resources"),
        ("bridge: {replicas: two}", "/bridge/replicas"),
        ("bridge: {dpuCluster: prod}", "/bridge"),
        (
            "bridge: {rbac: {rules: {apps: {apiGroups: [apps], resources: [deployments]}}}}",
            "/bridge/rbac/rules",
        ),
        ("log: {format: xml}", "/log/format"),
        // Helm removes the default of a value that is null.
        ("namespaceclass: null", "'namespaceclass'"),
        ("metrics: null", "'metrics'"),
        ("bridge: {podDisruptionBudget: null}", "'podDisruptionBudget'"),
        ("log: {level: null}", "'level'"),
        ("log: {format: null}", "'format'"),
        ("namespaceclass: {concurrency: null}", "'concurrency'"),
        ("bridge: {resync: null}", "'resync'"),
        ("sentinel: {shutdownTimeoutSeconds: null}", "'shutdownTimeoutSeconds'"),
        ("sentinel: {serviceAccount: {name: null}}", "'name'"),
        ("sentinel: {serviceAccount: {create: false, name: ''}}", "/sentinel/serviceAccount/name"),
        ("image: {digest: latest}", "/image/digest"),
        ("global: {imageRegistry: 'https://mirror'}", "/global/imageRegistry"),
        ("global: {imagePullSecrets: [mirror]}", "/global/imagePullSecrets/0"),
        ("crds: {keep: always}", "/crds/keep"),
        ("crds: {install: true}", "/crds"),
        ("metrics: {renderMode: always}", "skipIfMissing"),
        ("metrics: {service: {annotations: {a: 1}}}", "/metrics/service/annotations/a"),
        ("alerts: {disabled: LockstepQueueGrows}", "/alerts/disabled"),
        ("alerts: {enabled: []}", "/alerts"),
        ("alerts: {runbookUrl: docs/runbooks.md}", "/alerts/runbookUrl"),
        ("networkPolicy: {ingress: []}", "/networkPolicy"),
        ("networkPolicy: {egress: [{port: 53}]}", "/networkPolicy/egress/0"),
        ("extraObjects: [{kind: ConfigMap}]", "apiVersion"),
        ("namespaceclass: {env: [{value: x}]}", "/namespaceclass/env/0"),
        ("namespaceclass: {volumeMounts: [{name: x}]}", "mountPath"),
        ("namespaceclass: {initContainers: [{image: x}]}", "/namespaceclass/initContainers/0"),
        ("namespaceclass: {strategy: {type: Rolling}}", "/namespaceclass/strategy/type"),
        ("namespaceclass: {revisionHistoryLimit: -1}", "/namespaceclass/revisionHistoryLimit"),
        ("namespaceclass: {dnsPolicy: Cluster}", "/namespaceclass/dnsPolicy"),
        ("namespaceclass: {dnsConfig: {nameserver: a}}", "/namespaceclass/dnsConfig"),
        ("bridge: {hostAliases: [{ip: 10.0.0.1}]}", "hostnames"),
        ("sentinel: {strategy: {type: RollingUpdate}}", "/sentinel"),
        ("sentinels: {a: {resourceType: clusters, dnsPolicy: Cluster}}", "/sentinels/a/dnsPolicy"),
    ] {
        let refusal = render("chart-refused", values).err().with_context(|| format!("{values} was taken"))?;
        let message = refusal.to_string();
        assert!(message.contains("schema") && message.contains(names), "{values}: {message}");
    }
    Ok(())
}

/// The labels that select pods are immutable, and two releases must not select the pods of each other.
#[test]
fn labels_that_select_pods_are_refused_with_the_allowed_ones() -> anyhow::Result<()> {
    for (values, value, label) in [
        (
            "namespaceclass: {podLabels: {app.kubernetes.io/component: x}}",
            "namespaceclass.podLabels",
            "app.kubernetes.io/component",
        ),
        ("sentinels: {a: {resourceType: clusters, podLabels: {app: x}}}", "podLabels of Sentinel a", "app"),
        ("commonLabels: {app: x}", "commonLabels", "app"),
    ] {
        let refusal = render("chart-labels", values).err().with_context(|| format!("{values} was taken"))?;
        let expected = format!("{value}: the chart selects pods by the label \"{label}\"");
        ensure!(refusal.to_string().contains(&expected), "{refusal}");
    }
    Ok(())
}

/// The account `default` is that of every pod that names none. The roles of a controller would be granted to all of these pods.
#[test]
fn an_account_that_the_chart_does_not_create_must_be_named() -> anyhow::Result<()> {
    for controller in ["namespaceclass", "bridge", "dpuservice"] {
        let values = |account: &str| format!("{controller}: {{enabled: true, serviceAccount: {account}}}");
        let refusal = render("chart-account", &values("{create: false}"))
            .err()
            .with_context(|| format!("{controller}: an account without a name was taken"))?;
        let expected = format!(
            "{controller}.serviceAccount.name: required if {controller}.serviceAccount.create is false"
        );
        ensure!(refusal.to_string().contains(&expected), "{refusal}");

        let objects = render("chart-account", &values("{create: false, name: own}"))?;
        let bindings = objects.iter().flat_map(|object| object["subjects"].as_array().into_iter().flatten());
        let accounts: BTreeSet<&str> =
            bindings.map(|subject| subject["name"].as_str().unwrap_or_default()).collect();
        ensure!(accounts.contains("own") && !accounts.contains("default"), "{accounts:?}");
    }
    Ok(())
}

#[test]
fn values_that_mean_something_are_taken() -> anyhow::Result<()> {
    for values in [
        // If another chart has this one as a dependency with this condition, Helm passes the value on.
        "enabled: true",
        "log: {level: trace}",
        "log: {level: \"warn,lockstep=debug\"}",
        "namespaceclass: {resync: 10s}",
        "namespaceclass: {podLabels: {app.kubernetes.io/part-of: platform}}",
    ] {
        render("chart-taken", values).with_context(|| values.to_owned())?;
    }
    Ok(())
}

/// The name of a Service begins with a letter, except on the newest clusters.
#[test]
fn a_name_that_begins_with_a_digit_is_refused_with_what_to_do() -> anyhow::Result<()> {
    let refusal = render("2024-prod", "").err().context("the name was taken")?.to_string();
    ensure!(refusal.contains("2024-prod") && refusal.contains("fullnameOverride"), "{refusal}");
    render("2024-prod", "fullnameOverride: prod")?;
    Ok(())
}
