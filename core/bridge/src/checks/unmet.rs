//! Prerequisites that are not met.

/// A missing or invalid prerequisite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    /// What is wrong, on which object, and how to fix it.
    pub message: String,
    /// How it can be resolved.
    pub remedy: Resolution,
}

/// How an unmet prerequisite can be resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// The object may still appear.
    Retry,
    /// The input has to be changed.
    UserAction,
    /// Another Service has the requested address.
    FreeAddress,
}

impl Unmet {
    /// Returns a prerequisite that may still appear.
    pub fn wait(message: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: Resolution::Retry }
    }

    /// Returns a prerequisite that users have to change.
    pub fn user_action(message: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: Resolution::UserAction }
    }
}
