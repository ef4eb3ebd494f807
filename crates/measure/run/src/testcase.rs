//! What a testcase is: an endless loop of one operation.
//!
//! Names and meaning follow will-it-scale, so that figures compare. What the tasks of a testcase
//! share is a [`Variant`] of it, written after an `@`: `read1@same-file`.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::area::SharedObject;
use crate::design::{Design, NoChoice};
use crate::task::{Outcome, Task, TaskError};

/// Whether the tasks of a point are processes or threads of one process.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Each task is a process: an address space and a descriptor table of its own.
    Processes,
    /// All tasks are threads of one process.
    Threads,
}

impl Mode {
    /// `processes` or `threads`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Threads => "threads",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a testcase exercises: a service of the operating system, or a library.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Address spaces: maps, page faults, TLB shootdown, the heap.
    Memory,
    /// Reading and writing open files.
    File,
    /// Names: opening, linking and looking up files.
    Directory,
    /// Locks, semaphores and futexes.
    Lock,
    /// Pipes, sockets and waiting for them on one machine.
    Ipc,
    /// The network stack over loopback.
    Network,
    /// Processes, signals, the scheduler and the bare system call.
    Process,
    /// The crate knee-sync and what it rivals.
    Sync,
    /// The crate knee-vm: what `memory` does with the kernel, with a library.
    Vm,
    /// Testcases loaded with `--plugin`.
    Plugin,
    /// Whole commands, of `knee ab`.
    Command,
}

impl Family {
    /// Every family of built-in testcases, in the order of `knee list`.
    pub const ALL: [Self; 9] = [
        Self::Memory,
        Self::File,
        Self::Directory,
        Self::Lock,
        Self::Ipc,
        Self::Network,
        Self::Process,
        Self::Sync,
        Self::Vm,
    ];

    /// The name after `family:`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::Directory => "directory",
            Self::Lock => "lock",
            Self::Ipc => "ipc",
            Self::Network => "network",
            Self::Process => "process",
            Self::Sync => "sync",
            Self::Vm => "vm",
            Self::Plugin => "plugin",
            Self::Command => "command",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the tasks of a testcase share, or another choice that its name leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    /// There is nothing to choose.
    Plain,
    /// Each task has a file of its own.
    OwnFile,
    /// All tasks use one file, each through an open file description of its own.
    SameFile,
    /// All tasks use one file, each at a page of its own.
    SameFileOwnPage,
    /// Each task has a directory of its own.
    OwnDirectory,
    /// All tasks work in one directory, each on a name of its own.
    SameDirectory,
    /// One mutex for all tasks, shared between processes in process mode.
    SameMutex,
    /// A mutex per task.
    OwnMutex,
    /// One mutex per process, as in will-it-scale: nothing is shared in process mode.
    ProcessMutex,
    /// 4 KiB pages only, so that every count is a page fault.
    SmallPages,
    /// Transparent huge pages asked for.
    HugePages,
    /// Whatever the system's setting for transparent huge pages gives, as in will-it-scale.
    SystemPages,
    /// The helper runs on the CPU of its task.
    SameCpu,
    /// The helper runs on the next CPU of the placement.
    NextCpu,
    /// The address space is of knee-vm's own design.
    OwnDesign,
    /// The same, whose `unmap` leaves it to other CPUs to forget pages when they tick.
    LazyShootdown,
    /// It is of an older one.
    Design(Design),
}

impl Variant {
    /// The name after the `@`.
    pub fn name(self) -> Cow<'static, str> {
        let name = match self {
            Self::Plain => "plain",
            Self::OwnFile => "own-file",
            Self::SameFile => "same-file",
            Self::SameFileOwnPage => "same-file-own-page",
            Self::OwnDirectory => "own-directory",
            Self::SameDirectory => "same-directory",
            Self::SameMutex => "same-mutex",
            Self::OwnMutex => "own-mutex",
            Self::ProcessMutex => "process-mutex",
            Self::SmallPages => "small-pages",
            Self::HugePages => "huge-pages",
            Self::SystemPages => "system-pages",
            Self::SameCpu => "same-cpu",
            Self::NextCpu => "next-cpu",
            Self::OwnDesign => "own-design",
            Self::LazyShootdown => "shootdown=lazy",
            Self::Design(design) => return design.to_string().into(),
        };
        name.into()
    }
}

/// What a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Unit {
    /// What is counted, in the plural: `iterations`, `pages`, `builds`.
    pub name: &'static str,
    /// Steps of the loop that make one of them; 1 but for testcases with very long iterations.
    pub steps: u64,
    /// Bytes that one of them moves or fills, where that is a figure of interest; else 0.
    pub bytes: u64,
}

impl Unit {
    /// One iteration of the loop.
    pub const ITERATIONS: Self = Self { name: "iterations", steps: 1, bytes: 0 };
    /// One page of 4096 bytes.
    pub const PAGES: Self = Self { name: "pages", steps: 1, bytes: 4096 };
}

/// Something a testcase needs of the machine, or of the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A tmpfs at `/dev/shm`.
    Tmpfs,
    /// A file system that takes `O_DIRECT`.
    DirectIo,
    /// A C compiler called `cc`.
    CCompiler,
    /// Transparent huge pages not set to `never`.
    HugePages,
    /// The loopback network interface.
    Loopback,
    /// A CPU that compares and exchanges 128 bits.
    Exchange128,
    /// Tasks that are threads, as they share an object in the memory of their process.
    Threads,
    /// This many bytes of memory for each task.
    Memory(u64),
    /// This many open files for each task.
    OpenFiles(u64),
}

/// What `prepare` of a testcase is given: it runs once, in the runner, before any task exists.
pub struct Setup<'a> {
    /// An empty directory that is removed after the point.
    pub dir: &'a Path,
    /// Number of tasks to come.
    pub tasks: u32,
    /// The variant asked for.
    pub variant: Variant,
    /// Zeroed memory that all tasks will share, in both modes.
    pub object: &'a SharedObject,
}

/// One testcase.
pub struct Testcase {
    /// Name, as in will-it-scale where it is one of that suite.
    pub name: &'static str,
    /// The service it exercises.
    pub family: Family,
    /// What one iteration does, in one line.
    pub description: &'static str,
    /// What a rate counts.
    pub unit: Unit,
    /// What the machine or the mode must offer.
    pub needs: &'static [Need],
    /// The variants it has, the default first; empty when there is nothing to choose.
    pub variants: &'static [Variant],
    /// The variant that behaves as will-it-scale's testcase of this name, where it is not the
    /// default one.
    pub original: Option<Variant>,
    /// Whether tasks share their CPU with helpers of their own, and so wait for it by design.
    pub has_helpers: bool,
    /// Whether tasks start programs, or map code, when they have begun to count.
    pub starts_programs: bool,
    /// Shortest useful interval in seconds, for testcases whose steps are long.
    pub min_interval: f64,
    /// Prepares what the tasks share.
    pub prepare: fn(&Setup<'_>) -> Result<(), TaskError>,
    /// The loop: sets up, reports ready through [`Task::start`], never returns but to fail.
    pub run: fn(&Task<'_>) -> Outcome,
}

impl Testcase {
    /// A testcase with one line of set-up: the rest is filled in with `..`.
    pub const fn new(family: Family, run: fn(&Task<'_>) -> Outcome) -> Self {
        Self {
            name: "",
            family,
            description: "",
            unit: Unit::ITERATIONS,
            needs: &[],
            variants: &[],
            original: None,
            has_helpers: false,
            starts_programs: false,
            min_interval: 0.0,
            prepare: |_| Ok(()),
            run,
        }
    }

    /// The variant that the bare name stands for.
    pub fn default_variant(&self) -> Variant {
        self.variants.first().copied().unwrap_or(Variant::Plain)
    }

    /// The variant named `name` after an `@`.
    pub fn variant(&self, name: &str) -> Option<Variant> {
        let listed = self.variants.iter().copied().find(|v| v.name() == name);
        listed.or_else(|| self.design(name)?.ok().map(Variant::Design))
    }

    /// The design named `name`, of a testcase that has designs: of these not each is listed.
    pub fn design(&self, name: &str) -> Option<Result<Design, NoChoice>> {
        let has_designs = self.variants.contains(&Variant::OwnDesign);
        has_designs.then(|| Design::parse(name))
    }
}
