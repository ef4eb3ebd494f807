//! The directory of a QEMU that has been unpacked from packages: the files that are kept in the
//! directory, and the command that starts the QEMU.

use std::path::Path;
use std::process::Command;

/// The program.
const PROGRAM: &str = "usr/bin/qemu-system-x86_64";
/// The directories of libraries. A package's libraries are below /usr in some suites, and below
/// /lib in others.
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
/// The dynamic linker, in one of [`LIBRARIES`]. The symbolic link in /lib64 is not used, because its
/// target may be an absolute path.
const LINKER: &str = "ld-linux-x86-64.so.2";
/// Where QEMU finds its modules, below [`LIBRARIES`].
const MODULES: &str = "qemu";
/// Where QEMU finds firmware.
const FIRMWARE: [&str; 3] = ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"];

/// The command that starts the QEMU in a directory, with the dynamic linker, libraries, modules and
/// firmware from that directory.
pub(super) fn command(root: &Path) -> Command {
    let libraries = LIBRARIES.map(|dir| root.join(dir));
    let linkers = libraries.iter().map(|dir| dir.join(LINKER));
    let linker = linkers.clone().find(|file| file.exists());
    let modules = libraries.iter().map(|dir| dir.join(MODULES)).find(|dir| dir.is_dir());
    // If the linker is missing, the error names the path where it should be.
    let linker = linker.or_else(|| linkers.clone().next()).unwrap_or_default();
    let mut command = Command::new(linker);
    let path = libraries.each_ref().map(|dir| dir.display().to_string()).join(":");
    command.arg("--library-path").arg(path).arg(root.join(PROGRAM));
    for dir in FIRMWARE {
        command.arg("-L").arg(root.join(dir));
    }
    if let Some(modules) = modules {
        command.env("QEMU_MODULE_DIR", modules);
    }
    command
}

/// Whether starting a guest needs this file of a package: the program, libraries, modules and
/// firmware, but not other programs, documentation, translations or character sets.
pub(super) fn is_needed(path: &Path) -> bool {
    let below = |dir: &str| path.strip_prefix(dir).ok();
    let is_library = |dir| {
        below(dir).is_some_and(|rest| rest.components().count() == 1 || rest.starts_with(MODULES))
    };
    path == Path::new(PROGRAM)
        || LIBRARIES.into_iter().any(is_library)
        || FIRMWARE.into_iter().any(|dir| below(dir).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_a_guest_needs_are_unpacked() {
        for needed in [
            "usr/bin/qemu-system-x86_64",
            "usr/lib/x86_64-linux-gnu/libc.so.6",
            "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
            "usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so",
            "usr/share/seabios/bios-256k.bin",
        ] {
            assert!(is_needed(Path::new(needed)), "{needed}");
        }
        for other in [
            "usr/bin/qemu-system-i386",
            "usr/lib/x86_64-linux-gnu/gconv/IBM1047.so",
            "usr/share/doc/libc6/copyright",
            "lib64/ld-linux-x86-64.so.2",
            "",
        ] {
            assert!(!is_needed(Path::new(other)), "{other}");
        }
    }
}
