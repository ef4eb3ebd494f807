//! An embeddable virtual-memory subsystem. Operations on pages that are far enough apart never write to the
//! same cache line.
//!
//! A kernel, hypervisor or emulator describes its frames, CPUs and page tables ([`Machine`], [`Format`]), and
//! uses this crate as its `mm/`. The crate maps, unmaps and protects pages and handles page faults, on any
//! CPU at any time, and ensures that no CPU accesses a page through a stale translation.
//!
//! ```
//! use knee_vm::hosted::Hosted;
//! use knee_vm::{Fault, Page, Pages, Protection, Space};
//!
//! // A machine in this process, with 1,024 frames and 2 CPUs. A kernel implements `Machine`.
//! let machine = Hosted::new(1024, 2);
//! let cpu = machine.cpu(0);
//! let space = Space::new(&cpu)?;
//!
//! let (read, write) = (Protection::READ, Protection::READ | Protection::WRITE);
//! let pages = Pages::new(Page(0x10_000), 8);
//! space.map(&cpu, pages, write)?;
//!
//! let address = pages.start.address();
//! cpu.store(&space, address, 42).unwrap(); // The CPU faults, and the page becomes present.
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
//! A space has a single structure: a tree of nodes, each of which has a page table or may get one, as in
//! CortenMM. Each mapping is stored in the lowest node that covers all of it. In a *leaf*, whose entries are
//! pages, each page has a state. In a *branch*, whose entries are tables, a mapping is an extent in a short
//! list. So a mapping of 128 MiB is one extent, whatever its alignment, and a small mapping is stored in the
//! leaf of its pages. Page faults add tables.
//!
//! An operation descends without locks, protected by an epoch, to the lowest node whose subtree stores all
//! state of the operation's pages. It locks this node and all nodes below it that cover any of the pages:
//! parents before their children, and in page order. A branch keeps its extents in a latch with two copies:
//! readers use one copy while a writer changes the other. A writer of a branch's extents must hold the locks
//! of all nodes below the branch that cover the changed pages. So a fault needs only the lock of one leaf:
//! that lock also freezes what the branches above store about the leaf's pages. If an operation changes only
//! a part of an extent, and one child covers all of the operation's pages, the operation first splits the
//! extent: the part within that child's span moves down to the child.
//!
//! Nothing is allocated or zeroed under a lock. If an operation needs memory, it releases its locks,
//! allocates and restarts. An operation has all the memory that it needs before it changes anything, so an
//! out-of-memory error leaves the space unchanged. If an operation has several steps, and may run out of
//! memory after the first, its documentation says so.
//!
//! When an operation clears page-table entries, it flushes all TLBs that may cache them. The flush comes
//! after the operation has released its locks, and before it frees the frames and returns. If another
//! operation is about to change the same leaf, it waits for this shootdown.
//!
//! On a machine with [ticks](Ticks), a space may be [lazy](Space::set_lazy). Unmapping a few pages of a lazy
//! space sends no IPI, and the frames and addresses become reusable once all CPUs have ticked.
//!
//! [`Space::map_anywhere`] takes addresses from the calling CPU's own arena, and charges the pages to the
//! CPU's own share of a [quota](Quota).
//!
//! # Objects and copies
//! An [`Object`] is memory that several spaces can map: a file with its [`Pager`], or shared memory. Each
//! mapping has one *backing*, which the object keeps in an index by page (reverse mapping). There is no
//! record per page: a page's address in a space is computed from the backing, and checked against the tables.
//! To unmap a page from all spaces, [`Object::evict`] visits all places where the page may be mapped. A
//! concurrent fault looks up the object's page while it holds the lock of the leaf. If the fault comes before
//! the visit of that leaf, the visit removes the entry that the fault has stored. A fault after that visit no
//! longer finds the page resident.
//!
//! A forked copy shares its pages copy-on-write. Each page records its origin, which initially is the space
//! that first touched the page. Each origin records the spaces that may share its pages. [`Space::sharers`]
//! searches these spaces. Chains of copies are bounded: a space with pages from five origins becomes the
//! origin of all its pages before it is forked again.
//!
//! # Swap
//! [`Space::reclaim`] writes private pages that were not accessed for a while to a [`Swap`] area, and frees
//! their frames. The page-table entry of a swapped page holds the number of its slot, so swapping needs no
//! other record, and allocates nothing. The attributes of the page stay the same.
//!
//! # Not implemented
//! Large pages of files and shared memory, pages of 1 GiB for anonymous memory, NUMA policies and automatic
//! reclaim.
//!
//! # Sources
//! CortenMM (SOSP 2025): the lock protocol, and the page table as the only map. RadixVM (EuroSys 2013): the
//! radix tree, and disjoint operations that share nothing. DragonFly BSD (2019, `vm_map_backing`): reverse
//! mapping by backings, and bounded chains of copies. Linux's `mm/` and FreeBSD's `sys/vm`, `pmap`: what a
//! virtual-memory subsystem has to do.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod allocate;
mod backing;
mod cpu;
mod error;
#[cfg(all(feature = "std", not(loom)))]
pub mod hosted;
/// Under loom, only the mailboxes and the TLBs of the hosted machine are compiled. The other parts of the
/// hosted machine access frames, which do not consist of loom's atomics.
#[cfg(all(test, loom))]
#[allow(dead_code, reason = "only the complete hosted machine uses the other items")]
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
mod swap;
mod transaction;
mod tree;

pub use backing::Sharing;
pub use backing::object_core::ObjectId;
pub use backing::pager::{Pager, PagerError};
pub use cpu::Cpu;
pub use error::{Fault, MapError, OutOfMemory, PartialCopy, ResizeError};
pub use machine::cpu_set::CpuSet;
pub use machine::format::{
    AArch64, ABSENT, Entry, FaultFlush, Format, MemoryType, RiscV, Sv39, Sv48, X86_64,
};
pub use machine::frame_meta::FrameMeta;
pub use machine::ticks::Ticks;
pub use machine::{Flush, LazyMachine, Machine};
pub use object::Object;
pub use page::{Frame, PAGE, Page, Pages, Protection, Usage, VirtAddr};
pub use quota::Quota;
pub use space::Space;
#[cfg(feature = "std")]
#[doc(hidden)]
pub use space::audit::Audit;
pub use space::mappings::{MappedObject, Mapping};
pub use space::pin::PinnedPage;
pub use swap::Swap;

/// Runs the code of the guide as a test.
#[cfg(doctest)]
#[doc = include_str!("../GUIDE.md")]
struct HowToEmbed;

/// Runs the examples of the package's README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
