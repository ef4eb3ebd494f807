//! Keeps control characters out of what commands write.

use std::borrow::Cow;
use std::io::{self, Write};

use knee_host::text::{escape_json, for_terminal, plain};

use crate::writing::while_writing;

/// What a command writes. This determines what becomes of control characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Text for people and for simple formats. Control characters are replaced.
    Text,
    /// The same text for a file, without styles.
    Plain,
    /// JSON, in which control characters are escaped, so that programs read the original text.
    Json,
}

/// Replaces or escapes control characters, line by line. A line break never divides a character or a
/// style.
pub(crate) struct Filter<W> {
    pub(crate) out: W,
    content: Content,
    /// The beginning of a line.
    line: Vec<u8>,
}

impl<W: Write> Filter<W> {
    pub(crate) fn new(out: W, content: Content) -> Self {
        Self { out, content, line: Vec::new() }
    }

    fn write_line(&mut self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.line);
        let text: Cow<'_, str> = match self.content {
            Content::Text => for_terminal(&text),
            Content::Plain => plain(&text),
            Content::Json => escape_json(&text),
        };
        while_writing(|| self.out.write_all(text.as_bytes()))?;
        self.line.clear();
        Ok(())
    }
}

impl<W: Write> Write for Filter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (lines, rest) = bytes.split_at(end);
        if !lines.is_empty() {
            self.line.extend_from_slice(lines);
            self.write_line()?;
        }
        self.line.extend_from_slice(rest);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_line()?;
        while_writing(|| self.out.flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(content: Content, pieces: &[&[u8]]) -> String {
        let mut filter = Filter::new(Vec::new(), content);
        pieces.iter().for_each(|piece| filter.write_all(piece).unwrap());
        filter.flush().unwrap();
        String::from_utf8(filter.out).unwrap()
    }

    #[test]
    fn characters_and_styles_may_be_written_in_pieces() {
        let style = crate::present::style::BOLD.to_string();
        let (begin, end) = style.as_bytes().split_at(5);
        let pieces = [b"a\n" as &[u8], begin, end, b"\xc2", b"\x9bb\x1b[31m\n"];
        assert_eq!(filtered(Content::Text, &pieces), "a\n\x1b[1m\u{fffd}b\u{fffd}[31m\n");
        assert_eq!(filtered(Content::Json, &[b"\"\xe2\x80", b"\xaex\""]), "\"\\u202ex\"");
    }
}
