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

/// Reads text of any kind. JSON begins with a brace.
fn text(mut reader: impl BufRead, title: &str) -> io::Result<Result<Capture, String>> {
    let start = reader.fill_buf()?;
    if start.starts_with(perf_data::MAGIC) {
        let why = "this is a file of perf record, which knee cannot read from standard input; pass its name";
        return Ok(Err(why.to_owned()));
    }
    if start.starts_with(b"{") {
        return Ok(Capture::parse(&read_whole(reader)?));
    }
    let mut head = Vec::new();
    let mut is_folded = None;
    let mut line = Vec::new();
    while is_folded.is_none() && head.len() < LONGEST_HEAD && read_line(&mut reader, &mut line)? > 0
    {
        is_folded = is_of_folded_stacks(&line);
        head.append(&mut line);
    }
    // Each line without a function could be of a thread that has no stack.
    let is_folded = is_folded.unwrap_or_else(|| ends_in_digit(&head));
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

/// Whether the text with this line is folded stacks or a perf script. `None` if the line does not tell: it
/// is a comment, or `thread 12`, which could be a thread without a stack or the start of a sample.
fn is_of_folded_stacks(line: &[u8]) -> Option<bool> {
    let content = line.trim_ascii();
    if content.is_empty() || content.starts_with(b"#") {
        return None;
    }
    // The functions of a perf script are indented, and the first line of a sample ends in a colon.
    if line.starts_with(b"\t") || !ends_in_digit(content) {
        return Some(false);
    }
    content.contains(&b';').then_some(true)
}

fn ends_in_digit(text: &[u8]) -> bool {
    text.trim_ascii_end().last().is_some_and(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(content: &str) -> Result<u64, String> {
        Ok(text(content.as_bytes(), "a text").unwrap()?.samples())
    }

    #[test]
    fn folded_stacks_may_begin_with_threads_without_a_stack() {
        assert_eq!(samples("# of perf\n\nidle 3\nprog 1\nprog;main 1\n"), Ok(5));
        assert_eq!(samples("idle 3\nprog 1\n"), Ok(4));
    }

    #[test]
    fn a_perf_script_is_not_folded_stacks() {
        assert_eq!(is_of_folded_stacks(b"prog 77\n"), None);
        assert_eq!(is_of_folded_stacks(b"\t55f0 10;1\n"), Some(false));
        assert_eq!(samples("prog;a 77 1.5: 10 cycles: \n\t55f0 main+0x10 (/prog)\n\n"), Ok(1));
    }

    #[test]
    fn perf_data_on_standard_input_is_refused_with_advice() {
        let error = samples("PERFILE2\0\0").unwrap_err();
        assert!(error.contains("pass its name"), "{error}");
    }
}
