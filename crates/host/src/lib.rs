//! The machine and its operating system, as every floor of knee uses them. Nothing here measures.
//!
//! | module | question |
//! | --- | --- |
//! | [`cpulist`] | how are sets of CPUs written? |
//! | [`affinity`] | which CPUs may this process use, and how is a thread bound to some? |
//! | [`topology`] | which of them share a core, an L3, a NUMA node, a package? |
//! | [`placement`] | in which order do tasks take them, and which task counts are worth measuring? |
//! | [`cgroup`] | how much CPU time and memory do cgroups allow? |
//! | [`counters`] | how many cycles, cache misses, context switches did some processes cause? |
//! | [`perf_event`] | how is an event of the kernel's perf subsystem opened? |
//! | [`environment`] | which properties of the machine must a record contain? |
//! | [`virtualisation`] | bare metal, or a guest of which hypervisor? |
//! | [`filesystem`] | what kind of file system is under a path, and how much room does it have? |
//! | [`process`] | how are processes started, ended and waited for; where is a program? |
//! | [`signal`], [`interrupt`] | which signal ended a process; has Ctrl-C been pressed? |
//! | [`limits`] | how many files may be open? |
//! | [`ssh`] | how does knee reach another host, and what does the host answer? |
//! | [`listener`] | whose programs accept connections at an address? |
//! | [`workdir`] | where do temporary files go, so that nothing remains? |
//! | [`temporary`] | which files must a process remove that ends without running destructors? |
//! | [`atomic_file`] | how is a file replaced so that no reader sees half of it? |
//! | [`regular_file`] | how is a file opened that another user may have made? |
//! | [`fixed`] | can another user replace a directory? |
//! | [`own_directory`] | how is a directory created and opened in which nobody else can replace files? |
//! | [`lock_file`] | how is a directory locked against other writers? |
//! | [`mapping`] | can another user truncate a file that is mapped into memory? |
//! | [`digest`] | is this the content that was recorded? |
//! | [`clock`], [`utc`] | what time is it, as a number and as text that sorts? |
//! | [`number`], [`text`] | how are numbers, tables and paragraphs formatted? |
//! | [`json`], [`toml_text`] | what is wrong with a JSON or TOML file? |
//! | [`skip`] | how does a test report what this machine lacks? |
//! | [`suggest`] | which names are similar to a misspelt one? |
//!
//! ```
//! use knee_host::{Placement, Topology};
//!
//! let machine = Topology::read()?;
//! let order = Placement::Cores.order(&machine);
//! // Task 0 belongs on order[0], task 1 on order[1] …
//! assert_eq!(order.len(), machine.cpus().len());
//! # Ok::<(), knee_host::TopologyError>(())
//! ```
//!
//! Readers of `/sys` and `/proc` take the root of the tree that they read, so that tests can hand
//! them a machine that does not exist. What a kernel, a container or an architecture leaves out is
//! `None` or a plain default, never an error: a missing cache description must not stop a measurement.

pub mod affinity;
pub mod atomic_file;
pub mod cgroup;
pub mod clock;
pub mod counters;
pub mod cpulist;
pub mod digest;
pub mod environment;
pub mod filesystem;
pub mod fixed;
pub mod interrupt;
pub mod json;
pub mod limits;
pub mod listener;
pub mod lock_file;
pub mod mapping;
pub mod number;
pub mod own_directory;
pub mod perf_event;
pub mod placement;
pub mod process;
pub mod regular_file;
pub mod shell;
pub mod signal;
pub mod skip;
pub mod ssh;
pub mod suggest;
mod sysfs;
pub mod temporary;
pub mod text;
pub mod toml_text;
pub mod topology;
pub mod users;
pub mod utc;
pub mod virtualisation;
pub mod workdir;

#[cfg(test)]
mod fixture;

pub use atomic_file::{AtomicFile, write_atomically};
pub use cpulist::CpuList;
pub use environment::Environment;
pub use interrupt::Interrupt;
pub use lock_file::LockFile;
pub use own_directory::OwnDirectory;
pub use placement::{Placement, auto_tasks, auto_tasks_on};
pub use regular_file::RegularFile;
pub use topology::{Topology, TopologyError};

use std::path::Path;

/// The text of a small kernel file without surrounding white space; `None` when it cannot be
/// read or is empty.
fn read_line(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
