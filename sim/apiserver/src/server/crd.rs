//! Custom resource definitions: their content and their validation.

pub(super) mod definition;
pub(super) mod rules;
