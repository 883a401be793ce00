//! The SBOM, in the format `CycloneDX` 1.6: the packages that the program is compiled from.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::cargo::{Metadata, Package};

/// The package of the program.
const PROGRAM: &str = "lockstep-cli";

/// Returns the SBOM of the program. It has no serial number and no time, so that two builds give the same file.
pub(crate) fn document(metadata: &Metadata, lock: &str) -> anyhow::Result<Vec<u8>> {
    let packages: BTreeMap<&str, &Package> =
        metadata.packages.iter().map(|package| (&*package.id, package)).collect();
    let program = metadata.packages.iter().find(|package| package.name == PROGRAM);
    let program = program.with_context(|| format!("no package {PROGRAM}"))?;
    let dependencies = dependencies(metadata);
    let checksums = checksums(lock);

    let mut included: BTreeMap<&str, &Package> = BTreeMap::new();
    let mut open = vec![&*program.id];
    while let Some(id) = open.pop() {
        let package = packages.get(id).with_context(|| format!("cargo does not describe {id}"))?;
        if included.insert(id, package).is_none() {
            open.extend(dependencies.get(id).into_iter().flatten());
        }
    }
    let relations = included.iter().map(|(id, package)| {
        let on: BTreeSet<String> = dependencies
            .get(id)
            .into_iter()
            .flatten()
            .filter_map(|id| included.get(id))
            .map(|it| purl(it))
            .collect();
        (purl(package), on)
    });
    let relations: BTreeMap<String, BTreeSet<String>> = relations.collect();
    included.remove(&*program.id);
    let mut components: Vec<Value> =
        included.values().map(|package| component(package, "library", &checksums)).collect();
    components.sort_by_key(|component| component["bom-ref"].to_string());
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(program, "application", &checksums)},
        "components": components,
        "dependencies": relations.iter().map(|(of, on)| json!({"ref": of, "dependsOn": on})).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_vec_pretty(&document)?)
}

/// Returns what each package is compiled from and with, without what only its tests use.
fn dependencies(metadata: &Metadata) -> BTreeMap<&str, Vec<&str>> {
    let is_used = |kind: &Option<String>| kind.as_deref() != Some("dev");
    let nodes = metadata.resolve.nodes.iter().map(|node| {
        let used = node.deps.iter().filter(|it| it.dep_kinds.iter().any(|kind| is_used(&kind.kind)));
        (&*node.id, used.map(|dependency| &*dependency.pkg).collect())
    });
    nodes.collect()
}

fn component(package: &Package, kind: &str, checksums: &BTreeMap<(&str, &str), &str>) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(package),
        "name": package.name,
        "version": package.version,
        "purl": purl(package),
    });
    if let Some(text) = &package.description {
        component["description"] = json!(text.trim());
    }
    if let Some(license) = &package.license {
        // Some packages use the older form `MIT/Apache-2.0`.
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    if let Some(checksum) = checksums.get(&(&*package.name, &*package.version)) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}

/// Returns the package URL.
fn purl(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version.replace('+', "%2B"))
}

/// Returns the checksums in a lock file, by name and version. Packages of the workspace have none.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    let packages = lock.split("[[package]]\n").skip(1);
    let found = packages.filter_map(|package| {
        let value = |name: &str| {
            let mut lines = package.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'))
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    });
    found.collect()
}
