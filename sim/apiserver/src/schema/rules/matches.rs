//! `matches`, as in the library, but with a cache of compiled expressions: rules use the same few repeatedly, and the compilation
//! of one takes longer than the rest of a write.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::extractors::This;
use kube_cel::cel::{ExecutionError, FunctionContext};
use regex::Regex;

/// Maximum number of cached expressions. Only rules that compute expressions from values need more.
const KEPT_MAX: usize = 256;

thread_local! {
    static COMPILED: RefCell<BTreeMap<Arc<String>, Regex>> = const { RefCell::new(BTreeMap::new()) };
}

pub(super) fn matches(
    context: &FunctionContext<'_, '_>,
    This(text): This<Arc<String>>,
    expression: Arc<String>,
) -> Result<bool, ExecutionError> {
    COMPILED.with_borrow_mut(|compiled| {
        if let Some(known) = compiled.get(&expression) {
            return Ok(known.is_match(&text));
        }
        let regex = Regex::new(&expression)
            .map_err(|error| context.error(format!("'{expression}' not a valid regex:\n{error}")))?;
        let is_match = regex.is_match(&text);
        if compiled.len() >= KEPT_MAX {
            compiled.clear();
        }
        compiled.insert(expression, regex);
        Ok(is_match)
    })
}
