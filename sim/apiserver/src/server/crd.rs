//! Custom resource definitions: their content and their validation.

mod approval;
mod conversion;
pub(super) mod definition;
pub(super) mod rules;
mod version;
