//! What an object is for, where the same type is for things that are shared differently.

use super::btf::{Btf, TypeId};
use super::memory::Memory;

/// Kinds of files in the upper bits of a mode, as stat(2) has them.
const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const FIFO: u32 = 0o010_000;

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
        DIRECTORY => Some("directory"),
        FIFO => Some("pipe"),
        _ => None,
    }
}
