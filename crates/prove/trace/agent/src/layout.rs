//! The descriptors, file names and addresses that stand for the numbered objects of tests.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;

// A page is the unit of offsets, lengths and contents.
pub(crate) use knee_operations::{PAGE, PAGES_APART, PAGES_AT};

use knee_plan::{Home, MOST, Nr};

/// The address of a page that always stays mapped. The page follows the pages of tests; see
/// [`keep_tables`](crate::steps::keep_tables).
pub(crate) const KEPT_AT: usize = PAGES_AT + MOST * PAGES_APART;

/// If call `nr` of a test opens a file with O_ANYFD, it returns the descriptor `ANY_FDS + nr`.
pub(crate) const ANY_FDS: i32 = 500;
/// The lowest descriptor of a pipe end that stays open only during set-up. Two descriptors are
/// reserved for each pipe.
pub(crate) const BASE_ENDS: i32 = 700;
/// The lowest descriptor of a hidden end of a pipe. No call uses hidden ends.
pub(crate) const HIDDEN_ENDS: i32 = 720;
/// The maximum number of hidden read ends, and of hidden write ends, of a pipe.
pub(crate) const MOST_HIDDEN: i32 = 8;
/// The first of the descriptors that are in use only within a step.
pub(crate) const FREE: i32 = 880;
/// The lowest of the agent's own descriptors.
pub(crate) const OWN: u32 = 900;

/// The file names of tests, by number.
pub(crate) const NAMES: [&CStr; MOST] = [c"f0", c"f1", c"f2", c"f3", c"f4", c"f5", c"f6", c"f7"];
/// The temporary names of inodes, by number; they exist only during set-up.
pub(crate) const INODES: [&CStr; MOST] =
    [c".i0", c".i1", c".i2", c".i3", c".i4", c".i5", c".i6", c".i7"];
/// The first hidden name of each inode, by number.
pub(crate) const HIDDEN: [&CStr; MOST] =
    [c".h0", c".h1", c".h2", c".h3", c".h4", c".h5", c".h6", c".h7"];

/// Whether a file has a name that tests give to files: one of [`NAMES`], [`INODES`] and [`HIDDEN`], or a
/// [`hidden_name`].
pub(crate) fn is_of_test(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let has = |all: &[&CStr]| all.iter().any(|of_test| of_test.to_bytes() == name);
    let is_hidden = |first: &&CStr| {
        let rest = name.strip_prefix(first.to_bytes()).and_then(|rest| rest.strip_prefix(b"."));
        rest.is_some_and(|nr| !nr.is_empty() && nr.iter().all(u8::is_ascii_digit))
    };
    has(&NAMES) || has(&INODES) || has(&HIDDEN) || HIDDEN.iter().any(is_hidden)
}

/// Returns the path by which steps of a set-up open a file. For a file without a name, returns the
/// path of a directory, as O_TMPFILE requires.
pub(crate) fn path_of(home: Home) -> &'static CStr {
    match home {
        Home::Name(nr) => NAMES[usize::from(nr)],
        Home::Hidden(inode) => HIDDEN[usize::from(inode)],
        Home::Own(inode) => INODES[usize::from(inode)],
        Home::Nowhere => c".",
    }
}

/// Returns a path by which all processes can open descriptor `fd` of the process whose ID is `main`.
pub(crate) fn path_of_end(main: i32, fd: i32) -> CString {
    CString::new(format!("/proc/{main}/fd/{fd}")).expect("no NUL in it")
}

/// Returns the descriptor of hidden end `nr` of a pipe.
pub(crate) fn hidden_end(pipe: Nr, write: bool, nr: u8) -> i32 {
    let kind = 2 * i32::from(pipe) + i32::from(write);
    HIDDEN_ENDS + kind * MOST_HIDDEN + i32::from(nr)
}

/// Returns hidden name `nr` of an inode. `nr` is at least 1: name 0 is in [`HIDDEN`].
pub(crate) fn hidden_name(inode: Nr, nr: u8) -> CString {
    CString::new(format!(".h{inode}.{nr}")).expect("no NUL in it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_tests_are_removed_after_a_failed_set_up() {
        let hidden = hidden_name(3, 12);
        let of_tests = [NAMES[0], INODES[7], HIDDEN[2], &hidden];
        for name in of_tests {
            assert!(is_of_test(OsStr::from_bytes(name.to_bytes())), "{name:?}");
        }
        for name in ["passwd", "f", "f8", "f01", ".h", ".h0.", ".h0.x", ".h9.1", ".i0.1", "fstab"] {
            assert!(!is_of_test(OsStr::new(name)), "{name}");
        }
    }
}
