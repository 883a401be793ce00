//! The variables of a class, and their values in a namespace.
//!
//! Source: not in the specification (decision 124).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::expression::{Expression, Field, NamespaceMetadata, NoValue, VALUE_MAX_BYTES};

/// The maximum number of characters of a name in a message: as many as a name may have.
const NAME_SHOWN: usize = 63;

/// The variables of a class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variables(Vec<Variable>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Variable {
    name: String,
    /// `None` if the class was created before its schema, or without it.
    expression: Option<Expression>,
}

/// The values of all variables in a namespace; for one without a value, the reason and how to fix it.
pub type Values<'a> = BTreeMap<&'a str, Result<String, String>>;

impl Variables {
    /// Reads `spec.variables` of a class.
    pub fn read(variables: &Value) -> Self {
        let list = variables.as_array().into_iter().flatten().filter_map(|variable| {
            let (name, expression) = (variable["name"].as_str()?, variable["expression"].as_str());
            Some(Variable { name: name.to_owned(), expression: expression.and_then(Expression::parse) })
        });
        Self(list.collect())
    }

    /// Returns whether the class has none, so that its resources are applied as they are.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a variable has this name.
    pub fn declares(&self, name: &str) -> bool {
        self.0.iter().any(|variable| variable.name == name)
    }

    /// Returns why a variable can't be used, and how to fix it.
    pub fn mistake(&self, name: &str) -> Option<String> {
        // The next brace may close a text of any length.
        let shown: String = name.chars().take(NAME_SHOWN).collect();
        match self.0.iter().find(|variable| variable.name == name) {
            Some(Variable { expression: Some(_), .. }) => None,
            Some(Variable { expression: None, .. }) => Some(format!(
                "the expression of the variable {shown:?} can't be read; correct it in spec.variables"
            )),
            None => Some(format!(
                "spec.variables has no variable {shown:?}; correct the name, declare the variable, or write $${{ for the \
                 text ${{ itself"
            )),
        }
    }

    /// Returns the values in a namespace.
    pub fn values(&self, namespace: &str, metadata: &NamespaceMetadata) -> Values<'_> {
        let values = self.0.iter().filter_map(|Variable { name, expression }| {
            let value = expression.as_ref()?.value(namespace, metadata);
            Some((name.as_str(), value.map_err(|reason| explain(name, namespace, &reason))))
        });
        values.collect()
    }

    /// Returns whether a label or an annotation that an expression reads differs.
    pub fn read_differently(&self, one: &NamespaceMetadata, other: &NamespaceMetadata) -> bool {
        let mut read =
            self.0.iter().filter_map(|variable| variable.expression.as_ref()).flat_map(Expression::reads);
        read.any(|(field, key)| one.get(field, key) != other.get(field, key))
    }
}

fn explain(name: &str, namespace: &str, reason: &NoValue<'_>) -> String {
    match reason {
        NoValue::Missing(field, key) => {
            let field = match field {
                Field::Labels => "label",
                Field::Annotations => "annotation",
            };
            format!(
                "variable {name:?} has no value, because Namespace {namespace} has no {field} {key:?}; add the {field} to the \
                 namespace, or a default to the expression in the class"
            )
        }
        NoValue::TooLong => format!(
            "variable {name:?} has a value of more than {VALUE_MAX_BYTES} bytes; shorten the labels and annotations of \
             Namespace {namespace} that its expression reads"
        ),
    }
}
