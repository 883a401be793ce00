//! Usage errors, which have an exit code of their own.

/// A usage error that clap can't detect.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Misuse(pub(super) String);

impl Misuse {
    /// Combines an error and its causes into one.
    pub(super) fn of(error: impl Into<anyhow::Error>) -> anyhow::Error {
        Self(format!("{:#}", error.into())).into()
    }
}
