//! Tells apart objects that have the same type but different roles, such as the inodes of directories and of
//! pipes. For example, the name of a lock in an inode shows whether the inode is a directory or a pipe.

use super::btf::{Btf, TypeId};
use super::memory::Memory;

/// File types in the upper bits of a mode, as in stat(2).
const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const FIFO: u32 = 0o010_000;

const DIRECTORY_ROLE: &str = "directory";
const PIPE_ROLE: &str = "pipe";

/// Returns the member of an inode's union that inodes with this role use.
pub(crate) fn own_field(role: &str) -> Option<&'static str> {
    match role {
        DIRECTORY_ROLE => Some("i_dir_seq"),
        PIPE_ROLE => Some("i_pipe"),
        _ => None,
    }
}

/// The role of an inode, or of a dentry's inode: directory or pipe; `None` for other files, and for objects
/// of other types.
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
