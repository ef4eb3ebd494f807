//! The data that knee and a guest exchange to run tests of the interface `posix`, and the loop with which a
//! guest runs a test.
//!
//! The host turns each test into a [`Plan`]: the steps of its set-up, its calls, and their orders. Plans
//! reach the guest through memory that the host and the guest share ([`Shared`]). The guest [runs](run())
//! them, and reports what the calls returned ([`Report`]). Crate knee-agent runs plans on Linux, and crate
//! knee-kernel on knee's own kernel, which has no standard library.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

/// A hash of the sources that knee and the kernel of a guest must have in common. knee's own kernel contains
/// the hash in a note, because knee could misread the reports of a kernel that was built from other sources.
pub const SOURCES: u64 = match u64::from_str_radix(env!("KNEE_SOURCES"), 10) {
    Ok(hash) => hash,
    Err(_) => panic!("the build script prints a number"),
};

mod channel;
mod plan;
mod returned;
mod run;
mod script;

pub use channel::{
    ChannelError, Report, Shared, Word, append, channel, first, longest_reports, reports,
};
pub use plan::{Done, Order, Plan, Run};
pub use returned::{Returned, SIGBUS, SIGSEGV};
pub use run::{MOST_TRACED, Session, run, run_plans};
pub use script::{
    CALLS, Call, Home, List, MOST, MOST_OCCUPIED, Mapped, Nr, Opened, PROCESSES, Step, Whence,
    ZEROES, content,
};
