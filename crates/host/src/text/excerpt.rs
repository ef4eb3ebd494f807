//! Shortens messages that quote input.

use std::borrow::Cow;

/// Maximum length of a quotation that stays whole, in characters: that of most commands and paths.
const MAX_WHOLE: usize = 200;
/// The kept beginning of a longer quotation.
const KEPT: usize = 80;
/// Maximum length of a message, in characters: a page of text.
const MAX_MESSAGE: usize = 8_000;

/// A message in which long quotations, in `"` or in backticks, are cut to 80 characters. A damaged file
/// may have a single line of many megabytes, and errors quote it.
pub fn excerpt(message: &str) -> Cow<'_, str> {
    if message.len() <= MAX_WHOLE {
        return message.into();
    }
    let mut text = String::new();
    let mut rest = message;
    while let Some((before, quote, quoted, after)) = first_quotation(rest) {
        text.push_str(before);
        text.push(quote);
        match quoted.char_indices().nth(MAX_WHOLE) {
            None => text.push_str(quoted),
            Some(_) => text.push_str(&cut(quoted, KEPT)),
        }
        text.push(quote);
        rest = after;
    }
    text.push_str(rest);
    cut(&text, MAX_MESSAGE).into_owned().into()
}

/// The text before the first quotation, the quotation mark, the quotation, and the text after it.
fn first_quotation(text: &str) -> Option<(&str, char, &str, &str)> {
    let begin = text.find(['"', '`'])?;
    let (before, quoted) = text.split_at(begin);
    let quote = quoted.chars().next()?;
    let quoted = &quoted[1..];
    let mut is_escaped = false;
    let is_end = |c: char| {
        let is_end = c == quote && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    };
    let end = quoted.find(is_end)?;
    Some((before, quote, &quoted[..end], &quoted[end + 1..]))
}

/// The first `characters` of a text, followed by `…` if it has more.
pub fn cut(text: &str, characters: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters) {
        None => text.into(),
        Some((end, _)) => format!("{}…", &text[..end]).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_quotations_are_cut() {
        let cell = "x\"`é".repeat(1_000_000);
        let message = format!("a.csv:2: {cell:?} is not a rate; see `help`");
        let short = excerpt(&message);
        let begin = format!("a.csv:2: \"{}", r#"x\"`é"#.repeat(16));
        assert_eq!(short, format!("{begin}…\" is not a rate; see `help`"));
        let command = format!("continue with `{}`", "a".repeat(MAX_WHOLE));
        assert_eq!(excerpt(&command), command);
    }

    #[test]
    fn a_message_without_quotations_is_cut_to_a_page() {
        let message = format!("invalid line: \"{}", "é".repeat(100_000));
        assert_eq!(excerpt(&message).chars().count(), MAX_MESSAGE + 1);
    }
}
