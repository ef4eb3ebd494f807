//! Output of processes, read from non-blocking pipes.

use std::io::{self, Read};

use crate::text::cut;

/// The most bytes that one call reads. Otherwise, a process that writes as fast as knee reads could keep knee in
/// the call, with ever more memory. A pipe holds no more, unless root has raised `/proc/sys/fs/pipe-max-size`.
const MOST_BYTES: usize = 1 << 20;

/// The most characters of [`last_line`], which is for messages.
const LONGEST_LINE: usize = 1000;

/// The last line of `output` that is not empty, without surrounding white space, cut if it is long.
pub fn last_line(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.map(|line| cut(line, LONGEST_LINE).into_owned())
}

/// Appends what can be read now, and keeps the last `kept` bytes of `into`; `true` at the end of
/// the file.
pub fn read_tail(from: &mut impl Read, into: &mut Vec<u8>, kept: usize) -> bool {
    let closed = read_available(from, into);
    into.drain(..into.len().saturating_sub(kept));
    closed
}

/// Appends what can be read now, but only about a mebibyte; `true` at the end of the file. If there is more, the
/// descriptor stays readable.
pub fn read_available(from: &mut impl Read, into: &mut Vec<u8>) -> bool {
    let mut chunk = [0u8; 16 << 10];
    let end = into.len() + MOST_BYTES;
    while into.len() < end {
        match from.read(&mut chunk) {
            Ok(0) => return true,
            Ok(n) => into.extend_from_slice(&chunk[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_reads_a_mebibyte_of_a_process_that_writes_without_end() {
        // Without the limit, the call would read all of it.
        let mut endless = io::repeat(b'y').take(8 << 20);
        let mut read = b"before".to_vec();
        assert!(!read_available(&mut endless, &mut read));
        assert_eq!(read.len(), 6 + MOST_BYTES);
        assert!(!read_tail(&mut endless, &mut read, 4));
        assert_eq!(read, b"yyyy");
    }

    #[test]
    fn the_end_of_a_file_is_reported() {
        let mut read = Vec::new();
        assert!(read_available(&mut &b"one\ntwo\n\n"[..], &mut read));
        assert_eq!(last_line(&read).as_deref(), Some("two"));
        let long = format!("{}é", "x".repeat(LONGEST_LINE));
        assert_eq!(last_line(long.as_bytes()).unwrap(), long.replace('é', "…"));
    }
}
