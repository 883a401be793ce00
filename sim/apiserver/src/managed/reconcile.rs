//! Adapts owned fields to the type of an object: a map or list that has become atomic has one owner as a whole.

use super::path::Step;
use super::set::Set;
use super::typed::{is_atomic_list, is_atomic_map};
use crate::schema::node::{At, DEDUCED, DEPTH_MAX, Kind, UNTYPED};

/// Returns the set with fields inside of atomic values replaced by these values; none if there are no such fields.
pub(super) fn reconciled(root: At<'_>, set: &Set) -> Option<Set> {
    let mut atomic = Set::default();
    find(root, Some(set), false, &mut Vec::new(), &mut atomic);
    (!atomic.is_empty()).then(|| set.without(&atomic).union(&atomic))
}

/// Collects the paths of atomic values of which the set has inner fields.
fn find(at: At<'_>, set: Option<&Set>, is_whole: bool, path: &mut Vec<Step>, atomic: &mut Set) {
    if path.len() > DEPTH_MAX {
        return;
    }
    let inner = match at.node().kind {
        // A value of any type is processed as a map.
        Kind::Any | Kind::Object => {
            if is_free_form(at) {
                return;
            }
            if !is_whole && is_atomic_map(at) {
                if set.is_some_and(|set| !set.is_empty()) {
                    atomic.insert(path);
                }
                return;
            }
            at.node().element.map(|id| at.to(id))
        }
        Kind::Array => {
            if !is_whole && is_atomic_list(at) {
                return atomic.insert(path);
            }
            at.items()
        }
        _ => return,
    };
    for (step, is_member, below) in set.into_iter().flat_map(Set::steps) {
        let field = match step {
            Step::Field(name) if at.node().kind != Kind::Array => at.field(name),
            _ => None,
        };
        let Some(child) = field.or(inner) else { continue };
        path.push(step.clone());
        find(child, below, is_member && below.is_none(), path, atomic);
        path.pop();
    }
}

/// Returns whether a map has only undeclared fields of any type.
fn is_free_form(at: At<'_>) -> bool {
    let is_untyped = |id| {
        let node = at.to(id).node();
        let is_text = matches!(node.format.as_deref(), None | Some("" | "byte"));
        match node.kind {
            Kind::Any => id == DEDUCED || (id != UNTYPED && !at.arena.built_in),
            Kind::String => !is_text,
            _ => false,
        }
    };
    at.node().fields.is_empty() && at.node().element.is_some_and(is_untyped)
}
