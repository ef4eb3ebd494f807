//! Handles, which register a thread.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::marker::PhantomData;
use core::mem;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use crate::platform::Platform;
use crate::primitive::AtomicPtr;
use crate::registry::Node;
#[cfg(feature = "std")]
use crate::system::System;

use super::domain::Domain;
use super::garbage::{Garbage, Retired};
use super::guard::{Guard, Record, leave, protect};

/// A thread's registration in a [`Domain`]: the thread's slots and its retired objects.
///
/// When the handle is dropped, it frees the objects that no guard protects, and leaves the rest to other
/// threads.
pub struct Handle<
    'd,
    #[cfg(feature = "std")] P: Platform = System,
    #[cfg(not(feature = "std"))] P: Platform,
> {
    domain: &'d Domain<P>,
    node: &'d Node<Record>,
    /// Records for guards that found no free slot in the first record.
    more: RefCell<Vec<&'d Node<Record>>>,
    /// The record of the thread's retired objects; `None` before its first use.
    garbage: Cell<Option<&'d Node<Garbage>>>,
    /// Once the thread has this many retired objects, it scans.
    limit: Cell<usize>,
    /// Neither `Send` nor `Sync`: guards use the record without a lock.
    thread: PhantomData<*mut ()>,
}

impl<P: Platform> Domain<P> {
    /// A handle for the calling thread, with a free record or a new one. A thread should keep its handle,
    /// because `register` searches all records for a free one.
    pub fn register(&self) -> Handle<'_, P> {
        Handle {
            domain: self,
            node: self.record(),
            more: RefCell::new(Vec::new()),
            garbage: Cell::new(None),
            limit: Cell::new(self.batch()),
            thread: PhantomData,
        }
    }
}

impl<'d, P: Platform> Handle<'d, P> {
    /// The domain of the handle. The handle protects nothing that is retired to another domain, so a safe
    /// function that accepts handles from its callers must check [`is_of`](Handle::is_of).
    pub fn domain(&self) -> &'d Domain<P> {
        self.domain
    }

    /// Whether this is a handle of `domain`.
    pub fn is_of(&self, domain: &Domain<P>) -> bool {
        ptr::eq(self.domain, domain)
    }

    /// Protects the object that `source` points to. Returns `None` if `source` is null.
    ///
    /// This function retries if `source` changes meanwhile, so it is not wait-free. But it is lock-free,
    /// because an attempt fails only if a writer has changed `source`.
    ///
    /// The load is `Acquire`; writers must publish an object with a `Release` store.
    ///
    /// # Safety
    /// A pointer in `source` is null or points to a live `T` that threads may share. The pointer carries no
    /// mark in its low bits; see [`protect_with`](Handle::protect_with) for links with marks.
    ///
    /// Before the `T` is retired to this domain, its pointer must be removed from each `source` in which a
    /// thread may still look for it. After the removal, no thread stores the pointer in any of these sources
    /// again. The `T` is freed only by this domain.
    ///
    /// This also applies to a `source` that is a field of another object, even if that other object is
    /// already unlinked: a reader that protects the other object may load the field at any time. So a writer
    /// that unlinks an object must also change the links in that object. With an [epoch](crate::epoch), those
    /// links may stay as they are. When a list removes a node, it makes the node's link point to the node
    /// itself, or it marks the link. A reader that finds a link to the node itself, or a marked link, starts
    /// again. Following a node's link to itself is safe, because only a reader that already protects the node
    /// can load the link.
    #[inline]
    pub unsafe fn protect<T>(&self, source: &AtomicPtr<T>) -> Option<Guard<'d, T>> {
        // SAFETY: the caller meets the contract, which is the same.
        unsafe { self.protect_with(source, |pointer| pointer) }.1
    }

    /// Like [`protect`](Handle::protect), for links that carry marks in the low bits of their pointers.
    /// `object` removes the marks of a link, or returns null for a link whose object is not to be protected.
    /// Returns the link that was found, and the guard of its object.
    ///
    /// ```
    /// use std::ptr;
    /// use std::sync::atomic::{AtomicPtr, Ordering::Release};
    ///
    /// use knee_sync::hazard::Domain;
    ///
    /// fn is_marked(link: *mut u64) -> bool {
    ///     link.addr() & 1 != 0
    /// }
    ///
    /// let domain = Domain::default();
    /// let handle = domain.register();
    /// let node = Box::into_raw(Box::new(7));
    /// let next = AtomicPtr::new(node);
    /// let unmarked = |link| if is_marked(link) { ptr::null_mut() } else { link };
    ///
    /// // SAFETY: the node of an unmarked link has not been retired.
    /// let (link, guard) = unsafe { handle.protect_with(&next, unmarked) };
    /// assert!(!is_marked(link) && *guard.unwrap() == 7);
    ///
    /// next.store(node.map_addr(|address| address | 1), Release);
    /// // SAFETY: the marked link and `handle` are the only users of the node, which is retired once.
    /// unsafe { handle.retire(node) };
    /// // SAFETY: as above.
    /// let (link, guard) = unsafe { handle.protect_with(&next, unmarked) };
    /// assert!(is_marked(link) && guard.is_none());
    /// ```
    ///
    /// # Safety
    /// The contract of [`protect`](Handle::protect) holds for the pointers that `object` returns for the
    /// links in `source`. For equal links, `object` returns the same pointer.
    ///
    /// For example, a list may mark the link of a removed node, and later retire the node that this link
    /// still points to. `object` must then return null for marked links.
    #[inline]
    pub unsafe fn protect_with<T>(
        &self,
        source: &AtomicPtr<T>,
        object: impl Fn(*mut T) -> *mut T,
    ) -> (*mut T, Option<Guard<'d, T>>) {
        let (node, slot) = match self.node.value.free() {
            Some(slot) => (self.node, slot),
            None => self.another(),
        };
        // SAFETY: the handle's thread owns the record, and `slot` is one of the record's free slots. The
        // caller guarantees the rest of the contract.
        unsafe { protect(node, slot, source, object) }
    }

    /// A free slot of another record, for a thread whose first record has none.
    #[cold]
    fn another(&self) -> (&'d Node<Record>, &'d AtomicPtr<()>) {
        let mut more = self.more.borrow_mut();
        let found = more.iter().find_map(|&node| Some((node, node.value.free()?)));
        found.unwrap_or_else(|| {
            let node = self.domain.record();
            more.push(node);
            (node, node.value.free().expect("a record without an owner has free slots"))
        })
    }

    /// Whether the record belongs to this handle.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(super) fn has(&self, node: &Node<Record>) -> bool {
        ptr::eq(self.node, node) || self.more.borrow().iter().any(|more| ptr::eq(*more, node))
    }

    /// The record of the thread's retired objects.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(super) fn garbage_node(&self) -> Option<&'d Node<Garbage>> {
        self.garbage.get()
    }

    /// The handle's first record.
    #[cfg(all(feature = "std", not(loom)))]
    pub(super) fn node(&self) -> &'d Node<Record> {
        self.node
    }

    /// Retires the object: it is freed once no guard protects it. If the thread then has as many retired
    /// objects as the domain permits (see [`Domain::with_batch`]), this call [reclaims](Handle::reclaim).
    ///
    /// The store that unlinked the object may be `Relaxed`, because the scan executes a heavy fence after it.
    /// A call for a zero-sized `T` does not compile, because all zero-sized objects share one address.
    ///
    /// # Safety
    /// The pointer came from [`Box::into_raw`]. The object is unlinked, so only readers that already protect
    /// it can hold it. The object is retired once. Everything that `T` borrows lives as long as the domain.
    pub unsafe fn retire<T: Send>(&self, object: *mut T) {
        const { assert!(size_of::<T>() != 0, "zero-sized objects cannot be retired") };
        unsafe fn free<T>(pointer: *mut ()) {
            // SAFETY: `retire` was called with a pointer from `Box::into_raw`.
            drop(unsafe { Box::from_raw(pointer.cast::<T>()) });
        }
        // SAFETY: `free` frees a `Box` of `T`, which is `Send`. The caller guarantees the rest of the
        // contract.
        unsafe { self.retire_with(object.cast(), free::<T>) };
    }

    /// Like [`retire`](Handle::retire), for objects that do not come from a `Box`.
    ///
    /// # Safety
    /// The contract of `retire`, except that the pointer need not come from a `Box`. Instead, it must be
    /// sound for any thread to call `free` with the pointer, once, as long as the domain exists.
    pub unsafe fn retire_with(&self, pointer: *mut (), free: unsafe fn(*mut ())) {
        let count = self.with_list(self.own_garbage(), |list| {
            list.push(Retired { pointer, free });
            list.len()
        });
        if count >= self.limit.get() {
            self.reclaim();
        }
    }

    /// Scans, and frees the unprotected objects of this thread and of threads that have unregistered. A
    /// scan costs a heavy fence and a load of each slot.
    #[cold]
    pub fn reclaim(&self) {
        // A destructor may retire objects, and may thereby call this function again; the inner call returns
        // at once. If a destructor panics, the objects that were not freed by then are leaked.
        let garbage = self.own_garbage();
        let Some(_calls) = garbage.calls.begin() else { return };
        loop {
            let mut list = self.with_list(garbage, mem::take);
            self.domain.adopt_orphans(&mut list);
            if list.is_empty() {
                return;
            }
            let (slots, kept, free) = self.domain.scan(list);
            self.limit.set(self.domain.batch().max(2 * slots));
            if !kept.is_empty() {
                self.with_list(garbage, |list| list.extend(kept));
            }
            let none = free.is_empty();
            // SAFETY: `scan` has found no guard that protects the object.
            free.into_iter().for_each(|object| unsafe { object.free() });
            if none || self.garbage() < self.limit.get() {
                return;
            }
        }
    }

    /// The number of objects that this thread has retired or adopted, but not yet freed.
    pub fn garbage(&self) -> usize {
        self.garbage.get().map_or(0, |node| self.with_list(&node.value, |list| list.len()))
    }

    /// The thread's retired objects. The record may contain objects of a thread that has unregistered.
    #[inline]
    fn own_garbage(&self) -> &'d Garbage {
        let node = self.garbage.get().unwrap_or_else(|| {
            let node = self.domain.garbage_record();
            self.garbage.set(Some(node));
            node
        });
        &node.value
    }

    /// Passes the list of the thread's record to `with`, which must not call any function of this domain.
    #[inline]
    fn with_list<R>(&self, garbage: &Garbage, with: impl FnOnce(&mut Vec<Retired>) -> R) -> R {
        // SAFETY: the handle owns the record and stays on its thread, and `with` does not call this function
        // again.
        unsafe { garbage.list.lock_owner(self.domain.platform(), with) }
    }
}

impl<P: Platform> Drop for Handle<'_, P> {
    fn drop(&mut self) {
        if let Some(node) = self.garbage.get() {
            let is_orphaned = self.garbage() != 0 && {
                self.reclaim();
                self.garbage() != 0
            };
            node.value.is_orphaned.store(is_orphaned, Relaxed);
            node.release();
        }
        leave(self.node);
        self.more.get_mut().drain(..).for_each(leave);
    }
}

impl<P: Platform> fmt::Debug for Handle<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Handle").field("garbage", &self.garbage()).finish_non_exhaustive()
    }
}
