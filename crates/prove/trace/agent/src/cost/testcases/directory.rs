//! Opening, removing and looking up files, and duplicating descriptors.

use std::ffi::CString;

use rustix::fs::{self, AtFlags};
use rustix::io::{self, Errno, Result};

use super::step::{Step, on_own_file};
use crate::cost::own::{Operation, Own};

/// Returns a testcase that opens and closes a file, whose name `set_up` chooses.
const fn on_path(name: &'static str, about: &'static str, set_up: Step) -> Operation {
    let call: Step = |own| own.open().and_then(|()| own.close());
    Operation { set_up, ..Operation::plain(name, about, call) }
}

/// Returns a testcase that creates and removes a file, whose name `set_up` chooses.
const fn unlink(name: &'static str, about: &'static str, set_up: Step) -> Operation {
    let call: Step = |own| own.create_empty().and_then(|()| fs::unlink(&own.name));
    Operation { set_up, ..Operation::plain(name, about, call) }
}

/// Returns a testcase that looks up the task's file in the directory that the task has open.
const fn stat(name: &'static str, about: &'static str, set_up: Step) -> Operation {
    let call: Step = |own| fs::statat(own.file()?, &own.name, AtFlags::empty()).map(drop);
    Operation { set_up, ..Operation::plain(name, about, call) }
}

/// Creates a directory for the task. The name of the task's file becomes a path of three components into this
/// directory. Does not create the file.
fn own_directory(own: &mut Own) -> Result<()> {
    own.go_into("parent")?;
    fs::mkdir(&own.name, fs::Mode::RWXU)?;
    let directory = own.name.to_string_lossy().into_owned();
    own.name = c"file".to_owned();
    own.go_into(&directory)
}

/// Creates the task's file in a directory of the task, and opens the directory. The name of the file is then
/// relative to this directory.
fn file_in_own_directory(own: &mut Own) -> Result<()> {
    own_directory(own)?;
    own.create()?;
    let path = own.name.to_string_lossy().into_owned();
    let (directory, file) = path.rsplit_once('/').ok_or(Errno::INVAL)?;
    let name = |text: &str| CString::new(text).map_err(|_| Errno::INVAL);
    own.open_directory(&name(directory)?)?;
    own.name = name(file)?;
    Ok(())
}

pub(super) const TESTCASES: &[Operation] = &[
    on_path("open1", "open() and close() of a file; all tasks use one directory", |own| {
        own.go_into("shared-directory")?;
        own.create()
    }),
    on_path("open2", "open() and close() of a file in the task's own directory", |own| {
        own_directory(own)?;
        own.create()
    }),
    on_path("open3", "open() and close() of a file; all tasks use one file", Own::use_shared),
    unlink(
        "unlink1",
        "open(O_CREAT), close() and unlink() of a file; all tasks use one directory",
        |own| own.go_into("shared-directory"),
    ),
    unlink(
        "unlink2",
        "open(O_CREAT), close() and unlink() of a file in the task's own directory",
        own_directory,
    ),
    stat(
        "fstatat1",
        "fstatat() of the task's own file, relative to the directory of all tasks",
        |own| {
            own.create()?;
            own.open_directory(c".")
        },
    ),
    stat(
        "fstatat2",
        "fstatat() of a file, relative to the task's own directory",
        file_in_own_directory,
    ),
    stat("fstatat3", "fstatat() of a directory, relative to its grandparent directory", |own| {
        own.go_into("parent")?;
        fs::mkdir(&own.name, fs::Mode::RWXU)?;
        own.open_directory(c".")
    }),
    on_own_file("dup1", "dup() of a descriptor, and close() of the new one", |own| {
        io::dup(own.file()?).map(drop)
    }),
];
