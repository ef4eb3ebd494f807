//! Styles of text, which other text cannot imitate.
//!
//! Names and messages from files, programs and guests may contain escape sequences. knee therefore
//! adds a random number to the escape sequences of its own styles: `ESC [ 1 ; NUMBER m`. The number
//! differs between processes and is never printed, because [`for_terminal`](super::for_terminal) and
//! [`plain`](super::plain) remove it. All escape sequences without the number are from elsewhere.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

/// The parameter of the sequence that ends a style.
const RESET: &str = "0";

/// What ends each sequence of this process: the random number and the final byte.
static SIGNATURE: LazyLock<String> =
    LazyLock::new(|| format!("{}m", RandomState::new().build_hasher().finish()));

/// A style of text on a terminal. `{}` begins it, and `{:#}` ends it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style(Option<&'static str>);

impl Style {
    /// No style.
    pub const PLAIN: Self = Self(None);
    /// Bold.
    pub const BOLD: Self = Self(Some("1"));
    /// Less intense.
    pub const DIM: Self = Self(Some("2"));
    /// Red.
    pub const RED: Self = Self(Some("31"));
    /// Green.
    pub const GREEN: Self = Self(Some("32"));
    /// Yellow.
    pub const YELLOW: Self = Self(Some("33"));
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(parameter) = self.0 else { return Ok(()) };
        let parameter = if f.alternate() { RESET } else { parameter };
        write!(f, "\x1b[{parameter};{}", *SIGNATURE)
    }
}

/// The parameter and the length of the sequence at the start of `text`, if it is one of a [`Style`].
pub(super) fn own_sequence(text: &str) -> Option<(&str, usize)> {
    let rest = text.strip_prefix("\x1b[")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    let (parameter, rest) = rest.split_at(digits);
    let rest = rest.strip_prefix(';')?.strip_prefix(SIGNATURE.as_str())?;
    Some((parameter, text.len() - rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sequence_with_the_number_of_this_process_is_a_style() {
        let text = format!("{}bold{:#}", Style::BOLD, Style::BOLD);
        let (parameter, length) = own_sequence(&text).unwrap();
        assert_eq!((parameter, &text[length..length + 4]), ("1", "bold"));
        assert_eq!(own_sequence(&text[length + 4..]), Some(("0", length)));
        for foreign in ["", "\x1b", "\x1b[", "\x1b[1m", "\x1b[1;m", "\x1b[1;0m", "\x1b]0;x\x07"] {
            assert_eq!(own_sequence(foreign), None, "{foreign:?}");
        }
        assert_eq!(Style::PLAIN.to_string(), "");
    }
}
