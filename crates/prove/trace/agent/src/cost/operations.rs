//! The operations whose cost the agent can measure.

use rustix::fs::{AtFlags, CWD, SeekFrom};
use rustix::mm::MprotectFlags;
use rustix::pipe::PipeFlags;
use rustix::{fs, io, pipe, process};

use super::own::{Own, whole};
use crate::layout::PAGE;

/// An operation that tasks do in turn.
pub struct Operation {
    /// The name of the operation in the model `posix`, or, for the iteration of a testcase, the
    /// name of the testcase in `knee list`.
    pub name: &'static str,
    /// What the operation does.
    pub about: &'static str,
    /// Runs once, in the task's first turn.
    pub(super) set_up: Step,
    /// Runs before each operation, untraced.
    pub(super) prepare: Step,
    /// The operation.
    pub(super) call: Step,
    /// Runs after each operation, untraced.
    pub(super) restore: Step,
}

pub(super) type Step = fn(&mut Own) -> io::Result<()>;

const NOTHING: Step = |_| Ok(());

impl Operation {
    /// Returns an operation that needs no set-up.
    const fn plain(name: &'static str, about: &'static str, call: Step) -> Operation {
        Operation { name, about, set_up: NOTHING, prepare: NOTHING, call, restore: NOTHING }
    }

    /// Returns an operation on the name of a one-page file.
    const fn on_name(name: &'static str, about: &'static str, call: Step) -> Operation {
        Operation { set_up: Own::create, ..Operation::plain(name, about, call) }
    }

    /// Returns an operation on a descriptor of a one-page file. The descriptor's offset is 0.
    const fn on_file(name: &'static str, about: &'static str, call: Step) -> Operation {
        Operation {
            set_up: |own| own.create().and_then(|()| own.open()),
            prepare: |own| fs::seek(own.file()?, SeekFrom::Start(0)).map(drop),
            ..Operation::plain(name, about, call)
        }
    }

    /// Returns an operation on a page of memory to which the set-up has written.
    const fn on_page(name: &'static str, about: &'static str, call: Step) -> Operation {
        Operation {
            set_up: |own| {
                own.map_neighbour()?;
                own.map_page()?;
                own.write_page()
            },
            ..Operation::plain(name, about, call)
        }
    }
}

/// All operations: the 18 calls of `posix`, then iterations of testcases.
pub const OPERATIONS: &[Operation] = &[
    Operation {
        restore: Own::close,
        ..Operation::on_name("open", "open a private file in the shared directory", Own::open)
    },
    Operation {
        restore: |own| fs::unlink(&own.other),
        ..Operation::on_name("link", "give a private file a second name", |own| {
            fs::link(&own.name, &own.other)
        })
    },
    Operation {
        set_up: NOTHING,
        prepare: Own::create,
        ..Operation::on_name("unlink", "remove a private file", |own| fs::unlink(&own.name))
    },
    Operation {
        restore: |own| fs::rename(&own.other, &own.name),
        ..Operation::on_name("rename", "rename a private file", |own| {
            fs::rename(&own.name, &own.other)
        })
    },
    Operation::on_name("stat", "stat a private file by its name", |own| {
        fs::statat(CWD, &own.name, AtFlags::empty()).map(drop)
    }),
    Operation::on_file("fstat", "stat a private file", |own| fs::fstat(own.file()?).map(drop)),
    Operation::on_file("lseek", "move the offset of a private file", |own| {
        fs::seek(own.file()?, SeekFrom::Start(PAGE as u64)).map(drop)
    }),
    Operation {
        prepare: Own::open,
        ..Operation::on_name("close", "close a private file", Own::close)
    },
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
    Operation::on_file("read", "read 4 KiB of a private file", |own| {
        let (file, buffer) = own.file_and_buffer()?;
        whole(io::read(file, buffer)?)
    }),
    Operation::on_file("write", "overwrite 4 KiB of a private file", |own| {
        let (file, buffer) = own.file_and_buffer()?;
        whole(io::write(file, buffer)?)
    }),
    Operation::on_file("pread", "read 4 KiB of a private file, from an offset", |own| {
        let (file, buffer) = own.file_and_buffer()?;
        whole(io::pread(file, buffer, 0)?)
    }),
    Operation::on_file("pwrite", "overwrite 4 KiB of a private file, at an offset", |own| {
        let (file, buffer) = own.file_and_buffer()?;
        whole(io::pwrite(file, buffer, 0)?)
    }),
    Operation {
        set_up: Own::map_neighbour,
        restore: Own::unmap_page,
        ..Operation::plain("mmap", "map a page of memory at a private address", Own::map_page)
    },
    Operation {
        set_up: Own::map_neighbour,
        prepare: |own| {
            own.map_page()?;
            own.write_page()
        },
        ..Operation::plain("munmap", "unmap a written page", Own::unmap_page)
    },
    Operation {
        restore: |own| own.protect_page(MprotectFlags::READ | MprotectFlags::WRITE),
        ..Operation::on_page("mprotect", "make a written page read-only", |own| {
            own.protect_page(MprotectFlags::READ)
        })
    },
    Operation {
        prepare: Own::discard_page,
        ..Operation::on_page(
            "memread",
            "read from a page of memory for the first time",
            Own::read_page,
        )
    },
    Operation {
        prepare: Own::discard_page,
        ..Operation::on_page(
            "memwrite",
            "write to a page of memory for the first time",
            Own::write_page,
        )
    },
    Operation::plain("getppid1", "getppid()", |_| {
        let _ = process::getppid();
        Ok(())
    }),
    Operation {
        prepare: |own| fs::seek(&own.shared, SeekFrom::Start(0)).map(drop),
        ..Operation::plain(
            "lseek_shared",
            "move the offset of an open file that all tasks share",
            |own| fs::seek(&own.shared, SeekFrom::Start(PAGE as u64)).map(drop),
        )
    },
    Operation {
        set_up: Own::map_region,
        ..Operation::plain(
            "page_fault1",
            "write to the next page of 128 MB of memory",
            Own::write_next_page,
        )
    },
    Operation {
        set_up: Own::map_share,
        ..Operation::plain(
            "mmap_churn1",
            "unmap one of 1024 mappings (1 to 32 KiB) of an address space, and map a new one",
            Own::churn,
        )
    },
    Operation {
        set_up: Own::map_many,
        ..Operation::plain(
            "mmap_churn2",
            "unmap one of the task's 1024 mappings (1 to 32 KiB), and map a new one",
            Own::churn,
        )
    },
];

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn each_operation_can_be_repeated() {
        // Operations use the working directory. No other test of this crate depends on that
        // directory.
        let directory = std::env::temp_dir().join(format!("knee-agent-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("make a directory");
        std::env::set_current_dir(&directory).expect("go there");
        let shared = File::create_new("shared").expect("make a file");
        let shared = Arc::new(shared);
        for operation in OPERATIONS {
            let mut own = Own::new(1, 4, Arc::clone(&shared));
            (operation.set_up)(&mut own).expect(operation.name);
            for _ in 0..3 {
                for step in [operation.prepare, operation.call, operation.restore] {
                    step(&mut own).expect(operation.name);
                }
            }
            for file in std::fs::read_dir(".").expect("look around") {
                std::fs::remove_file(file.expect("a file").path()).expect("remove it");
            }
        }
        std::fs::remove_dir_all(&directory).expect("remove it");
    }
}
