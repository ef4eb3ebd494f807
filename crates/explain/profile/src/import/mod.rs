//! Captures of other tools.
//!
//! | module | input |
//! | --- | --- |
//! | [`mod@perf_data`] | the file of `perf record` |
//! | [`mod@script`] | what `perf script` prints |
//! | [`mod@folded`] | folded stacks: `program;outer;inner 12` |
//!
//! Unreadable parts are skipped and counted in [`Losses::unreadable`](crate::capture::Losses), so that a
//! truncated text still shows where the time went.

pub mod folded;
pub mod perf_data;
mod rust_name;
pub mod script;

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

pub use folded::folded;
use knee_host::regular_file::{open_named, read_line, read_whole};
use knee_host::text::one_line;
pub use perf_data::perf_data;
pub use script::script;

use crate::capture::{Capture, CaptureError};

/// Text before the first sample that is kept to detect the format.
const LONGEST_HEAD: usize = 16 << 20;

/// Reads a capture of any of these kinds, or one of knee's own. `-` is standard input, from which
/// perf.data cannot be read. The file may be a FIFO, for whose writer this waits.
///
/// # Errors
/// [`CaptureError`] states what is wrong and what to do.
pub fn open(path: &Path) -> Result<Capture, CaptureError> {
    let failed = |error| CaptureError::File { path: path.to_owned(), error };
    let wrong = |reason| CaptureError::Content { path: path.to_owned(), reason };
    if path == Path::new("-") {
        return text(io::stdin().lock(), "standard input").map_err(failed)?.map_err(wrong);
    }
    let title = one_line(&path.to_string_lossy()).into_owned();
    let file = open_named(path).map_err(|error| failed(error.into()))?;
    let mut reader = BufReader::new(file);
    if reader.fill_buf().map_err(failed)?.starts_with(perf_data::MAGIC) {
        return perf_data(reader.into_inner(), &title).map_err(wrong);
    }
    text(reader, &title).map_err(failed)?.map_err(wrong)
}

/// Reads text of any kind. JSON begins with a brace. A line of folded stacks ends in a number, the first
/// line of a perf script sample in a colon.
fn text(mut reader: impl BufRead, title: &str) -> io::Result<Result<Capture, String>> {
    if reader.fill_buf()?.starts_with(b"{") {
        return Ok(Capture::parse(&read_whole(reader)?));
    }
    let mut head = Vec::new();
    while head.len() < LONGEST_HEAD && read_line(&mut reader, &mut head)? > 0 {
        let line = head.split(|byte| *byte == b'\n').rev().nth(1).unwrap_or(&head).trim_ascii();
        if !line.is_empty() && !line.starts_with(b"#") {
            break;
        }
    }
    let first = head.trim_ascii_end();
    let is_folded = first.contains(&b';') && first.last().is_some_and(u8::is_ascii_digit);
    let whole = head.as_slice().chain(reader);
    let capture = match is_folded {
        true => folded(whole, title)?,
        false => script(whole, title)?,
    };
    Ok(match capture.samples() {
        0 => {
            Err("it contains no samples; expected a knee profile capture, a perf.data file, perf \
             script output, or folded stacks"
                .to_owned())
        }
        _ => Ok(capture),
    })
}
