//! The result of a call.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// The number of the signal for an access beyond the end of a file, on x86-64 Linux.
pub const SIGBUS: i32 = 7;
/// The number of the signal for an access that no mapping allows, on x86-64 Linux.
pub const SIGSEGV: i32 = 11;

/// The result of a call, as plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Returned {
    /// The call has not been made.
    Nothing,
    /// The call succeeded and has no other result.
    Done,
    /// An errno of Linux.
    Error(i32),
    /// The number of the signal that the call raised.
    Signal(i32),
    /// A descriptor, or an offset in pages.
    Number(i64),
    /// An unexpected number of bytes, such as half a page.
    Odd(i64),
    /// The byte that fills a page.
    Page(u8),
    /// The end of a file or of a pipe.
    End,
    /// The status of a file.
    Status {
        /// The inode number.
        inode: u64,
        /// The length in pages.
        pages: i64,
        /// The file's link count.
        links: u64,
    },
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
            Self::Signal(SIGSEGV) => f.write_str("SIGSEGV"),
            Self::Signal(SIGBUS) => f.write_str("SIGBUS"),
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

/// The name of an error, by the errno of Linux.
fn error_name(errno: i32) -> String {
    let known = [
        (2, "ENOENT"),
        (17, "EEXIST"),
        (9, "EBADF"),
        (22, "EINVAL"),
        (29, "ESPIPE"),
        (32, "EPIPE"),
        (11, "EAGAIN"),
        (19, "ENODEV"),
        (12, "ENOMEM"),
        (13, "EACCES"),
        (1, "EPERM"),
        (24, "EMFILE"),
        (28, "ENOSPC"),
    ];
    let name = known.iter().find(|(nr, _)| *nr == errno).map(|(_, name)| (*name).to_owned());
    name.unwrap_or_else(|| format!("errno {errno}"))
}
