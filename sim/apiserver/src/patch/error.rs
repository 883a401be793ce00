//! The reasons for which a patch is refused.

/// Describes why a patch can't be applied; the text is the server's answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The body is not a patch: 400.
    #[error("{0}")]
    BadRequest(String),
    /// The patch does not match the object: 422.
    #[error("{0}")]
    Unprocessable(String),
    /// The patch has more operations than are allowed: 413.
    #[error("{0}")]
    TooLarge(String),
    /// The server fails on the patch: 500.
    #[error("{0}")]
    Internal(String),
}
