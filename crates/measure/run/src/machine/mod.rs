//! The machine as knee finds it: which CPUs it may use, how they hang together, and what
//! else decides how fast it is.
//!
//! A throughput curve means nothing without the order in which CPUs joined it: the second
//! task on an SMT sibling, on a neighbour core or on the other package are three different
//! machines. Everything that answers "which CPU next?" and "what was this measured on?" is
//! here.
//!
//! | module | question |
//! | --- | --- |
//! | [`cpulist`] | how are sets of CPUs written down? |
//! | [`affinity`] | which CPUs may this process use? |
//! | [`topology`] | which of them share a core, an L3, a NUMA node, a package? |
//! | [`placement`] | in which order do tasks take them, and which task counts are worth measuring? |
//! | [`cgroup`] | how much CPU time and memory do control groups leave us? |
//! | [`environment`] | what has to be written down so that a number can be judged later? |
//! | [`virtualisation`] | bare metal or a guest, and of what? |
//! | [`filesystem`] | what kind of file system is under a path? |
//! | [`program`] | where is a tool, and which version is it? |
//! | [`utc`] | what time is it, in a form that sorts? |
//!
//! ```
//! use knee_measure::machine::{Placement, Topology};
//!
//! let machine = Topology::read()?;
//! let order = Placement::Cores.order(&machine);
//! // Task 0 belongs on order[0], task 1 on order[1] …
//! assert_eq!(order.len(), machine.cpus().len());
//! # Ok::<(), knee_measure::machine::TopologyError>(())
//! ```
//!
//! All readers take the root of the tree that they read, so that the tests can hand them a
//! machine that is not there. Whatever a kernel, a container or an architecture leaves out
//! is `None` or a plain default, never an error: a missing cache description must not stop a
//! measurement.

pub mod affinity;
pub mod cgroup;
pub mod cpulist;
pub mod environment;
pub mod filesystem;
pub mod placement;
pub mod program;
mod sysfs;
pub mod topology;
pub mod utc;
pub mod virtualisation;

#[cfg(test)]
mod fixture;

pub use cpulist::CpuList;
pub use environment::Environment;
pub use placement::{Placement, auto_tasks};
pub use topology::{Topology, TopologyError};

use std::path::Path;

/// The text of a small kernel file without surrounding white space; `None` when it cannot be
/// read or is empty.
fn read_line(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
