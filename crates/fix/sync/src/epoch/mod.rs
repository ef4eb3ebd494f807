//! Epoch-based reclamation: what readers may hold is freed when they have left.
//!
//! A reader enters a section, finds what it finds without a lock, and leaves. A writer unlinks
//! something, so that nobody can find it any more, and defers its end until all sections have ended
//! that may have found it. That is a *grace period*.
//!
//! | here | FreeBSD's epoch(9) | Linux's RCU |
//! | --- | --- | --- |
//! | [`pin`] → [`Guard`] | `epoch_enter`, `epoch_exit` | `rcu_read_lock`, `rcu_read_unlock` |
//! | [`section`] → [`Section`] | `epoch_enter_preempt` | `srcu_read_lock` |
//! | [`synchronize`] | `epoch_wait` | `synchronize_rcu` |
//! | [`Guard::defer_entry`], [`Guard::defer_drop`], [`Guard::defer`] | `epoch_call` | `call_rcu` |
//! | [`Domain::barrier`] | `epoch_drain_callbacks` | `rcu_barrier` |
//! | [`Domain::cookie`], [`Domain::poll`] | | `start_poll_synchronize_rcu`, `poll_state_synchronize_rcu` |
//!
//! # How it works
//! It is FreeBSD's *global unbounded sequences* (sys/kern/subr_smr.c, J. Roberson 2019) with an
//! asymmetric fence. There is a write clock. A reader copies it into its own record, and clears it
//! when it leaves. Who has unlinked some things gives them the clock's value as their tag, and moves
//! the clock on. What has tag `t` can be held by readers with a time of `t` or less, or by those who
//! have stored none yet. The heavy fence (on Linux membarrier(2)) makes all stored times visible, and
//! makes all who store theirs later see what was unlinked: so readers need no fence, and a section
//! costs two plain stores. What is tagged below the smallest time that is seen then is freed.
//!
//! ```text
//! write clock   5        6                  7
//! reader        ├ 5 ─────────────────┤
//! writer          unlink a │ tag 5 │ scan: 5 ≤ 5, wait   │ scan: nobody, free a
//! ```
//!
//! The write side pays: a fence interrupts all CPUs that run a thread of the process. So garbage is
//! collected until a fence costs little for each object, and one fence serves all who want one.
//!
//! # What it promises
//! * Garbage is freed by the thread that has deferred it, after some thousand objects, in portions;
//!   by anyone when that thread has exited; and by [`Domain::barrier`] and [`Handle::flush`]. While no
//!   reader stalls, a thread has some thousand objects waiting; where fences are dear and it defers
//!   faster than one is due ([`Domain::set_pause`]), up to 65,536.
//! * While a reader does not leave, nothing is freed that was unlinked since it came, without bound:
//!   [`Domain::stalls`] says who it is. When it has left, sixteen thousand objects are freed with every
//!   hundred that are deferred. Where garbage must be bounded there are hazard pointers.
//! * What is called runs outside of all internal locks, and may defer more.
//!
//! ```
//! use std::sync::atomic::{AtomicPtr, Ordering};
//!
//! use knee_sync::epoch;
//!
//! let config = AtomicPtr::new(Box::into_raw(Box::new(1)));
//!
//! // A reader:
//! let guard = epoch::pin();
//! // SAFETY: what is found in a section stays there until it ends.
//! assert_eq!(unsafe { *config.load(Ordering::Acquire) }, 1);
//! drop(guard);
//!
//! // A writer:
//! let old = config.swap(Box::into_raw(Box::new(2)), Ordering::AcqRel);
//! // SAFETY: nobody finds it any more.
//! unsafe { epoch::pin().defer_drop(old) };
//! # drop(unsafe { Box::from_raw(config.into_inner()) });
//! ```
//!
//! # Without an operating system
//! A kernel has a handle for each CPU, which is not preempted while it is in a section, and nodes and
//! entries of its own. An interrupt handler may enter sections of the CPU that it interrupts, and must
//! not defer.
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
//!         true // Or an interrupt to all CPUs in `heavy`, and readers without a fence.
//!     }
//!     fn heavy(&self) {
//!         fence(Ordering::SeqCst);
//!     }
//!     fn relax(&self, _round: u32) {
//!         core::hint::spin_loop();
//!     }
//!     fn now(&self) -> u64 {
//!         0 // Its clock, in nanoseconds.
//!     }
//!     fn thread(&self) -> u64 {
//!         0 // The number of this CPU.
//!     }
//! }
//!
//! static DOMAIN: Domain<Kernel> = Domain::new(Kernel);
//! static NODES: [Node<Record>; 2] = [const { Node::new(Record::new()) }; 2];
//!
//! // At the start of CPU 0.
//! // SAFETY: the node is a static, as the domain is, and given to it once.
//! let cpu = unsafe { DOMAIN.register_in(NonNull::from(&NODES[0])) };
//!
//! /// What is freed has an entry at its beginning.
//! #[repr(C)]
//! struct Page {
//!     entry: Entry,
//!     number: u64,
//! }
//! static FREED: AtomicU64 = AtomicU64::new(0);
//!
//! unsafe fn free(entry: NonNull<Entry>) {
//!     // SAFETY: it is the entry of a page, which nobody can find any more.
//!     let page = unsafe { entry.cast::<Page>().as_ref() };
//!     FREED.store(page.number, Ordering::Relaxed);
//! }
//!
//! let mut page = Page { entry: Entry::new(), number: 7 };
//! let guard = cpu.pin();
//! // SAFETY: no section can find the page, and it stays until it is freed.
//! unsafe { guard.defer_entry(NonNull::from(&mut page).cast(), free) };
//! drop(guard);
//! cpu.flush();
//! assert_eq!(FREED.load(Ordering::Relaxed), 7);
//! ```

#[cfg(feature = "alloc")]
mod bag;
mod clock;
mod domain;
mod entry;
mod garbage;
mod handle;
mod inside;
#[cfg(feature = "std")]
mod local;
#[cfg(all(test, loom))]
mod modelled;
mod online;
mod record;
#[cfg(all(test, shuttle))]
mod scheduled;
mod section;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use domain::{Cookie, Domain, Stall};
pub use entry::Entry;
pub use handle::{Guard, Handle};
pub use inside::Inside;
#[cfg(feature = "std")]
pub(crate) use local::flush_if_due;
#[cfg(all(unix, feature = "std", not(any(loom, miri))))]
pub(crate) use local::forked;
#[cfg(feature = "std")]
pub use local::{barrier, flush, pin, section, shared, synchronize};
pub use online::Online;
pub use record::Record;
pub use section::Section;
