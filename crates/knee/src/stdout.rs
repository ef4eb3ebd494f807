//! Whole texts to standard output.

use anyhow::Context;
use std::io::{ErrorKind, Write};

/// Writes `text`, without its colours where the output is not a terminal. A reader that has
/// left, such as `head`, has what it wanted: not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}
