//! A guest's initial file system, made in memory: a cpio archive in the "newc" format
//! (Documentation/driver-api/early-userspace/buffer-format.rst of Linux).

use std::collections::BTreeSet;

/// File types in the upper bits of a mode, as in stat(2).
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const CHARACTER: u32 = 0o020_000;
/// Major and minor numbers of devices (Documentation/admin-guide/devices.txt of Linux).
const TTY_S0: (u32, u32) = (4, 64);
const CONSOLE: (u32, u32) = (5, 1);
const NULL: (u32, u32) = (1, 3);
const ZERO: (u32, u32) = (1, 5);
const FULL: (u32, u32) = (1, 7);
const RANDOM: (u32, u32) = (1, 8);
const URANDOM: (u32, u32) = (1, 9);

/// An archive that Linux unpacks into its root when it boots.
///
/// ```
/// use knee_trace::Initramfs;
///
/// let archive = Initramfs::new().file("init", 0o755, b"#!/bin/sh\n").finish();
/// assert!(archive.starts_with(b"070701"));
/// assert_eq!(archive.len() % 4, 0);
/// ```
#[derive(Clone, Debug)]
pub struct Initramfs {
    archive: Vec<u8>,
    inode: u32,
    /// The directories that have been added; the root is not among them.
    directories: BTreeSet<String>,
}

impl Default for Initramfs {
    fn default() -> Initramfs {
        Initramfs::new()
    }
}

impl Initramfs {
    /// An archive with the directories dev, proc, sys and tmp and the devices console, ttyS0 and
    /// null. An init needs these for its output and to mount everything else.
    pub fn new() -> Initramfs {
        let empty = Initramfs { archive: Vec::new(), inode: 0, directories: BTreeSet::new() };
        ["dev", "proc", "sys", "tmp"]
            .into_iter()
            .fold(empty, |archive, name| archive.directory(name, 0o755))
            .device("dev/console", 0o600, CONSOLE)
            .device("dev/ttyS0", 0o600, TTY_S0)
            .device("dev/null", 0o666, NULL)
    }

    /// Adds a file. `path` is relative to the root, and its directory must already have been added.
    pub fn file(mut self, path: &str, permissions: u32, content: &[u8]) -> Initramfs {
        self.entry(path, REGULAR | permissions, (0, 0), content);
        self
    }

    /// Adds those parent directories of a path that have not been added yet.
    pub fn parents(mut self, path: &str) -> Initramfs {
        for (end, _) in path.match_indices('/') {
            if !self.directories.contains(&path[..end]) {
                self = self.directory(&path[..end], 0o755);
            }
        }
        self
    }

    /// Adds devices that programs expect: zero, full, random and urandom.
    pub fn program_devices(self) -> Initramfs {
        self.device("dev/zero", 0o666, ZERO)
            .device("dev/full", 0o666, FULL)
            .device("dev/random", 0o666, RANDOM)
            .device("dev/urandom", 0o666, URANDOM)
    }

    /// Adds a directory.
    pub fn directory(mut self, path: &str, permissions: u32) -> Initramfs {
        self.directories.insert(path.to_owned());
        self.entry(path, DIRECTORY | permissions, (0, 0), &[]);
        self
    }

    /// Adds a character device.
    pub fn device(mut self, path: &str, permissions: u32, number: (u32, u32)) -> Initramfs {
        self.entry(path, CHARACTER | permissions, number, &[]);
        self
    }

    /// The archive's bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.archive
    }

    fn entry(&mut self, path: &str, mode: u32, (major, minor): (u32, u32), content: &[u8]) {
        self.inode += 1;
        let links = 1;
        let name = path.len() as u32 + 1;
        // uid, gid, modification time, the number of the device that holds the file, and the checksum are 0.
        let fields =
            [self.inode, mode, 0, 0, links, 0, content.len() as u32, 0, 0, major, minor, name, 0];
        self.archive.extend(b"070701");
        for field in fields {
            self.archive.extend(format!("{field:08X}").bytes());
        }
        self.archive.extend(path.bytes());
        self.archive.push(0);
        self.pad();
        self.archive.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.archive.resize(self.archive.len().next_multiple_of(4), 0);
    }
}
