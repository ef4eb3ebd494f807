//! Output of processes, read from non-blocking pipes.

use std::io::{self, Read};

/// The last line of `output` that is not empty, without surrounding white space.
pub fn last_line(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// Appends what can be read now, and keeps the last `kept` bytes of `into`; `true` at the end of
/// the file.
pub fn read_tail(from: &mut impl Read, into: &mut Vec<u8>, kept: usize) -> bool {
    let closed = read_available(from, into);
    into.drain(..into.len().saturating_sub(kept));
    closed
}

/// Appends what can be read now; `true` at the end of the file.
pub fn read_available(from: &mut impl Read, into: &mut Vec<u8>) -> bool {
    let mut chunk = [0u8; 16 << 10];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return true,
            Ok(n) => into.extend_from_slice(&chunk[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => return true,
        }
    }
}
