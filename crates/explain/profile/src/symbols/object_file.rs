//! Programs and libraries from which symbols are read.
//!
//! Their paths come from sampled processes and from files of perf, so anything may be there.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use blazesym::symbolize::source::{Elf, Source};
use knee_host::mapping::is_trusted;
use knee_host::regular_file::path_of;
use knee_host::{RegularFile, filesystem};
use rustix::fs::{fstat, major, minor};

use super::budget::Budget;
use super::search::steps;
use crate::records::FileId;

/// File systems on which a mapping can show another device or inode than fstat(2): that of the superblock instead of the
/// subvolume, or of the file below the overlay.
const WITH_OTHER_NUMBERS: [&str; 3] = ["btrfs", "overlayfs", "bcachefs"];

/// An open program or library.
#[derive(Debug)]
pub(super) struct ObjectFile {
    file: File,
    /// Whether the symbolizer may read debugging symbols. They can name other files, which the symbolizer opens
    /// whatever they are, and sections that take all memory when they are decompressed.
    has_debug_symbols: bool,
    /// The most steps in which the symbolizer finds an address; 0 if only trusted users can change the file.
    pub(super) steps: u64,
}

impl ObjectFile {
    /// Opens the file, or a copy if other users can change it; `None` if it is not a regular file, or cannot be
    /// read or copied. The symbolizer maps it. `id` is that of the file which a process has mapped; in its mount
    /// namespace, the path may lead to another file, or the file has been replaced since.
    pub(super) fn open(path: &Path, id: Option<FileId>, budget: &mut Budget) -> Option<ObjectFile> {
        let file = RegularFile::at(path).open().ok()?;
        if id.is_some_and(|id| !is_file(&file, id)) {
            return None;
        }
        let has_debug_symbols = is_trusted(&file).ok()?;
        if has_debug_symbols {
            return Some(ObjectFile { file, has_debug_symbols, steps: 0 });
        }
        let file = budget.copy(file)?;
        let Some(steps) = steps(&file) else {
            budget.left_out += 1;
            return None;
        };
        Some(ObjectFile { file, has_debug_symbols, steps })
    }

    /// Whether only root and this user can change the file.
    pub(super) fn is_trusted(&self) -> bool {
        self.has_debug_symbols
    }

    /// The file for the symbolizer: under a path that leads to this open file, whatever is at its own path now.
    pub(super) fn source(&self) -> Source<'static> {
        let mut elf = Elf::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        elf.debug_syms = self.has_debug_symbols;
        Source::Elf(elf)
    }
}

/// Whether an open file has this identity, as far as knee can tell: on some file systems, mappings and files show
/// different numbers.
fn is_file(file: &File, id: FileId) -> bool {
    let has_other_numbers = || {
        let kind = filesystem::kind(&path_of(file));
        kind.is_none_or(|kind| WITH_OTHER_NUMBERS.contains(&kind.as_str()))
    };
    id_of(file).is_some_and(|found| found == id || has_other_numbers())
}

fn id_of(file: &File) -> Option<FileId> {
    let found = fstat(file).ok()?;
    Some(FileId { device: (major(found.st_dev), minor(found.st_dev)), inode: found.st_ino })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use knee_host::skip::skip;
    use rustix::process::geteuid;

    use super::*;

    #[test]
    fn a_file_that_is_not_the_mapped_one_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let [mapped, other] = ["mapped", "other"].map(|name| dir.path().join(name));
        for path in [&mapped, &other] {
            fs::copy(std::env::current_exe().unwrap(), path).unwrap();
        }
        let id = id_of(&File::open(&mapped).unwrap());
        assert!(id.is_some());
        let is_opened = |path: &Path| ObjectFile::open(path, id, &mut Budget::default()).is_some();
        assert!(is_opened(&mapped));
        let kind = filesystem::kind(&other).unwrap();
        assert_eq!(is_opened(&other), WITH_OTHER_NUMBERS.contains(&&*kind), "{kind}");
        // Another mount at the same path, or a new version of the file.
        fs::rename(&other, &mapped).unwrap();
        assert_eq!(is_opened(&mapped), WITH_OTHER_NUMBERS.contains(&&*kind), "{kind}");
    }

    #[test]
    fn debugging_symbols_are_read_only_from_files_of_trusted_users() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        fs::write(&file, program()).unwrap();
        let has_debug_symbols =
            || ObjectFile::open(&file, None, &mut Budget::default()).unwrap().has_debug_symbols;
        assert!(has_debug_symbols());
        fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        assert!(!has_debug_symbols());
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        if !geteuid().is_root() {
            return skip("root", "only root can give a file to another user");
        }
        chown(&file, Some(65534), None).unwrap();
        assert!(!has_debug_symbols());
    }

    #[test]
    fn programs_that_others_can_truncate_are_copied_as_long_as_there_is_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        let bytes = program();
        let length = bytes.len() as u64;
        fs::write(&path, &bytes).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let mut budget = Budget::of(length + 4);
        let copy = ObjectFile::open(&path, None, &mut budget).unwrap();
        fs::write(&path, "1234567").unwrap();
        assert_eq!(copy.file.metadata().unwrap().len(), length);
        assert!(ObjectFile::open(&path, None, &mut budget).is_none());
        assert_eq!((budget.left(), budget.left_out), (4, 1));
    }

    #[test]
    fn a_link_to_a_file_that_the_kernel_computes_costs_no_memory_and_no_time() {
        if !geteuid().is_root() {
            return skip("root", "only root can run a process of another user");
        }
        let mut child = Command::new("sleep").arg("100").uid(65534).spawn().unwrap();
        // It has petabytes, and belongs to the user of the process.
        let path = format!("/proc/{}/pagemap", child.id());
        let mut budget = Budget::of(64 << 10);
        let is_open = ObjectFile::open(Path::new(&path), None, &mut budget).is_some();
        child.kill().and_then(|()| child.wait()).unwrap();
        assert_eq!((is_open, budget.left(), budget.left_out), (false, 64 << 10, 0));
    }

    #[test]
    fn a_program_of_another_user_for_another_machine_has_no_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        let mut bytes = program();
        // EI_DATA.
        bytes[5] = 3 - bytes[5];
        fs::write(&path, &bytes).unwrap();
        assert!(ObjectFile::open(&path, None, &mut Budget::default()).is_some());
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let mut budget = Budget::default();
        assert!(ObjectFile::open(&path, None, &mut budget).is_none());
        assert_eq!(budget.left_out, 1);
    }

    fn program() -> Vec<u8> {
        fs::read("/bin/true").unwrap()
    }
}
