//! Runs the eleven tests that the NamespaceClass specification names, and others, on the embedded API server and on a real one.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use lockstep_crds::namespaceclass::NamespaceClassBindingStatus;
use lockstep_tests::ground::{Ground, eventually};
use serde_json::json;

#[path = "namespaceclass/bad_input.rs"]
mod bad_input;
#[path = "namespaceclass/drift.rs"]
mod drift;
#[path = "namespaceclass/variables.rs"]
mod variables;
#[path = "namespaceclass/world.rs"]
mod world;

use self::bad_input::{
    a_class_that_no_label_can_name_is_refused,
    a_kind_that_appears_later_is_applied_without_touching_the_class,
    a_removed_resource_is_pruned_when_the_class_is_fixed,
    a_rollout_with_impossible_limits_or_canaries_is_refused,
    a_switch_to_a_class_with_a_mistake_takes_what_was_of_the_other,
    an_immutable_field_is_reported_until_the_object_is_deleted,
    every_mistake_is_named_and_takes_nothing_away, mistakes_are_all_named_and_hold_nothing_else_back,
    what_does_not_fit_the_schema_of_its_kind_is_rejected,
};
use self::drift::every_field_that_the_class_sets_comes_back;
use self::variables::{
    expressions_that_are_no_cel_of_type_string_are_refused, variables_have_the_values_of_each_namespace,
};
use self::world::{LABEL, World, account, listed, secret, settings};

/// Runs each test on both backends.
macro_rules! on_both_grounds {
    ($($test:ident),* $(,)?) => {
        mod embedded {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$test(super::World::new(super::Ground::embedded())).await
            })*
        }
        mod real {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$test(super::World::new(super::Ground::real())).await
            })*
        }
    };
}

on_both_grounds!(
    test_define_namespace_class,
    test_apply_namespace_class_to_namespace,
    test_remove_namespace_class_label,
    test_switch_namespace_class,
    test_update_namespace_class,
    test_remove_namespace_class,
    test_pruning_resource_removal,
    test_field_update_reconciliation,
    test_over_deletion_guard,
    test_provenance_markers,
    test_idempotency,
    every_field_that_the_class_sets_comes_back,
    every_mistake_is_named_and_takes_nothing_away,
    mistakes_are_all_named_and_hold_nothing_else_back,
    what_does_not_fit_the_schema_of_its_kind_is_rejected,
    a_removed_resource_is_pruned_when_the_class_is_fixed,
    a_switch_to_a_class_with_a_mistake_takes_what_was_of_the_other,
    a_kind_that_appears_later_is_applied_without_touching_the_class,
    an_immutable_field_is_reported_until_the_object_is_deleted,
    a_class_that_no_label_can_name_is_refused,
    a_rollout_with_impossible_limits_or_canaries_is_refused,
    expressions_that_are_no_cel_of_type_string_are_refused,
    variables_have_the_values_of_each_namespace,
);

async fn test_define_namespace_class(world: World) -> anyhow::Result<()> {
    world.define("define", vec![settings("a", "1"), secret("b")]).await?;
    let class = eventually("the class is judged", async || {
        let class = world.classes().get("define").await?;
        class.status.clone().filter(|status| !status.conditions.is_empty()).context("no status")?;
        Ok(class)
    })
    .await?;
    let status = class.status.unwrap_or_default();
    assert_eq!((status.resource_count, status.conditions[0].status.as_str()), (2, "True"));
    assert_eq!(class.spec.resources[0]["data"]["value"], "1");
    Ok(())
}

async fn test_apply_namespace_class_to_namespace(world: World) -> anyhow::Result<()> {
    world.define("apply", vec![settings("a", "1"), secret("b"), account("c")]).await?;
    world.namespace("apply-new", Some("apply")).await?;
    world.namespace("apply-old", None).await?;
    world.label("apply-old", Some("apply")).await?;
    for namespace in ["apply-new", "apply-old"] {
        let binding = world.ready(namespace, "apply").await?;
        assert_eq!(binding.spec.class_name, "apply");
        assert_eq!(listed(&binding), ["v1 ConfigMap a", "v1 Secret b", "v1 ServiceAccount c"]);
        assert_eq!(world.value(namespace, "a").await?, "1");
        let secret = Api::<Secret>::namespaced(world.client.clone(), namespace).get("b").await?;
        assert_eq!(secret.data.unwrap_or_default()["pin"].0, b"4711");
        Api::<ServiceAccount>::namespaced(world.client.clone(), namespace).get("c").await?;
    }
    Ok(())
}

async fn test_remove_namespace_class_label(world: World) -> anyhow::Result<()> {
    world.define("unlabel", vec![settings("a", "1")]).await?;
    world.namespace("unlabel", Some("unlabel")).await?;
    world.ready("unlabel", "unlabel").await?;
    let own = json!({ "metadata": { "name": "own" } });
    world.config_maps("unlabel").create(&PostParams::default(), &serde_json::from_value(own)?).await?;
    world.label("unlabel", None).await?;
    world.gone(&world.bindings("unlabel"), "unlabel").await?;
    world.gone(&world.config_maps("unlabel"), "a").await?;
    world.config_maps("unlabel").get("own").await?;
    Ok(())
}

async fn test_switch_namespace_class(world: World) -> anyhow::Result<()> {
    world.define("switch-foo", vec![settings("shared", "foo"), settings("foo", "1")]).await?;
    world.define("switch-bar", vec![settings("shared", "bar"), account("bar")]).await?;
    world.namespace("switch", Some("switch-foo")).await?;
    let before = world.ready("switch", "switch-foo").await?;
    let shared = world.config_maps("switch").get("shared").await?;
    world.label("switch", Some("switch-bar")).await?;
    let after = world.ready("switch", "switch-bar").await?;
    assert_eq!(before.uid(), after.uid(), "the binding is updated, not created again");
    assert_eq!(listed(&after), ["v1 ConfigMap shared", "v1 ServiceAccount bar"]);
    world.gone(&world.config_maps("switch"), "foo").await?;
    let kept = world.config_maps("switch").get("shared").await?;
    assert_eq!((shared.uid(), world.value("switch", "shared").await?), (kept.uid(), "bar".to_owned()));
    Ok(())
}

async fn test_update_namespace_class(world: World) -> anyhow::Result<()> {
    world.define("update", vec![settings("stays", "1"), settings("goes", "1")]).await?;
    for namespace in ["update-one", "update-two"] {
        world.namespace(namespace, Some("update")).await?;
        world.ready(namespace, "update").await?;
    }
    world.redefine("update", vec![settings("stays", "2"), settings("comes", "1")]).await?;
    for namespace in ["update-one", "update-two"] {
        let binding = world.ready(namespace, "update").await?;
        assert_eq!(listed(&binding), ["v1 ConfigMap comes", "v1 ConfigMap stays"]);
        assert_eq!(world.value(namespace, "stays").await?, "2");
        world.config_maps(namespace).get("comes").await?;
        world.gone(&world.config_maps(namespace), "goes").await?;
    }
    Ok(())
}

async fn test_remove_namespace_class(world: World) -> anyhow::Result<()> {
    world.define("remove", vec![settings("a", "1")]).await?;
    for namespace in ["remove-one", "remove-two"] {
        world.namespace(namespace, Some("remove")).await?;
        world.ready(namespace, "remove").await?;
    }
    world.classes().delete("remove", &DeleteParams::default()).await?;
    for namespace in ["remove-one", "remove-two"] {
        world.gone(&world.bindings(namespace), namespace).await?;
        world.gone(&world.config_maps(namespace), "a").await?;
    }
    Ok(())
}

async fn test_pruning_resource_removal(world: World) -> anyhow::Result<()> {
    world.define("prune", vec![settings("a", "1"), settings("b", "1"), secret("b")]).await?;
    world.namespace("prune", Some("prune")).await?;
    world.ready("prune", "prune").await?;
    world.redefine("prune", vec![settings("a", "1")]).await?;
    let binding = world.ready("prune", "prune").await?;
    assert_eq!(listed(&binding), ["v1 ConfigMap a"]);
    world.gone(&world.config_maps("prune"), "b").await?;
    world.gone(&Api::<Secret>::namespaced(world.client.clone(), "prune"), "b").await?;
    world.config_maps("prune").get("a").await?;
    Ok(())
}

async fn test_field_update_reconciliation(world: World) -> anyhow::Result<()> {
    let two = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "value": "1", "extra": "1" } });
    world.define("fields", vec![two]).await?;
    world.namespace("fields", Some("fields")).await?;
    world.ready("fields", "fields").await?;
    world.redefine("fields", vec![settings("a", "2")]).await?;
    world.ready("fields", "fields").await?;
    let maps = world.config_maps("fields");
    let data = maps.get("a").await?.data.unwrap_or_default();
    assert_eq!(data, BTreeMap::from([("value".to_owned(), "2".to_owned())]));

    // The operator reverts direct edits and deletions; fields that other clients add stay.
    let edit = Patch::Merge(json!({ "data": { "value": "edited", "others": "1" } }));
    maps.patch("a", &PatchParams::default(), &edit).await?;
    eventually("the edit is undone", async || {
        let data = maps.get("a").await?.data.unwrap_or_default();
        ensure!(data["value"] == "2" && data["others"] == "1", "{data:?}");
        Ok(())
    })
    .await?;
    maps.delete("a", &DeleteParams::default()).await?;
    eventually("the object is back", async || Ok(maps.get("a").await?)).await?;
    texts_of_a_secret_are_reconciled(&world).await
}

/// Tests the same for a Secret of a class with `stringData`, which the server stores in another field.
async fn texts_of_a_secret_are_reconciled(world: &World) -> anyhow::Result<()> {
    let mut two = secret("pin");
    two["stringData"]["old"] = json!("1");
    world.define("texts", vec![two]).await?;
    world.namespace("texts", Some("texts")).await?;
    world.ready("texts", "texts").await?;
    world.redefine("texts", vec![secret("pin")]).await?;
    world.ready("texts", "texts").await?;
    let secrets = Api::<Secret>::namespaced(world.client.clone(), "texts");
    let data = secrets.get("pin").await?.data.unwrap_or_default();
    assert_eq!(data, BTreeMap::from([("pin".to_owned(), ByteString(b"4711".to_vec()))]));

    let edit = Patch::Merge(json!({ "data": { "pin": "ODE1", "others": "MQ==" } }));
    secrets.patch("pin", &PatchParams::default(), &edit).await?;
    eventually("the edit is undone", async || {
        let data = secrets.get("pin").await?.data.unwrap_or_default();
        ensure!(data["pin"].0 == b"4711" && data["others"].0 == b"1", "{data:?}");
        Ok(())
    })
    .await
}

async fn test_over_deletion_guard(world: World) -> anyhow::Result<()> {
    world.define("guard", vec![settings("a", "1")]).await?;
    world.namespace("guard", Some("guard")).await?;
    world.ready("guard", "guard").await?;
    let own = json!({ "metadata": { "name": "users" } });
    let own =
        world.config_maps("guard").create(&PostParams::default(), &serde_json::from_value(own)?).await?;
    // The status lists an object that the binding does not own. A status enqueues nothing; the next reconcile corrects it.
    let claimed = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name });
    let patch = Patch::Merge(json!({ "status": { "appliedResources": [claimed("a"), claimed("users")] } }));
    world.bindings("guard").patch_status("guard", &PatchParams::default(), &patch).await?;
    world.redefine("guard", vec![settings("a", "2")]).await?;
    assert_eq!(listed(&world.ready("guard", "guard").await?), ["v1 ConfigMap a"]);
    let kept = world.config_maps("guard").get("users").await?;
    assert_eq!((kept.uid(), kept.resource_version()), (own.uid(), own.resource_version()));
    Ok(())
}

async fn test_provenance_markers(world: World) -> anyhow::Result<()> {
    world.define("provenance", vec![settings("a", "1")]).await?;
    world.namespace("provenance", Some("provenance")).await?;
    let binding = world.ready("provenance", "provenance").await?;
    let namespace = world.namespaces().get("provenance").await?;
    let owner = &binding.owner_references()[0];
    assert_eq!((owner.kind.as_str(), Some(&owner.uid)), ("Namespace", namespace.meta().uid.as_ref()));
    let map = world.config_maps("provenance").get("a").await?;
    let owners = map.owner_references();
    assert_eq!(owners.len(), 1);
    assert_eq!(
        (owners[0].kind.as_str(), Some(&owners[0].uid)),
        ("NamespaceClassBinding", binding.meta().uid.as_ref())
    );
    assert_eq!(owners[0].controller, Some(true));
    assert_eq!(map.labels()[LABEL], "provenance");
    let managers: Vec<_> = map.managed_fields().iter().filter_map(|entry| entry.manager.as_deref()).collect();
    assert_eq!(managers, ["lockstep-namespaceclass"]);
    Ok(())
}

async fn test_idempotency(world: World) -> anyhow::Result<()> {
    world.define("idempotent", vec![settings("a", "1"), secret("b")]).await?;
    world.namespace("idempotent", Some("idempotent")).await?;
    let binding = world.ready("idempotent", "idempotent").await?;
    let map = world.config_maps("idempotent").get("a").await?;
    // Each of these changes enqueues a key; none requires a write.
    for round in 0..5 {
        let note = Patch::Merge(json!({ "metadata": { "annotations": { "round": round.to_string() } } }));
        world.namespaces().patch("idempotent", &PatchParams::default(), &note).await?;
        world.classes().patch("idempotent", &PatchParams::default(), &note).await?;
    }
    // Once a later change has been reconciled, the earlier ones have been reconciled too.
    world.namespace("idempotent-after", Some("idempotent")).await?;
    world.ready("idempotent-after", "idempotent").await?;
    let after = world.bindings("idempotent").get("idempotent").await?;
    assert_eq!(binding.resource_version(), after.resource_version());
    assert_eq!(map.resource_version(), world.config_maps("idempotent").get("a").await?.resource_version());
    let status: NamespaceClassBindingStatus = after.status.unwrap_or_default();
    assert_eq!(status.conditions.len(), 1);
    Ok(())
}
