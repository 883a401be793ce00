//! The type of `metadata`, the same for every kind.

use super::node::{Arena, Extra, Kind, ListType, MapType, Node, NodeId};

/// Adds `ObjectMeta` to an arena.
pub(super) fn object_meta(arena: &mut Arena) -> NodeId {
    let mut push = |node: Node| {
        arena.nodes.push(node);
        arena.nodes.len() - 1
    };
    let string = push(Node { kind: Kind::String, ..Node::default() });
    let integer = push(Node { kind: Kind::Integer, ..Node::default() });
    let boolean = push(Node { kind: Kind::Boolean, ..Node::default() });
    let time = push(Node { kind: Kind::String, format: Some("date-time".to_owned()), ..Node::default() });
    let strings = push(Node { element: Some(string), extra: Extra::Of(string), ..object() });
    let finalizers = push(list(string, ListType::Set));
    let owner = push(Node {
        fields: [
            ("apiVersion", string),
            ("blockOwnerDeletion", boolean),
            ("controller", boolean),
            ("kind", string),
            ("name", string),
            ("uid", string),
        ]
        .map(|(name, id)| (name.to_owned(), id))
        .into(),
        map: Some(MapType::Atomic),
        ..object()
    });
    let owners = push(list(owner, ListType::Map(vec!["uid".to_owned()])));
    let fields = push(Node { element: Some(super::node::DEDUCED), ..object() });
    let entry = push(Node {
        fields: [
            ("apiVersion", string),
            ("fieldsType", string),
            ("fieldsV1", fields),
            ("manager", string),
            ("operation", string),
            ("subresource", string),
            ("time", time),
        ]
        .map(|(name, id)| (name.to_owned(), id))
        .into(),
        ..object()
    });
    let managed = push(list(entry, ListType::Atomic));
    push(Node {
        fields: [
            ("annotations", strings),
            ("creationTimestamp", time),
            ("deletionGracePeriodSeconds", integer),
            ("deletionTimestamp", time),
            ("finalizers", finalizers),
            ("generateName", string),
            ("generation", integer),
            ("labels", strings),
            ("managedFields", managed),
            ("name", string),
            ("namespace", string),
            ("ownerReferences", owners),
            ("resourceVersion", string),
            ("selfLink", string),
            ("uid", string),
        ]
        .map(|(name, id)| (name.to_owned(), id))
        .into(),
        ..object()
    })
}

fn object() -> Node {
    Node { kind: Kind::Object, ..Node::default() }
}

fn list(items: NodeId, list: ListType) -> Node {
    Node { kind: Kind::Array, items: Some(items), list: Some(list), ..Node::default() }
}
