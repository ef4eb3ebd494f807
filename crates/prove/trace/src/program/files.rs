//! The files that a program needs to run: the program itself, its dynamic linker and its libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use knee_host::RegularFile;
use knee_host::process::output;
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{ElfFile, ProgramHeader};

use crate::error::GuestError;

/// The dynamic linker's cache of libraries. Without this cache, the linker searches only its
/// default directories.
const LINKER_CACHE: &str = "/etc/ld.so.cache";
/// What a dynamic linker prints for a library that it does not find.
const NOT_FOUND: &str = "not found";

/// The absolute paths of the files that a program needs. The program itself is first.
pub(crate) fn files(program: &Path) -> Result<Vec<PathBuf>, GuestError> {
    let failed = |reason: String| GuestError::Program { program: program.to_owned(), reason };
    // A program may search for libraries relative to its own path, after resolving symbolic links.
    let path = fs::canonicalize(program).map_err(|error| failed(error.to_string()))?;
    let content = RegularFile::at(&path).read().map_err(|error| failed(error.to_string()))?;
    let linker = interpreter(&content)
        .map_err(|error| failed(format!("it is not an x86-64 program for Linux ({error})")))?;
    let mut files = vec![path];
    if let Some(linker) = linker {
        let output = output(Command::new(&linker).arg("--list").arg(&files[0]));
        let output = output.map_err(|error| failed(format!("{}: {error}", linker.display())))?;
        let listed = String::from_utf8_lossy(&output.stdout);
        if let Some(missing) = listed.lines().find(|line| line.contains(NOT_FOUND)) {
            return Err(failed(missing.trim().to_owned()));
        }
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(failed(format!("{} failed: {}", linker.display(), stderr.trim())));
        }
        files.extend(listed.lines().filter_map(library).map(PathBuf::from));
        files.extend([linker, PathBuf::from(LINKER_CACHE)]);
    }
    Ok(files)
}

/// The path of the dynamic linker; `None` for a statically linked program.
fn interpreter(content: &[u8]) -> object::Result<Option<PathBuf>> {
    let file = ElfFile::<FileHeader64<Endianness>>::parse(content)?;
    for header in file.elf_program_headers() {
        if let Some(path) = header.interpreter(file.endian(), content)? {
            return Ok(Some(PathBuf::from(String::from_utf8_lossy(path).into_owned())));
        }
    }
    Ok(None)
}

/// The file in a line of the dynamic linker's list; `None` for the kernel's vDSO, which has no
/// file.
fn library(line: &str) -> Option<&str> {
    let file = line.split_once("=>").map_or(line, |(_, file)| file).trim();
    let file = file.rsplit_once(" (0x").map_or(file, |(file, _)| file);
    file.starts_with('/').then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_the_list_of_the_linker() {
        assert_eq!(library("\tlinux-vdso.so.1 (0x00007ffcf69b5000)"), None);
        let line = "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f39fb800000)";
        assert_eq!(library(line), Some("/lib/x86_64-linux-gnu/libc.so.6"));
        let line = "\t/lib64/ld-linux-x86-64.so.2 (0x00007f39fba3e000)";
        assert_eq!(library(line), Some("/lib64/ld-linux-x86-64.so.2"));
    }

    #[test]
    fn this_test_program_needs_itself_and_the_c_library() {
        let own = std::env::current_exe().unwrap();
        let files = files(&own).unwrap();
        assert_eq!(files[0], own.canonicalize().unwrap());
        let has = |name: &str| files.iter().any(|file| file.ends_with(name));
        assert!(has("libc.so.6") && has("ld-linux-x86-64.so.2"), "{files:?}");
    }

    #[test]
    fn a_file_that_is_not_a_program_is_an_error() {
        let error = files(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.starts_with("cannot run /dev/null in a guest: it is a device"), "{error}");
    }
}
