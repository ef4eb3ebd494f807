//! The operations whose cost the agent can measure.

use rustix::fs::{AtFlags, CWD, SeekFrom};
use rustix::pipe::PipeFlags;
use rustix::{fs, io, pipe};

use super::own::{Operation, Own};
use super::testcases::TABLES;
use crate::layout::PAGE;

type Step = knee_operations::Step<Own, io::Errno>;

/// Returns an operation on the name of a one-page file.
const fn on_name(name: &'static str, about: &'static str, call: Step) -> Operation {
    Operation { set_up: Own::create, ..Operation::plain(name, about, call) }
}

/// Returns an operation on a descriptor of a one-page file. The descriptor's offset is 0.
const fn on_file(name: &'static str, about: &'static str, call: Step) -> Operation {
    Operation { set_up: Own::open_own, prepare: Own::seek, ..Operation::plain(name, about, call) }
}

/// All operations: first the 18 calls of `posix`, `huge_fault` and `lseek_shared`, then one iteration of each
/// testcase, under the testcase's name.
pub fn operations() -> impl Iterator<Item = &'static Operation> + Clone {
    CALLS.iter().chain(testcases())
}

/// The iterations of testcases.
pub fn testcases() -> impl Iterator<Item = &'static Operation> + Clone {
    TABLES.iter().copied().flatten()
}

const CALLS: &[Operation] = &[
    Operation {
        restore: Own::close,
        ..on_name("open", "open a private file in the shared directory", Own::open)
    },
    Operation {
        restore: |own| fs::unlink(&own.other),
        ..on_name("link", "give a private file a second name", |own| {
            fs::link(&own.name, &own.other)
        })
    },
    Operation {
        set_up: Operation::NOTHING,
        prepare: Own::create,
        ..on_name("unlink", "remove a private file", |own| fs::unlink(&own.name))
    },
    Operation {
        restore: |own| fs::rename(&own.other, &own.name),
        ..on_name("rename", "rename a private file", |own| fs::rename(&own.name, &own.other))
    },
    on_name("stat", "stat a private file by its name", |own| {
        fs::statat(CWD, &own.name, AtFlags::empty()).map(drop)
    }),
    on_file("fstat", "stat a private file", |own| fs::fstat(own.file()?).map(drop)),
    on_file("lseek", "move the offset of a private file", |own| {
        fs::seek(own.file()?, SeekFrom::Start(PAGE as u64)).map(drop)
    }),
    Operation { prepare: Own::open, ..on_name("close", "close a private file", Own::close) },
    Operation {
        restore: |own| {
            own.ends = None;
            Ok(())
        },
        ..Operation::plain("pipe", "make a pipe", |own| {
            own.ends = Some(pipe::pipe_with(PipeFlags::NONBLOCK)?);
            Ok(())
        })
    },
    on_file("read", "read 4 KiB of a private file", Own::read),
    on_file("write", "overwrite 4 KiB of a private file", Own::write),
    on_file("pread", "read 4 KiB of a private file, from an offset", Own::pread),
    on_file("pwrite", "overwrite 4 KiB of a private file, at an offset", Own::pwrite),
    Operation::MMAP,
    Operation::MUNMAP,
    Operation::MPROTECT,
    Operation::MEMREAD,
    Operation::MEMWRITE,
    Operation::HUGE_FAULT,
    Operation {
        prepare: |own| fs::seek(&own.shared, SeekFrom::Start(0)).map(drop),
        ..Operation::plain(
            "lseek_shared",
            "move the offset of an open file that all tasks share",
            |own| fs::seek(&own.shared, SeekFrom::Start(PAGE as u64)).map(drop),
        )
    },
];

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::super::{empty, shared_file};
    use super::*;

    #[test]
    fn each_operation_can_be_repeated() {
        // The operations create files in the working directory, so this test makes a directory and changes to
        // it. No other test of this crate depends on the working directory.
        let directory = std::env::temp_dir().join(format!("knee-agent-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("make a directory");
        std::env::set_current_dir(&directory).expect("go there");
        for operation in operations() {
            let shared = shared_file().expect("make and open a file");
            let mut own = Own::new(1, 4, 3, Arc::clone(&shared));
            (operation.set_up)(&mut own).expect(operation.name);
            for _ in 0..3 {
                for step in [operation.prepare, operation.call, operation.restore] {
                    step(&mut own).expect(operation.name);
                }
            }
            empty(Path::new(".")).expect("remove the files");
        }
        std::fs::remove_dir_all(&directory).expect("remove it");
    }
}
