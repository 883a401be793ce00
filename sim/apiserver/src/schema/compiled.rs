//! The schemas of definitions that were compiled last. A write of a definition reads its schemas several times, and simulations
//! create the same definitions in each of their clusters: to parse their rules took most of the time of short simulations.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::node::Arena;

/// Maximum number of schemas of a thread.
const COMPILED_MAX: usize = 64;

thread_local! {
    /// The last first. Each thread has its own, so that threads do not wait for each other.
    static COMPILED: RefCell<VecDeque<(Value, Arc<Arena>)>> = const { RefCell::new(VecDeque::new()) };
}

/// Returns a compiled schema, which is compiled unless it is among the last ones.
pub(super) fn once<E>(source: &Value, compile: impl FnOnce() -> Result<Arena, E>) -> Result<Arc<Arena>, E> {
    let known = COMPILED.with_borrow_mut(|compiled| {
        let at = compiled.iter().position(|(known, _)| known == source)?;
        let found = compiled.remove(at)?;
        let schema = Arc::clone(&found.1);
        compiled.push_front(found);
        Some(schema)
    });
    if let Some(schema) = known {
        return Ok(schema);
    }
    let schema = Arc::new(compile()?);
    COMPILED.with_borrow_mut(|compiled| {
        compiled.truncate(COMPILED_MAX - 1);
        compiled.push_front((source.clone(), Arc::clone(&schema)));
    });
    Ok(schema)
}
