//! YAML documents: the CRDs as they are printed and checked in.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// A CRD as one document.
pub fn document(crd: &CustomResourceDefinition) -> Result<String, serde_yaml::Error> {
    serde_yaml::to_string(crd)
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
