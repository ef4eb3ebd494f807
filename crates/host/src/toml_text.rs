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
        let reason = of_type(error.message(), text.lines().nth(line - 1).unwrap_or_default());
        TomlError { line, reason: reason.unwrap_or_else(|| with_suggestion(error.message())) }
    })
}

/// The message for a value of another type, or outside of its range, in this `line`, with its key and in the words
/// of TOML. `None` for other errors.
fn of_type(message: &str, line: &str) -> Option<String> {
    let message = message.lines().next()?;
    let rest =
        ["invalid type: ", "invalid value: "].iter().find_map(|start| message.strip_prefix(start));
    let (found, expected) = rest?.rsplit_once(", expected ")?;
    let line = line.trim();
    let is_array = line.starts_with("[[");
    let header = line.strip_prefix('[').map(|line| line.trim_start_matches('['));
    let header = header.and_then(|line| line.split(']').next());
    let key = header.or_else(|| Some(line.split_once('=')?.0)).unwrap_or_default();
    // Several keys on one line are those of an inline table.
    let has_one_key = header.is_some() || line.matches('=').count() == 1;
    let key = if has_one_key { format!("{}: ", key.trim()) } else { String::new() };
    let remedy = match (header, expected) {
        (Some(header), "a sequence") if !is_array => {
            format!("; write [[{header}]] instead of [{header}]")
        }
        _ => String::new(),
    };
    Some(format!("{key}expected {}, found {}{remedy}", type_name(expected), value(found)))
}

/// A value in the words of TOML. Serde writes ``integer `1` ``.
fn value(found: &str) -> String {
    let found = found.replace('`', "");
    let names = [
        ("string ", "the string "),
        ("integer ", "the integer "),
        ("floating point ", "the number "),
        ("boolean ", ""),
    ];
    let renamed = names
        .into_iter()
        .find_map(|(serde, name)| Some(format!("{name}{}", found.strip_prefix(serde)?)));
    match (renamed, found.as_str()) {
        (Some(renamed), _) => renamed,
        (None, "map") => "a table".to_owned(),
        (None, "sequence") => "an array".to_owned(),
        (None, _) => found,
    }
}

/// An expected type in the words of TOML.
fn type_name(expected: &str) -> &str {
    match expected {
        "a sequence" => "an array",
        "a map" => "a table",
        "a boolean" => "true or false",
        "f64" | "f32" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "an integer of at least 0",
        "i32" | "i64" => "an integer",
        nonzero if nonzero.starts_with("a nonzero u") => "an integer of at least 1",
        record if record.starts_with("struct ") => "a table",
        other => other,
    }
}

/// The message of an error of TOML, in one line. Serde names the known keys after an unknown one.
fn with_suggestion(message: &str) -> String {
    let mut words = message.split('`').skip(1).step_by(2);
    let line = message.lines().next().unwrap_or_default();
    match words.next() {
        Some(key) if message.starts_with("missing field") => format!("the key {key} is missing"),
        Some(unknown) if message.starts_with("unknown ") => {
            let what = if message.starts_with("unknown field") { "key" } else { "value" };
            let known: Vec<&str> = words.collect();
            let meant = nearest(unknown, known.iter().copied());
            match meant.is_empty() {
                true => format!("unknown {what} {unknown}; valid {what}s: {}", known.join(", ")),
                false => format!("unknown {what} {unknown}{}", question(&meant)),
            }
        }
        _ => line.to_owned(),
    }
}
