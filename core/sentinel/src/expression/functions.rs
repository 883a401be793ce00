//! The variables and functions of expressions: those of the released Sentinel, as far as their cost is bounded.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::types::CelString;
use kube_cel::cel::extractors::This;
use kube_cel::cel::functions as standard;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ExecutionError, FunctionContext, ResolveResult, Value};
use lockstep_engine::time::Wall;
use serde_json::Value as Json;

use super::value;

/// The variable with the resource.
pub const RESOURCE: &str = "resource";
/// The variable with the time of the decision.
pub const NOW: &str = "now";
/// The function around the range of each macro: it gives the keys of a map in their order, and limits the number of items.
pub(super) const ITEMS: &str = "@items";
/// The function around the second operand of each sum and difference. The library adds a duration to a time with an operator that
/// panics if the result leaves its calendar of 262,000 years, so the duration is limited.
pub(super) const ADDED: &str = "@added";
/// The function around the argument of `string`. The library has the nanoseconds of a duration in 64 bits (292 years), and does not
/// check for an overflow, so the duration is limited.
pub(super) const SHOWN: &str = "@shown";
/// The maximum length of a duration that is added: twice what is between the first and the last time of CEL.
const ADDED_MAX_DAYS: i64 = 20_000 * 366;
/// The maximum number of items over which a macro iterates.
pub(super) const ITEMS_MAX: usize = 256;
/// The conditions of the resource by type. No expression can name it.
const CONDITIONS: &str = "@conditions";

/// The functions that expressions may call. Functions with a result that is much larger than their argument (`replace`, `split`,
/// `join`, `format`) and regular expressions (`matches`) are not among them.
pub(super) const NAMES: [&str; 28] = [
    "charAt",
    "condition",
    "contains",
    "double",
    "duration",
    "endsWith",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "indexOf",
    "int",
    "lastIndexOf",
    "lowerAscii",
    "size",
    "startsWith",
    "string",
    "substring",
    "timestamp",
    "trim",
    "uint",
    "upperAscii",
];

/// The fields of a condition, with the values for a condition that a resource does not have.
const CONDITION: [(&str, Default); 6] = [
    ("last_transition_time", Default::Text),
    ("last_updated_time", Default::Text),
    ("message", Default::Text),
    ("observed_generation", Default::Number),
    ("reason", Default::Text),
    ("status", Default::Text),
];

#[derive(Clone, Copy)]
enum Default {
    Text,
    Number,
}

/// Returns a context with all functions and without variables.
pub fn functions() -> Context<'static> {
    let mut context = Context::default().with_all();
    context.add_function("condition", condition);
    context.add_function("contains", contains);
    context.add_function("duration", duration);
    context.add_function(ADDED, added);
    context.add_function(SHOWN, shown);
    context.add_function(ITEMS, items);
    context
}

/// Adds the variables of a resource.
pub fn add_resource(scope: &mut Context<'_>, resource: &Json, now: Wall) {
    scope.add_variable_from_value(RESOURCE, value::from_json(resource));
    let conditions = resource["status"]["conditions"].as_array();
    let known = conditions.into_iter().flatten().filter_map(|condition| {
        let name = condition["type"].as_str()?;
        Some((Key::from(name), named(condition)))
    });
    scope.add_variable_from_value(CONDITIONS, Value::Map(Map { map: Arc::new(known.collect()) }));
    // A timestamp of the library, without a dependency on its calendar. Each time of ours is within its range.
    let now = standard::timestamp(Arc::new(now.timestamp().to_string())).unwrap_or(Value::Null);
    scope.add_variable_from_value(NOW, now);
}

fn named(condition: &Json) -> Value {
    let fields = CONDITION.map(|(field, default)| {
        let given = condition.get(field).filter(|given| !given.is_null());
        let value = given.map_or_else(
            || match default {
                Default::Text => Value::String(Arc::default()),
                Default::Number => Value::Int(0),
            },
            value::from_json,
        );
        (Key::from(field), value)
    });
    Value::Map(Map { map: Arc::new(fields.into_iter().collect()) })
}

/// Returns a condition by its type. As in the released Sentinel, a condition that the resource does not have has empty fields.
#[expect(clippy::needless_pass_by_value, reason = "the library passes arguments by value")]
fn condition(call: &FunctionContext<'_, '_>, name: Arc<String>) -> ResolveResult {
    let conditions = call.ptx.get_variable(CONDITIONS);
    let known = conditions.as_ref().and_then(|conditions| conditions.as_indexer());
    match known.and_then(|known| known.get(&CelString::from(name.as_str())).ok()) {
        Some(found) => found.as_ref().try_into(),
        None => Ok(named(&Json::Null)),
    }
}

/// Returns whether a value contains another one. The library panics on bytes that are to contain no bytes.
fn contains(This(this): This<Value>, part: Value) -> ResolveResult {
    match (&this, &part) {
        (Value::Bytes(_), Value::Bytes(part)) if part.is_empty() => Ok(Value::Bool(true)),
        _ => standard::contains(This(this), part),
    }
}

/// Parses a duration of at most a century.
fn duration(text: Arc<String>) -> ResolveResult {
    within_a_century("duration", standard::duration(text)?)
}

fn shown(value: Value) -> ResolveResult {
    if matches!(value, Value::Duration(_)) { within_a_century("string", value) } else { Ok(value) }
}

fn within_a_century(function: &str, duration: Value) -> ResolveResult {
    match value::check(&duration) {
        Ok(()) => Ok(duration),
        Err(problem) => Err(ExecutionError::function_error(function, problem)),
    }
}

fn added(value: Value) -> ResolveResult {
    match value {
        Value::Duration(duration) if duration.num_days().abs() > ADDED_MAX_DAYS => {
            Err(ExecutionError::Overflow("add", Value::Null, Value::Null))
        }
        other => Ok(other),
    }
}

fn items(range: Value) -> ResolveResult {
    let items: Vec<Value> = match range {
        Value::List(list) => return limited(list),
        Value::Map(map) => {
            let keys: BTreeSet<&Key> = map.map.keys().collect();
            keys.into_iter().map(key).collect()
        }
        _ => return Err(ExecutionError::function_error(ITEMS, "is no list or map")),
    };
    limited(Arc::new(items))
}

fn limited(items: Arc<Vec<Value>>) -> ResolveResult {
    if items.len() > ITEMS_MAX {
        return Err(ExecutionError::function_error(ITEMS, "has too many items"));
    }
    Ok(Value::List(items))
}

fn key(key: &Key) -> Value {
    match key {
        Key::Int(key) => Value::Int(*key),
        Key::Uint(key) => Value::UInt(*key),
        Key::Bool(key) => Value::Bool(*key),
        Key::String(key) => Value::String(Arc::clone(key)),
    }
}
