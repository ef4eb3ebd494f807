//! Ways to reclaim, each as its users would write it: allocate an object, exchange it for the current one, and
//! retire the old one.

use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel};

use arc_swap::ArcSwap;
use crossbeam_epoch::{Atomic, Owned};
use crossbeam_utils::CachePadded;
use haphazard::HazardPointer;
use knee_sync::{epoch, hazard};
use seize::{Collector, Guard};

use crate::c::{C, Member};
use crate::live::Object;
use side_by_side::THREADS;

/// A way to reclaim. Each thread has an atomic pointer of its own; the collector is common.
pub(crate) trait Reclaim: Sync {
    /// Its objects' number in [`crate::live`].
    const ID: usize;
    /// The state of a thread. Registering is not measured.
    type Local;

    fn join(&'static self, thread: usize) -> Self::Local;

    /// Replaces the thread's object this many times.
    fn replace(&'static self, local: &mut Self::Local, times: u64);

    /// Enters and leaves a section, or protects the thread's object, this many times.
    fn visit(&'static self, local: &mut Self::Local, times: u64);

    /// Holds the object of thread 0, or a section, while it calls `during`.
    fn stall(&'static self, during: impl FnOnce());

    /// Frees the retired objects that one call can free. No thread is in a section.
    fn drain(&'static self);
}

/// A pointer for each thread, in a line of its own.
type Own<T> = [CachePadded<T>; THREADS];

fn own<T>(with: impl Fn() -> T) -> Own<T> {
    std::array::from_fn(|_| CachePadded::new(with()))
}

fn boxed<T>(object: T) -> *mut T {
    Box::into_raw(Box::new(object))
}

/// No reclamation: the old object is freed at once.
pub(crate) struct Nothing(Own<AtomicPtr<Object<0>>>);

impl Nothing {
    pub(crate) fn new() -> Nothing {
        Nothing(own(|| AtomicPtr::new(boxed(Object::FIRST))))
    }
}

impl Reclaim for Nothing {
    const ID: usize = 0;
    type Local = usize;

    fn join(&'static self, thread: usize) -> usize {
        thread
    }

    fn replace(&'static self, &mut thread: &mut usize, times: u64) {
        for _ in 0..times {
            let old = self.0[thread].swap(boxed(Object::new()), AcqRel);
            // SAFETY: the pointer came from a box, and no other thread has loaded it.
            drop(unsafe { Box::from_raw(old) });
        }
    }

    fn visit(&'static self, _: &mut usize, _: u64) {}

    fn stall(&'static self, during: impl FnOnce()) {
        during();
    }

    fn drain(&'static self) {}
}

/// `epoch::Guard::retire`.
pub(crate) struct Epoch(Own<AtomicPtr<Object<1>>>);

impl Epoch {
    pub(crate) fn new() -> Epoch {
        Epoch(own(|| AtomicPtr::new(boxed(Object::FIRST))))
    }
}

impl Reclaim for Epoch {
    const ID: usize = 1;
    type Local = usize;

    fn join(&'static self, thread: usize) -> usize {
        thread
    }

    fn replace(&'static self, &mut thread: &mut usize, times: u64) {
        for _ in 0..times {
            let guard = epoch::pin();
            let old = self.0[thread].swap(boxed(Object::new()), AcqRel);
            // SAFETY: the pointer came from a box, and the exchange has unlinked it.
            unsafe { guard.retire(old) };
        }
    }

    fn visit(&'static self, _: &mut usize, times: u64) {
        (0..times).for_each(|_| drop(epoch::pin()));
    }

    fn stall(&'static self, during: impl FnOnce()) {
        let _guard = epoch::pin();
        during();
    }

    fn drain(&'static self) {
        epoch::shared().barrier();
    }
}

/// `epoch::Guard::retire_entry`.
pub(crate) struct Entry(Own<AtomicPtr<WithEntry>>);

#[repr(C)]
struct WithEntry {
    entry: epoch::Entry,
    object: Object<2>,
}

impl WithEntry {
    fn of(object: Object<2>) -> *mut WithEntry {
        boxed(WithEntry { entry: epoch::Entry::new(), object })
    }
}

impl Entry {
    pub(crate) fn new() -> Entry {
        Entry(own(|| AtomicPtr::new(WithEntry::of(Object::FIRST))))
    }
}

impl Reclaim for Entry {
    const ID: usize = 2;
    type Local = usize;

    fn join(&'static self, thread: usize) -> usize {
        thread
    }

    fn replace(&'static self, &mut thread: &mut usize, times: u64) {
        unsafe fn free(entry: NonNull<epoch::Entry>) {
            // SAFETY: the entry is the first field of what came from a box.
            drop(unsafe { Box::from_raw(entry.cast::<WithEntry>().as_ptr()) });
        }
        for _ in 0..times {
            let guard = epoch::pin();
            let old = self.0[thread].swap(WithEntry::of(Object::new()), AcqRel);
            let old = NonNull::new(old).expect("it is never null").cast();
            // SAFETY: the exchange has unlinked it, and nothing accesses it until `free`.
            unsafe { guard.retire_entry(old, free) };
        }
    }

    fn visit(&'static self, _: &mut usize, times: u64) {
        (0..times).for_each(|_| drop(epoch::pin()));
    }

    fn stall(&'static self, during: impl FnOnce()) {
        let _guard = epoch::pin();
        during();
    }

    fn drain(&'static self) {
        epoch::shared().barrier();
    }
}

/// `hazard::AtomicBox`.
pub(crate) struct Hazard(Own<hazard::AtomicBox<Object<3>>>);

impl Hazard {
    pub(crate) fn new() -> Hazard {
        Hazard(own(|| hazard::AtomicBox::new(Object::FIRST)))
    }
}

impl Reclaim for Hazard {
    const ID: usize = 3;
    type Local = usize;

    fn join(&'static self, thread: usize) -> usize {
        thread
    }

    fn replace(&'static self, &mut thread: &mut usize, times: u64) {
        (0..times).for_each(|_| self.0[thread].store(Some(Box::new(Object::new()))));
    }

    fn visit(&'static self, &mut thread: &mut usize, times: u64) {
        (0..times).for_each(|_| drop(self.0[thread].load()));
    }

    fn stall(&'static self, during: impl FnOnce()) {
        let _guard = self.0[0].load();
        during();
    }

    fn drain(&'static self) {
        hazard::reclaim();
    }
}

/// crossbeam-epoch.
pub(crate) struct Crossbeam(Own<Atomic<Object<4>>>);

impl Crossbeam {
    pub(crate) fn new() -> Crossbeam {
        Crossbeam(own(|| Atomic::new(Object::FIRST)))
    }
}

impl Reclaim for Crossbeam {
    const ID: usize = 4;
    type Local = usize;

    fn join(&'static self, thread: usize) -> usize {
        thread
    }

    fn replace(&'static self, &mut thread: &mut usize, times: u64) {
        for _ in 0..times {
            let guard = crossbeam_epoch::pin();
            let old = self.0[thread].swap(Owned::new(Object::new()), AcqRel, &guard);
            // SAFETY: the exchange has unlinked it.
            unsafe { guard.defer_destroy(old) };
        }
    }

    fn visit(&'static self, _: &mut usize, times: u64) {
        (0..times).for_each(|_| drop(crossbeam_epoch::pin()));
    }

    fn stall(&'static self, during: impl FnOnce()) {
        let _guard = crossbeam_epoch::pin();
        during();
    }

    fn drain(&'static self) {
        crossbeam_epoch::pin().flush();
    }
}

/// seize, with this number in a batch.
pub(crate) struct Seize<const ID: usize> {
    collector: Collector,
    own: Own<AtomicPtr<Object<ID>>>,
}

impl<const ID: usize> Seize<ID> {
    pub(crate) fn new(collector: Collector) -> Seize<ID> {
        Seize { collector, own: own(|| AtomicPtr::new(boxed(Object::FIRST))) }
    }
}

impl<const ID: usize> Reclaim for Seize<ID> {
    const ID: usize = ID;
    type Local = usize;

    fn join(&'static self, thread: usize) -> usize {
        thread
    }

    fn replace(&'static self, &mut thread: &mut usize, times: u64) {
        for _ in 0..times {
            let guard = self.collector.enter();
            let old = guard.swap(&self.own[thread], boxed(Object::new()), AcqRel);
            // SAFETY: the pointer came from a box, and the exchange has unlinked it.
            unsafe { guard.defer_retire(old, seize::reclaim::boxed) };
        }
    }

    fn visit(&'static self, _: &mut usize, times: u64) {
        (0..times).for_each(|_| drop(self.collector.enter()));
    }

    fn stall(&'static self, during: impl FnOnce()) {
        let _guard = self.collector.enter();
        during();
    }

    fn drain(&'static self) {
        // SAFETY: no other thread uses the collector now.
        unsafe { self.collector.reclaim_all() };
    }
}

/// sdd.
pub(crate) struct Sdd(Own<sdd::AtomicOwned<Object<7>>>);

impl Sdd {
    pub(crate) fn new() -> Sdd {
        Sdd(own(|| sdd::AtomicOwned::new(Object::FIRST)))
    }
}

impl Reclaim for Sdd {
    const ID: usize = 7;
    type Local = usize;

    fn join(&'static self, thread: usize) -> usize {
        thread
    }

    fn replace(&'static self, &mut thread: &mut usize, times: u64) {
        for _ in 0..times {
            // Only the end of a guard frees objects.
            let _guard = sdd::Guard::new();
            let new = (Some(sdd::Owned::new(Object::new())), sdd::Tag::None);
            // Dropping it retires it.
            drop(self.0[thread].swap(new, AcqRel));
        }
    }

    fn visit(&'static self, _: &mut usize, times: u64) {
        (0..times).for_each(|_| drop(sdd::Guard::new()));
    }

    fn stall(&'static self, during: impl FnOnce()) {
        let _guard = sdd::Guard::new();
        during();
    }

    fn drain(&'static self) {
        sdd::Guard::new().accelerate();
    }
}

/// haphazard's common domain.
pub(crate) struct Haphazard(Own<haphazard::AtomicPtr<Object<8>>>);

impl Haphazard {
    pub(crate) fn new() -> Haphazard {
        Haphazard(own(|| haphazard::AtomicPtr::from(Box::new(Object::FIRST))))
    }
}

impl Reclaim for Haphazard {
    const ID: usize = 8;
    type Local = usize;

    fn join(&'static self, thread: usize) -> usize {
        thread
    }

    fn replace(&'static self, &mut thread: &mut usize, times: u64) {
        for _ in 0..times {
            let old = self.0[thread].swap(Box::new(Object::new()));
            // SAFETY: the exchange has unlinked it, and all threads protect it in the common domain.
            unsafe { old.expect("it is never null").retire() };
        }
    }

    fn visit(&'static self, &mut thread: &mut usize, times: u64) {
        let mut pointer = HazardPointer::new();
        for _ in 0..times {
            black_box(self.0[thread].safe_load(&mut pointer));
            pointer.reset_protection();
        }
    }

    fn stall(&'static self, during: impl FnOnce()) {
        let mut pointer = HazardPointer::new();
        black_box(self.0[0].safe_load(&mut pointer));
        during();
        drop(pointer);
    }

    fn drain(&'static self) {
        haphazard::Domain::global().eager_reclaim();
    }
}

/// arc-swap, which counts references and retires nothing.
pub(crate) struct Arcs(Own<ArcSwap<Object<9>>>);

impl Arcs {
    pub(crate) fn new() -> Arcs {
        Arcs(own(|| ArcSwap::from_pointee(Object::FIRST)))
    }
}

impl Reclaim for Arcs {
    const ID: usize = 9;
    type Local = usize;

    fn join(&'static self, thread: usize) -> usize {
        thread
    }

    fn replace(&'static self, &mut thread: &mut usize, times: u64) {
        (0..times).for_each(|_| self.0[thread].store(Arc::new(Object::new())));
    }

    fn visit(&'static self, &mut thread: &mut usize, times: u64) {
        (0..times).for_each(|_| drop(self.0[thread].load()));
    }

    fn stall(&'static self, during: impl FnOnce()) {
        let _guard = self.0[0].load();
        during();
    }

    fn drain(&'static self) {}
}

/// A library in C, and how it retires: see [`Member::replace`].
pub(crate) struct InC<const ID: usize> {
    pub(crate) of: &'static C,
    pub(crate) how: u64,
}

impl<const ID: usize> Reclaim for InC<ID> {
    const ID: usize = ID;
    type Local = Member;

    fn join(&'static self, _: usize) -> Member {
        self.of.join()
    }

    fn replace(&'static self, member: &mut Member, times: u64) {
        member.replace(times, self.how);
    }

    fn visit(&'static self, member: &mut Member, times: u64) {
        member.sections(times);
    }

    fn stall(&'static self, during: impl FnOnce()) {
        self.of.join().stall(during);
    }

    fn drain(&'static self) {
        self.of.join().drain();
    }
}
