//! The writers of an object.

use super::versions::Versions;

/// The writer, and the time of the write.
#[derive(Debug, Clone, Copy)]
pub struct Manager<'a> {
    /// The field manager's name.
    pub name: &'a str,
    /// The API version of the request.
    pub api_version: &'a str,
    /// The subresource of the write, if any.
    pub subresource: Option<&'a str>,
    /// The fields (`spec`, `metadata.labels`) that the endpoint never changes, and so never owns.
    pub reset: &'static [&'static str],
    /// The versions of the kind, in which other managers own fields.
    pub versions: &'a dyn Versions,
    /// The wall time as an RFC 3339 string in whole seconds.
    pub time: &'a str,
}
