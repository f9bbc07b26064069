//! The one error of this crate: a value that breaks a rule, and which field held it.

use thiserror::Error;

/// A value that cannot be what its field asks for.
///
/// The message is written for the person who sent it: what is wrong and what
/// would be right. It never repeats the value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// The field's name as the caller wrote it, such as `tokenBudget`.
    pub field: String,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

impl Invalid {
    /// Names a field and what is wrong with it.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }
}
