//! YAML documents: the CRDs as they are printed and checked in.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// A CRD as one document, with the line that begins it: `helm show crds` of Helm 3 puts nothing between files.
pub fn document(crd: &CustomResourceDefinition) -> Result<String, serde_yaml::Error> {
    Ok(format!("---\n{}", serde_yaml::to_string(crd)?))
}

/// The name of the file that a CRD is checked in as.
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}.{}.yaml", crd.spec.names.plural, crd.spec.group)
}

/// The objects in a text of several documents; empty ones are left out.
pub fn objects(text: &str) -> Result<Vec<Value>, serde_yaml::Error> {
    let documents = serde_yaml::Deserializer::from_str(text);
    let objects = documents.map(<Value as serde::Deserialize>::deserialize).collect::<Result<Vec<_>, _>>()?;
    Ok(objects.into_iter().filter(|object| !object.is_null()).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Where the chart's definitions are checked in.
    const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/lockstep/crds");
    /// Set to write the files instead of comparing them.
    const REGENERATE: &str = "LOCKSTEP_REGENERATE";

    #[test]
    fn checked_in_definitions_are_what_the_types_say() {
        let expected = lockstep_crds::all()
            .iter()
            .flat_map(|set| &set.crds)
            .map(|crd| (file_name(crd), document(crd).unwrap()))
            .collect::<BTreeMap<_, _>>();
        let folder = Path::new(CHECKED_IN);
        if std::env::var_os(REGENERATE).is_some() {
            fs::create_dir_all(folder).unwrap();
            for (name, text) in &expected {
                fs::write(folder.join(name), text).unwrap();
            }
        }
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let found = entries
            .map(|entry| {
                (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
            })
            .collect::<BTreeMap<_, _>>();
        assert!(
            found == expected,
            "deploy/lockstep/crds is not what the types say; regenerate it with: \
             {REGENERATE}=1 cargo test -p lockstep-shell checked_in_definitions"
        );
    }

    #[test]
    fn checked_in_definitions_one_after_the_other_are_as_many_documents() {
        let files = fs::read_dir(CHECKED_IN).unwrap().map(|entry| entry.unwrap().path());
        let texts = files.map(|file| fs::read_to_string(file).unwrap()).collect::<Vec<_>>();
        let definitions = lockstep_crds::all().iter().map(|set| set.crds.len()).sum::<usize>();
        assert_eq!(objects(&texts.concat()).unwrap().len(), definitions);
    }

    #[test]
    fn documents_are_read_one_by_one() {
        let read = objects("---\n# nothing\n---\na: 1\n---\nb: 2\n").unwrap();
        assert_eq!(read, [serde_json::json!({"a": 1}), serde_json::json!({"b": 2})]);
    }
}
