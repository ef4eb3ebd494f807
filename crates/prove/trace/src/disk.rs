//! File systems for tests: the host's mkfs makes them, and a guest mounts them from a RAM disk.
//!
//! mkfs writes into a memfd. The guest receives only the extents that are not zero, several hundred
//! KiB in all.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use knee_agent::Disk as Sent;
use knee_host::process::{output, program};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::kernel::{Kernel, KernelError};
use crate::memfd;
use crate::modules::Modules;

/// Size of a disk in KiB. mkfs.xfs refuses less than 300 MB. Blocks that are never written take no
/// memory.
const KIB: u64 = 384 << 10;
/// A block of this many bytes is left out if it contains only zeroes.
const BLOCK: usize = 4096;
/// With a fixed UUID, all images of a file system are the same, except that some mkfs programs write
/// the time into the image.
const UUID: &str = "6b6e6565-0000-4000-8000-000000000001";
/// The directory of Debian's mkfs programs, which is not in every user's PATH.
const SBIN: &str = "/usr/sbin";

/// How to make a file system.
struct Maker {
    kind: &'static str,
    program: &'static str,
    /// The Debian package that contains the program.
    package: &'static str,
    arguments: &'static [&'static str],
}

/// With these options, mkfs initialises all tables. Without them, the kernel would initialise the tables in
/// the background, during tests.
const EXT: [&str; 6] =
    ["-q", "-F", "-U", UUID, "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"];
const MAKERS: [Maker; 4] = [
    Maker { kind: "ext2", program: "mkfs.ext2", package: "e2fsprogs", arguments: &EXT },
    Maker { kind: "ext4", program: "mkfs.ext4", package: "e2fsprogs", arguments: &EXT },
    Maker {
        kind: "xfs",
        program: "mkfs.xfs",
        package: "xfsprogs",
        arguments: &["-q", "-f", "-K", "-m", "uuid=6b6e6565-0000-4000-8000-000000000001"],
    },
    Maker {
        kind: "btrfs",
        program: "mkfs.btrfs",
        package: "btrfs-progs",
        arguments: &["-q", "-f", "-K", "-U", UUID],
    },
];

/// Why a disk cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// knee cannot make a file system of this kind.
    #[error("knee cannot make the file system {wanted}; it can make {known}")]
    Unknown {
        /// The requested kind.
        wanted: String,
        /// The available kinds, separated by commas.
        known: String,
    },
    /// The kernel's modules could not be read.
    #[error(transparent)]
    Modules(#[from] KernelError),
    /// mkfs is not installed.
    #[error("{program} is not installed: apt-get install {package}")]
    NoMkfs {
        /// The program.
        program: &'static str,
        /// The Debian package that contains the program.
        package: &'static str,
    },
    /// mkfs failed.
    #[error("{program} failed: {message}")]
    Mkfs {
        /// The program.
        program: &'static str,
        /// Its message.
        message: String,
    },
    /// The image could not be created or read in memory.
    #[error("cannot keep a file system in memory: {0}")]
    Memory(#[from] io::Error),
}

/// A RAM disk with a file system, and the modules that a kernel needs for it.
#[derive(Clone, Debug)]
pub struct Disk {
    file: Vec<u8>,
    /// Parameters for the kernel's command line, which take effect if brd is built in.
    parameters: Vec<String>,
}

impl Disk {
    /// The names of the file systems that knee can make.
    pub fn kinds() -> impl Iterator<Item = &'static str> {
        MAKERS.iter().map(|maker| maker.kind)
    }

    /// The file systems that knee cannot make on this machine, each with the Debian package that
    /// contains its mkfs.
    pub fn missing() -> impl Iterator<Item = (&'static str, &'static str)> {
        let is_missing = |maker: &&Maker| {
            let installed = Path::new(SBIN).join(maker.program);
            program::find(maker.program).is_none() && !installed.is_file()
        };
        MAKERS.iter().filter(is_missing).map(|maker| (maker.kind, maker.package))
    }

    /// Makes an empty file system of this kind, for this kernel. If the kernel has the file system
    /// neither built in nor as a module, the guest reports an error.
    pub fn make(kernel: &Kernel, kind: &str) -> Result<Disk, DiskError> {
        let unknown = || DiskError::Unknown {
            wanted: kind.to_owned(),
            known: Disk::kinds().collect::<Vec<_>>().join(", "),
        };
        let maker = MAKERS.iter().find(|maker| maker.kind == kind).ok_or_else(unknown)?;
        let image = maker.make(KIB << 10)?;
        let extents = extents(&image)?;
        let modules = Modules::of(kernel)?;
        let places = modules.places();
        let modules = modules.with_needs(&["brd", kind])?;
        let sent = Sent {
            kind,
            kib: KIB,
            modules: modules.iter().map(|(name, content)| (&name[..], &content[..])).collect(),
            extents: extents.iter().map(|(at, content)| (*at, &content[..])).collect(),
            places: &places,
        };
        let parameters = sent.parameters().map(|parameter| format!("brd.{parameter}")).to_vec();
        Ok(Disk { file: sent.to_bytes(), parameters })
    }

    /// The file that the agent reads.
    pub(crate) fn file(&self) -> &[u8] {
        &self.file
    }

    pub(crate) fn parameters(&self) -> &[String] {
        &self.parameters
    }
}

impl Maker {
    /// Makes an image of this size in bytes.
    fn make(&self, bytes: u64) -> Result<File, DiskError> {
        let image = memfd::zeroes("knee-disk", bytes)?;
        let run = |program: &Path| -> io::Result<Output> {
            let mut command = Command::new(program);
            command.args(self.arguments).arg("/proc/self/fd/0");
            output(command.stdin(Stdio::from(image.try_clone()?)))
        };
        let not_found = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let output = match run(Path::new(self.program)) {
            Err(error) if not_found(&error) => run(&Path::new(SBIN).join(self.program)),
            ran => ran,
        };
        let (program, package) = (self.program, self.package);
        let output = output.map_err(|error| match not_found(&error) {
            true => DiskError::NoMkfs { program, package },
            false => DiskError::Mkfs { program, message: error.to_string() },
        })?;
        if output.status.success() {
            return Ok(image);
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(DiskError::Mkfs { program, message })
    }
}

/// The offsets and contents of the non-zero extents of a file.
fn extents(file: &File) -> io::Result<Vec<(u64, Vec<u8>)>> {
    let mut extents: Vec<(u64, Vec<u8>)> = Vec::new();
    let bytes = file.metadata()?.len();
    let mut at = 0;
    while let Some(data) = next(file, SeekFrom::Data(at))? {
        let hole = next(file, SeekFrom::Hole(data))?.unwrap_or(bytes);
        let mut block = [0; BLOCK];
        at = data;
        while at < hole {
            let block = &mut block[..BLOCK.min((hole - at) as usize)];
            file.read_exact_at(block, at)?;
            if block.iter().any(|byte| *byte != 0) {
                match extents.last_mut() {
                    Some((begin, content)) if *begin + content.len() as u64 == at => {
                        content.extend_from_slice(block);
                    }
                    _ => extents.push((at, block.to_vec())),
                }
            }
            at += block.len() as u64;
        }
    }
    Ok(extents)
}

/// The offset of the next data or hole; `None` if there is none.
fn next(file: &File, from: SeekFrom) -> io::Result<Option<u64>> {
    match seek(file, from) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: u64) -> File {
        memfd::zeroes("knee-test", bytes).expect("make memory")
    }

    #[test]
    fn zero_blocks_are_left_out_and_adjacent_blocks_form_one_extent() {
        let file = file(1 << 40);
        assert_eq!(extents(&file).unwrap(), []);
        file.write_all_at(&[0; 3 * BLOCK], 0).unwrap();
        file.write_all_at(b"a", BLOCK as u64 - 1).unwrap();
        file.write_all_at(b"b", BLOCK as u64).unwrap();
        file.write_all_at(b"end", (1 << 40) - 3).unwrap();
        let found = extents(&file).unwrap();
        let places: Vec<_> = found.iter().map(|(at, content)| (*at, content.len())).collect();
        assert_eq!(places, [(0, 2 * BLOCK), ((1 << 40) - BLOCK as u64, BLOCK)]);
        assert_eq!(found[0].1[BLOCK - 1..=BLOCK], *b"ab");
        assert!(found[1].1.ends_with(b"\0end"));
    }

    #[test]
    fn a_file_that_ends_within_a_block_is_read_to_its_end() {
        let file = file(BLOCK as u64 + 3);
        file.write_all_at(b"abc", BLOCK as u64).unwrap();
        assert_eq!(extents(&file).unwrap(), [(BLOCK as u64, b"abc".to_vec())]);
    }

    #[test]
    fn every_mkfs_makes_an_image_that_is_almost_empty() {
        for maker in &MAKERS {
            let image = match maker.make(KIB << 10) {
                Err(error @ DiskError::NoMkfs { .. }) => {
                    knee_host::skip::skip("mkfs", error);
                    continue;
                }
                made => made.unwrap(),
            };
            let bytes: usize =
                extents(&image).unwrap().iter().map(|(_, content)| content.len()).sum();
            assert!((BLOCK..4 << 20).contains(&bytes), "{}: {bytes} bytes", maker.kind);
        }
    }

    #[test]
    fn a_mkfs_that_is_missing_or_fails_is_an_error() {
        let maker = |program| Maker { kind: "x", program, package: "x-progs", arguments: &[] };
        let message = |program| maker(program).make(4096).unwrap_err().to_string();
        assert_eq!(message("mkfs.none"), "mkfs.none is not installed: apt-get install x-progs");
        assert!(message("false").starts_with("false failed: "));
    }
}
