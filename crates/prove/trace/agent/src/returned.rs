//! What a call returned.

use serde::{Deserialize, Serialize};

/// Of a call, as plain data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Returned {
    /// It has not been made.
    Nothing,
    /// It is done.
    Done,
    /// An errno.
    Error(i32),
    /// A signal that it raised.
    Signal(i32),
    /// A descriptor, or an offset in pages.
    Number(i64),
    /// Something that no page is, such as half of one.
    Odd(i64),
    /// What is in a page.
    Page(u8),
    /// The end of a file or of a pipe.
    End,
    /// Status of a file; its length in pages.
    Status { inode: u64, pages: i64, links: u64 },
    /// Status of a pipe.
    APipe,
    /// The two ends of a new pipe.
    Ends([i32; 2]),
    /// An address.
    Address(usize),
}

impl Returned {
    /// As a person reads it, in the words of the model.
    pub(crate) fn show(self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Done => "0".to_owned(),
            Self::Error(errno) => error_name(errno),
            Self::Signal(libc::SIGSEGV) => "SIGSEGV".to_owned(),
            Self::Signal(libc::SIGBUS) => "SIGBUS".to_owned(),
            Self::Signal(signal) => format!("signal {signal}"),
            Self::Number(n) => n.to_string(),
            Self::Odd(n) => format!("{n} bytes"),
            Self::Page(byte) => format!("a page of {byte}"),
            Self::End => "end".to_owned(),
            Self::Status { inode, pages, links } => {
                format!("inode {inode}, size {pages}, nlink {links}")
            }
            Self::APipe => "a pipe".to_owned(),
            Self::Ends([read, write]) => format!("read end {read}, write end {write}"),
            Self::Address(at) => format!("{at:#x}"),
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
