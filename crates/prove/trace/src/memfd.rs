//! Anonymous files in memory, as input for child processes. These files need no directory, and the
//! kernel frees each file when its last user closes it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

/// Creates a file of zeroes, which take no memory until they are overwritten. The name is only for
/// debugging.
pub(crate) fn zeroes(name: &str, bytes: u64) -> io::Result<File> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes)?;
    Ok(file.into())
}

/// Seals the file so that it cannot shrink, which keeps mappings of the whole file valid.
pub(crate) fn keep_size(file: &File) -> io::Result<()> {
    Ok(fcntl_add_seals(file, SealFlags::SHRINK)?)
}

/// Creates a file with this content. A child process that inherits the file reads from the start.
pub(crate) fn holding(name: &str, content: &[u8]) -> io::Result<File> {
    let file = zeroes(name, content.len() as u64)?;
    file.write_all_at(content, 0)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn content_is_read_from_its_start() {
        let mut read = String::new();
        holding("knee-test", b"knee").unwrap().read_to_string(&mut read).unwrap();
        assert_eq!(read, "knee");
        assert_eq!(zeroes("knee-test", 1 << 40).unwrap().metadata().unwrap().len(), 1 << 40);
    }
}
