//! `/openapi/v2` in protobuf: the messages of gnostic's package `openapi.v2`, as far as the document has their fields.
//!
//! Each type declares a message once, for both forms: how it is read from the JSON document, and its numbers in protobuf. A
//! message of the package that only holds a choice or a list is a type as well; it is read from what it holds. A field of the
//! JSON document that has no number here is an error, so that nothing is lost.

use std::collections::BTreeMap;
use std::fmt::Debug;

use prost::Message;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::Value;

/// Encodes the JSON document.
pub(super) fn encode(document: &Value) -> Result<Vec<u8>, serde_json::Error> {
    Document::deserialize(document).map(|document| document.encode_to_vec())
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    #[prost(string, tag = "1")]
    swagger: String,
    #[prost(message, optional, tag = "2")]
    info: Option<Info>,
    #[prost(message, optional, tag = "8")]
    paths: Option<Paths>,
    #[prost(message, optional, tag = "9")]
    definitions: Option<Entries<Schema>>,
    #[prost(message, repeated, tag = "12")]
    security: Vec<Entries<StringArray>>,
    #[prost(message, optional, tag = "13")]
    security_definitions: Option<Entries<SecurityDefinition>>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Info {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(transparent)]
struct Paths {
    #[prost(message, repeated, tag = "2")]
    #[serde(deserialize_with = "entries")]
    path: Vec<Named<PathItem>>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PathItem {
    #[prost(message, optional, tag = "2")]
    get: Option<Operation>,
    #[prost(message, optional, tag = "3")]
    put: Option<Operation>,
    #[prost(message, optional, tag = "4")]
    post: Option<Operation>,
    #[prost(message, optional, tag = "5")]
    delete: Option<Operation>,
    #[prost(message, optional, tag = "6")]
    options: Option<Operation>,
    #[prost(message, optional, tag = "7")]
    head: Option<Operation>,
    #[prost(message, optional, tag = "8")]
    patch: Option<Operation>,
    #[prost(message, repeated, tag = "9")]
    parameters: Vec<ParametersItem>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Operation {
    #[prost(string, repeated, tag = "1")]
    tags: Vec<String>,
    #[prost(string, tag = "5")]
    #[serde(rename = "operationId")]
    id: String,
    #[prost(string, repeated, tag = "6")]
    produces: Vec<String>,
    #[prost(string, repeated, tag = "7")]
    consumes: Vec<String>,
    #[prost(message, repeated, tag = "8")]
    parameters: Vec<ParametersItem>,
    #[prost(message, optional, tag = "9")]
    responses: Option<Entries<ResponseValue>>,
    #[prost(string, repeated, tag = "10")]
    schemes: Vec<String>,
    #[prost(message, repeated, tag = "13")]
    #[serde(flatten, deserialize_with = "extensions")]
    vendor_extension: Vec<Named<Any>>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(try_from = "Value")]
struct ParametersItem {
    #[prost(message, required, tag = "1")]
    parameter: Parameter,
}

/// A parameter of one kind.
#[derive(Clone, PartialEq, Message)]
struct Parameter {
    #[prost(message, optional, tag = "1")]
    body: Option<BodyParameter>,
    #[prost(message, optional, tag = "2")]
    other: Option<NonBodyParameter>,
}

/// A parameter in a place other than the body.
#[derive(Clone, PartialEq, Message)]
struct NonBodyParameter {
    #[prost(message, optional, tag = "3")]
    query: Option<QueryParameter>,
    #[prost(message, optional, tag = "4")]
    path: Option<PathParameter>,
}

impl TryFrom<Value> for ParametersItem {
    type Error = serde_json::Error;

    fn try_from(parameter: Value) -> Result<Self, Self::Error> {
        let of = match parameter["in"].as_str().unwrap_or_default() {
            "body" => Parameter { body: Some(BodyParameter::deserialize(parameter)?), other: None },
            "query" => {
                let query = Some(QueryParameter::deserialize(parameter)?);
                Parameter { body: None, other: Some(NonBodyParameter { query, path: None }) }
            }
            "path" => {
                let path = Some(PathParameter::deserialize(parameter)?);
                Parameter { body: None, other: Some(NonBodyParameter { query: None, path }) }
            }
            place => {
                return Err(serde_json::Error::custom(format!("unknown place {place:?} of a parameter")));
            }
        };
        Ok(Self { parameter: of })
    }
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BodyParameter {
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    r#in: String,
    #[prost(bool, tag = "4")]
    required: bool,
    #[prost(message, optional, tag = "5")]
    schema: Option<Schema>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct QueryParameter {
    #[prost(bool, tag = "1")]
    required: bool,
    #[prost(string, tag = "2")]
    r#in: String,
    #[prost(string, tag = "4")]
    name: String,
    #[prost(string, tag = "6")]
    r#type: String,
    #[prost(bool, tag = "20")]
    unique_items: bool,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct PathParameter {
    #[prost(bool, tag = "1")]
    required: bool,
    #[prost(string, tag = "2")]
    r#in: String,
    #[prost(string, tag = "4")]
    name: String,
    #[prost(string, tag = "5")]
    r#type: String,
    #[prost(bool, tag = "19")]
    unique_items: bool,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(transparent)]
struct ResponseValue {
    #[prost(message, required, tag = "1")]
    response: Response,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Response {
    #[prost(string, tag = "1")]
    description: String,
    #[prost(message, optional, tag = "2")]
    schema: Option<SchemaItem>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(transparent)]
struct SchemaItem {
    #[prost(message, required, tag = "1")]
    schema: Schema,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Schema {
    #[prost(string, tag = "1")]
    #[serde(rename = "$ref")]
    reference: String,
    #[prost(string, tag = "2")]
    format: String,
    #[prost(string, tag = "3")]
    title: String,
    #[prost(string, tag = "4")]
    description: String,
    #[prost(double, tag = "6")]
    multiple_of: f64,
    #[prost(double, tag = "7")]
    maximum: f64,
    #[prost(bool, tag = "8")]
    exclusive_maximum: bool,
    #[prost(double, tag = "9")]
    minimum: f64,
    #[prost(bool, tag = "10")]
    exclusive_minimum: bool,
    #[prost(int64, tag = "11")]
    max_length: i64,
    #[prost(int64, tag = "12")]
    min_length: i64,
    #[prost(string, tag = "13")]
    pattern: String,
    #[prost(int64, tag = "14")]
    max_items: i64,
    #[prost(int64, tag = "15")]
    min_items: i64,
    #[prost(bool, tag = "16")]
    unique_items: bool,
    #[prost(int64, tag = "17")]
    max_properties: i64,
    #[prost(int64, tag = "18")]
    min_properties: i64,
    #[prost(string, repeated, tag = "19")]
    required: Vec<String>,
    #[prost(message, repeated, tag = "20")]
    r#enum: Vec<Any>,
    #[prost(message, optional, boxed, tag = "21")]
    additional_properties: Option<Box<AdditionalProperties>>,
    #[prost(message, optional, tag = "22")]
    r#type: Option<TypeItem>,
    #[prost(message, optional, tag = "23")]
    items: Option<ItemsItem>,
    #[prost(message, optional, tag = "25")]
    properties: Option<Entries<Schema>>,
    #[prost(message, optional, tag = "29")]
    external_docs: Option<ExternalDocs>,
    #[prost(message, optional, tag = "30")]
    example: Option<Any>,
    #[prost(message, repeated, tag = "31")]
    #[serde(flatten, deserialize_with = "extensions")]
    vendor_extension: Vec<Named<Any>>,
}

/// Whether other properties are allowed, or their schema.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(try_from = "Value")]
struct AdditionalProperties {
    #[prost(message, optional, tag = "1")]
    schema: Option<Schema>,
    #[prost(bool, optional, tag = "2")]
    boolean: Option<bool>,
}

impl TryFrom<Value> for AdditionalProperties {
    type Error = serde_json::Error;

    fn try_from(given: Value) -> Result<Self, Self::Error> {
        let boolean = given.as_bool();
        let schema = if boolean.is_some() { None } else { Some(Schema::deserialize(given)?) };
        Ok(Self { schema, boolean })
    }
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(from = "String")]
struct TypeItem {
    #[prost(string, repeated, tag = "1")]
    value: Vec<String>,
}

impl From<String> for TypeItem {
    fn from(only: String) -> Self {
        Self { value: vec![only] }
    }
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(from = "Schema")]
struct ItemsItem {
    #[prost(message, repeated, tag = "1")]
    schema: Vec<Schema>,
}

impl From<Schema> for ItemsItem {
    fn from(only: Schema) -> Self {
        Self { schema: vec![only] }
    }
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ExternalDocs {
    #[prost(string, tag = "1")]
    description: String,
    #[prost(string, tag = "2")]
    url: String,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(transparent)]
struct SecurityDefinition {
    #[prost(message, required, tag = "2")]
    api_key: ApiKeySecurity,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ApiKeySecurity {
    #[prost(string, tag = "1")]
    r#type: String,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    r#in: String,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(transparent)]
struct StringArray {
    #[prost(string, repeated, tag = "1")]
    value: Vec<String>,
}

/// Any value. Clients parse its text as YAML, which JSON is.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(from = "Value")]
struct Any {
    #[prost(string, tag = "2")]
    yaml: String,
}

impl From<Value> for Any {
    fn from(value: Value) -> Self {
        Self { yaml: value.to_string() }
    }
}

/// A message that holds an object with any keys and nothing else.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(transparent, bound(deserialize = "T: Deserialize<'de>"))]
struct Entries<T: Message + Default + Debug> {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "entries")]
    entries: Vec<Named<T>>,
}

/// An entry of an object with any keys. Unlike an entry of a map in protobuf, it has its value even if that is empty.
#[derive(Clone, PartialEq, Message)]
struct Named<T: Message + Default + Debug> {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, required, tag = "2")]
    value: T,
}

fn entries<'de, D, T>(deserializer: D) -> Result<Vec<Named<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Message + Default + Debug,
{
    let entries = BTreeMap::deserialize(deserializer)?;
    Ok(entries.into_iter().map(|(name, value)| Named { name, value }).collect())
}

/// Reads the remaining fields of an object, which must be extensions.
fn extensions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Named<Any>>, D::Error> {
    let extensions = entries(deserializer)?;
    match extensions.iter().find(|extension| !extension.name.starts_with("x-")) {
        Some(unknown) => Err(D::Error::custom(format!("unknown field {:?}", unknown.name))),
        None => Ok(extensions),
    }
}

#[cfg(test)]
mod tests;
