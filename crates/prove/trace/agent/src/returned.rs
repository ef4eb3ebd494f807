//! The result of a call.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// The result of a call, as plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Returned {
    /// The call has not been made.
    Nothing,
    /// The call succeeded and has no other result.
    Done,
    /// An errno.
    Error(i32),
    /// A signal that the call raised.
    Signal(i32),
    /// A descriptor, or an offset in pages.
    Number(i64),
    /// An unexpected number of bytes, such as half a page.
    Odd(i64),
    /// The byte that fills a page.
    Page(u8),
    /// The end of a file or of a pipe.
    End,
    /// The status of a file: its inode number, its length in pages, and the number of its names.
    Status { inode: u64, pages: i64, links: u64 },
    /// The status of a pipe.
    APipe,
    /// The two ends of a new pipe.
    Ends([i32; 2]),
    /// An address.
    Address(usize),
}

/// Formats the result as the model does, for example `ENOENT`.
impl Display for Returned {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Done => f.write_str("0"),
            Self::Error(errno) => f.write_str(&error_name(*errno)),
            Self::Signal(libc::SIGSEGV) => f.write_str("SIGSEGV"),
            Self::Signal(libc::SIGBUS) => f.write_str("SIGBUS"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Number(n) => write!(f, "{n}"),
            Self::Odd(n) => write!(f, "{n} bytes"),
            Self::Page(byte) => write!(f, "a page of {byte}"),
            Self::End => f.write_str("end"),
            Self::Status { inode, pages, links } => {
                write!(f, "inode {inode}, size {pages}, nlink {links}")
            }
            Self::APipe => f.write_str("a pipe"),
            Self::Ends([read, write]) => write!(f, "read end {read}, write end {write}"),
            Self::Address(at) => write!(f, "{at:#x}"),
        }
    }
}

fn error_name(errno: i32) -> String {
    let known = [
        (libc::ENOENT, "ENOENT"),
        (libc::EEXIST, "EEXIST"),
        (libc::EBADF, "EBADF"),
        (libc::EINVAL, "EINVAL"),
        (libc::ESPIPE, "ESPIPE"),
        (libc::EPIPE, "EPIPE"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::ENODEV, "ENODEV"),
        (libc::ENOMEM, "ENOMEM"),
        (libc::EACCES, "EACCES"),
        (libc::EPERM, "EPERM"),
        (libc::EMFILE, "EMFILE"),
        (libc::ENOSPC, "ENOSPC"),
    ];
    let name = known.iter().find(|(nr, _)| *nr == errno).map(|(_, name)| (*name).to_owned());
    name.unwrap_or_else(|| format!("errno {errno}"))
}
