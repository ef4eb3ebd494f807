//! What is wrong with JSON text, in words for people who did not write the text.

use serde_json::error::Category;

/// What is wrong with `what`: `the line is cut off`, `the line is not JSON (column 3)`, or what is
/// wrong with its content.
pub fn fault(what: &str, error: &serde_json::Error) -> String {
    let (text, column) = (error.to_string(), error.column());
    let place = format!(" at line {} column {column}", error.line());
    let reason = text.strip_suffix(&place).unwrap_or(&text);
    let at = if column > 0 { format!(" (column {column})") } else { String::new() };
    match error.classify() {
        Category::Eof => format!("{what} is cut off"),
        // A number that is too large is JSON.
        Category::Syntax if !reason.starts_with("number") => format!("{what} is not JSON{at}"),
        _ => format!("{reason}{at}"),
    }
}

/// The same for a file, with the line.
pub fn fault_in_file(error: &serde_json::Error) -> String {
    let fault = fault("the file", error);
    // An error about a value that has already been parsed has no line.
    if error.line() == 0 { fault } else { format!("line {}: {fault}", error.line()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        fault("the line", &serde_json::from_str::<Vec<u8>>(text).unwrap_err())
    }

    #[test]
    fn cut_text_other_text_and_other_content_are_distinguished() {
        for cut in ["", "[1", "[1,"] {
            assert_eq!(of(cut), "the line is cut off", "{cut}");
        }
        assert_eq!(of("\0\0"), "the line is not JSON (column 1)");
        assert_eq!(of("[NaN]"), "the line is not JSON (column 2)");
        assert!(of("[300]").starts_with("invalid value"), "{}", of("[300]"));
        assert!(of("[1e999]").starts_with("number out of range"), "{}", of("[1e999]"));
        let error = serde_json::from_str::<Vec<u8>>("[1,\n2").unwrap_err();
        assert_eq!(fault_in_file(&error), "line 2: the file is cut off");
    }
}
