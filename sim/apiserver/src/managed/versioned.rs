//! An object in one of the versions of its kind.

use std::borrow::Cow;

use serde_json::Value;

use super::manager::Manager;
use super::typed;
use super::versions::Versions;
use crate::schema::Schema;
use crate::schema::node::At;

/// An object in one of the versions.
#[derive(Debug, Clone)]
pub(super) struct Versioned<'a> {
    pub(super) object: Cow<'a, Value>,
    pub(super) schema: &'a Schema,
    pub(super) api_version: Cow<'a, str>,
    pub(super) reset: &'static [&'static str],
}

impl<'a> Versioned<'a> {
    /// Returns an object in the version of the manager's request.
    pub(super) fn of_request(schema: &'a Schema, object: Cow<'a, Value>, manager: Manager<'a>) -> Self {
        Self { object, schema, api_version: Cow::Borrowed(manager.api_version), reset: manager.reset }
    }

    /// Returns another object of the same version.
    pub(super) fn with(&self, object: Value) -> Self {
        let Self { schema, reset, .. } = *self;
        Self { object: Cow::Owned(object), schema, api_version: self.api_version.clone(), reset }
    }

    pub(super) fn root(&self) -> At<'a> {
        self.schema.root()
    }

    /// Returns the object in another version, or none if there is no such version.
    ///
    /// # Errors
    /// If the object can't be converted, or does not match the type of the other version: a conversion changes no fields.
    pub(super) fn to(
        &self,
        api_version: &str,
        versions: &'a dyn Versions,
    ) -> Result<Option<Versioned<'a>>, String> {
        if self.api_version == api_version {
            return Ok(Some(self.clone()));
        }
        let Some(converted) = versions.convert(&self.object, &self.api_version, api_version)? else {
            return Ok(None);
        };
        typed::check(converted.schema.root(), &converted.object, false)?;
        Ok(Some(Self {
            object: Cow::Owned(converted.object),
            schema: converted.schema,
            api_version: Cow::Owned(api_version.to_owned()),
            reset: converted.reset,
        }))
    }
}
