//! The order of a merged list: the order of the patch; items that only the server has stay near their neighbours.

use serde_json::Value;

/// Orders the patch's items like `patch_order` and inserts the server's items, in the order of `server_order`.
pub(super) fn weave(
    mut patch: Vec<Value>,
    mut server_only: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    key: Option<&str>,
) -> Vec<Value> {
    sort(&mut patch, patch_order, key);
    sort(&mut server_only, server_order, key);
    let mut out = Vec::with_capacity(patch.len() + server_only.len());
    let mut left = server_only.into_iter().peekable();
    let mut right = patch.into_iter().peekable();
    while let (Some(l), Some(r)) = (left.peek(), right.peek()) {
        let first = match (position(server_order, l, key), position(server_order, r, key)) {
            (Some(l), Some(r)) if l < r => left.next(),
            _ => right.next(),
        };
        out.extend(first);
    }
    out.extend(right);
    out.extend(left);
    out
}

/// Splits a list into the items in `by` and the rest.
pub(super) fn partition(list: Vec<Value>, by: &[Value], key: Option<&str>) -> (Vec<Value>, Vec<Value>) {
    list.into_iter().partition(|item| position(by, item, key).is_some())
}

/// Returns the index of an item in a list, by its key if there is one.
pub(super) fn position(list: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    match key {
        Some(key) => {
            let wanted = item.get(key);
            list.iter().position(|other| other.get(key) == wanted)
        }
        None => list.iter().position(|other| other == item),
    }
}

fn sort(list: &mut Vec<Value>, order: &[Value], key: Option<&str>) {
    // Items that are not in the order come first, in their current order.
    let mut keyed: Vec<(Option<usize>, Value)> =
        list.drain(..).map(|item| (position(order, &item, key), item)).collect();
    keyed.sort_by_key(|(at, _)| *at);
    list.extend(keyed.into_iter().map(|(_, item)| item));
}
