//! The scope of one request, and the options of writes.

use std::sync::Arc;

use serde_json::Value;

use super::meta;
use super::names::NameRule;
use super::registry::{Resource, Version};
use super::request::{Request, ResourcePath};
use super::status::{Status, quote};
use super::store;
use crate::cause::Cause;

/// The resource, version and object of a request.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) resource: Arc<Resource>,
    pub(super) version: usize,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) subresource: String,
}

impl Scope {
    pub(super) fn new(resource: Arc<Resource>, version: usize, path: ResourcePath) -> Self {
        let ResourcePath { namespace, name, subresource, .. } = path;
        Self { resource, version, namespace, name, subresource }
    }

    pub(super) fn version(&self) -> &Version {
        &self.resource.versions[self.version]
    }

    /// Returns the object's key in the store.
    pub(super) fn key(&self) -> String {
        store::key(&self.namespace, &self.name)
    }

    pub(super) fn not_found(&self) -> Status {
        Status::not_found(self.resource.qualified(), &self.name)
    }

    /// Returns the subresource as managed fields record it.
    pub(super) fn tracked_subresource(&self) -> Option<&str> {
        Some(self.subresource.as_str()).filter(|name| !name.is_empty())
    }

    /// Refuses a name in the path that is invalid for every object.
    pub(super) fn check_name_in_path(&self) -> Result<(), Status> {
        let problems = NameRule::PathSegment.check(&self.name, false);
        if problems.is_empty() {
            return Ok(());
        }
        let why = format!("Name parameter invalid: {}: {}", quote(&self.name), problems.join(";"));
        Err(Status::bad_request(why))
    }

    /// Refuses a body with another name than the path.
    pub(super) fn check_path_name(&self, object: &Value) -> Result<(), Status> {
        let name = meta::name(object);
        if name != self.name {
            return Err(Status::bad_request(if name.is_empty() {
                format!(
                    "the name of the object ({} based on URL) was undeterminable: name must be provided",
                    self.name
                )
            } else {
                format!("the name of the object ({name}) does not match the name on the URL ({})", self.name)
            }));
        }
        Ok(())
    }

    /// Refuses a body with another name or namespace than the path.
    pub(super) fn check_name(&self, object: &Value) -> Result<(), Status> {
        self.check_path_name(object)?;
        let namespace = meta::namespace(object);
        if self.resource.namespaced && !namespace.is_empty() && namespace != self.namespace {
            return Err(Status::bad_request(format!(
                "the namespace of the object ({namespace}) does not match the namespace on the request ({})",
                self.namespace
            )));
        }
        Ok(())
    }

    /// Sets the object's namespace to that of the request, or refuses another one.
    pub(super) fn settle_namespace(&self, object: &mut Value) -> Result<(), Status> {
        if !self.resource.namespaced {
            if !meta::namespace(object).is_empty() {
                meta::remove(object, "namespace");
            }
            return Ok(());
        }
        let found = meta::namespace(object);
        if found.is_empty() {
            meta::set(object, "namespace", self.namespace.clone());
        } else if found != self.namespace {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(())
    }
}

/// How unknown and duplicate fields are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Validation {
    Ignore,
    Warn,
    Strict,
}

/// The options of a write.
#[derive(Debug, Clone)]
pub(super) struct WriteOptions {
    pub(super) now: jiff::Timestamp,
    pub(super) dry_run: bool,
    pub(super) manager: String,
    pub(super) validation: Validation,
    pub(super) force: Option<bool>,
    /// The warnings of the answer.
    pub(super) warnings: Vec<String>,
}

impl WriteOptions {
    /// Parses the options; `kind` is the server's name for them, such as `CreateOptions`.
    pub(super) fn parse(request: &Request<'_>, kind: &str, now: jiff::Timestamp) -> Result<Self, Status> {
        let mut causes = Vec::new();
        let dry_run = dry_run(request.query.all("dryRun"), &mut causes);
        let validation = match request.query.text("fieldValidation") {
            "" | "Warn" => Validation::Warn,
            "Ignore" => Validation::Ignore,
            "Strict" => Validation::Strict,
            other => {
                causes.push(unsupported(
                    "fieldValidation",
                    &quote(other),
                    r#""", "Ignore", "Strict", "Warn""#,
                ));
                Validation::Warn
            }
        };
        let manager = request.field_manager();
        if manager.len() > 128 {
            causes.push(Cause {
                reason: "FieldValueTooLong",
                field: "fieldManager".to_owned(),
                message: "Too long: may not be more than 128 bytes".to_owned(),
            });
        }
        if let Some((position, c)) = manager.chars().enumerate().find(|(_, c)| c.is_control()) {
            let why = format!("invalid character U+{:04X} (at position {position})", u32::from(c));
            causes.push(super::validate::invalid("fieldManager", &quote(manager), &why));
        }
        if !causes.is_empty() {
            let kind = super::status::Qualified { group: "meta.k8s.io", name: kind };
            return Err(Status::invalid(kind, "", &causes));
        }
        Ok(Self {
            now,
            dry_run,
            manager: manager.to_owned(),
            validation,
            force: request.query.flag("force"),
            warnings: Vec::new(),
        })
    }

    /// Returns the options of a write by the server itself.
    pub(super) fn internal(manager: &str, now: jiff::Timestamp) -> Self {
        Self {
            now,
            dry_run: false,
            manager: manager.to_owned(),
            validation: Validation::Ignore,
            force: None,
            warnings: Vec::new(),
        }
    }
}

/// Parses `dryRun`; anything but `All` is a cause to refuse.
pub(super) fn dry_run<'a>(values: impl Iterator<Item = &'a str>, causes: &mut Vec<Cause>) -> bool {
    let values: Vec<&str> = values.collect();
    if values.iter().any(|value| *value != "All") {
        let list = Value::from(values.clone()).to_string();
        causes.push(unsupported("dryRun", &list, r#""All""#));
    }
    !values.is_empty()
}

fn unsupported(field: &str, value: &str, supported: &str) -> Cause {
    Cause {
        reason: "FieldValueNotSupported",
        field: field.to_owned(),
        message: format!("Unsupported value: {value}: supported values: {supported}"),
    }
}
