//! What kind of file system a path lies on.

use std::path::Path;

/// The magic numbers of `statfs(2)` (linux/magic.h and, for ZFS, OpenZFS) that knee's users
/// are likely to run on.
const NAMES: [(u64, &str); 13] = [
    (0xef53, "ext2/3/4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x794c_7630, "overlayfs"),
    (0x6969, "nfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0x6573_5546, "fuse"),
    (0xca45_1a4e, "bcachefs"),
    (0x0102_1997, "9p"),
    (0xff53_4d42, "cifs"),
];

/// Free bytes of a file system with less room than any file of knee or a server needs.
const ALMOST_FULL: u64 = 64 << 10;

/// The name of the file system that `path` is on, or its magic number in hex when knee has no
/// name for it; `None` if the path cannot be examined.
pub fn kind(path: &Path) -> Option<String> {
    rustix::fs::statfs(path).ok().map(|stat| name(stat.f_type as u64))
}

/// Bytes that an ordinary user can still write to the file system of `path`.
pub fn bytes_free(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Whether even root can hardly write to the file system of `path` any more.
pub fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|stat| {
        // Some file systems, such as /proc, have no blocks.
        stat.f_blocks > 0 && stat.f_bfree.saturating_mul(stat.f_frsize) < ALMOST_FULL
    })
}

fn name(magic: u64) -> String {
    // The field is signed on some architectures, and magic numbers have 32 bits on all.
    let magic = magic & 0xffff_ffff;
    NAMES
        .iter()
        .find(|(known, _)| *known == magic)
        .map_or_else(|| format!("{magic:#x}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_magic_numbers_have_names_and_others_are_shown() {
        assert_eq!(name(0xef53), "ext2/3/4");
        assert_eq!(name(0xffff_ffff_9123_683e), "btrfs");
        assert_eq!(name(0x1234), "0x1234");
    }

    #[test]
    fn a_missing_path_has_no_file_system() {
        assert_eq!(kind(Path::new("/does/not/exist")), None);
        assert!(kind(Path::new("/")).is_some());
    }
}
