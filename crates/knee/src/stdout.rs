//! Standard output. Control characters in names and messages do not reach it.

use std::io::{BufWriter, ErrorKind, Write};

use anyhow::Context;
use knee_host::text::{Screen, Table};
use serde::Serialize;

use crate::filter::{Content, Filter};
use crate::writing::while_writing;

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
