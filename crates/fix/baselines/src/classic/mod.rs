//! The older designs: a map of entries above tables, as the BSDs and Linux have it.
//!
//! They are here to be measured beside [that of knee-vm](knee_vm::Space), each improvement that became
//! famous by itself: a [`Space`] takes four [`Strategies`], and does what any
//! [`AddressSpace`](crate::AddressSpace) does, to the same results.
//!
//! | | | source |
//! | --- | --- | --- |
//! | map | [`Tree`]: balanced, under one lock that faults read | FreeBSD; Linux until 6.0 |
//! | | [`RcuTree`]: a B-tree that is read without locks, with a lock for each entry | Linux since 6.4 |
//! | reverse map | [`PerPage`]: pv entries; tables have one lock | FreeBSD |
//! | | [`PerBacking`]: by object; each table has a lock | DragonFly BSD since 5.6; Linux |
//! | delayed invalidation | [`Locked`]: mutex and list | FreeBSD 2016 |
//! | | [`Epoch`] | M. Macy 2018 |
//! | | [`LockFree`]: list, 128-bit compare-exchange | FreeBSD since 2019 |
//! | | [`Slots`]: one for each CPU | knee |
//! | accounting | [`OneCounter`] | FreeBSD's swap reservation |
//! | | [`PerCpu`] | M. Macy 2018; [`Quota`](knee_vm::Quota) |
//!
//! [`Locked`]: crate::invalidation::Locked
//! [`Epoch`]: crate::invalidation::Epoch
//! [`LockFree`]: crate::invalidation::LockFree
//! [`Slots`]: crate::invalidation::Slots
//!
//! ```
//! use std::sync::Arc;
//!
//! use knee_baselines::AddressSpace;
//! use knee_baselines::classic::{Memory, OneCounter, PerPage, Space, Tree};
//! use knee_baselines::invalidation::Locked;
//! use knee_vm::hosted::Hosted;
//! use knee_vm::{Page, Pages, Protection};
//!
//! /// FreeBSD of 2016.
//! type Strategies = (Tree, PerPage, Locked, OneCounter);
//!
//! let machine = Hosted::new(1024, 2);
//! let cpu = machine.cpu(0);
//! let memory = Arc::new(Memory::<_, Strategies>::new(&machine, 1024, u64::MAX, Locked::new())?);
//! let space = Space::new(&memory, &cpu)?;
//! space.map(&cpu, Pages::new(Page(16), 4), Protection::READ_WRITE)?;
//! cpu.store(&space, Page(16).address(), 42).unwrap();
//!
//! // Two spaces have the page until one of them writes to it.
//! let fork = space.fork(&cpu)?;
//! assert_eq!(cpu.load(&fork, Page(16).address()), Ok(42));
//! let (_, frame) = fork.present()[0];
//! assert_eq!(memory.mappings(&cpu, frame).len(), 2);
//! # Ok::<(), knee_vm::MapError>(())
//! ```
//!
//! # How they work
//! To map is to add an entry to the map, or to let a neighbour that is alike grow. A fault reads the
//! map and makes the page present in the tables. To unmap is to clip and remove entries, and then, in a
//! section of delayed invalidation, to take pages out of the tables and of the reverse map, and to
//! flush them. So a frame may have lost its last mapping before some CPU has forgotten another: whoever frees
//! it or writes to it as the only one that has it waits for the sections that have
//! [marked](crate::invalidation) it. Frames that only one space ever had are nobody else's, and need no
//! wait.
//!
//! Locks are taken in this order: the map's or an entry's, the tables', and below these, for moments, those
//! of the reverse map. The former two are held over flushes, as in the kernels, whose CPUs take interrupts
//! while they wait for a lock; here they [answer](knee_vm::Machine::wait_while).
//!
//! # What is different from the sources
//! Locks spin, and let others run, where kernels' sleep. All memory is of spaces' own. Tables stay until their
//! space goes. The trees of maps do not know their gaps, so who looks for room goes from the first that may
//! do, as Linux did until 3.8. Memory for entries is not fallible; frames are.

mod accounting;
mod audit;
mod backing;
mod entries;
mod frames;
mod gap_cache;
mod lock;
mod map;
mod memory;
mod on_cpu;
mod pmap;
mod pools;
mod pv;
mod rcu_tree;
mod reverse;
mod space;
mod strategies;
mod tree;

pub use accounting::{Accounting, OneCounter, PerCpu};
pub use backing::PerBacking;
pub use map::MapKind;
pub use memory::Memory;
pub use pv::PerPage;
pub use rcu_tree::RcuTree;
pub use reverse::Reverse;
pub use space::Space;
pub use strategies::Strategies;
pub use tree::Tree;
