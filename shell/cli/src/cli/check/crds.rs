//! Checks that the CRDs of a controller are installed, and are those that this program knows.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use lockstep_cli::controllers;
use lockstep_crds::CrdSet;
use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::object::{Kind, ObjectRef};
use serde_json::Value;

use super::super::cluster::Cluster;
use super::finding::Finding;

const CHECK: &str = "CRD";

pub(super) async fn check(cluster: &Cluster, set: &CrdSet) -> Vec<Finding> {
    let mut findings = Vec::new();
    for crd in &set.crds {
        findings.push(one(cluster, set, crd).await);
    }
    findings
}

async fn one(cluster: &Cluster, set: &CrdSet, crd: &CustomResourceDefinition) -> Finding {
    let name = format!("{}.{}", crd.spec.names.plural, crd.spec.group);
    let alone = CrdSet { crds: vec![crd.clone()], ..set.clone() };
    let installed = match read(cluster, &name).await {
        Ok(None) => return missing(&name, set),
        Ok(Some(installed)) => Some(installed),
        // The accounts of the chart may not read CRDs. Every account may read which kinds are served.
        Err(failure) if failure.class == ErrorKind::Forbidden => None,
        Err(failure) => return unreadable(&name, &failure),
    };
    for kind in controllers::kinds(std::slice::from_ref(&alone)) {
        match cluster.serves(&kind).await {
            Ok(true) => {}
            Ok(false) if installed.is_none() => return missing(&name, set),
            Ok(false) => return not_established(&name, &kind, installed.as_ref()),
            Err(failure) => return unreadable(&name, &failure),
        }
    }
    match controllers::unknown_fields(&cluster.client, &[alone]).await {
        Ok(unknown) if unknown.is_empty() => {}
        Ok(unknown) => return foreign(&name, set, &unknown),
        Err(why) => return Finding::warn(CHECK, &name, why, "repeat the check once the API server answers"),
    }
    match installed {
        None => {
            Finding::ok(CHECK, &name, "served; this account may not read the CRD, so it was not compared")
        }
        Some(installed) => compared(&name, set, crd, &installed),
    }
}

async fn read(cluster: &Cluster, name: &str) -> Result<Option<CustomResourceDefinition>, Failure> {
    let kind = Kind::known(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
    );
    let Some(object) = cluster.get(ObjectRef::cluster(&kind, name)).await? else { return Ok(None) };
    let parsed = serde_json::from_value(Value::clone(&object));
    parsed.map(Some).map_err(|error| Failure::new(ErrorKind::Invalid, error.to_string()))
}

fn missing(name: &str, set: &CrdSet) -> Finding {
    let remedy = format!(
        "install it with the chart, or with: {}",
        controllers::install_command(&[set.controller], "")
    );
    Finding::fail(CHECK, name, "not installed", remedy)
}

fn unreadable(name: &str, failure: &Failure) -> Finding {
    Finding::warn(CHECK, name, format!("could not be read ({failure})"), "try again")
}

/// Reports why the API server does not serve the kind of an installed CRD.
fn not_established(name: &str, kind: &Kind, installed: Option<&CustomResourceDefinition>) -> Finding {
    let status = installed.and_then(|crd| crd.status.as_ref());
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let wrong = conditions.iter().filter(|condition| {
        ["Established", "NamesAccepted"].contains(&condition.type_.as_str()) && condition.status != "True"
    });
    let why = wrong.map(|condition| {
        let message = condition.message.as_deref().unwrap_or_default();
        format!("{}={}: {message}", condition.type_, condition.status)
    });
    let why = why.collect::<Vec<_>>().join(", ");
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    Finding::fail(
        CHECK,
        name,
        format!("installed, but the API server does not serve {}{why}", kind.api_version()),
        "wait until it is established, or remove a CRD of another project that has the same names",
    )
}

/// If a CRD belongs to another project, its objects belong to the controller of that project.
fn foreign(name: &str, set: &CrdSet, unknown: &[String]) -> Finding {
    let remedy = format!(
        "if it belongs to another project, as NVIDIA's DPF also defines DPUServices, this controller can't run here; if it \
         is an older one of Lockstep, upgrade it with: {}",
        controllers::install_command(&[set.controller], "--force-conflicts ")
    );
    Finding::fail(CHECK, name, format!("another CRD of this name, without {}", unknown.join(", ")), remedy)
}

fn compared(
    name: &str,
    set: &CrdSet,
    ours: &CustomResourceDefinition,
    installed: &CustomResourceDefinition,
) -> Finding {
    let differences = ours.spec.versions.iter().filter_map(|ours| {
        let theirs = installed.spec.versions.iter().find(|version| version.name == ours.name)?;
        let what = differences(ours, theirs).join(", ");
        (!what.is_empty()).then(|| format!("{what} of {}", ours.name))
    });
    let differences = differences.collect::<Vec<_>>().join("; ");
    if differences.is_empty() {
        let versions = ours.spec.versions.iter().map(|version| version.name.as_str());
        let versions = versions.collect::<Vec<_>>().join(", ");
        return Finding::ok(CHECK, name, format!("established, {versions} as in this version of lockstep"));
    }
    let remedy = format!(
        "if it is older than this lockstep ({}), upgrade it with the chart, or with: {}",
        env!("CARGO_PKG_VERSION"),
        controllers::install_command(&[set.controller], "--force-conflicts ")
    );
    Finding::warn(CHECK, name, format!("differs from the CRD of this lockstep: {differences}"), remedy)
}

/// Returns which parts of a version differ.
fn differences(
    ours: &CustomResourceDefinitionVersion,
    theirs: &CustomResourceDefinitionVersion,
) -> Vec<&'static str> {
    let mut found = Vec::new();
    if ours.schema != theirs.schema {
        found.push("schema");
    }
    if ours.additional_printer_columns != theirs.additional_printer_columns {
        found.push("columns");
    }
    if ours.subresources != theirs.subresources {
        found.push("subresources");
    }
    if ours.storage != theirs.storage {
        found.push("storage version");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn set() -> CrdSet {
        controllers::select(&["bridge".to_owned()]).unwrap().remove(0)
    }

    #[test]
    fn a_difference_names_the_part_and_how_to_upgrade() {
        let set = set();
        let ours = &set.crds[0];
        assert_eq!(compared("x", &set, ours, ours).level, Level::Ok);
        let mut older = ours.clone();
        older.spec.versions[0].additional_printer_columns.as_mut().unwrap().pop();
        let finding = compared("x", &set, ours, &older);
        assert_eq!(finding.level, Level::Warn);
        assert_eq!(finding.message, "differs from the CRD of this lockstep: columns of v1alpha1");
        assert!(finding.remedy.unwrap().ends_with(
            "lockstep crds --controllers bridge | kubectl apply --server-side --force-conflicts -f -"
        ));
        older.spec.versions[0].schema = None;
        assert!(compared("x", &set, ours, &older).message.contains("schema, columns of v1alpha1"));
    }

    #[test]
    fn a_crd_that_is_not_established_says_why() {
        let mut crd = set().crds.remove(0);
        let condition = serde_json::json!({
            "type": "NamesAccepted", "status": "False", "reason": "PluralConflict", "message": "dpfhcpbridges is taken",
        });
        crd.status = Some(serde_json::from_value(serde_json::json!({"conditions": [condition]})).unwrap());
        let kind = controllers::kinds(&[set()]).remove(0);
        let finding = not_established("x", &kind, Some(&crd));
        assert_eq!(finding.level, Level::Fail);
        assert!(
            finding.message.ends_with("(NamesAccepted=False: dpfhcpbridges is taken)"),
            "{}",
            finding.message
        );
    }
}
