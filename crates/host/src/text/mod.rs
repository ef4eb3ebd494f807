//! Text for people: tables and paragraphs that fit a terminal.

mod ascii;
mod control;
mod excerpt;
mod list;
mod markdown;
mod style;
mod table;

use std::os::fd::BorrowedFd;

pub use self::ascii::to_ascii;
pub use self::control::{
    clean, escape_json, for_terminal, one_line, original, plain, visible_newlines,
};
pub use self::excerpt::{cut, excerpt};
pub use self::list::and_list;
pub use self::markdown::{code, markdown};
pub use self::style::Style;
pub use self::table::{Cell, Column, Table, UNKNOWN};

/// Narrowest text column: below this, lines overflow the terminal rather than become unreadable.
const NARROWEST: usize = 20;

/// What the reader's screen can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Columns; `None` without a limit, as for a pipe or a file.
    pub width: Option<usize>,
    /// Whether it shows ASCII only, as in the C locale.
    pub is_ascii: bool,
}

impl Screen {
    /// A page or a file: Unicode, of any width.
    pub const UNLIMITED: Self = Self { width: None, is_ascii: false };

    /// The screen behind standard output: the width of the terminal or of `COLUMNS` (POSIX.1-2024,
    /// XBD 8.3), and the character set of the locale (`LC_ALL`, `LC_CTYPE`, `LANG`, in this order).
    pub fn of_stdout() -> Self {
        let columns = variable("COLUMNS").and_then(|text| text.parse().ok());
        Self::of_locale(columns.or_else(|| terminal_width(rustix::stdio::stdout())))
    }

    /// The screen behind standard error, for messages. `COLUMNS` does not change their width, because
    /// it is often set for standard output alone.
    pub fn of_stderr() -> Self {
        Self::of_locale(terminal_width(rustix::stdio::stderr()))
    }

    fn of_locale(width: Option<usize>) -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable);
        Self { width: width.filter(|width| *width > 0), is_ascii: !is_unicode(locale.as_deref()) }
    }

    /// `text` with each line wrapped between words. The rest of a line is indented like its start, and
    /// by `indent` beyond that. ANSI escape sequences take no columns. A word longer than a line stays whole, so
    /// that paths and commands can be copied. Blanks that are not ASCII, which could pad a word so that the rest of it
    /// begins at the start of a line, become spaces.
    pub fn wrap(&self, text: &str, indent: &str) -> String {
        let text = if self.is_ascii { to_ascii(text) } else { text.into() };
        let Some(width) = self.width else { return text.into_owned() };
        if text.lines().all(|line| textwrap::core::display_width(line) <= width) {
            return text.into_owned();
        }
        let text = text.replace(is_wide_blank, " ");
        let mut options = textwrap::Options::new(width)
            .word_splitter(textwrap::WordSplitter::NoHyphenation)
            .word_separator(textwrap::WordSeparator::AsciiSpace)
            .break_words(false);
        let mut wrapped = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            let start = line.len() - line.trim_start_matches(' ').len();
            let indent = format!("{:start$}{indent}", "");
            options.width = width.max(indent.len() + NARROWEST);
            let options = options.clone().subsequent_indent(&indent);
            wrapped.push_str(&textwrap::wrap(line, &options).join("\n"));
            wrapped.push_str(end);
        }
        wrapped
    }
}

/// Whether a character other than a space or a control character is blank on a screen.
fn is_wide_blank(character: char) -> bool {
    let is_space = character.is_whitespace() && !character.is_ascii();
    // Blank letters of Hangul and Braille.
    is_space || matches!(character, '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}')
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Columns of a terminal; `None` for anything else.
fn terminal_width(stream: BorrowedFd<'_>) -> Option<usize> {
    Some(rustix::termios::tcgetwinsize(stream).ok()?.ws_col.into())
}

/// Whether a locale such as `en_GB.UTF-8` uses Unicode. Without a locale, C is used.
fn is_unicode(locale: Option<&str>) -> bool {
    let locale = locale.unwrap_or("C").to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(width: usize) -> Screen {
        Screen { width: Some(width), is_ascii: false }
    }

    #[test]
    fn the_locale_decides_between_unicode_and_ascii() {
        for unicode in ["C.UTF-8", "en_GB.utf8", "de_DE.UTF-8@euro"] {
            assert!(is_unicode(Some(unicode)), "{unicode}");
        }
        for ascii in [None, Some("C"), Some("POSIX"), Some("de_DE.ISO-8859-1")] {
            assert!(!is_unicode(ascii), "{ascii:?}");
        }
    }

    #[test]
    fn a_paragraph_is_wrapped_between_words_with_a_hanging_indent() {
        let text = "note  a sentence that is too long for one line of a terminal\nshort\n";
        assert_eq!(
            screen(30).wrap(text, "      "),
            "note  a sentence that is too\n      long for one line of a\n      terminal\nshort\n"
        );
        assert_eq!(
            screen(30).wrap("    four in, and more words", "  "),
            "    four in, and more words"
        );
        assert_eq!(
            screen(30).wrap("    four in, and many more words", "  "),
            "    four in, and many more\n      words"
        );
        assert_eq!(Screen::UNLIMITED.wrap(text, "      "), text);
    }

    #[test]
    fn blanks_in_a_word_do_not_pad_it_to_the_next_line() {
        for blank in ['\u{a0}', '\u{2003}', '\u{2800}', '\u{3164}'] {
            let blank = String::from(blank);
            let text = format!("note  ok{}note{blank}0{blank}slower", blank.repeat(12));
            let wrapped = screen(20).wrap(&text, "      ");
            assert!(wrapped.lines().skip(1).all(|line| line.starts_with("      ")), "{wrapped}");
        }
    }

    #[test]
    fn colours_take_no_columns_and_long_words_are_kept_whole() {
        let text = "\x1b[2mnote\x1b[0m /a/very/long/path/that/does/not/fit.json is broken";
        let wrapped = screen(20).wrap(text, "");
        assert_eq!(
            wrapped,
            "\x1b[2mnote\x1b[0m\n/a/very/long/path/that/does/not/fit.json\nis broken"
        );
        let fits = "\x1b[2mtwelve chars\x1b[0m";
        assert_eq!(screen(12).wrap(fits, ""), fits);
    }
}
