//! Tests of the document in protobuf. That gnostic reads it as well is a test of the clients (`tests/tests/clients.rs`).

use bytes::Bytes;
use serde_json::json;

use super::*;
use crate::server::{ApiServer, Options, Response};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Returns a server with a CRD of Gears with this schema of `spec`.
fn server(spec: &Value) -> ApiServer {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gears.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gears", "kind": "Gear"}, "versions": [version],
        },
    });
    let mut server = ApiServer::new(&Options::default());
    let created = send(&mut server, http::Request::post(CRDS), &definition.to_string());
    assert_eq!(created.status(), 201, "{:?}", created.body());
    server
}

fn send(server: &mut ApiServer, request: http::request::Builder, body: &str) -> http::Response<Bytes> {
    let request =
        request.header("content-type", "application/json").body(Bytes::from(body.to_owned())).unwrap();
    match server.handle(&request, Options::default().start) {
        Response::Complete(response) => response,
        Response::Watch(..) => panic!("a watch"),
    }
}

fn get(server: &mut ApiServer, accept: &str, known: &str) -> http::Response<Bytes> {
    let request = http::Request::get("/openapi/v2").header("accept", accept).header("if-none-match", known);
    send(server, request, "")
}

fn header<'a>(response: &'a http::Response<Bytes>, name: &str) -> &'a str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Returns the schema of a property of the `spec` of Gears.
fn property<'a>(document: &'a Document, name: &str) -> &'a Schema {
    let gear = find(document.definitions.as_ref().unwrap(), "com.example.v1.Gear");
    find(find(gear.properties.as_ref().unwrap(), "spec").properties.as_ref().unwrap(), name)
}

#[track_caller]
fn find<'a, T: Message + Default + Debug>(entries: &'a Entries<T>, name: &str) -> &'a T {
    &entries.entries.iter().find(|entry| entry.name == name).unwrap_or_else(|| panic!("no {name}")).value
}

#[test]
fn fields_have_the_numbers_of_gnostic() {
    let document = json!({"swagger": "2.0", "definitions": {"A": {"type": "string", "x-b": ["c"]}, "B": {}}});
    let expected = [
        &b"\x0a\x032.0"[..],
        // `definitions` has two entries of a name and a schema.
        b"\x4a\x2a",
        b"\x0a\x21\x0a\x01A\x12\x1c",
        // `type` has a list of types.
        b"\xb2\x01\x08\x0a\x06string",
        // `vendor_extension` has a name and a text of YAML.
        b"\xfa\x01\x0e\x0a\x03x-b\x12\x07\x12\x05[\"c\"]",
        // An empty schema is not absent.
        b"\x0a\x05\x0a\x01B\x12\x00",
    ];
    assert_eq!(encode(&document).unwrap(), expected.concat());
}

#[test]
fn all_keywords_of_crds_are_encoded() {
    let mut server = server(&json!({
        "type": "object", "required": ["text"], "maxProperties": 40, "minProperties": 1,
        "x-kubernetes-validations": [{"rule": "self.size > 1", "message": "too small"}],
        "properties": {
            "text": {
                "type": "string", "title": "T", "description": "D", "format": "hostname", "pattern": "^a", "minLength": 1,
                "maxLength": 9, "enum": ["a", "true"], "default": "a", "example": "a",
                "externalDocs": {"url": "https://example.com", "description": "more"},
            },
            "size": {
                "type": "number", "minimum": 1, "maximum": 9.5, "exclusiveMinimum": true, "exclusiveMaximum": true,
                "multipleOf": 0.5,
            },
            "list": {
                "type": "array", "minItems": 1, "maxItems": 3, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
            },
            "map": {"type": "object", "additionalProperties": {"type": "integer", "format": "int64"}},
            "any": {"type": "object", "additionalProperties": true},
            "atom": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "boolean"}}},
            "nullable": {"type": "string", "nullable": true},
            "either": {"x-kubernetes-int-or-string": true},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
            "choice": {"type": "string", "anyOf": [{"pattern": "^a"}, {"maxLength": 1}], "not": {"pattern": "z"}},
        },
    }));

    let response = get(&mut server, PROTOBUF, "");

    assert_eq!(response.status(), 200, "{:?}", String::from_utf8_lossy(response.body()));
    let document = Document::decode(response.into_body()).unwrap();
    let text = property(&document, "text");
    assert_eq!((text.title.as_str(), text.max_length, text.example.is_some()), ("T", 9, true));
    let choices: Vec<&str> = text.r#enum.iter().map(|choice| choice.yaml.as_str()).collect();
    assert_eq!(choices, [r#""a""#, r#""true""#]);
    let size = property(&document, "size");
    assert_eq!((size.minimum, size.maximum, size.exclusive_maximum, size.multiple_of), (1.0, 9.5, true, 0.5));
    let list = property(&document, "list");
    assert_eq!(list.items.as_ref().unwrap().schema[0].required, ["name"]);
    assert_eq!(list.vendor_extension[0].name, "x-kubernetes-list-map-keys");
    let extra = |name| property(&document, name).additional_properties.as_ref().unwrap();
    assert_eq!(extra("map").schema.as_ref().unwrap().format, "int64");
    assert_eq!((&extra("any").schema, extra("any").boolean), (&None, Some(true)));
    assert_eq!(property(&document, "nullable"), &Schema::default());
    let gear = find(document.definitions.as_ref().unwrap(), "com.example.v1.Gear");
    let kind = &gear.vendor_extension[0];
    assert_eq!(kind.name, "x-kubernetes-group-version-kind");
    assert_eq!(kind.value.yaml, r#"[{"group":"example.com","kind":"Gear","version":"v1"}]"#);
    let paths = &document.paths.as_ref().unwrap().path;
    let path = "/apis/example.com/v1/namespaces/{namespace}/gears/{name}";
    let item = &paths.iter().find(|entry| entry.name == path).unwrap().value;
    let patch = item.patch.as_ref().unwrap();
    assert_eq!(patch.id, "patchExampleComV1NamespacedGear");
    assert_eq!(patch.consumes.len(), 3);
    let query = patch.parameters.iter().filter_map(|item| item.parameter.other.as_ref()?.query.as_ref());
    assert!(query.into_iter().any(|query| query.name == "fieldValidation"));
}

#[test]
fn the_deepest_schema_is_encoded() {
    let mut spec = json!({"type": "string", "title": "deepest"});
    for _ in 0..50 {
        spec = json!({"type": "object", "properties": {"a": spec}});
    }
    let mut server = server(&spec);

    let response = get(&mut server, PROTOBUF, "");

    assert_eq!(response.status(), 200);
    // prost itself decodes fewer levels.
    assert!(response.body().windows(7).any(|bytes| bytes == b"deepest"));
}

#[test]
fn a_client_keeps_the_document_until_it_changes() {
    let mut server = server(&json!({"type": "object"}));
    let json = get(&mut server, "application/json", "");
    let tag = header(&json, "etag").to_owned();
    for media_type in ["application/json", PROTOBUF] {
        let whole = get(&mut server, media_type, "\"other\"");
        assert_eq!((whole.status().as_u16(), header(&whole, "content-type")), (200, media_type));
        assert_eq!((header(&whole, "etag"), header(&whole, "vary")), (tag.as_str(), "Accept"));
        assert!(!whole.body().is_empty());
        for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
            let kept = get(&mut server, media_type, &known);
            assert_eq!((kept.status().as_u16(), kept.body().len()), (304, 0), "{known}");
            assert_eq!((header(&kept, "etag"), header(&kept, "vary")), (tag.as_str(), "Accept"));
        }
    }
    let refused = get(&mut server, "text/plain", "");
    assert_eq!((refused.status().as_u16(), header(&refused, "vary")), (406, "Accept"));

    let deleted = send(&mut server, http::Request::delete(format!("{CRDS}/gears.example.com")), "");
    assert_eq!(deleted.status(), 200);

    assert_eq!(get(&mut server, PROTOBUF, &tag).status(), 200);
}
