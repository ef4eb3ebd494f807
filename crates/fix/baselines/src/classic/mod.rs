//! The older designs of address spaces, as in the BSDs and Linux: page tables, and a map whose entries are ranges
//! of pages.
//!
//! The older designs are compared with [knee-vm's design](knee_vm::Space). A [`Space`] combines four
//! [`Strategies`], so each well-known improvement can be measured separately. Each `Space` implements
//! [`AddressSpace`](crate::AddressSpace), and its operations return the same results as those of any other
//! design.
//!
//! | | | source |
//! | --- | --- | --- |
//! | map | [`Tree`]: balanced, under one lock that faults take for reading | FreeBSD; Linux until 6.0 |
//! | | [`RcuTree`]: a B-tree that is read without locks, with a lock for each entry | Linux since 6.4 |
//! | reverse map | [`PerPage`]: pv entries; all tables of a space share one lock | FreeBSD |
//! | | [`PerBacking`]: by object; each table has its own lock | DragonFly BSD since 5.6; Linux |
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
//! /// FreeBSD in 2016.
//! type Strategies = (Tree, PerPage, Locked, OneCounter);
//!
//! let machine = Hosted::new(1024, 2);
//! let cpu = machine.cpu(0);
//! let memory = Arc::new(Memory::<_, Strategies>::new(&machine, 1024, u64::MAX, Locked::new())?);
//! let space = Space::new(&memory, &cpu)?;
//! space.map(&cpu, Pages::new(Page(16), 4), Protection::READ_WRITE)?;
//! cpu.store(&space, Page(16).address(), 42).unwrap();
//!
//! // Both spaces share the frame until one of them writes to it.
//! let fork = space.fork(&cpu)?;
//! assert_eq!(cpu.load(&fork, Page(16).address()), Ok(42));
//! let (_, frame) = fork.present()[0];
//! assert_eq!(memory.mappings(&cpu, frame).len(), 2);
//! # Ok::<(), knee_vm::MapError>(())
//! ```
//!
//! # How they work
//! `map` adds an entry to the map, or extends a neighbor with the same attributes. A fault reads the map and
//! makes the page present in the tables. `unmap` clips and removes entries. Then, in a section of delayed
//! invalidation, it removes pages from the tables and the reverse map, and flushes them. So a frame may lose
//! its last mapping while a TLB still contains an earlier mapping of the frame. A thread that frees such a
//! frame, or writes to it as its only owner, waits for the sections that have [marked](crate::invalidation)
//! it. No wait is needed for a frame that only one space has ever mapped.
//!
//! The lock order is: the map or an entry, then tables, then the reverse map, whose locks are held only
//! briefly. As in the kernels, the locks of the map, the entries and the tables are held during flushes. In a
//! kernel, CPUs take interrupts while they wait for a lock. In this crate, waiting CPUs
//! [handle requests](knee_vm::Machine::wait_while) instead.
//!
//! # Differences from the sources
//! Locks spin and yield where the kernels' locks sleep. All memory is private to its space. Tables exist
//! until their space is dropped. The trees do not record gaps. Instead, as in Linux until 3.8, a search for a
//! gap starts at a cached page before which no gap is large enough. If a frame cannot be allocated, the
//! operation fails; if a map entry cannot be allocated, the program aborts.

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
mod reverse_state;
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
