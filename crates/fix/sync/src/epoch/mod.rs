//! Epoch-based reclamation: memory is freed when no reader can hold it any more.
//!
//! A reader enters a section, follows pointers without a lock, and leaves the section. A writer unlinks an
//! object, so that later readers cannot find it, and retires it. The object is freed after a *grace period*,
//! which ends when every section that may have found the object has ended.
//!
//! ```
//! use std::sync::atomic::AtomicPtr;
//! use knee_sync::epoch::{self, Protect};
//!
//! let config = AtomicPtr::default();
//! // SAFETY: all readers load `config` under a guard, and all writers replace it.
//! unsafe { epoch::pin().replace(&config, Some(Box::new(1))) };
//! # let new = Box::new(2);
//!
//! // A reader:
//! let guard = epoch::pin();
//! // SAFETY: as above.
//! let found = unsafe { guard.load(&config) };
//! assert_eq!(found, Some(&1));
//!
//! // A writer. The reader above keeps the old value until it drops its guard.
//! // SAFETY: as above.
//! unsafe { epoch::pin().replace(&config, Some(new)) };
//! assert_eq!(found, Some(&1));
//! # drop(guard);
//! # unsafe { epoch::pin().replace(&config, None) };
//! ```
//!
//! [`Rcu`](crate::Rcu) wraps this pattern and needs no `unsafe`.
//!
//! | here | FreeBSD's epoch(9) | Linux's RCU |
//! | --- | --- | --- |
//! | [`pin`] → [`Guard`] | `epoch_enter`, `epoch_exit` | `rcu_read_lock`, `rcu_read_unlock` |
//! | [`section`] → [`Section`] | `epoch_enter_preempt` | `srcu_read_lock` |
//! | [`Protect::load`] | | `rcu_dereference` |
//! | [`Guard::replace`] | | `rcu_replace_pointer`, `kfree_rcu` |
//! | [`synchronize`] | `epoch_wait` | `synchronize_rcu` |
//! | [`Guard::retire`], [`Guard::retire_entry`], [`Guard::defer`] | `epoch_call` | `call_rcu` |
//! | [`Domain::barrier`] | `epoch_drain_callbacks` | `rcu_barrier` |
//! | [`Domain::cookie`], [`Domain::poll`] | | `start_poll_synchronize_rcu`, `poll_state_synchronize_rcu` |
//!
//! # How it works
//! The algorithm is FreeBSD's *global unbounded sequences* (sys/kern/subr_smr.c, J. Roberson 2019) with an
//! asymmetric fence. A domain has a global epoch. A reader copies the global epoch into its own record when
//! it enters a section, and clears the copy when it leaves the section. After a writer has unlinked some
//! objects, it tags them with the global epoch and then advances the global epoch. Objects with tag `t` can
//! be held only by readers whose epoch is `t` or less, or by readers that have not stored an epoch yet.
//! Before a scan, the scanning thread executes a heavy fence (membarrier(2) on Linux). The scan then sees
//! every epoch that was stored before the fence, and a reader that stores its epoch after the fence sees the
//! unlinking. The scan finds the smallest stored epoch, and every object whose tag is below this epoch is
//! freed. Because the scanning thread executes the fence, readers need none: a section costs two plain
//! stores.
//!
//! ```text
//! global epoch  5        6                  7
//! reader        ├ 5 ─────────────────┤
//! writer          unlink a │ tag 5 │ scan: 5 ≤ 5, wait   │ scan: no reader, free a
//! ```
//!
//! The write side pays: a heavy fence interrupts every CPU that runs a thread of the process. So a thread
//! lets its garbage accumulate until one heavy fence serves many objects, and if several threads need a heavy
//! fence at the same time, they share one.
//!
//! # What it promises
//! * A thread begins to free its retired objects when it has about a thousand of them, and frees them in
//!   batches. When the thread exits, it frees the objects that are ready, and other threads free the
//!   remaining objects later. [`Domain::barrier`] and [`Handle::reclaim`] free objects without waiting for a
//!   full batch. As long as no reader stalls, a thread has at most a few thousand retired objects. But if
//!   fences are expensive, scans are due less often ([`Domain::set_scan_backoff`]), and a thread that retires
//!   objects quickly may have up to 65,536.
//! * While a reader stays in its section, the domain frees no object that was unlinked since the reader
//!   entered, so garbage grows without bound; [`Domain::stalls`] reports the reader. After the reader has
//!   left, the garbage shrinks quickly: for each hundred objects that a thread retires, it frees up to
//!   sixteen thousand. Use hazard pointers where garbage must be bounded.
//! * Destructors and deferred calls run while no internal lock is held, and may retire more objects. They run
//!   within `retire`, `defer`, `reclaim` and `barrier`, and when a thread exits; at that time, the thread's
//!   thread-local variables may already have been destroyed.
//!
//! # Example: a sorted list
//! Readers walk the list without a lock, and writers exclude each other. Callers pass in their own guards,
//! so the list checks that each guard belongs to the list's domain.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use std::sync::Mutex;
//! use std::sync::atomic::AtomicPtr;
//! use std::sync::atomic::Ordering::{Relaxed, Release};
//!
//! use knee_sync::System;
//! use knee_sync::epoch::{self, Domain, Guard, Protect};
//!
//! struct Node {
//!     key: u64,
//!     next: AtomicPtr<Node>,
//! }
//!
//! struct List {
//!     domain: &'static Domain<System>,
//!     first: AtomicPtr<Node>,
//!     writer: Mutex<()>,
//! }
//!
//! type Place<'g> = (&'g AtomicPtr<Node>, Option<&'g Node>);
//!
//! impl List {
//!     /// The first node whose key is not less than `key`, and the link to it.
//!     fn find<'g>(&'g self, key: u64, guard: &'g impl Protect<System>) -> Place<'g> {
//!         // A section of another domain would not protect the nodes.
//!         assert!(guard.is_of(self.domain), "the guard belongs to another domain");
//!         let mut link = &self.first;
//!         loop {
//!             // SAFETY: a link is null or points to a node from `insert`. `remove` unlinks a node, leaves
//!             // its `next` as it is, and retires it in the domain that was checked above.
//!             match unsafe { guard.load(link) } {
//!                 Some(node) if node.key < key => link = &node.next,
//!                 found => return (link, found),
//!             }
//!         }
//!     }
//!
//!     /// The node with this key, which stays until the guard is dropped.
//!     fn get<'g>(&'g self, key: u64, guard: &'g impl Protect<System>) -> Option<&'g Node> {
//!         self.find(key, guard).1.filter(|node| node.key == key)
//!     }
//!
//!     fn insert(&self, key: u64, guard: &impl Protect<System>) {
//!         let _writer = self.writer.lock().unwrap();
//!         let (link, found) = self.find(key, guard);
//!         if found.is_none_or(|node| node.key != key) {
//!             let next = AtomicPtr::new(link.load(Relaxed));
//!             // Release: a reader that finds the node sees its key.
//!             link.store(Box::into_raw(Box::new(Node { key, next })), Release);
//!         }
//!     }
//!
//!     fn remove(&self, key: u64, guard: &Guard<'_, System>) {
//!         let writer = self.writer.lock().unwrap();
//!         let (link, found) = self.find(key, guard);
//!         let Some(node) = found.filter(|node| node.key == key) else { return };
//!         let removed = link.load(Relaxed);
//!         // Release: a reader that reaches the next node through this link sees that node's key.
//!         link.store(node.next.load(Relaxed), Release);
//!         drop(writer);
//!         // SAFETY: the node came from a `Box` in `insert`. It is not in the list any more, and only the
//!         // writer that unlinked it retires it.
//!         unsafe { guard.retire(removed) };
//!     }
//! }
//!
//! impl Drop for List {
//!     fn drop(&mut self) {
//!         let mut next = *self.first.get_mut();
//!         while !next.is_null() {
//!             // SAFETY: readers borrow the list, so none exist. No node in the list is retired.
//!             next = unsafe { Box::from_raw(next) }.next.into_inner();
//!         }
//!     }
//! }
//!
//! let domain = epoch::shared();
//! let list = List { domain, first: AtomicPtr::default(), writer: Mutex::new(()) };
//! let guard = epoch::pin();
//! [3, 1, 2].into_iter().for_each(|key| list.insert(key, &guard));
//! list.remove(2, &guard);
//! assert!(list.get(1, &guard).is_some() && list.get(2, &guard).is_none());
//! # }
//! ```
//!
//! # Without an operating system
//! A kernel registers a handle for each CPU, and must not preempt a thread that is in a section. The kernel
//! provides the memory: a node for each CPU's record, and an entry in each object that it retires. An
//! interrupt handler may enter sections with the handle of the CPU that it interrupts, but must not retire
//! anything.
//!
//! ```
//! use core::ptr::NonNull;
//! use core::sync::atomic::{AtomicU64, Ordering, fence};
//!
//! use knee_sync::epoch::{Domain, Entry, Record};
//! use knee_sync::{Node, Platform};
//!
//! struct Kernel;
//!
//! // SAFETY: both sides execute a full fence.
//! unsafe impl Platform for Kernel {
//!     fn is_symmetric(&self) -> bool {
//!         true // Alternatively, `heavy` interrupts all CPUs, and readers execute no fence.
//!     }
//!     fn heavy(&self) {
//!         fence(Ordering::SeqCst);
//!     }
//!     fn relax(&self, _round: u32) {
//!         core::hint::spin_loop();
//!     }
//!     fn now(&self) -> u64 {
//!         0 // The kernel's clock, in nanoseconds.
//!     }
//!     fn thread(&self) -> u64 {
//!         0 // The number of this CPU.
//!     }
//! }
//!
//! static DOMAIN: Domain<Kernel> = Domain::new(Kernel);
//! static NODES: [Node<Record>; 2] = [const { Node::new(Record::new()) }; 2];
//!
//! // At boot: a record for each CPU.
//! NODES.iter().for_each(|node| DOMAIN.add_node(node));
//! // When a CPU starts:
//! let cpu = DOMAIN.try_register().expect("there is a record for each CPU");
//!
//! /// A retired object has an entry at its beginning.
//! #[repr(C)]
//! struct Page {
//!     entry: Entry,
//!     number: u64,
//! }
//! static FREED: AtomicU64 = AtomicU64::new(0);
//!
//! unsafe fn free(entry: NonNull<Entry>) {
//!     // SAFETY: the entry belongs to a page that no reader holds.
//!     let page = unsafe { entry.cast::<Page>().as_ref() };
//!     FREED.store(page.number, Ordering::Relaxed);
//! }
//!
//! let mut page = Page { entry: Entry::new(), number: 7 };
//! let guard = cpu.pin();
//! // SAFETY: no section can find the page, and it stays in place until `free` is called.
//! unsafe { guard.retire_entry(NonNull::from(&mut page).cast(), free) };
//! drop(guard);
//! cpu.reclaim();
//! assert_eq!(FREED.load(Ordering::Relaxed), 7);
//! ```

#[cfg(feature = "alloc")]
mod bag;
mod domain;
mod entry;
mod garbage;
mod handle;
#[cfg(feature = "std")]
mod local;
#[cfg(all(test, loom))]
mod modelled;
mod protect;
mod qsbr;
mod record;
#[cfg(all(test, shuttle))]
mod scheduled;
mod section;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use domain::{Cookie, Domain};
pub use entry::Entry;
pub use handle::{Guard, Handle};
#[cfg(feature = "std")]
pub(crate) use local::reclaim_if_due;
#[cfg(feature = "std")]
pub use local::{barrier, pin, reclaim, section, shared, synchronize};
pub use protect::Protect;
pub use qsbr::QsbrHandle;
pub use record::{Record, Stall};
pub use section::Section;
