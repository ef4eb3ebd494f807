//! Programs and libraries from which symbols are read.
//!
//! Their paths come from sampled processes and from files of perf, so anything may be there.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use blazesym::symbolize::source::{Elf, Source};
use knee_host::RegularFile;
use rustix::process::geteuid;

/// An open program or library.
#[derive(Debug)]
pub(super) struct ObjectFile {
    file: File,
    /// Whether the symbolizer may read debugging symbols. They can name other files, which the symbolizer opens
    /// whatever they are, and sections that take all memory when they are decompressed.
    has_debug_symbols: bool,
}

impl ObjectFile {
    /// Opens the file; `None` if it is not a regular file or cannot be read.
    pub(super) fn open(path: &Path) -> Option<ObjectFile> {
        let file = RegularFile::at(path).open().ok()?;
        let owner = file.metadata().ok()?.uid();
        let is_trusted = owner == 0 || owner == geteuid().as_raw();
        Some(ObjectFile { has_debug_symbols: is_trusted, file })
    }

    /// The file for the symbolizer: under a path that leads to this open file, whatever is at its own path now.
    pub(super) fn source(&self) -> Source<'static> {
        let mut elf = Elf::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        elf.debug_syms = self.has_debug_symbols;
        Source::Elf(elf)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::chown;

    use knee_host::skip::skip;

    use super::*;

    #[test]
    fn debugging_symbols_are_read_only_from_files_of_trusted_users() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        fs::write(&file, "").unwrap();
        assert!(ObjectFile::open(&file).unwrap().has_debug_symbols);
        if !geteuid().is_root() {
            return skip("root", "only root can give a file to another user");
        }
        chown(&file, Some(65534), None).unwrap();
        assert!(!ObjectFile::open(&file).unwrap().has_debug_symbols);
    }
}
