//! The objects of the files on the command line.

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::Context as _;
use lockstep_engine::object::text;
use lockstep_engine::yaml;
use serde_json::Value;

use super::super::misuse::Misuse;

/// Reads the objects of all files, in their order. The items of a List are objects of their own.
pub(super) fn read(files: &[PathBuf]) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for file in files {
        let shown = file.display();
        let content = if file.as_os_str() == "-" {
            let mut content = String::new();
            std::io::stdin().read_to_string(&mut content).context("cannot read stdin")?;
            content
        } else {
            std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?
        };
        let documents = yaml::read_all(&content).map_err(|error| Misuse(format!("{shown}: {error}")))?;
        for object in documents.into_iter().flat_map(items) {
            let field = ["/apiVersion", "/kind", "/metadata/name"]
                .into_iter()
                .find(|field| text(&object, field).is_none());
            if let Some(field) = field {
                let field = field.trim_start_matches('/').replace('/', ".");
                return Err(Misuse(format!("{shown}: an object has no {field}")).into());
            }
            objects.push(object);
        }
    }
    if objects.is_empty() {
        return Err(Misuse("the files contain no object".to_owned()).into());
    }
    Ok(objects)
}

fn items(document: Value) -> Vec<Value> {
    let is_list = text(&document, "/kind").is_some_and(|kind| kind.ends_with("List"));
    match document["items"].as_array() {
        Some(items) if is_list => items.clone(),
        _ => vec![document],
    }
}
