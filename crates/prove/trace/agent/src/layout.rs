//! Where what tests make is: descriptors, names and addresses, by number.

use std::ffi::{CStr, CString};

use crate::script::{Home, MOST, Nr, ZEROES};

/// The unit of offsets, lengths and contents.
pub(crate) const PAGE: usize = 4096;
/// Where pages of tests are mapped: far from everything else in the program.
pub(crate) const PAGES_AT: usize = 0x1234_5600_0000;
/// Between two of them: each has a page table of its own, so that no two share a line of one by
/// their position alone.
pub(crate) const PAGES_APART: usize = 2 << 20;

/// Where a page stays mapped, near those of tests; see
/// [`keep_tables`](crate::steps::keep_tables).
pub(crate) const KEPT_AT: usize = PAGES_AT + MOST * PAGES_APART;

/// What an open with O_ANYFD returns. This number and those behind it are used for nothing else.
pub(crate) const ANY_FDS: i32 = 500;
/// The ends of pipes that the agent holds during set-up, two for each.
pub(crate) const BASE_ENDS: i32 = 700;
/// Ends that no call uses.
pub(crate) const HIDDEN_ENDS: i32 = 720;
/// Hidden ends of one kind of one pipe.
pub(crate) const MOST_HIDDEN: i32 = 8;
/// This number and those above it are in use only for a moment.
pub(crate) const FREE: i32 = 880;
/// The agent's own descriptors are here and above.
pub(crate) const OWN: u32 = 900;

/// Names in the directory, by number.
pub(crate) const NAMES: [&CStr; MOST] = [c"f0", c"f1", c"f2", c"f3", c"f4", c"f5", c"f6", c"f7"];
/// Names of inodes during set-up.
pub(crate) const INODES: [&CStr; MOST] =
    [c".i0", c".i1", c".i2", c".i3", c".i4", c".i5", c".i6", c".i7"];
/// The first hidden name of each inode.
pub(crate) const HIDDEN: [&CStr; MOST] =
    [c".h0", c".h1", c".h2", c".h3", c".h4", c".h5", c".h6", c".h7"];

/// The path of a file during set-up.
pub(crate) fn path_of(home: Home) -> &'static CStr {
    match home {
        Home::Name(nr) => NAMES[usize::from(nr)],
        Home::Hidden(inode) => HIDDEN[usize::from(inode)],
        Home::Own(inode) => INODES[usize::from(inode)],
        Home::Nowhere => c".",
    }
}

/// Where page `nr` of tests is.
pub(crate) fn page_at(nr: Nr) -> usize {
    PAGES_AT + usize::from(nr) * PAGES_APART
}

/// The byte that a datum is full of; 0 is what new memory is full of.
pub(crate) fn content(datum: Nr) -> u8 {
    if datum == ZEROES { 0 } else { datum + 1 }
}

/// The path of a descriptor of the agent's main process, by which the other one opens it too.
pub(crate) fn path_of_end(main: i32, fd: i32) -> CString {
    CString::new(format!("/proc/{main}/fd/{fd}")).expect("no NUL in it")
}

/// The descriptor of a hidden end of a pipe.
pub(crate) fn hidden_end(pipe: Nr, write: bool, nr: u8) -> i32 {
    let kind = 2 * i32::from(pipe) + i32::from(write);
    HIDDEN_ENDS + kind * MOST_HIDDEN + i32::from(nr)
}

/// Hidden names of an inode but the first, by number.
pub(crate) fn hidden_name(inode: Nr, nr: u8) -> CString {
    CString::new(format!(".h{inode}.{nr}")).expect("no NUL in it")
}
