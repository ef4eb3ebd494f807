//! Characters that control a terminal or the direction of text.
//!
//! Names and messages from files, programs and guests may contain such characters. On a terminal,
//! they could hide or imitate output, change the window title or send keystrokes. knee therefore
//! replaces them wherever it prints.
//!
//! A newline in a name could add a line to the output, and a tab could add a column. When text is printed, they
//! look like the newlines and tabs of knee's own layout. knee therefore marks them when it reads the name.

use std::borrow::Cow;
use std::fmt::Write;

use super::style::own_sequence;

/// Mark a newline and a tab that are part of a name or a message. Unicode reserves these noncharacters
/// for use within a program.
const NEWLINE: char = '\u{fdd0}';
const TAB: char = '\u{fdd1}';

/// A name or a message with its newlines and tabs marked, so that [`clean`], [`for_terminal`] and
/// [`plain`] write spaces for them, and [`escape_json`] writes `\n` and `\t`.
pub fn one_line(text: &str) -> Cow<'_, str> {
    match text.contains(['\n', '\t']) {
        true => text.chars().map(marked).collect::<String>().into(),
        false => text.into(),
    }
}

fn marked(character: char) -> char {
    match character {
        '\n' => NEWLINE,
        '\t' => TAB,
        other => other,
    }
}

/// The text from which [`one_line`] made this one.
pub fn original(text: &str) -> Cow<'_, str> {
    match text.contains([NEWLINE, TAB]) {
        true => text.replace(NEWLINE, "\n").replace(TAB, "\t").into(),
        false => text.into(),
    }
}

/// Text with `\n` for its newlines, marked or not. In a command, a newline ends a comment, and a space does not.
pub fn visible_newlines(text: &str) -> Cow<'_, str> {
    match text.contains(['\n', NEWLINE]) {
        true => text.replace(['\n', NEWLINE], "\\n").into(),
        false => text.into(),
    }
}

/// Whether text must not contain this character: a control character other than newline and tab, a
/// control of the direction of text (Unicode Standard Annex #9), a separator of lines, a character without
/// width, with which different names look the same, a noncharacter that XML forbids, or a marked newline or tab.
fn is_control(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' => true,
        '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' => true,
        '\u{fffe}' | '\u{ffff}' | NEWLINE | TAB => true,
        other => other.is_control(),
    }
}

/// Text with `�` instead of control characters, and with spaces for what [`one_line`] marked. Keeps each
/// [`Style`](super::Style) for [`for_terminal`] or [`plain`].
pub fn clean(text: &str) -> Cow<'_, str> {
    replaced(text, |clean, style, _| clean.push_str(style))
}

/// Text for a terminal: with the escape sequences of each [`Style`](super::Style), and with `�`
/// instead of other control characters.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    replaced(text, |clean, _, parameter| {
        let _ = write!(clean, "\x1b[{parameter}m");
    })
}

/// Text for a file: without any [`Style`](super::Style), and with `�` instead of control characters.
pub fn plain(text: &str) -> Cow<'_, str> {
    replaced(text, |_, _, _| ())
}

/// JSON with escape sequences for the control characters that JSON permits in strings.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_control) {
        return json.into();
    }
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            NEWLINE => escaped.push_str("\\n"),
            TAB => escaped.push_str("\\t"),
            _ if is_control(character) => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(character));
            }
            _ => escaped.push(character),
        }
    }
    escaped.into()
}

/// `text` with `�` instead of control characters. Calls `style` for each sequence of a style, with
/// the sequence and its parameter.
fn replaced(text: &str, style: impl Fn(&mut String, &str, &str)) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return text.into();
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_control) {
        clean.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match own_sequence(rest) {
            Some((parameter, length)) => {
                style(&mut clean, &rest[..length], parameter);
                length
            }
            None => {
                let character = rest.chars().next().unwrap_or_default();
                let is_space = matches!(character, NEWLINE | TAB);
                clean.push(if is_space { ' ' } else { char::REPLACEMENT_CHARACTER });
                character.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    clean.push_str(rest);
    clean.into()
}

#[cfg(test)]
mod tests {
    use super::super::Style;
    use super::*;

    const HOSTILE: &str = "a\x1b[31mb\x07\0\r\x7f\u{9b}\u{202e}\u{2066}\u{200f}\u{61c}\u{ffff}c";

    #[test]
    fn control_characters_are_replaced_and_styles_are_kept() {
        let text = format!("{}{HOSTILE}{:#}\t\n", Style::DIM, Style::DIM);
        let harmless = "a�[31mb����������c";
        assert_eq!(for_terminal(&text), format!("\x1b[2m{harmless}\x1b[0m\t\n"));
        assert_eq!(plain(&text), format!("{harmless}\t\n"));
        assert_eq!(for_terminal(&clean(&text)), for_terminal(&text));
    }

    #[test]
    fn newlines_and_tabs_of_a_name_become_spaces_in_text_and_stay_in_json() {
        let name = "a\n0 slower\tb";
        let marked = one_line(name);
        let line = format!("{marked}\tours\n");
        for text in [plain(&line), for_terminal(&line), clean(&line)] {
            assert_eq!(text, "a 0 slower b\tours\n");
        }
        assert_eq!(original(&marked), name);
        let json = serde_json::to_string(&*marked).unwrap();
        assert_eq!(escape_json(&json), serde_json::to_string(name).unwrap());
        assert!(matches!(one_line("mmap1"), Cow::Borrowed("mmap1")));
        assert!(matches!(original("mmap1"), Cow::Borrowed("mmap1")));
    }

    #[test]
    fn line_separators_and_characters_without_width_are_replaced() {
        assert_eq!(plain("mmap1\u{200b}\u{2028}a\u{2029}\u{feff}b\u{ad}"), "mmap1��a��b�");
        assert_eq!(escape_json("\"a\u{200b}\""), "\"a\\u200b\"");
    }

    #[test]
    fn a_newline_in_a_command_is_visible() {
        let command = "# a comment\ntouch file";
        for text in [command, &one_line(command)] {
            assert_eq!(visible_newlines(text), "# a comment\\ntouch file");
        }
    }

    #[test]
    fn other_text_is_unchanged() {
        for text in ["", "mmap1 ×2 Größe\n", "日本語\t"] {
            assert!(matches!(for_terminal(text), Cow::Borrowed(same) if same == text));
            assert!(matches!(escape_json(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn escaped_json_has_the_same_meaning() {
        let json = serde_json::to_string_pretty(&[HOSTILE, "�"]).unwrap();
        let escaped = escape_json(&json);
        assert!(!escaped.contains(is_control) && json.contains(is_control), "{escaped:?}");
        let read: Vec<String> = serde_json::from_str(&escaped).unwrap();
        assert_eq!(read, [HOSTILE, "�"]);
    }
}
