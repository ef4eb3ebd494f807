//! What knee tells a keeper, in one byte, and what a keeper tells knee, in eight bytes: a process
//! between fork and exec may not allocate memory.

use std::ffi::CStr;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::Pid;

/// The name of a keeper, and of its program until it is released.
pub const KEEPER: &CStr = c"knee-keeper";
/// What knee sends a keeper to let the held program run.
pub(super) const RELEASE: u8 = b'!';
/// What knee sends a keeper to end the program. If the socket closes without it, knee was killed.
pub(super) const END: u8 = b'.';

/// Messages of a keeper, in this order. [`Message::Failed`] can replace the first two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// The process of the program exists, and waits.
    Held(Pid),
    /// No process could be created, or it could not execute the program.
    Failed(Errno),
    /// The program has ended. The time follows, by CLOCK_MONOTONIC_RAW, as a 64-bit floating-point number of seconds.
    Ended(ExitStatus),
    /// All descendants have ended. This many bytes of JSON follow: the names of those that still ran.
    Left(usize),
}

impl Message {
    pub(super) fn to_bytes(self) -> [u8; 8] {
        let (kind, value): (u32, u32) = match self {
            Message::Held(pid) => (0, pid.as_raw_pid().cast_unsigned()),
            Message::Failed(errno) => (1, errno.raw_os_error().cast_unsigned()),
            Message::Ended(status) => (2, status.into_raw().cast_unsigned()),
            Message::Left(length) => (3, length as u32),
        };
        (u64::from(kind) << 32 | u64::from(value)).to_ne_bytes()
    }

    /// Waits for the next message.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0; 8];
        from.read_exact(&mut bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the keeper was killed"),
            _ => error,
        })?;
        let number = u64::from_ne_bytes(bytes);
        let value = (number as u32).cast_signed();
        let message = match number >> 32 {
            0 => Pid::from_raw(value).map(Message::Held),
            1 => Some(Message::Failed(Errno::from_raw_os_error(value))),
            2 => Some(Message::Ended(ExitStatus::from_raw(value))),
            3 => Some(Message::Left(value.cast_unsigned() as usize)),
            _ => None,
        };
        message.ok_or_else(|| io::Error::other("the keeper sent an unknown message"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        for message in [
            Message::Held(Pid::from_raw(i32::MAX).unwrap()),
            Message::Failed(Errno::NOENT),
            Message::Ended(ExitStatus::from_raw(9)),
            Message::Ended(ExitStatus::from_raw(3 << 8)),
            Message::Left(70_000),
        ] {
            assert_eq!(Message::read(&mut &message.to_bytes()[..]).unwrap(), message);
        }
        let error = Message::read(&mut &[0_u8; 3][..]).unwrap_err();
        assert_eq!(error.to_string(), "the keeper was killed");
    }
}
