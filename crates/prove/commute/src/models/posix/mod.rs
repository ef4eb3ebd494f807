//! The POSIX calls of COMMUTER's model (Clements et al., SOSP 2013, section 5), with the same state:
//! processes with descriptors and memory, one directory, files that consist of pages, and pipes. COMMUTER's
//! model has two processes. This model has a third one, so that three calls can be in three processes. A pair
//! of calls never uses the third process.
//!
//! The model assumes that files have no holes (no call writes beyond the end), that files and pipes
//! are never full, and that the first process makes the first call. Where POSIX and Linux differ,
//! or POSIX leaves a choice open, the model follows Linux. For example, a `rename` to another name
//! of the same file does nothing, and any other `rename` changes the ctime of the file.

pub mod alternatives;
mod fd;
mod file;
mod memory;
mod setup;
pub mod state;

use crate::models::posix::state::Posix;
use crate::{Interface, Operation};

/// COMMUTER's interface: 18 calls.
pub fn posix() -> Interface<Posix> {
    Interface {
        name: "posix",
        about: "the 18 calls of COMMUTER: files, pipes, descriptors and memory of processes",
        setup: Some(setup::setup),
        operations: vec![
            Operation {
                name: "open",
                about: "(name, creat, excl, trunc, anyfd): the lowest unused descriptor, or any",
                apply: file::open,
            },
            Operation { name: "link", about: "(old, new)", apply: file::link },
            Operation { name: "unlink", about: "(name)", apply: file::unlink },
            Operation { name: "rename", about: "(old, new)", apply: file::rename },
            Operation {
                name: "stat",
                about: "(name): inode, size, links, times",
                apply: file::stat,
            },
            Operation {
                name: "fstat",
                about: "(fd): inode, size, links, times of an open file",
                apply: fd::fstat,
            },
            Operation {
                name: "lseek",
                about: "(fd, off, whence): the new offset",
                apply: fd::lseek,
            },
            Operation { name: "close", about: "(fd)", apply: fd::close },
            Operation {
                name: "pipe",
                about: "(): the two lowest unused descriptors",
                apply: fd::pipe,
            },
            Operation {
                name: "read",
                about: "(fd): a page at the offset, or from a pipe",
                apply: fd::read,
            },
            Operation {
                name: "write",
                about: "(fd, datum): a page at the offset, or into a pipe",
                apply: fd::write,
            },
            Operation {
                name: "pread",
                about: "(fd, off): reads a page at an explicit offset",
                apply: fd::pread,
            },
            Operation {
                name: "pwrite",
                about: "(fd, off, datum): writes a page at an explicit offset",
                apply: fd::pwrite,
            },
            Operation {
                name: "mmap",
                about: "(anonymous or fd and off, writable, fixed va or any): a page of memory",
                apply: memory::mmap,
            },
            Operation { name: "munmap", about: "(va)", apply: memory::munmap },
            Operation { name: "mprotect", about: "(va, writable)", apply: memory::mprotect },
            Operation { name: "memread", about: "(va): loads from memory", apply: memory::memread },
            Operation {
                name: "memwrite",
                about: "(va, datum): stores to memory",
                apply: memory::memwrite,
            },
        ],
        ..Interface::default()
    }
}
