//! Code that the tests of knee-sync, knee-vm and knee-baselines share.
//!
//! | | |
//! | --- | --- |
//! | [`Suite`] | runs the planted mutants of a crate, and checks that a test notices each of them |
//! | [`duel`] | a reader and a writer that race in a torture test |
//! | [`random`] | pseudorandom numbers |
//! | `cpus` | threads for all CPUs of a hosted machine (feature `space`) |
//! | `disk` | a swap device in memory (feature `space`) |
//! | `space` | the reference model of an address space (feature `space`), and random operations for proptest (feature `proptest`) |
//!
//! # Mutants
//! A crate marks the places of its planted mistakes with `order!` and `is_mutant!` of `knee_sync::shim`. A
//! build with `--cfg mutants` makes the mistake that the environment variable `KNEE_MUTANT` names. A crate's
//! `tests/mutants` lists its mutants, each with the test that must notice it. A [`Suite`] builds the crate
//! for a tool, and checks that the real code passes each test and that each mutant fails its test. The suite
//! runs the whole list before it reports the surviving mutants.
//!
//! The tools notice different mistakes:
//!
//! | tool | notices |
//! | --- | --- |
//! | loom | orderings that are too weak, even if x86 hides them, in all interleavings of a few accesses |
//! | shuttle | mistakes in the logic, in schedules of more threads |
//! | unit and integration tests | mistakes in the logic |
//! | the torture test, on real CPUs | a missing fence or a missing system call, which no tool models |
//! | Miri | orderings that are too weak, in code that loom does not model |

// `cpus`, `disk` and `space` need knee-vm's hosted machine, which is incomplete in builds for loom.
#[cfg(all(feature = "space", not(loom)))]
pub mod cpus;
#[cfg(all(feature = "space", not(loom)))]
pub mod disk;
pub mod duel;
pub mod random;
#[cfg(all(feature = "space", not(loom)))]
pub mod space;

mod litmus;
mod program;
mod sources;
mod suite;

pub use program::Package;
pub use suite::{Detector, Suite};

/// The [`Suite`] of the calling crate, with this list of mutants.
#[macro_export]
macro_rules! suite {
    ($mutants:expr) => {
        $crate::Suite {
            package: $crate::Package {
                name: env!("CARGO_PKG_NAME"),
                manifest_dir: env!("CARGO_MANIFEST_DIR"),
                target_tmpdir: env!("CARGO_TARGET_TMPDIR"),
            },
            mutants: $mutants,
            of_dependencies: &[],
            torture: "torture",
        }
    };
}
