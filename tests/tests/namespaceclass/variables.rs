//! Tests the variables of classes: which expressions the API server accepts, and what is applied.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use lockstep_crds::namespaceclass::{NamespaceClass, NamespaceClassSpec, Variable};
use lockstep_tests::ground::eventually;
use serde_json::json;

use super::world::{World, settings};

fn variable(name: &str, expression: &str) -> Variable {
    Variable { name: name.to_owned(), expression: expression.to_owned() }
}

fn class(name: &str, variables: Vec<Variable>) -> NamespaceClass {
    NamespaceClass::new(name, NamespaceClassSpec { variables, ..NamespaceClassSpec::default() })
}

pub(super) async fn expressions_that_are_no_cel_of_type_string_are_refused(
    world: World,
) -> anyhow::Result<()> {
    let longest = format!("\"{}\"", "a".repeat(1022));
    let (too_long, long_name) = (format!("\"{}\"", "a".repeat(1023)), "a".repeat(64));
    let accepted = [
        "\"\"",
        "'single' + \"double\"",
        "  namespaceObject.metadata.name  ",
        "namespaceObject.metadata.labels[\"example.com/team\"]",
        "namespaceObject.metadata.annotations['a']+\"-\"+namespaceObject.metadata.name",
        "(\"a\" in namespaceObject.metadata.labels ? namespaceObject.metadata.labels[\"a\"] : \"none\")",
        "\"of \" + ( 'a'  in namespaceObject.metadata.annotations?\"ä\":namespaceObject.metadata.name )",
        &longest,
    ];
    for (number, expression) in accepted.into_iter().enumerate() {
        let class = class(&format!("varied-{number}"), vec![variable("team", expression)]);
        let answer = world.classes().create(&PostParams::default(), &class).await;
        answer.with_context(|| format!("{expression} is refused"))?;
    }
    let most: Vec<Variable> = (0..16).map(|number| variable(&format!("v{number}"), "\"a\"")).collect();
    world.classes().create(&PostParams::default(), &class("varied-most", most.clone())).await?;

    let expressions = [
        ("", "must consist of"),
        ("team", "must consist of"),
        ("\"a\" +", "must consist of"),
        ("+ \"a\"", "must consist of"),
        ("\"a\\n\"", "must consist of"),
        ("\"a\nb\"", "must consist of"),
        ("\"a\"\n", "must consist of"),
        ("\"a\" \"b\"", "must consist of"),
        ("namespace.name", "must consist of"),
        ("namespaceObject.metadata.uid", "must consist of"),
        ("namespaceObject.metadata.labels", "must consist of"),
        ("namespaceObject.metadata.labels[\"the team\"]", "must consist of"),
        ("size(namespaceObject.metadata.name)", "must consist of"),
        ("\"a\" in namespaceObject.metadata.labels ? \"a\" : \"b\"", "must consist of"),
        ("(\"a\" in namespaceObject.metadata.labels ? \"a\" : 1)", "must consist of"),
        (&too_long, "1024"),
    ];
    let expressions = expressions.into_iter().map(|(expression, reason)| {
        (vec![variable("team", expression)], "spec.variables[0].expression", reason)
    });
    let names = ["", "Team", "the-team", "1st", "a.b", &long_name]
        .map(|name| (vec![variable(name, "\"a\"")], "spec.variables[0].name", "Invalid value"));
    let twice = vec![variable("a", "\"a\""), variable("a", "\"b\"")];
    let many = most.into_iter().chain([variable("one", "\"a\"")]).collect();
    let lists = [(twice, "spec.variables[1]", "Duplicate value"), (many, "spec.variables", "16")];
    for (variables, path, reason) in expressions.chain(names).chain(lists) {
        let class = class("refused", variables);
        let answer = world.classes().create(&PostParams::default(), &class).await;
        let message = answer.err().with_context(|| format!("{:?} is accepted", class.spec.variables))?;
        let message = message.to_string();
        let is_named = message.contains(path) && (message.contains(reason) || message.contains("Too long"));
        ensure!(is_named, "{:?}: {message}", class.spec.variables);
    }
    Ok(())
}

pub(super) async fn variables_have_the_values_of_each_namespace(world: World) -> anyhow::Result<()> {
    let name = "varied";
    let group = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "oidc:${team}" });
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "team" },
        "subjects": [group], "roleRef": role,
    });
    let variables = vec![
        variable("team", "namespaceObject.metadata.labels[\"example.com/team\"]"),
        variable(
            "tier",
            "(\"tier\" in namespaceObject.metadata.annotations ? namespaceObject.metadata.annotations[\"tier\"] : \"none\")",
        ),
    ];
    let mut varied = class(name, variables);
    varied.spec.resources = vec![settings("a", "${team}: ${tier}, $${team}"), binding];
    world.classes().create(&PostParams::default(), &varied).await?;
    for (namespace, team) in [("varied-one", "ants"), ("varied-two", "bees")] {
        world.namespace(namespace, None).await?;
        let labels = BTreeMap::from([("example.com/team", team), (super::LABEL, name)]);
        let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
        world.namespaces().patch(namespace, &PatchParams::default(), &patch).await?;
    }
    let group = async |namespace: &str| {
        let bindings: Api<RoleBinding> = Api::namespaced(world.client.clone(), namespace);
        let subjects = bindings.get("team").await?.subjects.unwrap_or_default();
        anyhow::Ok(subjects.into_iter().map(|subject| subject.name).collect::<Vec<_>>())
    };
    for (namespace, team) in [("varied-one", "ants"), ("varied-two", "bees")] {
        world.ready(namespace, name).await?;
        assert_eq!(world.value(namespace, "a").await?, format!("{team}: none, ${{team}}"));
        assert_eq!(group(namespace).await?, [format!("oidc:{team}")]);
    }
    let change = json!({ "metadata": { "labels": { "example.com/team": "wasps" }, "annotations": { "tier": "gold" } } });
    world.namespaces().patch("varied-one", &PatchParams::default(), &Patch::Merge(change)).await?;
    eventually("the values change", async || {
        let value = world.value("varied-one", "a").await?;
        ensure!(value == "wasps: gold, ${team}", "{value}");
        ensure!(group("varied-one").await? == ["oidc:wasps"], "the group is an earlier one");
        Ok(())
    })
    .await?;
    assert_eq!(world.value("varied-two", "a").await?, "bees: none, ${team}");
    Ok(())
}
