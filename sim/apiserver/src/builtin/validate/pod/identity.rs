//! User and group numbers of security contexts.

use serde_json::Value;

use crate::builtin::field::Path;
use crate::builtin::names;
use crate::builtin::view::integer;
use crate::cause::Cause;

const USER_ID_MAX: i64 = i32::MAX as i64;

/// Checks a user or group number.
pub(super) fn identity(context: &Value, field: &str, path: &Path, causes: &mut Vec<Cause>) {
    if let Some(id) = integer(context, field) {
        let path = path.child(field);
        causes.extend(names::in_range(id, 0, USER_ID_MAX).iter().map(|message| path.invalid(id, message)));
    }
}
