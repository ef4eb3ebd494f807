//! What an object is for, where the same type is for things that are shared differently.

use super::btf::{Btf, TypeId};
use super::memory::Memory;

/// Kinds of files in the upper bits of a mode, as stat(2) has them.
const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const FIFO: u32 = 0o010_000;

const DIRECTORY_ROLE: &str = "directory";
const PIPE_ROLE: &str = "pipe";

/// Which field inodes with this role have where others have another one.
pub(crate) fn own_field(role: &str) -> Option<&'static str> {
    match role {
        DIRECTORY_ROLE => Some("i_dir_seq"),
        PIPE_ROLE => Some("i_pipe"),
        _ => None,
    }
}

/// Whether an inode or the inode of a dentry is a directory or a pipe.
pub(crate) fn of(memory: &Memory, btf: &Btf, object: u64, of: TypeId) -> Option<&'static str> {
    let at = |address: u64, path| address.checked_add(btf.offset(path)?);
    let inode = match btf.name(of) {
        "inode" => object,
        "dentry" => memory.word(at(object, "dentry.d_inode")?)?,
        _ => object.checked_add(btf.embedded(of, "inode")?)?,
    };
    let mode = memory.half(at(inode, "inode.i_mode")?)?;
    match mode & KIND {
        DIRECTORY => Some(DIRECTORY_ROLE),
        FIFO => Some(PIPE_ROLE),
        _ => None,
    }
}
