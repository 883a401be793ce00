//! The functions of expanded macros, which the library does not have.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ExecutionError, Value as CelValue};

use crate::schema::macros::{INSERTED, PAIRS, SORTED};

/// Adds the functions.
pub(super) fn register(functions: &mut Context<'static>) {
    functions.add_function(PAIRS, pairs);
    functions.add_function(INSERTED, inserted);
    functions.add_function(SORTED, sorted);
}

fn pairs(range: CelValue) -> Result<CelValue, ExecutionError> {
    let pair = |key: CelValue, value: &CelValue| CelValue::List(Arc::new(vec![key, value.clone()]));
    let pairs: Vec<CelValue> = match range {
        CelValue::List(items) => {
            (0..).zip(items.iter()).map(|(index, item)| pair(CelValue::Int(index), item)).collect()
        }
        CelValue::Map(map) => {
            let mut entries: Vec<_> = map.map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            entries.into_iter().map(|(key, value)| pair(CelValue::from(key.clone()), value)).collect()
        }
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(CelValue::List(Arc::new(pairs)))
}

fn inserted(Arguments(arguments): Arguments) -> Result<CelValue, ExecutionError> {
    let (map, added): (_, Vec<(Key, CelValue)>) = match arguments.as_slice() {
        [CelValue::Map(map), CelValue::Map(other)] => {
            let mut entries: Vec<_> =
                other.map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            entries.sort_by(|(one, _), (other, _)| one.cmp(other));
            (map, entries)
        }
        [CelValue::Map(map), key, value] => {
            let key = key.clone().try_into().map_err(ExecutionError::UnsupportedKeyType)?;
            (map, vec![(key, value.clone())])
        }
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    let mut entries = map.map.as_ref().clone();
    for (key, value) in added {
        if entries.contains_key(&key) {
            let message = format!("insert failed: key {key} already exists");
            return Err(ExecutionError::FunctionError { function: INSERTED.to_owned(), message });
        }
        entries.insert(key, value);
    }
    Ok(CelValue::Map(Map { map: Arc::new(entries) }))
}

#[expect(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "the library calls it so")]
fn sorted(
    This(list): This<Arc<Vec<CelValue>>>,
    keys: Arc<Vec<CelValue>>,
) -> Result<CelValue, ExecutionError> {
    let mut order: Vec<(&CelValue, &CelValue)> = keys.iter().zip(list.iter()).collect();
    order.sort_by(|(one, _), (other, _)| one.partial_cmp(other).unwrap_or(Ordering::Equal));
    Ok(CelValue::List(Arc::new(order.into_iter().map(|(_, item)| item.clone()).collect())))
}
