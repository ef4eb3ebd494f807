//! A ring in memory that a guest shares with the host while a program runs in the guest. The guest
//! writes the program's output and its exit status to the ring.
//!
//! As in [`crate::channel`], the memory belongs to QEMU's device ivshmem-plain, since a serial console is too
//! slow for the output of programs. The memory begins with two little-endian 64-bit words: the number of
//! bytes that the guest has written, and the number of bytes that the host has read. The ring follows. The
//! ring contains values of [`Relayed`] in the format of the `postcard` crate. Each value is preceded by a
//! word that contains the value's length. The guest waits while the ring has no room.

use knee_plan::{append, first};
use std::ops::Range;
use std::sync::atomic::{Ordering::Acquire, Ordering::Release, fence};
use std::time::Duration;
use std::{io, thread};

use serde::{Deserialize, Serialize};

/// Offset of the number of bytes that the guest has written.
pub const WRITTEN_AT: usize = 0;
/// Offset of the number of bytes that the host has read.
pub const READ_AT: usize = 8;
/// Size of the memory in bytes, a power of two.
pub const RELAY_BYTES: usize = 1 << 20;
/// Size of the ring in bytes.
pub const RING_BYTES: usize = RELAY_BYTES - RING_AT;
const RING_AT: usize = 4096;
/// The time between two of the guest's checks for room in the ring; the host reads about as often.
const PAUSE: Duration = Duration::from_millis(1);

/// A guest's message about the program that it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relayed {
    /// Bytes that the program has written to standard output.
    Output(Vec<u8>),
    /// Bytes that the program has written to standard error.
    Complaints(Vec<u8>),
    /// The program has ended with this status, in the format of wait(2). This is the last message.
    Ended(i32),
}

/// Returns the offsets in the memory at which these bytes are stored. Byte 0 is the first byte that the guest
/// ever wrote. The second range of the result is the part that wraps to the beginning of the ring; it may be
/// empty.
pub fn places(bytes: Range<u64>) -> [Range<usize>; 2] {
    let length = (bytes.end - bytes.start) as usize;
    let begin = (bytes.start % RING_BYTES as u64) as usize;
    let before = length.min(RING_BYTES - begin);
    let begin = RING_AT + begin;
    [begin..begin + before, RING_AT..RING_AT + length - before]
}

/// Removes all complete values from the bytes that were read from the ring, and returns the values
/// in the order in which they were written. A guest may have written anything; bytes that cannot
/// be decoded stay in `from`.
pub fn relayed(from: &mut Vec<u8>) -> Vec<Relayed> {
    let (mut all, mut rest) = (Vec::new(), from.as_slice());
    while let Some((one, behind)) = first(rest) {
        all.push(one);
        rest = behind;
    }
    let taken = from.len() - rest.len();
    from.drain(..taken);
    all
}

/// The guest's end of the ring.
pub(crate) struct Relay {
    at: *mut u8,
    written: u64,
}

impl Relay {
    /// Returns the ring in the memory at `at`. Fails if the memory is smaller than [`RELAY_BYTES`].
    ///
    /// # Safety
    /// The memory is mapped for reading and writing, is never unmapped, and nothing else in this
    /// program uses it.
    pub(crate) unsafe fn new(at: *mut u8, bytes: usize) -> io::Result<Relay> {
        match bytes >= RELAY_BYTES {
            true => Ok(Relay { at, written: 0 }),
            false => Err(io::Error::other("the memory shared with the host is too small")),
        }
    }

    /// Sends a message to the host. Waits until there is room.
    pub(crate) fn send(&mut self, what: &Relayed) -> io::Result<()> {
        let mut bytes = Vec::new();
        append(what, &mut bytes);
        if bytes.len() > RING_BYTES {
            return Err(io::Error::other("the memory shared with the host is too small"));
        }
        let end = self.written + bytes.len() as u64;
        while end - self.read() > RING_BYTES as u64 {
            thread::sleep(PAUSE);
        }
        let mut rest = bytes.as_slice();
        for place in places(self.written..end) {
            let (part, behind) = rest.split_at(place.len());
            rest = behind;
            // SAFETY: `place` is inside the ring, in a part that the host has already read.
            unsafe { self.at.add(place.start).copy_from_nonoverlapping(part.as_ptr(), part.len()) };
        }
        self.written = end;
        // The bytes must be visible before the count, because the host reads the bytes once it sees the
        // count.
        fence(Release);
        // SAFETY: this word is aligned and inside the memory. Only the guest writes it.
        unsafe { self.at.add(WRITTEN_AT).cast::<u64>().write_volatile(end.to_le()) };
        Ok(())
    }

    /// Returns the number of bytes that the host has read.
    fn read(&self) -> u64 {
        // SAFETY: this word is aligned and inside the memory. The host writes it with one store.
        let read = u64::from_le(unsafe { self.at.add(READ_AT).cast::<u64>().read_volatile() });
        // The count says which bytes the host has read, so the guest must read the count before it overwrites
        // these bytes.
        fence(Acquire);
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_in_order_even_if_the_ring_wraps_around() {
        let memory = vec![0_u64; RELAY_BYTES / 8].leak();
        let at = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: the memory is large enough and is never freed.
        let mut relay = unsafe { Relay::new(at, RELAY_BYTES) }.unwrap();
        let (mut read, mut bytes, mut arrived) = (0, Vec::new(), Vec::new());
        let sent: Vec<_> = (0..100).map(|nr| Relayed::Output(vec![nr; 50_000])).collect();
        for one in &sent {
            relay.send(one).unwrap();
            for place in places(read..relay.written) {
                // SAFETY: `place` is inside the memory.
                let part = unsafe { std::slice::from_raw_parts(at.add(place.start), place.len()) };
                bytes.extend(part);
            }
            read = relay.written;
            // SAFETY: this word is aligned and inside the memory, and there is no other thread.
            unsafe { at.add(READ_AT).cast::<u64>().write(read) };
            arrived.extend(relayed(&mut bytes));
        }
        assert_eq!(arrived, sent);
        assert!(bytes.is_empty() && read > RING_BYTES as u64);
        assert!(relay.send(&Relayed::Output(vec![0; RING_BYTES])).is_err(), "it never fits");
    }

    #[test]
    fn an_incomplete_value_stays_until_the_rest_arrives() {
        let mut bytes = Vec::new();
        append(&Relayed::Ended(9), &mut bytes);
        let end = bytes.pop().unwrap();
        assert_eq!(relayed(&mut bytes), []);
        bytes.push(end);
        assert_eq!(relayed(&mut bytes), [Relayed::Ended(9)]);
        assert!(bytes.is_empty());
    }
}
