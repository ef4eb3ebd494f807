//! Standard output. Control characters in names and messages do not reach it.

use std::borrow::Cow;
use std::io::{self, BufWriter, ErrorKind, Write};

use anyhow::Context;
use knee_host::text::{Screen, Table, escape_json, for_terminal, plain};
use serde::Serialize;

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

/// Writes text, but does not wrap it.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    write_with(Content::Text, |out| Ok(out.write_all(text.as_bytes())?))
}

/// Writes text for people, wrapped to fit the terminal. Writes ASCII in a C locale.
pub(crate) fn show(text: &str) -> anyhow::Result<()> {
    print(&Screen::of_stdout().wrap(text, "  "))
}

/// Writes a table that fits the terminal.
pub(crate) fn show_table(table: &Table) -> anyhow::Result<()> {
    print(&table.render(&Screen::of_stdout()))
}

/// Writes the text of a JSON document.
pub(crate) fn print_json_text(json: &str) -> anyhow::Result<()> {
    write_with(Content::Json, |out| Ok(out.write_all(json.as_bytes())?))
}

/// Writes a JSON document.
pub(crate) fn print_json(document: &impl Serialize) -> anyhow::Result<()> {
    print_json_text(&(serde_json::to_string_pretty(document)? + "\n"))
}

/// Writes the text of a JSON document, or text for people as [`show`] does.
pub(crate) fn print_or_show(is_json: bool, text: &str) -> anyhow::Result<()> {
    if is_json { print_json_text(text) } else { show(text) }
}

/// Writes a binary file unchanged.
pub(crate) fn print_binary(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let written = while_writing(|| out.write_all(bytes).and_then(|()| out.flush()));
    settled(written.map_err(Into::into))
}

/// Standard output for lines that are written one by one. The caller flushes it.
pub(crate) fn stream(content: Content) -> impl Write {
    Filter::new(std::io::stdout().lock(), content)
}

/// Calls `write` with standard output. Removes colours if standard output is not a terminal.
/// Succeeds if the reader, such as `head`, has exited.
pub(crate) fn write_with(
    content: Content,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let out = BufWriter::new(anstream::stdout().lock());
    let mut out = Filter::new(out, content);
    let written = write(&mut out).and_then(|()| Ok(out.flush()?));
    // Discards unwritten text. Dropping the buffer would try to write it again.
    let _ = out.out.into_parts();
    settled(written)
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

fn settled(written: anyhow::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if is_broken_pipe(&error) => Ok(()),
        Err(error) if error.is::<std::io::Error>() => {
            Err(error).context("cannot write to standard output")
        }
        other => other,
    }
}

/// Whether the error means that a reader, such as `head`, has exited.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
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
