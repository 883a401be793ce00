//! `type(x)`, and the names of types, which are values in rules: `type(self) == string`.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::objects::{Key, Map, Opaque};
use kube_cel::cel::{Context, ExecutionError, Value as CelValue};

/// A type as a value.
#[derive(Debug, PartialEq, Eq)]
struct TypeValue(String);

impl Opaque for TypeValue {
    fn runtime_type_name(&self) -> &'static str {
        "type"
    }
}

/// The names without a package.
const PLAIN: [&str; 11] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "type", "null_type", "optional_type"];

/// The packages, with the names in them. The types of Kubernetes' own packages have no name in rules.
const QUALIFIED: [(&[&str], &[&str]); 2] =
    [(&["google", "protobuf"], &["Duration", "Timestamp"]), (&["net"], &["IP", "CIDR"])];

/// Adds the function and the names.
pub(super) fn register(functions: &mut Context<'static>) {
    functions.add_function("type", type_of);
    for name in PLAIN {
        functions.add_variable_from_value(name, named(name));
    }
    for (packages, names) in QUALIFIED {
        let path = packages.join(".");
        let types = names.iter().map(|name| (*name, named(&format!("{path}.{name}"))));
        let mut value = map(types);
        for package in packages[1..].iter().rev() {
            value = map([(*package, value)].into_iter());
        }
        functions.add_variable_from_value(packages[0], value);
    }
}

fn named(name: &str) -> CelValue {
    CelValue::Opaque(Arc::new(TypeValue(name.to_owned())))
}

fn map<'n>(entries: impl Iterator<Item = (&'n str, CelValue)>) -> CelValue {
    let entries: HashMap<Key, CelValue> = entries.map(|(name, value)| (Key::from(name), value)).collect();
    CelValue::Map(Map { map: Arc::new(entries) })
}

#[expect(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "the library calls it so")]
fn type_of(value: CelValue) -> Result<CelValue, ExecutionError> {
    Ok(named(match &value {
        CelValue::Bool(_) => "bool",
        CelValue::Int(_) => "int",
        CelValue::UInt(_) => "uint",
        CelValue::Float(_) => "double",
        CelValue::String(_) => "string",
        CelValue::Bytes(_) => "bytes",
        CelValue::List(_) => "list",
        CelValue::Map(_) => "map",
        CelValue::Null => "null_type",
        CelValue::Duration(_) => "google.protobuf.Duration",
        CelValue::Timestamp(_) => "google.protobuf.Timestamp",
        CelValue::Opaque(opaque) => opaque.runtime_type_name(),
        CelValue::Function(..) => "function",
    }))
}
