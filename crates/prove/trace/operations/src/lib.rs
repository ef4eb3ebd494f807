//! The part of knee's guests that is the same on every kernel, so that the kernels' figures can be compared.
//!
//! Two programs use this crate: crate knee-agent, which is the init of a guest with Linux, and the program
//! `tasks` of the crate knee-kernel. Both repeat the same [`Operation`]s on [`Memory`], with the same
//! addresses, sizes and random numbers, and both begin with the same [`trials`](trials::trials). Only the
//! system calls differ ([`Calls`]).
//!
//! ```
//! use knee_operations::{Calls, Memory, Operation, Owner};
//!
//! /// A kernel on which every call succeeds.
//! struct Anything;
//!
//! impl Calls for Anything {
//!     type Error = ();
//!     fn map_page(&mut self, _: usize) -> Result<(), ()> { Ok(()) }
//!     fn map(&mut self, _: usize) -> Result<usize, ()> { Ok(0x1000) }
//!     fn unmap(&mut self, _: usize, _: usize) -> Result<(), ()> { Ok(()) }
//!     fn protect_page(&mut self, _: usize, _: bool) -> Result<(), ()> { Ok(()) }
//!     fn discard(&mut self, _: usize, _: usize) -> Result<(), ()> { Ok(()) }
//!     fn load(&mut self, _: usize) -> Result<(), ()> { Ok(()) }
//!     fn store(&mut self, _: usize) -> Result<(), ()> { Ok(()) }
//!     fn avoid_huge_pages(&mut self) -> Result<(), ()> { Ok(()) }
//!     fn allow_huge_pages(&mut self, _: usize, _: usize) -> Result<(), ()> { Ok(()) }
//!     fn out_of_memory() {}
//! }
//!
//! struct Task(Memory<Anything>);
//!
//! impl Owner for Task {
//!     type Calls = Anything;
//!     fn memory(&mut self) -> &mut Memory<Anything> { &mut self.0 }
//! }
//!
//! let churn = Operation::<Task, ()>::MMAP_CHURN1;
//! let mut task = Task(Memory::new(Anything, 0, 1));
//! (churn.set_up)(&mut task).unwrap();
//! churn.perform(&mut task).unwrap();
//! ```

#![no_std]

mod memory;
mod operation;
mod random;
pub mod trials;

pub use memory::{Calls, MEMORY_NAMES, Memory, Owner, PAGE, PAGES_APART, PAGES_AT, page_at};
pub use operation::{Failed, Operation, Part, Step};

/// The prefix of a console line that reports an experiment. The rest of the line is JSON: the fields are
/// those of `Made` in the crate knee-agent.
pub const EXPERIMENT: &str = "knee-cost: ";
