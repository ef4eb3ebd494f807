//! Folded stacks, as `stackcollapse-*.pl`, inferno and `bpftrace` write them.
//!
//! ```text
//! program;main;work;read_[k] 12
//! ```
//!
//! A line contains the program, its functions from the outermost to the innermost, and the count of
//! that stack. A function may end with `_[k]` for the kernel, `_[i]` for inlined, `_[j]` for code of a JIT
//! compiler.
//!
//! The format does not specify what its numbers count. knee assumes samples. If they are nanoseconds or
//! cycles, as inferno writes them for `perf`, knee reports sampling errors that are too small.

use std::io::{self, BufRead};

use crate::capture::{Capture, Clock, Function, Kind, Losses, MOST_FRAMES, Stacks};
use knee_host::regular_file::read_line;

/// Reads folded stacks.
///
/// Lines that do not end in a number, or have more than [`MOST_FRAMES`] functions, are skipped and counted in
/// [`Losses::unreadable`]. So is a last line without a newline, because its number may be truncated.
///
/// # Errors
/// The reader fails.
pub fn folded(mut reader: impl BufRead, title: &str) -> io::Result<Capture> {
    let mut stacks = Stacks::default();
    let mut losses = Losses::default();
    let mut sum = 0_u64;
    let mut line = Vec::new();
    while read_line(&mut reader, &mut line)? != 0 {
        let content = String::from_utf8_lossy(line.trim_ascii());
        if !content.is_empty() && !content.starts_with("# ") {
            let is_whole = line.last() == Some(&b'\n');
            let read = split_count(&content).filter(|_| is_whole).and_then(|(stack, count)| {
                if stack.matches(';').count() > MOST_FRAMES {
                    return None;
                }
                sum = sum.checked_add(count)?;
                Some((stack, count))
            });
            match read {
                Some((stack, count)) => {
                    let mut names = stack.split(';');
                    let program = names.next().unwrap_or_default();
                    stacks.add(program, names.map(function), count, count);
                }
                None => losses.unreadable += 1,
            }
        }
        line.clear();
    }
    Ok(Capture {
        title: title.to_owned(),
        clock: Clock { event: "samples".to_owned(), ..Clock::default() },
        losses: Losses { left_out: stacks.left_out(), ..losses },
        ..stacks.finish()
    })
}

fn function(name: &str) -> Function {
    let of = |name: &str, kind, inlined| Function { inlined, ..Function::new(name, kind) };
    match name.rsplit_once("_[") {
        Some((name, "k]")) => of(name, Kind::Kernel, false),
        Some((name, "i]")) => of(name, Kind::User, true),
        Some((name, "j]")) => of(name, Kind::User, false),
        _ => of(name, Kind::User, false),
    }
}

/// Stack and count of a line. The fraction of a scaled count is dropped.
fn split_count(line: &str) -> Option<(&str, u64)> {
    let (stack, number) = line.rsplit_once(' ')?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let is_number = whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit());
    let stack = stack.trim_ascii();
    (is_number && !stack.is_empty()).then(|| Some((stack, whole.parse().ok()?))).flatten()
}

#[cfg(test)]
mod tests;
