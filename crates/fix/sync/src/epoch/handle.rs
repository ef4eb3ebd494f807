//! A thread's part in a domain.

#[cfg(feature = "alloc")]
use alloc::boxed::Box;
use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;
#[cfg(feature = "alloc")]
use core::{ptr, sync::atomic::Ordering::AcqRel};

#[cfg(feature = "alloc")]
use super::bag::Deferred;
use super::domain::Domain;
use super::entry::{Call, Entry};
use super::record::Record;
#[cfg(feature = "alloc")]
use super::section::Section;
#[cfg(feature = "alloc")]
use crate::mutant::order;
use crate::platform::Platform;
#[cfg(feature = "alloc")]
use crate::primitive::AtomicPtr;
use crate::registry::Node;

/// A thread that takes part in a [`Domain`]. One thread uses it at a time.
#[derive(Debug)]
pub struct Handle<'d, P: Platform> {
    domain: &'d Domain<P>,
    node: &'d Node<Record>,
    /// The record of the last section: it is free mostly, and in the cache of this CPU.
    #[cfg(feature = "alloc")]
    section: Cell<Option<&'d Node<Record>>>,
    /// Not for two threads at once.
    one: PhantomData<Cell<()>>,
}

/// Inside a section, which ends when the guard is dropped: `epoch_enter`, `rcu_read_lock`.
///
/// What is found in shared memory while it is there stays until it is dropped. Guards nest, and may be
/// dropped in any order. A guard stays on its thread; it is not to be held while the thread blocks, as
/// nobody can free anything meanwhile: for that there is [`Section`](super::Section).
///
/// A guard that is forgotten ([`core::mem::forget`]) is a section that never ends: nothing of its domain
/// is freed from then on.
///
/// To enter and to leave are two plain stores in a line of the thread's own, and may be done in signal
/// handlers of threads that have been in a section before.
#[derive(Debug)]
pub struct Guard<'d, P: Platform> {
    pub(super) domain: &'d Domain<P>,
    record: &'d Record,
    /// On its thread.
    here: PhantomData<*const ()>,
}

impl<P: Platform> Domain<P> {
    /// A handle for the calling thread, in a free record or in a new one.
    #[cfg(feature = "alloc")]
    pub fn register(&self) -> Handle<'_, P> {
        Handle::new(self, self.record())
    }

    /// A handle for the calling thread, in a free record. Returns `None` if there is no free record,
    /// instead of allocating one. See [`Domain::add_node`].
    pub fn try_register(&self) -> Option<Handle<'_, P>> {
        Some(Handle::new(self, self.free_record()?))
    }
}

impl<'d, P: Platform> Handle<'d, P> {
    fn new(domain: &'d Domain<P>, node: &'d Node<Record>) -> Handle<'d, P> {
        node.value.begin(domain.platform(), false);
        Handle {
            domain,
            node,
            #[cfg(feature = "alloc")]
            section: Cell::new(None),
            one: PhantomData,
        }
    }

    /// Enters a section.
    ///
    /// # Panics
    /// If the handle has 4,095 guards.
    #[inline]
    pub fn pin(&self) -> Guard<'_, P> {
        self.pin_for_long()
    }

    /// A guard that may outlive the handle, which sees to its record when it goes.
    #[inline]
    pub(super) fn pin_for_long(&self) -> Guard<'d, P> {
        // SAFETY: the handle's thread is the owner of its record, and the guard does not leave it.
        unsafe { self.record().reader.enter(self.domain.global_epoch()) };
        Guard { domain: self.domain, record: self.record(), here: PhantomData }
    }

    /// A section that may be held across anything and sent to other threads; see [`Section`].
    #[cfg(feature = "alloc")]
    pub fn section(&self) -> Section<'d, P> {
        let node = match self.section.get() {
            Some(node) if node.try_take() => node,
            _ => self.domain.record(),
        };
        self.section.set(Some(node));
        Section::new(self.domain, node)
    }

    /// The domain.
    pub fn domain(&self) -> &'d Domain<P> {
        self.domain
    }

    /// Enters a section that [`exit`](Handle::exit) ends.
    pub(super) fn enter(&self) {
        // SAFETY: the handle's thread is the owner of its record.
        unsafe { self.record().reader.enter(self.domain.global_epoch()) };
    }

    /// # Safety
    /// Once for each [`enter`](Handle::enter).
    pub(super) unsafe fn exit(&self) {
        // SAFETY: the handle's thread is the owner, and the caller says that it has entered.
        unsafe { self.record().reader.exit() };
    }

    /// Ends a section and begins another at once, if it is the only one.
    #[inline]
    pub(super) fn refresh(&self) {
        // SAFETY: the handle's thread is the owner of its record.
        unsafe { self.record().reader.refresh(self.domain.global_epoch()) };
    }

    #[inline]
    fn record(&self) -> &'d Record {
        &self.node.value
    }

    /// Waits until all sections have ended that had begun before.
    ///
    /// # Panics
    /// In a section of this handle, which would wait for itself.
    pub fn synchronize(&self) {
        assert!(!self.record().reader.is_inside(), "synchronize in a section waits for itself");
        self.domain.synchronize();
    }

    /// See [`Guard::retire_entry`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn retire_entry(&self, entry: NonNull<Entry>, call: unsafe fn(NonNull<Entry>)) {
        // SAFETY: the caller says so, and owns the record.
        unsafe { retire_entry(self.domain, self.record(), entry, call) };
    }

    /// See [`Guard::retire`].
    ///
    /// # Safety
    /// As there.
    #[cfg(feature = "alloc")]
    pub unsafe fn retire<T: Send>(&self, of: *mut T) {
        // SAFETY: the caller says so, and owns the record.
        unsafe { retire(self.domain, self.record(), of) };
    }

    /// Seals what this thread has deferred, looks once who is in a section, and frees what is ready.
    pub fn reclaim(&self) {
        // SAFETY: the handle's thread is the owner.
        unsafe { self.domain.reclaim(self.record()) };
    }

    /// Seals, and frees what others have found ready.
    #[cfg(all(test, loom))]
    pub(super) fn seal_and_free(&self) {
        // SAFETY: the handle's thread is the owner.
        unsafe { self.domain.seal(self.record()) };
    }

    /// As [`Handle::reclaim`], if that is due.
    #[cfg(feature = "std")]
    pub(super) fn reclaim_if_due(&self) {
        // SAFETY: the handle's thread is the owner.
        unsafe { self.domain.reclaim_if_due(self.record()) };
    }

    /// Gives the record back without a last look at what waits.
    #[cfg(feature = "std")]
    pub(super) fn release_without_reclaim(self) {
        self.node.release();
        core::mem::forget(self);
    }

    #[cfg(feature = "std")]
    pub(super) fn is_inside(&self) -> bool {
        self.record().reader.is_inside()
    }

    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(super) fn node(&self) -> &'d Node<Record> {
        self.node
    }
}

impl<P: Platform> Drop for Handle<'_, P> {
    fn drop(&mut self) {
        self.reclaim();
        // What is left is freed by others, or by the next one who takes the node. A guard that was
        // forgotten keeps it for ever.
        if !self.record().reader.is_inside() {
            self.node.release();
        }
    }
}

impl<P: Platform> Guard<'_, P> {
    /// The domain whose section this is.
    #[inline]
    pub fn domain(&self) -> &Domain<P> {
        self.domain
    }

    /// Has `call` called with `entry` when all sections have ended that may have found what it is part
    /// of: `epoch_call`, `call_rcu`. Nothing is allocated.
    ///
    /// # Safety
    /// The entry is part of something that no section can find from now on, and that is not deferred
    /// yet. It stays where it is, untouched, until `call` is called, which any thread may do, once, and
    /// which does not unwind.
    pub unsafe fn retire_entry(&self, entry: NonNull<Entry>, call: unsafe fn(NonNull<Entry>)) {
        // SAFETY: the caller says so; the guard is on the thread of its record's owner.
        unsafe { retire_entry(self.domain, self.record, entry, call) };
    }

    /// Has the `Box` dropped that `of` was made from, when all sections have ended that may have found
    /// it.
    ///
    /// # Safety
    /// It came from [`Box::into_raw`], no section can find it from now on, and it is deferred once. What
    /// `T` borrows lives until it is dropped: for ever in the process's domain, as long as the domain in
    /// another. If its destructor panics, the panic is that of whoever frees.
    #[cfg(feature = "alloc")]
    #[inline]
    pub unsafe fn retire<T: Send>(&self, of: *mut T) {
        // SAFETY: the caller says so; the guard is on the thread of its record's owner.
        unsafe { retire(self.domain, self.record, of) };
    }

    /// Publishes `new`, or null, in `target` and [retires](Guard::retire) the value that it replaces:
    /// `rcu_replace_pointer` and `kfree_rcu`. Returns the old value, which stays until the guard is
    /// dropped.
    ///
    /// # Safety
    /// A pointer in `target` is null or came from [`Box::into_raw`]; readers follow it in sections of this
    /// domain only, and find it nowhere else. Writers remove it by this method only, or retire it
    /// themselves. As with [`Guard::retire`], everything that `T` borrows lives as long as the domain.
    #[cfg(feature = "alloc")]
    #[inline]
    pub unsafe fn replace<T: Send + Sync>(
        &self,
        target: &AtomicPtr<T>,
        new: Option<Box<T>>,
    ) -> Option<&T> {
        let new = new.map_or(ptr::null_mut(), Box::into_raw);
        // Release: a reader that finds the new value sees its content. Acquire: so does the thread that
        // drops the old value.
        let old = target.swap(new, order!(AcqRel, "epoch_replace"));
        // SAFETY: the caller guarantees that a pointer in `target` came from a `Box` and that readers wait
        // for it in sections only. The exchange removed it, so no other thread retires it.
        unsafe { NonNull::new(old).inspect(|_| self.retire(old)).map(|old| old.as_ref()) }
    }

    /// Has `call` called when all sections have ended that have begun. It allocates.
    ///
    /// What it captures may be dropped by any thread, at any time after: so it is [`Send`] and
    /// `'static`. If it panics, the panic is that of whoever frees, and comes when all others have been
    /// called that are called at that time; a second that panics then aborts the process.
    #[cfg(feature = "alloc")]
    pub fn defer(&self, call: impl FnOnce() + Send + 'static) {
        unsafe fn run<F: FnOnce()>(of: *mut ()) {
            // SAFETY: it was made by `Box::into_raw` below, for this call.
            let call = unsafe { Box::from_raw(of.cast::<F>()) };
            call();
        }
        fn deferred<F: FnOnce()>(call: F) -> Deferred {
            Deferred { call: run::<F>, with: Box::into_raw(Box::new(call)).cast() }
        }
        // SAFETY: a closure that is `Send` may be called by any thread.
        unsafe { add(self.domain, self.record, deferred(call)) };
    }

    /// Ends the section and begins another at once, if there is no other guard of the thread. What was
    /// found before is not to be used any more, which the exclusive borrow sees to.
    #[inline]
    pub fn refresh(&mut self) {
        // SAFETY: the guard is on the thread of its record's owner, and inside.
        unsafe { self.record.reader.refresh(self.domain.global_epoch()) };
    }
}

impl<P: Platform> Drop for Guard<'_, P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard is on the thread of its record's owner, and has entered once.
        unsafe { self.record.reader.exit() };
    }
}

/// # Safety
/// As of [`Guard::retire_entry`], by the record's owner.
unsafe fn retire_entry<P: Platform>(
    domain: &Domain<P>,
    record: &Record,
    mut entry: NonNull<Entry>,
    call: Call,
) {
    // SAFETY: the caller says that it is exclusively ours.
    unsafe { entry.as_mut() }.prepare(1, call);
    // SAFETY: as above, and the caller owns the record.
    let full =
        unsafe { record.garbage.lock_owner(domain.platform(), |garbage| garbage.add(entry)) };
    if full {
        // SAFETY: the caller owns the record.
        unsafe { domain.seal(record) };
    }
}

/// # Safety
/// As of [`Guard::retire`], by the record's owner.
#[cfg(feature = "alloc")]
#[inline]
unsafe fn retire<P: Platform, T: Send>(domain: &Domain<P>, record: &Record, of: *mut T) {
    unsafe fn drop_box<T>(of: *mut ()) {
        // SAFETY: the caller of `retire` says that it came from a `Box` of this type.
        drop(unsafe { Box::from_raw(of.cast::<T>()) });
    }
    // SAFETY: the caller says so.
    unsafe { add(domain, record, Deferred { call: drop_box::<T>, with: of.cast() }) };
}

/// # Safety
/// By the record's owner; any thread may make the call after a grace period.
#[cfg(feature = "alloc")]
#[inline]
unsafe fn add<P: Platform>(domain: &Domain<P>, record: &Record, deferred: Deferred) {
    // SAFETY: the caller owns the record.
    let full =
        unsafe { record.garbage.lock_owner(domain.platform(), |garbage| garbage.defer(deferred)) };
    if full {
        // SAFETY: the caller owns the record.
        unsafe { domain.seal(record) };
    }
}
