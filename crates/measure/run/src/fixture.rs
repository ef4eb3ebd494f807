//! Testcases and kernel files for tests.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::parameter::Choice;
use crate::{Catalogue, Family, Need, Task, Testcase};

const LOOP: Testcase = Testcase::new(Family::File, |task: &Task<'_>| task.repeat(|| Ok(())));
const OWN: Choice = Choice::new("file", "own", "");
const SAME: Choice = Choice::new("file", "same", "");
/// Loops that do nothing, for tests.
pub(crate) const CATALOGUE: Catalogue = Catalogue(&[&[
    &[
        Testcase { name: "read1", parameters: &[&[OWN, SAME]], ..LOOP },
        Testcase { name: "read2", parameters: &[&[SAME]], ..LOOP },
        Testcase { name: "direct1", needs: &[Need::DirectIo], ..LOOP },
        Testcase { name: "tmpfs1", needs: &[Need::Tmpfs], ..LOOP },
    ],
    &[
        Testcase { name: "futex1", family: Family::Lock, ..LOOP },
        Testcase { name: "futex2", family: Family::Lock, ..LOOP },
        Testcase { name: "getppid1", family: Family::Process, ..LOOP },
    ],
]]);

/// A file like those in /proc, with this text.
pub(crate) fn kernel_file(text: &str) -> File {
    let file = tempfile::tempfile().unwrap();
    rewrite(&file, text);
    file
}

/// Replaces the text of such a file.
pub(crate) fn rewrite(file: &File, text: &str) {
    file.set_len(0).unwrap();
    file.write_all_at(text.as_bytes(), 0).unwrap();
}
