//! Memory that a guest shares with the host while a program runs in it: the guest writes what the
//! program prints, and how it ended.
//!
//! It is the memory of QEMU's device ivshmem-plain, as in [`crate::channel`]: a serial console is
//! too slow for what programs may print. Two words of 64 bits, little-endian, count the bytes that the
//! guest has written and those that the host has read; behind them is a ring for these bytes. They are
//! values of [`Relayed`] in the format of crate postcard, each behind its length, a word. The guest
//! waits while there is no room.

use std::ops::Range;
use std::sync::atomic::{Ordering::Acquire, Ordering::Release, fence};
use std::time::Duration;
use std::{io, thread};

use serde::{Deserialize, Serialize};

use crate::channel::{append, first};

/// Offset of the count of bytes that the guest has written.
pub const WRITTEN_AT: usize = 0;
/// Offset of the count of bytes that the host has read.
pub const READ_AT: usize = 8;
/// Size of the memory, a power of two.
pub const RELAY_BYTES: usize = 1 << 20;
/// Size of the ring.
pub const RING_BYTES: usize = RELAY_BYTES - RING_AT;
const RING_AT: usize = 4096;
/// How long the guest waits for room before it checks again; the host reads about as often.
const PAUSE: Duration = Duration::from_millis(1);

/// What a guest reports about the program in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relayed {
    /// It has written this to standard output.
    Output(Vec<u8>),
    /// It has written this to standard error.
    Complaints(Vec<u8>),
    /// It has ended, with this status as wait(2) returns it; nothing follows.
    Ended(i32),
}

/// Where the bytes of the ring with these numbers are in the memory: at its end, and at its beginning.
pub fn places(bytes: Range<u64>) -> [Range<usize>; 2] {
    let length = (bytes.end - bytes.start) as usize;
    let begin = (bytes.start % RING_BYTES as u64) as usize;
    let before = length.min(RING_BYTES - begin);
    let begin = RING_AT + begin;
    [begin..begin + before, RING_AT..RING_AT + length - before]
}

/// Takes out of bytes of the ring, in the order in which they were written, all values that are there
/// as a whole. What a guest wrote may be anything; what cannot be read stays.
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

/// The guest's end.
pub(crate) struct Relay {
    at: *mut u8,
    written: u64,
}

impl Relay {
    /// The memory that begins there.
    ///
    /// # Safety
    /// The memory is mapped for reading and writing, is never unmapped, and nothing else in this program
    /// uses it.
    pub(crate) unsafe fn new(at: *mut u8, bytes: usize) -> io::Result<Relay> {
        match bytes >= RELAY_BYTES {
            true => Ok(Relay { at, written: 0 }),
            false => Err(io::Error::other("the memory shared with the host is too small")),
        }
    }

    /// Sends a message to the host. Waits until there is room.
    pub(crate) fn tell(&mut self, what: &Relayed) -> io::Result<()> {
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
            // SAFETY: inside the ring, where the host has read all that was there.
            unsafe { self.at.add(place.start).copy_from_nonoverlapping(part.as_ptr(), part.len()) };
        }
        self.written = end;
        // The host reads the bytes after the count.
        fence(Release);
        // SAFETY: an aligned word of the memory, which only this writes.
        unsafe { self.at.add(WRITTEN_AT).cast::<u64>().write_volatile(end.to_le()) };
        Ok(())
    }

    /// How many bytes the host has read.
    fn read(&self) -> u64 {
        // SAFETY: an aligned word of the memory, which the host writes as a whole.
        let read = u64::from_le(unsafe { self.at.add(READ_AT).cast::<u64>().read_volatile() });
        // The guest overwrites these bytes only after it has read the count.
        fence(Acquire);
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_in_order_beyond_the_end_of_the_ring() {
        let memory = vec![0_u64; RELAY_BYTES / 8].leak();
        let at = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: the memory is large enough, and stays.
        let mut relay = unsafe { Relay::new(at, RELAY_BYTES) }.unwrap();
        let (mut read, mut bytes, mut arrived) = (0, Vec::new(), Vec::new());
        let told: Vec<_> = (0..100).map(|nr| Relayed::Output(vec![nr; 50_000])).collect();
        for one in &told {
            relay.tell(one).unwrap();
            for place in places(read..relay.written) {
                // SAFETY: inside the memory.
                let part = unsafe { std::slice::from_raw_parts(at.add(place.start), place.len()) };
                bytes.extend(part);
            }
            read = relay.written;
            // SAFETY: as in `Relay::read`; there is no other thread.
            unsafe { at.add(READ_AT).cast::<u64>().write(read) };
            arrived.extend(relayed(&mut bytes));
        }
        assert_eq!(arrived, told);
        assert!(bytes.is_empty() && read > RING_BYTES as u64);
        assert!(relay.tell(&Relayed::Output(vec![0; RING_BYTES])).is_err(), "it never fits");
    }

    #[test]
    fn half_a_value_stays_until_the_rest_comes() {
        let mut bytes = Vec::new();
        append(&Relayed::Ended(9), &mut bytes);
        let end = bytes.pop().unwrap();
        assert_eq!(relayed(&mut bytes), []);
        bytes.push(end);
        assert_eq!(relayed(&mut bytes), [Relayed::Ended(9)]);
        assert!(bytes.is_empty());
    }
}
