//! The kinds of all controllers, by the names that users give.

use std::sync::Arc;

use lockstep_cli::controllers;
use lockstep_engine::object::Kind;

/// Returns all kinds of our controllers.
pub(super) fn all() -> Vec<Arc<Kind>> {
    controllers::kinds(&lockstep_crds::all())
}

/// Returns the kind with that name: its kind, plural or a short name, in any case. The error names all kinds.
pub(super) fn find(name: &str) -> Result<Arc<Kind>, String> {
    let wanted = name.to_lowercase();
    let sets = lockstep_crds::all();
    let crd = sets.iter().flat_map(|set| &set.crds).find(|crd| {
        let names = &crd.spec.names;
        let short = names.short_names.iter().flatten();
        [&names.kind, &names.plural].into_iter().chain(short).any(|known| known.to_lowercase() == wanted)
    });
    let kinds = all();
    let kind = crd.and_then(|crd| kinds.iter().find(|kind| kind.kind == crd.spec.names.kind));
    kind.cloned().ok_or_else(|| {
        let known = kinds.iter().map(|kind| kind.kind.as_str()).collect::<Vec<_>>().join(", ");
        format!("there is no kind {name:?}; these exist: {known}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_each_of_its_names() {
        for name in ["DPUService", "dpuservice", "dpuservices", "dpusvc"] {
            assert_eq!(find(name).unwrap().kind, "DPUService", "{name}");
        }
        let error = find("pod").unwrap_err();
        assert!(error.contains("\"pod\"") && error.contains("NamespaceClassBinding"), "{error}");
    }
}
