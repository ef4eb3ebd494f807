//! Texts with escape sequences.

/// A text with an escape sequence or placeholder that has no meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{sequence} has no meaning; knee knows \\r, \\n, \\t, \\0, \\\\, \\xHH, {{random:N}} and {{number}}; for a brace, \
     write \\x7b"
)]
pub struct TextError {
    /// The sequence.
    pub sequence: String,
}

/// The bytes that `text` stands for.
pub(crate) fn bytes(text: &str) -> Result<Vec<u8>, TextError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let (byte, length) = match after.as_bytes().first() {
            Some(b'r') => (b'\r', 1),
            Some(b'n') => (b'\n', 1),
            Some(b't') => (b'\t', 1),
            Some(b'0') => (0, 1),
            Some(b'\\') => (b'\\', 1),
            Some(b'x') => {
                let digits = after.get(1..3).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
                let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                (byte.ok_or_else(|| unknown(after))?, 3)
            }
            _ => return Err(unknown(after)),
        };
        bytes.push(byte);
        rest = &after[length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

fn unknown(after: &str) -> TextError {
    let shown = if after.starts_with('x') { 3 } else { 1 };
    TextError { sequence: format!("\\{}", after.chars().take(shown).collect::<String>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_bytes() {
        assert_eq!(bytes(r"a\r\n\t\0\\\x7f\xFF").unwrap(), b"a\r\n\t\0\\\x7f\xff");
        for (text, sequence) in
            [(r"\q", r"\q"), (r"a\", r"\"), (r"\x1", r"\x1"), (r"\xzz", r"\xzz")]
        {
            assert_eq!(bytes(text).unwrap_err().sequence, sequence);
        }
    }

    proptest::proptest! {
        #[test]
        fn text_without_a_backslash_is_its_own_bytes(text in "[^\\\\]*") {
            proptest::prop_assert_eq!(bytes(&text).unwrap(), text.as_bytes());
        }
    }
}
