//! Tests classes with mistakes: each mistake is reported with its fix in conditions, everything valid still applies, and no
//! existing object is lost.

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use kube::{Api, ResourceExt as _};
use lockstep_crds::namespaceclass::{
    NamespaceClass, NamespaceClassBinding, NamespaceClassBindingSpec, NamespaceClassSpec, Rollout,
};
use lockstep_tests::ground::eventually;
use serde_json::{Value, json};

use super::world::{World, listed, settings};

/// The message about a resource that no entry names any more.
const KEPT: &str =
    "ConfigMap spoiled is no longer in the class, but is kept until the errors in the class are fixed";

/// A mistake in the entry for the ConfigMap `spoiled`.
struct Mistake {
    name: &'static str,
    entry: Value,
    /// The message about it, after the path of the entry.
    message: &'static str,
    /// Whether the entry still names its object.
    names_it: bool,
}

fn mistakes() -> Vec<Mistake> {
    let mistake = |name, entry, message| Mistake { name, entry, message, names_it: false };
    let map = |metadata: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
    let of = |api_version: &str, kind: &str| json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "spoiled" } });
    vec![
        mistake(
            "cluster-scoped",
            of("v1", "Namespace"),
            "Namespace spoiled is cluster-scoped; a class holds only namespaced kinds: remove it and create it once, \
             outside of the class",
        ),
        Mistake {
            names_it: true,
            ..mistake(
                "foreign-namespace",
                map(json!({ "name": "spoiled", "namespace": "default" })),
                "ConfigMap spoiled names the namespace default; remove metadata.namespace, because each resource is \
                 created in every namespace of the class",
            )
        },
        mistake(
            "unknown-kind",
            of("v1", "ConfgMap"),
            "ConfgMap spoiled: the cluster serves no kind ConfgMap in v1; correct it, or install the CRD that defines it",
        ),
        mistake(
            "unknown-version",
            of("bad-input.example.com/v1", "ConfigMap"),
            "ConfigMap spoiled: the cluster serves no kind ConfigMap in bad-input.example.com/v1; correct it, or install \
             the CRD that defines it",
        ),
        mistake(
            "no-version",
            of("v1/", "ConfigMap"),
            "ConfigMap spoiled: \"v1/\" is no apiVersion; write a version, or group/version",
        ),
        mistake(
            "nameless",
            map(json!({})),
            "ConfigMap has no name; set metadata.name (generateName can't be used)",
        ),
        mistake(
            "generated-name",
            map(json!({ "generateName": "spoiled-" })),
            "ConfigMap has no name; set metadata.name (generateName can't be used)",
        ),
        mistake(
            "twice",
            settings("kept", "another"),
            "ConfigMap kept is a duplicate of spec.resources[0]; remove one of them",
        ),
        mistake(
            "own-kind",
            of("namespaceclass.akuity.io/v1alpha1", "NamespaceClassBinding"),
            "NamespaceClassBinding spoiled belongs to this operator itself; remove it",
        ),
    ]
}

/// Waits until class and binding report the mistakes of the current class. Returns both messages.
async fn reported(world: &World, namespace: &str, class: &str) -> anyhow::Result<(String, String)> {
    let of = |conditions: &[Condition]| -> anyhow::Result<String> {
        let found = conditions
            .iter()
            .find(|condition| condition.status == "False" && condition.reason == "InvalidResources");
        Ok(found.with_context(|| format!("{conditions:?}"))?.message.clone())
    };
    eventually("the mistakes are reported", async || {
        let class = world.classes().get(class).await?;
        let (generation, judged) = (class.metadata.generation, class.status.unwrap_or_default());
        ensure!(Some(judged.observed_generation) == generation, "{judged:?}");
        let bound = world.bindings(namespace).get(namespace).await?.status.unwrap_or_default();
        ensure!(Some(bound.observed_class_generation) == generation, "{bound:?}");
        Ok((of(&judged.conditions)?, of(&bound.conditions)?))
    })
    .await
}

/// Creates a class of two resources, both applied.
async fn bound(world: &World, name: &str) -> anyhow::Result<ConfigMap> {
    world.define(name, vec![settings("kept", "1"), settings("spoiled", "1")]).await?;
    world.namespace(name, Some(name)).await?;
    world.ready(name, name).await?;
    Ok(world.config_maps(name).get("spoiled").await?)
}

pub(super) async fn every_mistake_is_named_and_takes_nothing_away(world: World) -> anyhow::Result<()> {
    for Mistake { name, entry, message: wanted, names_it } in mistakes() {
        let name = &format!("mistake-{name}");
        let before = bound(&world, name).await?;
        world.redefine(name, vec![settings("kept", "2"), entry, settings("added", "1")]).await?;
        let (class, binding) = reported(&world, name, name).await.context(name.clone())?;
        let wanted = format!("spec.resources[1]: {wanted}");
        assert_eq!(class, wanted, "{name}");
        assert_eq!(binding, if names_it { wanted } else { format!("{wanted}; {KEPT}") }, "{name}");

        let judged = world.classes().get(name).await?.status.unwrap_or_default();
        assert_eq!(judged.resource_count, 2, "{name}");
        assert_eq!(
            (world.value(name, "kept").await?, world.value(name, "added").await?),
            ("2".into(), "1".into())
        );
        assert_eq!(world.config_maps(name).get("spoiled").await?, before, "{name}: nothing has been written");
        let listed = listed(&world.bindings(name).get(name).await?);
        assert_eq!(listed, ["v1 ConfigMap added", "v1 ConfigMap kept", "v1 ConfigMap spoiled"], "{name}");

        world.redefine(name, vec![settings("kept", "3"), settings("spoiled", "2")]).await?;
        world.ready(name, name).await?;
        let after = world.config_maps(name).get("spoiled").await?;
        assert_eq!((after.uid(), world.value(name, "spoiled").await?), (before.uid(), "2".into()), "{name}");
        world.gone(&world.config_maps(name), "added").await?;
    }
    Ok(())
}

pub(super) async fn mistakes_are_all_named_and_hold_nothing_else_back(world: World) -> anyhow::Result<()> {
    let (mut resources, mut wanted) = (vec![settings("kept", "1")], Vec::new());
    for (index, mistake) in (1..).zip(mistakes()) {
        resources.push(mistake.entry);
        wanted.push(format!("spec.resources[{index}]: {}", mistake.message));
    }
    resources.push(settings("last", "1"));
    world.define("mistakes", resources).await?;
    world.namespace("mistakes", Some("mistakes")).await?;
    let wanted = wanted.join("; ");
    assert_eq!(reported(&world, "mistakes", "mistakes").await?, (wanted.clone(), wanted));

    assert_eq!(
        (world.value("mistakes", "kept").await?, world.value("mistakes", "last").await?),
        ("1".into(), "1".into())
    );
    assert_eq!(
        listed(&world.bindings("mistakes").get("mistakes").await?),
        ["v1 ConfigMap kept", "v1 ConfigMap last"]
    );
    // The mistakes have created no objects.
    assert_eq!(world.namespaces().get_opt("spoiled").await?.map(|it: Namespace| it.name_any()), None);
    assert_eq!(world.config_maps("default").get_opt("spoiled").await?, None);
    Ok(())
}

pub(super) async fn a_removed_resource_is_pruned_when_the_class_is_fixed(world: World) -> anyhow::Result<()> {
    let name = "removals-wait";
    let before = bound(&world, name).await?;
    let nameless = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": {} });
    world.redefine(name, vec![settings("kept", "2"), nameless]).await?;
    let (_, binding) = reported(&world, name, name).await?;
    assert!(binding.ends_with(KEPT), "{binding}");
    assert_eq!(world.config_maps(name).get("spoiled").await?, before);

    world.redefine(name, vec![settings("kept", "2")]).await?;
    assert_eq!(listed(&world.ready(name, name).await?), ["v1 ConfigMap kept"]);
    world.gone(&world.config_maps(name), "spoiled").await
}

pub(super) async fn what_does_not_fit_the_schema_of_its_kind_is_rejected(world: World) -> anyhow::Result<()> {
    let name = "unfit";
    let (mut number, mut misspelt) = (settings("number", "1"), settings("misspelt", "1"));
    number["data"]["port"] = json!(8080);
    misspelt["dta"] = json!({ "value": "1" });
    world.define(name, vec![number, misspelt, settings("kept", "1")]).await?;
    world.namespace(name, Some(name)).await?;
    let message = eventually("the mistakes are reported", async || {
        let status = world.bindings(name).get(name).await?.status.unwrap_or_default();
        let ready = status.conditions.iter().find(|ready| ready.reason == "Rejected");
        Ok(ready.with_context(|| format!("{status:?}"))?.message.clone())
    })
    .await?;
    let wanted = [
        "spec.resources[0]: ConfigMap number: applying it: invalid: failed to create typed patch object (unfit/number; /v1, \
         Kind=ConfigMap): .data.port: expected string, got &value.valueUnstructured{Value:8080}; correct the resource in \
         the class",
        "spec.resources[1]: ConfigMap misspelt: applying it: invalid: failed to create typed patch object (unfit/misspelt; /v1, \
         Kind=ConfigMap): .dta: field not declared in schema; correct the resource in the class",
    ];
    assert_eq!(message, wanted.join("; "));
    assert_eq!(world.value(name, "kept").await?, "1");

    world.redefine(name, vec![settings("number", "8080"), settings("misspelt", "1")]).await?;
    world.ready(name, name).await?;
    world.gone(&world.config_maps(name), "kept").await
}

pub(super) async fn a_switch_to_a_class_with_a_mistake_takes_what_was_of_the_other(
    world: World,
) -> anyhow::Result<()> {
    let (from, to) = ("switch-from", "switch-to");
    bound(&world, from).await?;
    world
        .define(
            to,
            vec![settings("kept", "2"), json!({ "apiVersion": "v1", "kind": "Secret", "metadata": {} })],
        )
        .await?;
    world.label(from, Some(to)).await?;
    reported(&world, from, to).await?;
    assert_eq!(world.value(from, "kept").await?, "2");
    world.gone(&world.config_maps(from), "spoiled").await
}

/// The API server does not change the role of an existing `RoleBinding`, and the operator removes nothing that its class lists.
pub(super) async fn an_immutable_field_is_reported_until_the_object_is_deleted(
    world: World,
) -> anyhow::Result<()> {
    let name = "unchangeable";
    let of = |role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "team" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        })
    };
    world.define(name, vec![of("edit")]).await?;
    world.define("changed-role", vec![settings("kept", "1"), of("view")]).await?;
    world.namespace(name, Some(name)).await?;
    world.ready(name, name).await?;
    world.label(name, Some("changed-role")).await?;
    let message = eventually("the mistake is reported", async || {
        let status = world.bindings(name).get(name).await?.status.unwrap_or_default();
        let ready = status.conditions.iter().find(|ready| ready.reason == "Rejected");
        Ok(ready.with_context(|| format!("{status:?}"))?.message.clone())
    })
    .await?;
    assert!(message.starts_with("spec.resources[1]: RoleBinding team: applying it: invalid: "), "{message}");
    assert!(message.contains("cannot change roleRef"), "{message}");
    assert!(message.ends_with("delete the object: it is created again"), "{message}");
    assert_eq!(world.value(name, "kept").await?, "1");

    let roles: Api<RoleBinding> = Api::namespaced(world.client.clone(), name);
    assert_eq!(roles.get("team").await?.role_ref.name, "edit");
    roles.delete("team", &DeleteParams::default()).await?;
    world.ready(name, "changed-role").await?;
    assert_eq!(roles.get("team").await?.role_ref.name, "view");
    Ok(())
}

pub(super) async fn a_class_that_no_label_can_name_is_refused(world: World) -> anyhow::Result<()> {
    let message = world.define(&"a".repeat(64), Vec::new()).await.err().context("it is taken")?;
    let message = format!("{message:#}");
    assert!(message.contains("metadata.name must be at most 63 characters long"), "{message}");
    world.define(&"a".repeat(63), Vec::new()).await?;

    for name in ["a".repeat(64), "web/status".to_owned(), String::new()] {
        let spec = NamespaceClassBindingSpec { class_name: name.clone() };
        let binding = NamespaceClassBinding::new("default", spec);
        let refused = world.bindings("default").create(&PostParams::default(), &binding).await;
        let message = refused.err().with_context(|| format!("{name} is taken"))?.to_string();
        assert!(message.contains("spec.className"), "{message}");
    }
    Ok(())
}

pub(super) async fn a_rollout_with_impossible_limits_or_canaries_is_refused(
    world: World,
) -> anyhow::Result<()> {
    let rollout = |max_unavailable, canaries: &[&str]| Rollout {
        max_unavailable,
        canaries: canaries.iter().map(|canary| (*canary).to_owned()).collect(),
    };
    let longest = "a".repeat(63);
    let many: Vec<String> = (0..65).map(|number| format!("team-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let refused = [
        (rollout(0, &[]), "spec.rollout.maxUnavailable", "greater than or equal to 1"),
        (rollout(-1, &[]), "spec.rollout.maxUnavailable", "greater than or equal to 1"),
        (rollout(1, &[""]), "spec.rollout.canaries[0]", "must be the name of a namespace"),
        (rollout(1, &["lab", "Team"]), "spec.rollout.canaries[1]", "must be the name of a namespace"),
        (rollout(1, &["lab/team"]), "spec.rollout.canaries[0]", "must be the name of a namespace"),
        (rollout(1, &["lab-"]), "spec.rollout.canaries[0]", "must be the name of a namespace"),
        (rollout(1, &[&format!("{longest}a")]), "spec.rollout.canaries[0]", "63"),
        (rollout(1, &["lab", "lab"]), "spec.rollout.canaries[1]", "Duplicate value"),
        (rollout(1, &many), "spec.rollout.canaries", "64"),
    ];
    let class = |name: &str, rollout| {
        let spec = NamespaceClassSpec { rollout: Some(rollout), ..NamespaceClassSpec::default() };
        NamespaceClass::new(name, spec)
    };
    for (rollout, path, reason) in refused {
        let class = class("hasty", rollout);
        let answer = world.classes().create(&PostParams::default(), &class).await;
        let message =
            answer.err().with_context(|| format!("{:?} is accepted", class.spec.rollout))?.to_string();
        assert!(message.contains(path) && message.contains(reason), "{message}");
    }
    let accepted = [rollout(1, &[]), rollout(i32::MAX, &["a", "0", &longest]), rollout(1, &many[..64])];
    for (number, rollout) in accepted.into_iter().enumerate() {
        let class = class(&format!("careful-{number}"), rollout);
        world.classes().create(&PostParams::default(), &class).await?;
    }
    Ok(())
}

pub(super) async fn a_kind_that_appears_later_is_applied_without_touching_the_class(
    world: World,
) -> anyhow::Result<()> {
    let kind = GroupVersionKind::gvk("later.example.com", "v1", "Widget");
    let widget = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": "one" }, "spec": { "size": 3 },
    });
    world.define("later", vec![widget, settings("kept", "1")]).await?;
    world.namespace("later", Some("later")).await?;
    let (_, binding) = reported(&world, "later", "later").await?;
    assert!(binding.contains("serves no kind Widget"), "{binding}");
    assert_eq!(world.value("later", "kept").await?, "1");

    let crds: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let size = json!({ "type": "object", "properties": { "size": { "type": "integer" } } });
    let schema = json!({ "openAPIV3Schema": { "type": "object", "properties": { "spec": size } } });
    let crd = json!({
        "metadata": { "name": format!("widgets.{}", kind.group) },
        "spec": {
            "group": kind.group, "names": { "kind": kind.kind, "plural": "widgets" }, "scope": "Namespaced",
            "versions": [{ "name": kind.version, "served": true, "storage": true, "schema": schema }],
        },
    });
    crds.create(&PostParams::default(), &serde_json::from_value(crd)?).await?;
    world.ready("later", "later").await?;
    let widgets: Api<DynamicObject> = Api::namespaced_with(
        world.client.clone(),
        "later",
        &ApiResource::from_gvk_with_plural(&kind, "widgets"),
    );
    assert_eq!(widgets.get("one").await?.data["spec"]["size"], 3);
    Ok(())
}
