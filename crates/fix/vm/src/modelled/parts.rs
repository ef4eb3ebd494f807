//! Loom models of small protocols, without a machine around them: reference counts, waiting for a flush, fork
//! or tick, and all locks except node locks. Memory that passes from one thread to another is a [`Guarded`]
//! cell, for which loom reports unordered accesses.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use knee_sync::Platform;
use knee_sync::shim::{AtomicU64, Guarded, Model, check_symmetric, thread};

use crate::backing::attachments::{Attachment, Attachments};
use crate::backing::index::Index;
use crate::backing::object_core::ObjectCore;
use crate::machine::cpu_set::CpuSet;
use crate::machine::frame_meta::FrameMeta;
use crate::machine::ticks::Ticks;
use crate::page::{Page, Pages};
use crate::quota::{Account, Quota};
use crate::tree::fork_lock::ForkLock;
use crate::tree::node::{Branch, Leaf};
use crate::tree::{LargePageGuard, Tree};

/// Loom's preemption bound.
const PREEMPTIONS: usize = 3;

/// What the two threads of a model share: the value under test, such as a lock, and the memory that it
/// guards.
struct Shared<T> {
    part: T,
    memory: Guarded<u32>,
}

// SAFETY: loom runs all its threads on one OS thread, and reports unordered accesses to the memory.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn new(part: T) -> Arc<Shared<T>> {
        Arc::new(Shared { part, memory: Guarded::default() })
    }

    fn use_memory(&self) {
        // SAFETY: loom panics if another access is not ordered with this one.
        self.memory.with(|memory| unsafe { *memory += 1 });
    }
}

/// Runs `one` and `other` on two threads, and explores all their interleavings.
fn check<T: 'static>(
    part: impl Fn() -> T + Sync + Send + Clone + 'static,
    one: impl Fn(&Shared<T>) + Sync + Send + Copy + 'static,
    other: impl Fn(&Shared<T>) + Sync + Send + Copy + 'static,
) {
    check_symmetric(PREEMPTIONS, move || {
        let shared = Shared::new(part());
        let thread = thread::spawn({
            let shared = Arc::clone(&shared);
            move || other(&shared)
        });
        one(&shared);
        thread.join().unwrap();
    });
}

/// A leaf that is being flushed. The model does not use the leaf's parent.
fn flushing_leaf() -> Leaf {
    let leaf = Leaf::new(Page(0), NonNull::<Branch>::dangling());
    // SAFETY: a new leaf is locked by the thread that created it.
    let others = unsafe { leaf.begin_flush(None) };
    assert!(others.is_some());
    leaf.unlock();
    leaf
}

#[test]
fn a_leaf_whose_flush_has_ended_was_flushed_on_all_cpus() {
    check(
        flushing_leaf,
        |one| {
            // This CPU uses a page that it has not flushed yet.
            one.use_memory();
            // SAFETY: `flushing_leaf` began the flush.
            unsafe { one.part.end_flush() };
        },
        |other| {
            other.part.lock(&Model);
            if !other.part.is_flushing() {
                other.use_memory();
            }
            other.part.unlock();
        },
    );
}

#[test]
fn a_space_whose_fork_has_ended_was_flushed_on_all_cpus() {
    check(
        || {
            let fork_lock = ForkLock::new();
            std::mem::forget(fork_lock.lock());
            fork_lock
        },
        |one| {
            let alone = one.part.lock();
            // This CPU writes to a page that the copy shares.
            one.use_memory();
            drop(alone);
        },
        |other| {
            if !other.part.is_locked() {
                other.use_memory();
            }
        },
    );
}

/// A page, and the ticks of the only CPU that may use it.
struct Ticking {
    ticks: Ticks,
    on: CpuSet,
    entry: AtomicU64,
}

const ABSENT: u64 = 0;
const PRESENT: u64 = 1;

/// Uses the page if the table maps it, or if `is_known` says that the CPU's TLB holds it.
fn use_page(shared: &Shared<Ticking>, is_known: &mut bool) {
    *is_known |= shared.part.entry.load(Acquire) == PRESENT;
    if *is_known {
        shared.use_memory();
    }
}

fn ticking() -> Ticking {
    let ticking = Ticking {
        ticks: Ticks::new(1).unwrap(),
        on: CpuSet::new(1).unwrap(),
        entry: AtomicU64::new(PRESENT),
    };
    ticking.ticks.cpu_online(0);
    ticking.on.add(0);
    ticking
}

/// Takes the page out of the table, and reuses its frame if no CPU can still be using the page.
fn unmap(shared: &Shared<Ticking>) {
    shared.part.entry.store(ABSENT, Relaxed);
    let ticket = shared.part.ticks.ticket();
    if shared.part.ticks.is_over(ticket, &shared.part.on) {
        shared.use_memory();
    }
}

#[test]
fn a_page_is_unused_when_all_cpus_have_ticked() {
    check(ticking, unmap, |other| {
        let mut is_known = false;
        use_page(other, &mut is_known);
        other.part.ticks.tick(0, || {
            // The CPU uses its cached translation until the flush.
            use_page(other, &mut is_known);
            is_known = false;
        });
        use_page(other, &mut is_known);
    });
}

#[test]
fn a_cpu_that_goes_offline_no_longer_uses_pages() {
    check(ticking, unmap, |other| {
        use_page(other, &mut false);
        other.part.ticks.cpu_offline(0);
    });
}

#[test]
fn a_cpu_that_comes_online_sees_earlier_unmaps() {
    let away = || {
        let ticking = ticking();
        ticking.ticks.cpu_offline(0);
        ticking
    };
    check(away, unmap, |other| {
        other.part.ticks.cpu_online(0);
        use_page(other, &mut false);
    });
}

#[test]
fn a_cpu_that_is_not_in_the_set_no_longer_uses_pages() {
    let one = || {
        let cpus = CpuSet::new(1).unwrap();
        cpus.add(0);
        cpus
    };
    check(
        one,
        |one| {
            if !one.part.contains(0) {
                one.use_memory();
            }
        },
        |other| {
            other.use_memory();
            other.part.remove(0);
        },
    );
    check(
        one,
        |one| {
            if one.part.iter().next().is_none() {
                one.use_memory();
            }
        },
        |other| {
            other.use_memory();
            other.part.remove(0);
        },
    );
}

/// The metadata of a frame that two entries map.
fn shared_frame() -> FrameMeta {
    let meta = FrameMeta::default();
    meta.share();
    meta
}

#[test]
fn the_last_entry_of_a_frame_is_released_after_all_accesses_by_others() {
    check(
        shared_frame,
        |one| {
            if one.part.release() {
                one.use_memory();
            }
        },
        |other| {
            other.use_memory();
            assert!(!other.part.release() || !other.part.is_shared());
        },
    );
}

#[test]
fn a_frame_that_is_not_shared_is_not_accessed_by_others() {
    check(
        shared_frame,
        |one| {
            if !one.part.is_shared() {
                one.use_memory();
            }
        },
        |other| {
            other.use_memory();
            other.part.release();
        },
    );
}

/// A space whose quota has eight pages, none of them in a CPU's share.
struct Limited {
    account: Account,
    /// Number of CPUs that were granted five pages.
    granted: AtomicU64,
}

fn charge_five(shared: &Shared<Limited>, cpu: usize) {
    if let Ok(charge) = shared.part.account.charge(cpu, 5, &Model) {
        std::mem::forget(charge);
        assert_eq!(shared.part.granted.fetch_add(1, Relaxed), 0, "the quota has 8 pages");
    }
}

#[test]
fn two_cpus_that_charge_the_rest_of_a_quota_get_different_pages() {
    check(
        || {
            let quota = Arc::new(Quota::with_shares(2, 8).unwrap());
            let account = Account::new(2, Some(quota)).unwrap();
            Limited { account, granted: AtomicU64::new(0) }
        },
        |one| charge_five(one, 0),
        |other| charge_five(other, 1),
    );
}

/// A tree for one CPU, with one reference.
fn tree() -> Tree {
    Tree::new(1, CpuSet::new(1).unwrap(), Account::new(1, None).unwrap(), None)
}

#[test]
fn a_tree_is_freed_after_all_accesses_by_its_owners() {
    let release = |shared: &Shared<Tree>| {
        if shared.part.release() {
            shared.use_memory();
        }
    };
    let with_two_owners = || {
        let tree = tree();
        // SAFETY: the first reference still exists.
        unsafe { tree.get_ref() };
        tree
    };
    check(with_two_owners, release, move |other| {
        other.use_memory();
        release(other);
    });
}

#[test]
fn remaps_of_a_space_exclude_each_other() {
    let remap = |shared: &Shared<Tree>| {
        let _guard = shared.part.lock_remap(&Model);
        shared.use_memory();
    };
    check(tree, remap, remap);
}

#[test]
fn a_prune_that_has_ended_was_flushed_on_all_cpus() {
    check(
        || {
            let tree = tree();
            std::mem::forget(tree.delay_large_pages());
            tree
        },
        |one| {
            // This CPU uses a table through a cached pointer, which it has not flushed yet.
            one.use_memory();
            // Drop the guard that was passed to `forget` above.
            drop(LargePageGuard(&one.part));
        },
        |other| {
            if !other.part.delays_large_pages() {
                other.use_memory();
            }
        },
    );
}

/// A space with one CPU, whose TLB may still hold an unmapped page.
struct Settling {
    tree: Tree,
    /// The tree's ticks, in a box: the tree holds a pointer to the ticks, so they must not move.
    ticks: Box<Ticks>,
    /// The ticket with which the page was unmapped.
    ticket: u64,
}

#[test]
fn a_page_is_unused_after_all_cpus_have_flushed_it() {
    let settling = || {
        let (tree, ticks) = (tree(), Box::new(Ticks::new(1).unwrap()));
        // SAFETY: the ticks live as long as the tree.
        unsafe { tree.set_ticks(Some(&ticks)) };
        ticks.cpu_online(0);
        tree.activate(0);
        let ticket = ticks.ticket();
        Settling { tree, ticks, ticket }
    };
    check(
        settling,
        |one| {
            let now = one.part.ticks.now();
            // The CPU uses the page until it handles the shootdown.
            one.use_memory();
            one.part.tree.set_settled(now);
        },
        |other| {
            let Settling { tree, ticket, .. } = &other.part;
            if tree.is_over(*ticket) {
                other.use_memory();
            }
        },
    );
}

/// Adds an attachment to an object. The attachment has no valid tree, so nothing may visit the attachment.
fn attach(attachments: &Attachments) -> NonNull<Attachment> {
    let new = Attachment::new(Pages::new(Page(0), 1), 0, NonNull::dangling());
    let new = NonNull::from(Box::leak(Box::new(new)));
    // SAFETY: the attachment stays valid until `detach` frees it.
    unsafe { attachments.attach(0, &Model, new, false) };
    new
}

/// Detaches and frees an attachment. Returns whether this dropped the last reference to the object.
fn detach(attachments: &Attachments, old: NonNull<Attachment>) -> bool {
    // SAFETY: `attach` took the attachment from a box and attached it.
    unsafe {
        let is_last = attachments.detach(old, &Model);
        drop(Box::from_raw(old.as_ptr()));
        is_last
    }
}

#[test]
fn cpus_that_change_a_shard_exclude_each_other() {
    let change = |shared: &Shared<Attachments>| {
        let own = attach(&shared.part);
        assert!(!detach(&shared.part, own), "the object is open");
    };
    check(|| Attachments::new(1).unwrap(), change, change);
}

/// An object that is mapped once.
struct Mapped {
    attachments: Attachments,
    attachment: NonNull<Attachment>,
    freed: AtomicU64,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.freed.load(Relaxed), 1, "one owner frees the object");
        }
    }
}

#[test]
fn the_last_owner_of_an_object_frees_it_after_all_accesses_by_others() {
    let mapped = || {
        let attachments = Attachments::new(1).unwrap();
        let attachment = attach(&attachments);
        Mapped { attachments, attachment, freed: AtomicU64::new(0) }
    };
    let free_if = |shared: &Shared<Mapped>, is_last| {
        if is_last {
            shared.use_memory();
            shared.part.freed.fetch_add(1, Relaxed);
        }
    };
    check(
        mapped,
        move |one| free_if(one, one.part.attachments.close(&Model)),
        move |other| {
            other.use_memory();
            free_if(other, detach(&other.part.attachments, other.part.attachment));
        },
    );
}

#[test]
fn operations_that_remove_pages_from_an_object_exclude_each_other() {
    let take_out = |shared: &Shared<ObjectCore>| {
        Model.wait_while(|| !shared.part.try_begin_eviction());
        shared.use_memory();
        shared.part.end_eviction();
    };
    let object =
        || ObjectCore::new(Index::new(1).unwrap(), 1, None, None, Attachments::new(1).unwrap());
    check(object, take_out, take_out);
}
