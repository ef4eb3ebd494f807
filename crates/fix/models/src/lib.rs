//! What the tests of knee-sync, knee-vm and knee-baselines share.
//!
//! | | |
//! | --- | --- |
//! | [`Suite`] | runs the planted mutants of a crate, and checks that a test notices each of them |
//! | [`duel`] | a reader and a writer that race in a torture |
//! | [`random`] | pseudorandom numbers |
//! | `space` | the reference model of an address space (feature `space`), and random operations for proptest (feature `proptest`) |
//!
//! # Mutants
//! A crate marks the places of its planted mistakes with `order!` and `is_mutant!` of `knee_sync::shim`. A
//! build with `--cfg mutants` makes the mistake that the environment variable `KNEE_MUTANT` names. A crate's
//! `tests/mutants` lists its mutants, each with the test that must notice it. A [`Suite`] builds the crate
//! for a tool, checks that the real code passes each test, and then that each mutant fails its test. It runs
//! the whole list before it reports the mutants that survive.
//!
//! The tools notice different mistakes:
//!
//! | tool | notices |
//! | --- | --- |
//! | loom | weak orderings, which x86 does not have, in all orders of a few accesses |
//! | shuttle | mistakes in any order, in schedules of more threads |
//! | unit and integration tests | mistakes in any order |
//! | the torture, on real CPUs | missing fences and system calls that no tool models |
//! | Miri | weak orderings outside of what loom models |

pub mod duel;
pub mod random;
// Builds for loom have no hosted machine.
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
