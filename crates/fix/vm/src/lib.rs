//! An embeddable virtual-memory subsystem whose disjoint operations share nothing.
//!
//! A kernel, hypervisor or emulator that adopts it as its `mm/` says what frames, CPUs and page tables it
//! has ([`Machine`], [`Format`]); this crate maps, unmaps, protects and handles faults, on any CPU at any
//! time, and sees to it that no CPU goes to a page that it should have forgotten.
//!
//! ```
//! use knee_vm::hosted::Hosted;
//! use knee_vm::{Fault, PAGE, Pages, Protection, Space};
//!
//! // A machine in this process, with 1,024 frames and 2 CPUs. A kernel has its own.
//! let machine = Hosted::new(1024, 2);
//! let cpu = machine.cpu(0);
//! let space = Space::new(&cpu)?;
//!
//! let (read, write) = (Protection::READ, Protection::READ | Protection::WRITE);
//! let pages = Pages::new(0x10_000, 8);
//! space.map(&cpu, pages, write)?;
//!
//! let address = pages.start * PAGE as u64;
//! cpu.store(&space, address, 42).unwrap(); // The CPU faults, and the page is there.
//! space.protect(&cpu, pages, read)?;
//! assert_eq!(cpu.load(&space, address), Ok(42));
//! assert_eq!(cpu.store(&space, address, 43), Err(Fault::AccessDenied));
//!
//! space.unmap(&cpu, pages)?;
//! assert_eq!(cpu.load(&space, address), Err(Fault::Unmapped));
//! # Ok::<(), knee_vm::MapError>(())
//! ```
//!
//! # How it works
//! There is one structure: a tree of nodes, each of which is or may be a page table, as in CortenMM. What
//! is mapped is said in the lowest node that has all of a mapping: in a *leaf*, whose entries are pages,
//! by a code for each page; in a *branch*, whose entries are tables, by a short list of extents. So 128
//! MiB are one extent, whatever they begin at, and small mappings are in the leaf that their pages are
//! in. Tables come with faults.
//!
//! An operation goes down the tree without locks, under an epoch, to the lowest node that has all that
//! is known of its pages, and locks that node and those below that have any of these pages, in the order
//! of their pages. Extents that it passes are in two copies, of which one is read while the other is
//! written. Who changes what a branch says of some pages has the locks of all nodes below that have any of
//! them: so a fault needs the lock of one leaf, and what branches above say of its pages stays as it is
//! meanwhile. To change a part of what a branch says, its extent is handed down to the child first; from
//! then on changes there are the child's business.
//!
//! Nothing is allocated or zeroed under a lock: an operation that finds something missing gives its
//! locks back, gets it, and begins anew. Before it changes anything it has all that it needs, so where
//! memory ends nothing has changed.
//!
//! What was taken out of tables is flushed on all CPUs that may know it, after locks are given back and
//! before frames are used again and the operation returns. Others that come to change the same leaf
//! meanwhile wait for that.
//!
//! A space may be [lazy](Space::set_lazy) where the machine has [ticks](Ticks): then who unmaps a few pages
//! interrupts nobody, and their frames and addresses come back when all CPUs have ticked.
//!
//! Who does not say where to map is given pages of the CPU's own [arena](Space::map_anywhere), and what
//! is mapped is charged to a [quota](Quota) from the CPU's own share.
//!
//! # Objects and copies
//! An [`Object`] is memory that spaces map together: a file with its [`Pager`], or shared memory. Of each
//! mapping there is one *backing*, which the object finds in an index by its pages, and nothing for each
//! page: where a page is mapped is computed, and compared with what the tables have. So to take a page away
//! from everybody ([`Object::evict`]) is to look where it may be; who faults meanwhile looks for the
//! object's page under the lock of its own leaf, and is before or after that.
//!
//! A copy of a space shares its pages, until one of both writes. Pages know the space in which they came to
//! be, and that knows its copies: [`Space::sharers`]. ExtentLatch of copies have an end: a space whose pages
//! came from five makes them its own before it is copied again.
//!
//! # What there is not yet
//! Large pages, and swap for what spaces have for themselves.
//!
//! # Sources
//! CortenMM (SOSP 2025): one level, the page table is the map, and its lock protocol. RadixVM (EuroSys
//! 2013): radix tree, and disjoint operations that share nothing. DragonFly BSD (2019, `vm_map_backing`):
//! reverse mapping by backings, and chains of copies with an end. Linux' `mm/` and FreeBSD's `sys/vm`,
//! `pmap`: what a virtual-memory subsystem has to do.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod address_space;
mod allocate;
mod backing;
pub mod classic;
mod cpu;
mod error;
#[cfg(all(feature = "std", not(loom)))]
pub mod hosted;
/// Its mailboxes alone: frames of the machine would have to have loom's atomics.
#[cfg(all(test, loom))]
#[allow(dead_code, reason = "the machine uses the rest")]
mod hosted {
    mod mailbox;
    mod modelled;
    mod tlb;
}
mod machine;
#[cfg(feature = "memory_set")]
pub mod memory_set;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, loom))]
mod modelled;
mod needed;
mod object;
mod page;
mod per_cpu;
mod quota;
mod space;
mod transaction;
mod tree;

pub use address_space::AddressSpace;
pub use backing::Sharing;
pub use backing::pager::{Pager, PagerError};
pub use cpu::Cpu;
pub use error::{BeyondCapacity, Fault, MapError, OutOfMemory};
pub use machine::cpu_set::CpuSet;
pub use machine::format::{AArch64, ABSENT, Entry, FaultFlush, Format, RiscV, Sv39, Sv48, X86_64};
pub use machine::frame_meta::FrameMeta;
pub use machine::ticks::Ticks;
pub use machine::{Flush, Machine};
pub use object::Object;
pub use page::{Frame, PAGE, Pages, Protection};
pub use quota::Quota;
pub use space::Space;
#[cfg(feature = "std")]
#[doc(hidden)]
pub use space::audit::Audit;

/// `docs/vm.md`, whose code is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/vm.md")]
struct HowToEmbed;
