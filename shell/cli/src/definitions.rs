//! The CRDs in the form in which they are printed and checked in.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use lockstep_crds::CrdSet;
use lockstep_engine::yaml;

/// Returns a CRD as a YAML document with its start line, because `helm show crds` of Helm 3 puts no separator between files.
pub fn document(crd: &CustomResourceDefinition) -> String {
    format!("---\n{}", yaml::write(crd).expect("a CRD is YAML"))
}

/// Returns the path of a CRD in the chart. The chart renders the CRDs of enabled controllers. `crds` has those that Helm must
/// always install first, because the chart creates `SentinelConfig`s.
pub fn path_in_chart(set: &CrdSet, crd: &CustomResourceDefinition) -> String {
    let folder = if set.runs_alone { "crds".to_owned() } else { format!("files/crds/{}", set.controller) };
    format!("{folder}/{}.{}.yaml", crd.spec.names.plural, crd.spec.group)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use super::*;

    const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/lockstep");
    /// The variable that makes the test write the files instead of comparing them.
    const REGENERATE: &str = "LOCKSTEP_REGENERATE";

    /// Returns the files of one folder of the chart, by their paths in the chart.
    fn files(folder: &str) -> Vec<(String, String)> {
        let entries = fs::read_dir(Path::new(CHART).join(folder)).unwrap().map(|entry| entry.unwrap());
        let read = |entry: fs::DirEntry| {
            let path = format!("{folder}/{}", entry.file_name().into_string().unwrap());
            (path, fs::read_to_string(entry.path()).unwrap())
        };
        entries.map(read).collect()
    }

    /// Returns all CRDs in the chart.
    fn checked_in() -> BTreeMap<String, String> {
        let folders = fs::read_dir(Path::new(CHART).join("files/crds")).unwrap();
        let folders = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let rendered = folders.flat_map(|controller| files(&format!("files/crds/{controller}")));
        files("crds").into_iter().chain(rendered).collect()
    }

    #[test]
    fn checked_in_definitions_are_what_the_types_say() {
        let sets = lockstep_crds::all();
        let crds = sets.iter().flat_map(|set| set.crds.iter().map(move |crd| (set, crd)));
        let expected =
            crds.map(|(set, crd)| (path_in_chart(set, crd), document(crd))).collect::<BTreeMap<_, _>>();
        if std::env::var_os(REGENERATE).is_some() {
            for (path, text) in &expected {
                let path = Path::new(CHART).join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
        assert!(
            checked_in() == expected,
            "the CRDs in deploy/lockstep do not match the types; regenerate them with: {REGENERATE}=1 cargo \
             test -p lockstep-cli checked_in_definitions"
        );
    }

    #[test]
    fn checked_in_definitions_one_after_the_other_are_as_many_documents() {
        let texts = checked_in().into_values().collect::<String>();
        let definitions = lockstep_crds::all().iter().map(|set| set.crds.len()).sum::<usize>();
        assert_eq!(yaml::read_all(&texts).unwrap().len(), definitions);
    }

    #[test]
    fn the_chart_finds_where_to_annotate_each_definition() {
        for (path, text) in checked_in() {
            assert_eq!(text.matches("\nmetadata:\n").count(), 1, "{path}");
        }
    }
}
