//! A file system for tests, other than tmpfs. The host makes the file system, and the guest puts it
//! on a RAM disk.
//!
//! The host sends the file system's kernel modules and the non-zero extents of its image as one
//! file of the initramfs. So the guest needs neither mkfs nor modprobe.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr;

use serde::{Deserialize, Serialize};

use crate::module;

/// The host's file in the initramfs, relative to the root.
pub const DISK: &str = "disk";
/// The path, major number and minor number of the first RAM disk. The driver brd has major number 1
/// (Documentation/admin-guide/devices.txt).
const DEVICE: (&CStr, u32, u32) = (c"/dev/ram0", 1, 0);

/// A file system, with everything that the guest needs to mount it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk<'a> {
    /// The type of the file system, for mount(2).
    pub kind: &'a str,
    /// Size of the disk in KiB.
    pub kib: u64,
    /// Names and contents of the modules, in the order in which they are loaded.
    #[serde(borrow)]
    pub modules: Vec<(&'a str, &'a [u8])>,
    /// The extents that are not zero: offsets in bytes, and contents.
    #[serde(borrow)]
    pub extents: Vec<(u64, &'a [u8])>,
    /// The places where the host searched for modules; error messages list them.
    pub places: &'a str,
}

impl<'a> Disk<'a> {
    /// Returns the content of the host's file.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("plain data is serialized into memory")
    }

    fn of(bytes: &'a [u8]) -> io::Result<Disk<'a>> {
        postcard::from_bytes(bytes)
            .map_err(|_| io::Error::other("the disk from the host is incomplete"))
    }

    /// Returns the parameters of the module brd: one disk, of this size.
    pub fn parameters(&self) -> [String; 2] {
        ["rd_nr=1".to_owned(), format!("rd_size={}", self.kib)]
    }

    fn mount(&self, at: &CStr) -> io::Result<()> {
        for &(name, content) in &self.modules {
            let parameters =
                if name == "brd" { self.parameters().join(" ") } else { String::new() };
            module::load(content, &parameters)
                .map_err(|error| with_context(&error, &format!("cannot load module {name}")))?;
        }
        let (device, major, minor) = DEVICE;
        // SAFETY: the path is a valid C string.
        let made = unsafe {
            libc::mknod(device.as_ptr(), libc::S_IFBLK | 0o600, libc::makedev(major, minor))
        };
        if made != 0 {
            return Err(with_context(
                &io::Error::last_os_error(),
                "cannot create a device node for the RAM disk",
            ));
        }
        self.fill().map_err(|error| match error.raw_os_error() {
            Some(libc::ENXIO | libc::ENODEV) => self.unsupported("RAM disk (brd)"),
            _ => with_context(&error, "cannot fill the RAM disk"),
        })?;
        let kind = CString::new(self.kind)?;
        // SAFETY: all strings are valid C strings, and no data is passed.
        let mounted =
            unsafe { libc::mount(device.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, ptr::null()) };
        match io::Error::last_os_error() {
            _ if mounted == 0 => Ok(()),
            error if error.raw_os_error() == Some(libc::ENODEV) => Err(self.unsupported(self.kind)),
            error => {
                let what = format!(
                    "cannot mount {}; this machine's mkfs.{} may have formatted it for newer \
                     kernels",
                    self.kind, self.kind
                );
                Err(with_context(&error, &what))
            }
        }
    }

    fn fill(&self) -> io::Result<()> {
        let device = File::options().write(true).open("/dev/ram0")?;
        for &(at, content) in &self.extents {
            device.write_all_at(content, at)?;
        }
        device.sync_all()
    }

    fn unsupported(&self, what: &str) -> io::Error {
        let places = self.places;
        io::Error::other(format!(
            "this kernel has no {what}, neither built in nor as a module in {places}"
        ))
    }
}

/// Mounts the disk that the host has sent. Returns false if the host has sent no disk.
pub(crate) fn mount(at: &CStr) -> io::Result<bool> {
    let path = format!("/{DISK}");
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        read => read?,
    };
    Disk::of(&bytes)?.mount(at)?;
    // The initramfs is in memory, so removing the file frees memory.
    fs::remove_file(path)?;
    Ok(true)
}

fn with_context(error: &io::Error, what: &str) -> io::Error {
    io::Error::other(format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_arrives_as_it_was_sent_and_a_truncated_disk_is_an_error() {
        let disk = Disk {
            kind: "xfs",
            kib: 300 << 10,
            modules: vec![("brd", b"\x7fELF"), ("xfs", b"")],
            extents: vec![(0, b"XFSB"), (1 << 33, b"x")],
            places: "/lib/modules",
        };
        let bytes = disk.to_bytes();
        assert_eq!(Disk::of(&bytes).expect("it is whole"), disk);
        assert_eq!(disk.parameters(), ["rd_nr=1", "rd_size=307200"]);
        assert!((0..bytes.len()).all(|end| Disk::of(&bytes[..end]).is_err()));
    }
}
