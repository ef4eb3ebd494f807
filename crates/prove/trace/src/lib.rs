//! Runs guests and programs under QEMU with tracing, and finds the kernels for the guests.
//!
//! | from → to | item |
//! | --- | --- |
//! | a file, a package or a name → a kernel to boot | [`Kernel`], [`Archive`] |
//! | files → the guest's initial file system | [`Initramfs`] |
//! | kernel, name → a file system for tests, on a RAM disk | [`Disk`] |
//! | a program, a name → the QEMU that runs guests | [`Emulator`], [`Emulators`] |
//! | a file → a build of knee's own kernel | [`KneeKernel`] |
//! | kernel, file system, options → a running guest | [`Guest`] |
//! | guest → console lines, results, how it ended | [`Guest::next_event`], [`Event`] |
//! | guest → its memory | [`Ram`] |
//! | a program that binds a library to a model, tests → what its calls share | [`check_program`] |
//! | a program that binds a library, calls → the cost of repeating them, and their rate | [`trace_program`], [`time_program`] |
//! | operations on several CPUs → the cost of one operation | [`cost`](fn@cost), [`Figures`] |
//! | operations on several CPUs → visits to shared lines, and lock sections | [`Cost::contention`] |
//! | a line of the plugin's output → the cache lines that two operations share | [`Record`] |
//! | tests, kernel → the result of each test | [`check()`], [`Checked`] |
//! | test results → a record on disk, and its evaluation | [`findings`] |
//!
//! The documentation of the knee-marks crate says what a guest's init has to do; the knee-probe crate is a
//! small example of an init. The documentation of the knee-plugin crate says what the plugin observes.
//!
//! ```no_run
//! use std::path::Path;
//! use knee_trace::{Archive, Event, Guest, GuestOptions, Initramfs, Kernel, Record};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let kernel = Kernel::open(&Archive::of_user()?.fetch("bookworm")?)?;
//! let init = std::fs::read("target/init")?;
//! let files = Initramfs::new().file("init", 0o755, &init).finish();
//! let mut guest = Guest::start(&kernel, &files, &GuestOptions::default())?;
//! while let Some(event) = guest.next_event()? {
//!     match event {
//!         Event::Console(line) => println!("{line}"),
//!         Event::Result(Record::Test(result)) => println!("{:?}", result.conflicts),
//!         Event::Result(_) => {}
//!         Event::End(end) => println!("{end:?}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod allocated;
mod apt;
mod archive;
mod cache;
mod calibration;
mod channel;
mod check;
mod cost;
mod datum;
mod disk;
mod error;
mod fetched;
pub mod findings;
mod functions;
mod guest;
mod guest_kernel;
mod initramfs;
mod kernel;
mod knee_kernel;
mod line_buffer;
mod lines;
mod memfd;
mod modinfo;
mod modules;
mod name_limit;
mod package;
mod plugin_api;
mod process;
mod program;
mod qemu;
mod ram;
mod record;
mod results;
mod symbols;
mod tool;

pub use apt::Package;
pub use archive::Archive;
pub use calibration::{Calibration, Fault};
pub use check::{CheckError, CheckOptions, Checked, calibrate, check};
pub use cost::{
    Contention, ContentionEvent, Cost, EventKind, Figures, Hold, HotLine, Iteration, Lock,
    LockKind, LockSections, Scope, SharedLine, Spread, VISIT_DISTANCE, Visit, WARM_UP, cost,
};
pub use datum::{
    Access, Datum, FalselyShared, FieldType, LINE_BYTES, Layout, Layouts, Member, Resolver, Symbol,
    Symbols,
};
pub use disk::{Disk, DiskError};
pub use error::GuestError;
pub use functions::Functions;
pub use guest::{End, Event, Guest, GuestOptions};
pub use guest_kernel::GuestKernel;
pub use initramfs::Initramfs;
pub use kernel::{Kernel, KernelError};
pub use knee_bind::{How, Repeat};
pub use knee_kernel::KneeKernel;
pub use package::PackageError;
pub use process::Tracing;
pub use program::{ProgramHost, Traced, check_program, time_program, trace_program, user_mode};
pub use qemu::{Emulator, EmulatorError, Emulators, qemu_user_version};
pub use ram::Ram;
pub use record::{
    AccessKind, Conflict, Header, Move, Record, RecordError, SharedAccess, SharedAccesses, Side,
    TestResult, Touch, TracedAccess,
};
pub use symbols::ProgramNames;
pub use tool::ToolError;
