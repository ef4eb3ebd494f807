//! Handles and guards: a handle registers a thread, and a guard is a section of that thread.

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

/// A thread's registration in a [`Domain`]. Only one thread at a time uses a handle.
#[derive(Debug)]
pub struct Handle<'d, P: Platform> {
    domain: &'d Domain<P>,
    node: &'d Node<Record>,
    /// The record that the last [`Section`] used. This record is usually free and in this CPU's cache.
    #[cfg(feature = "alloc")]
    section: Cell<Option<&'d Node<Record>>>,
    /// Not `Sync`.
    one: PhantomData<Cell<()>>,
}

/// A section, which ends when the guard is dropped: `epoch_enter`, `rcu_read_lock`.
///
/// Objects that were found in shared memory during the section stay valid until the guard is dropped. Guards
/// nest and may be dropped in any order. A guard stays on its thread. Do not hold a guard while the thread
/// blocks, because no object that is retired meanwhile can be freed. To hold a section while the thread
/// blocks, take a [`Section`](super::Section).
///
/// A leaked guard ([`core::mem::forget`]) is a section that never ends, so the domain never frees an object
/// that is unlinked after the section began.
///
/// Entering and leaving a section costs two plain stores to a cache line that no other thread writes. A
/// signal handler may enter and leave sections if its thread has entered one before.
#[derive(Debug)]
pub struct Guard<'d, P: Platform> {
    pub(super) domain: &'d Domain<P>,
    record: &'d Record,
    /// Neither `Send` nor `Sync`.
    here: PhantomData<*const ()>,
}

impl<P: Platform> Domain<P> {
    /// Registers the calling thread. The handle reuses a free record, or allocates one if none is free.
    #[cfg(feature = "alloc")]
    pub fn register(&self) -> Handle<'_, P> {
        Handle::new(self, self.record(), true)
    }

    /// Like `register`, but if the calling thread is missing in the child of a fork, the child releases the
    /// handle's record.
    #[cfg(feature = "std")]
    pub(super) fn register_thread(&self) -> Handle<'_, P> {
        Handle::new(self, self.record(), false)
    }

    /// Like `register`, but never allocates a record: if none is free, returns `None`. See
    /// [`Domain::add_node`].
    pub fn try_register(&self) -> Option<Handle<'_, P>> {
        Some(Handle::new(self, self.free_record()?, true))
    }
}

impl<'d, P: Platform> Handle<'d, P> {
    fn new(domain: &'d Domain<P>, node: &'d Node<Record>, is_kept: bool) -> Handle<'d, P> {
        node.value.begin(domain.platform(), is_kept);
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
    /// If the handle already has 4,095 guards.
    #[inline]
    pub fn pin(&self) -> Guard<'_, P> {
        self.pin_for_long()
    }

    /// A guard that may outlive the handle. The record stays in use while a guard exists.
    #[inline]
    pub(super) fn pin_for_long(&self) -> Guard<'d, P> {
        // SAFETY: the handle's thread owns the record, and the guard stays on this thread.
        unsafe { self.record().reader.enter(self.domain.global_epoch()) };
        Guard { domain: self.domain, record: self.record(), here: PhantomData }
    }

    /// A section that may be held while a thread blocks, and that may be sent to other threads; see
    /// [`Section`].
    #[cfg(feature = "alloc")]
    pub fn section(&self) -> Section<'d, P> {
        let node = match self.section.get() {
            Some(node) if node.try_take() => node,
            _ => self.domain.record(),
        };
        self.section.set(Some(node));
        Section::new(self.domain, node)
    }

    /// The domain in which the thread is registered.
    pub fn domain(&self) -> &'d Domain<P> {
        self.domain
    }

    /// Enters a section, which [`exit`](Handle::exit) ends.
    pub(super) fn enter(&self) {
        // SAFETY: the handle's thread owns the record.
        unsafe { self.record().reader.enter(self.domain.global_epoch()) };
    }

    /// # Safety
    /// Must be called once for each [`enter`](Handle::enter).
    pub(super) unsafe fn exit(&self) {
        // SAFETY: the handle's thread owns the record, and the caller guarantees that `enter` was called.
        unsafe { self.record().reader.exit() };
    }

    /// Ends the section and immediately begins another, unless sections are nested.
    #[inline]
    pub(super) fn refresh(&self) {
        // SAFETY: the handle's thread owns the record.
        unsafe { self.record().reader.refresh(self.domain.global_epoch()) };
    }

    #[inline]
    fn record(&self) -> &'d Record {
        &self.node.value
    }

    /// Waits until all sections that began before the call have ended.
    ///
    /// # Panics
    /// If this handle is in a section, because the call would wait for that section.
    pub fn synchronize(&self) {
        assert!(
            !self.record().reader.is_inside(),
            "synchronize would wait for the caller's own section"
        );
        self.domain.synchronize();
    }

    /// See [`Guard::retire_entry`].
    ///
    /// # Safety
    /// The contract of [`Guard::retire_entry`].
    pub unsafe fn retire_entry(&self, entry: NonNull<Entry>, call: unsafe fn(NonNull<Entry>)) {
        // SAFETY: the contract is the same, and the handle's thread owns the record.
        unsafe { retire_entry(self.domain, self.record(), entry, call) };
    }

    /// See [`Guard::retire`].
    ///
    /// # Safety
    /// The contract of [`Guard::retire`].
    #[cfg(feature = "alloc")]
    pub unsafe fn retire<T: Send>(&self, pointer: *mut T) {
        // SAFETY: the contract is the same, and the handle's thread owns the record.
        unsafe { retire(self.domain, self.record(), pointer) };
    }

    /// Scans once and frees the objects that this thread has retired and that no section can hold any more.
    pub fn reclaim(&self) {
        // SAFETY: the handle's thread owns the record.
        unsafe { self.domain.reclaim(self.record()) };
    }

    /// Seals the thread's open objects, and then frees the thread's sealed objects that an earlier scan has
    /// found ready.
    #[cfg(all(test, loom))]
    pub(super) fn seal_and_free(&self) {
        // SAFETY: the handle's thread owns the record.
        unsafe { self.domain.seal(self.record()) };
    }

    /// Like [`Handle::reclaim`], but only if a scan is due.
    #[cfg(feature = "std")]
    pub(super) fn reclaim_if_due(&self) {
        // SAFETY: the handle's thread owns the record.
        unsafe { self.domain.reclaim_if_due(self.record()) };
    }

    /// Unregisters without a last scan.
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
        // The remaining objects stay in the record, and other threads or the record's next owner free them.
        // If a guard was leaked, the record is never released.
        if !self.record().reader.is_inside() {
            self.node.release();
        }
    }
}

impl<P: Platform> Guard<'_, P> {
    /// The domain of the section.
    #[inline]
    pub fn domain(&self) -> &Domain<P> {
        self.domain
    }

    /// Calls `call` with `entry` when all sections that may have found the entry's object have ended:
    /// `epoch_call`, `call_rcu`. Nothing is allocated.
    ///
    /// # Safety
    /// No section that begins from now on can find the object. Sections that have already begun may still
    /// find the object, even through objects that were unlinked earlier. The object has not been retired
    /// before. Until `call` is called, the object must stay in place, and only sections that have already
    /// begun may access it. When these sections have ended, it must be sound for any thread to call `call`
    /// once. `call` must not unwind.
    pub unsafe fn retire_entry(&self, entry: NonNull<Entry>, call: unsafe fn(NonNull<Entry>)) {
        // SAFETY: the contract is the same, and a guard stays on its thread, which owns the record.
        unsafe { retire_entry(self.domain, self.record, entry, call) };
    }

    /// When all sections that may have found the object have ended, drops the `Box` that `pointer` came
    /// from.
    ///
    /// The store that unlinked the object may be `Relaxed`, because `retire` orders that store.
    ///
    /// This call may run destructors of objects that were retired earlier, so the caller must not hold a lock
    /// that these destructors take. A panic in a destructor propagates out of the call that runs the
    /// destructor.
    ///
    /// # Safety
    /// The pointer came from [`Box::into_raw`]; read it from the `AtomicPtr`, because a pointer that was
    /// made from a reference must not be freed. No section that begins from now on can find the object.
    /// Sections that have already begun may still find the object, even through objects that were unlinked
    /// earlier. The object is retired only once. Everything that `T` borrows lives as long as the domain; the
    /// domain of the process lives forever.
    #[cfg(feature = "alloc")]
    #[inline]
    pub unsafe fn retire<T: Send>(&self, pointer: *mut T) {
        // SAFETY: the contract is the same, and a guard stays on its thread, which owns the record.
        unsafe { retire(self.domain, self.record, pointer) };
    }

    /// Stores `new`, or null, in `target` and [retires](Guard::retire) the old value: `rcu_replace_pointer`
    /// and `kfree_rcu`. Returns the old value, which stays valid until the guard is dropped. Use this method
    /// for a single value, not for the links of a list: a new node may link to the old node, which must then
    /// not be retired. In a list, store the link yourself, and [retire](Guard::retire) each node that you
    /// remove.
    ///
    /// # Safety
    /// A pointer in `target` is null or came from [`Box::into_raw`]. Readers follow the pointer only in
    /// sections of this domain, and find the pointer nowhere else. A writer that removes the pointer in any
    /// other way must retire it. As with [`Guard::retire`], everything that `T` borrows lives as long as the
    /// domain.
    #[cfg(feature = "alloc")]
    #[inline]
    pub unsafe fn replace<T: Send + Sync>(
        &self,
        target: &AtomicPtr<T>,
        new: Option<Box<T>>,
    ) -> Option<&T> {
        let new = new.map_or(ptr::null_mut(), Box::into_raw);
        // Release: a reader that finds the new value sees its content. Acquire: the thread that drops the old
        // value sees the content of that value.
        let old = target.swap(new, order!(AcqRel, "epoch_replace"));
        // SAFETY: the caller guarantees that a pointer in `target` came from a `Box`, and that readers follow
        // the pointer only in sections of this domain. The exchange removed the pointer, so no other thread
        // retires it.
        unsafe { NonNull::new(old).inspect(|_| self.retire(old)).map(|old| old.as_ref()) }
    }

    /// Calls `call` when all sections that have already begun have ended. This function allocates.
    ///
    /// Any thread may make the call at any later time, so `call` is [`Send`] and `'static`. If `call` panics,
    /// the reclaiming thread first makes the other calls that are ready, and then panics too. If a second
    /// call panics, the process aborts.
    #[cfg(feature = "alloc")]
    pub fn defer(&self, call: impl FnOnce() + Send + 'static) {
        unsafe fn run<F: FnOnce()>(of: *mut ()) {
            // SAFETY: the pointer came from `Box::into_raw` below, for this one call.
            let call = unsafe { Box::from_raw(of.cast::<F>()) };
            call();
        }
        fn deferred<F: FnOnce()>(call: F) -> Deferred {
            Deferred { call: run::<F>, with: Box::into_raw(Box::new(call)).cast() }
        }
        // SAFETY: `F` is `Send` and `'static`, so any thread may call it at any time. A guard stays on its
        // thread, which owns the record.
        unsafe { add(self.domain, self.record, deferred(call)) };
    }

    /// Ends the section and immediately begins another, unless the thread has another guard. Because of the
    /// exclusive borrow, references from before the call cannot be used after it.
    #[inline]
    pub fn refresh(&mut self) {
        // SAFETY: a guard stays on its thread, which owns the record and is in a section.
        unsafe { self.record.reader.refresh(self.domain.global_epoch()) };
    }
}

impl<P: Platform> Drop for Guard<'_, P> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a guard stays on its thread, which owns the record, and `pin_for_long` entered the section.
        unsafe { self.record.reader.exit() };
    }
}

/// # Safety
/// The contract of [`Guard::retire_entry`], and the caller owns the record.
unsafe fn retire_entry<P: Platform>(
    domain: &Domain<P>,
    record: &Record,
    mut entry: NonNull<Entry>,
    call: Call,
) {
    // SAFETY: the caller guarantees that only earlier sections access the object, and these do not access
    // its entry.
    unsafe { entry.as_mut() }.prepare(1, call);
    // SAFETY: the caller owns the record, and guarantees that the entry stays in place until `call` is
    // called.
    let full =
        unsafe { record.garbage.lock_owner(domain.platform(), |garbage| garbage.add(entry)) };
    if full {
        // SAFETY: the caller owns the record.
        unsafe { domain.seal(record) };
    }
}

/// # Safety
/// The contract of [`Guard::retire`], and the caller owns the record.
#[cfg(feature = "alloc")]
#[inline]
unsafe fn retire<P: Platform, T: Send>(domain: &Domain<P>, record: &Record, pointer: *mut T) {
    unsafe fn drop_box<T>(of: *mut ()) {
        // SAFETY: the caller of `retire` guarantees that the pointer came from a `Box` of this type.
        drop(unsafe { Box::from_raw(of.cast::<T>()) });
    }
    // SAFETY: `T` is `Send`. The caller owns the record, and guarantees that the box is retired once.
    unsafe { add(domain, record, Deferred { call: drop_box::<T>, with: pointer.cast() }) };
}

/// # Safety
/// The caller owns the record. After a grace period, any thread may make the deferred call.
#[cfg(feature = "alloc")]
#[inline]
unsafe fn add<P: Platform>(domain: &Domain<P>, record: &Record, deferred: Deferred) {
    // SAFETY: the caller owns the record, and `Garbage::defer` only stores the call: `defer` does not take
    // the lock that this thread already holds.
    let full =
        unsafe { record.garbage.lock_owner(domain.platform(), |garbage| garbage.defer(deferred)) };
    if full {
        // SAFETY: the caller owns the record.
        unsafe { domain.seal(record) };
    }
}
