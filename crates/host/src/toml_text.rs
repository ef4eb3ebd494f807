//! Reading TOML that a person wrote: errors name the line, and suggest the right key.

use serde::de::DeserializeOwned;

use crate::suggest::{nearest, question};

/// What is wrong with a text: it is not TOML, or has an unknown key or a value of another type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct TomlError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// Parses a text.
///
/// # Errors
/// The error names the line, and keys that are similar to an unknown one.
pub fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T, TomlError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
        TomlError { line, reason: with_suggestion(error.message()) }
    })
}

/// The message of an error of TOML, in one line. Serde names the known keys after an unknown one.
fn with_suggestion(message: &str) -> String {
    let mut words = message.split('`').skip(1).step_by(2);
    let line = message.lines().next().unwrap_or_default();
    match words.next() {
        Some(key) if message.starts_with("unknown field") => {
            let known: Vec<&str> = words.collect();
            let meant = nearest(key, known.iter().copied());
            match meant.is_empty() {
                true => format!("unknown key {key}; valid keys: {}", known.join(", ")),
                false => format!("unknown key {key}{}", question(&meant)),
            }
        }
        _ => line.to_owned(),
    }
}
