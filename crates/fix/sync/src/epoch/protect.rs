//! Typed loads in a section.

use core::ptr;
use core::sync::atomic::Ordering::Acquire;

use super::domain::Domain;
use super::handle::Guard;
use super::section::Section;
use crate::mutant::order;
use crate::platform::Platform;
use crate::primitive::AtomicPtr;

/// A value that proves that a section has not ended: a [`Guard`], a [`Section`] or a
/// [`QsbrHandle`](super::QsbrHandle).
///
/// # Safety
/// [`domain`](Protect::domain) always returns the same domain, and the provided methods keep their default
/// bodies. As long as a shared reference to the implementor exists, there is a section of that domain that
/// began no later than the reference and has not ended.
pub unsafe trait Protect<P> {
    /// The domain of the section.
    fn domain(&self) -> &Domain<P>;

    /// Whether this is a section of `domain`. A section of another domain protects nothing that is retired
    /// to `domain`, so a safe function that accepts guards from its callers must check this:
    ///
    /// ```should_panic
    /// use knee_sync::System;
    /// use knee_sync::epoch::{Domain, Protect};
    ///
    /// struct Table {
    ///     domain: Domain<System>,
    /// }
    ///
    /// impl Table {
    ///     fn find(&self, guard: &impl Protect<System>) {
    ///         assert!(guard.is_of(&self.domain), "the guard belongs to another domain");
    ///         // From here on, `guard.load` is sound.
    ///     }
    /// }
    ///
    /// let table = Table { domain: Domain::new(System::detect()) };
    /// table.find(&table.domain.section());
    /// table.find(&knee_sync::epoch::pin()); // panics
    /// ```
    #[inline]
    fn is_of(&self, domain: &Domain<P>) -> bool {
        ptr::eq(self.domain(), domain)
    }

    /// Loads a pointer that writers may replace at any time: `rcu_dereference`. Returns `None` if the pointer
    /// is null.
    ///
    /// The reference stays valid until the guard is dropped or refreshed, even if a writer unlinks the
    /// value meanwhile.
    ///
    /// The load is `Acquire`; writers must publish a value with a `Release` store.
    ///
    /// This method cannot load a link that carries marks in the low bits of its pointer. Load such a link
    /// with `Acquire`, remove the marks, and make the reference yourself. If the contract below holds, a
    /// reference that you make in this way may also live as long as `'g`.
    ///
    /// # Safety
    /// * A pointer in `source` is null or points to an initialised `T`, which is written only by atomic
    ///   operations while a section can find it.
    /// * Before the `T` is freed, it is unlinked, so that no section that begins later can find it, and
    ///   then a grace period passes. [`Guard::retire`], [`Guard::replace`] and similar methods wait for the
    ///   grace period, if their guard has the same domain as `self`. A structure that accepts guards from
    ///   its callers checks the domain with [`is_of`](Protect::is_of).
    /// * The links of an unlinked object stay as they are (with hazard pointers, they must change). A reader
    ///   that found the object before it was unlinked may follow these links, and may therefore find another
    ///   object that has been retired in the meantime. That other object is not freed yet, because it was
    ///   retired after the reader's section began.
    /// * No thread frees the `T` without a grace period, with one exception: the destructor of a structure
    ///   may do so if `'g` cannot outlive a borrow of the structure.
    #[inline]
    unsafe fn load<'g, T: Sync>(&'g self, source: &AtomicPtr<T>) -> Option<&'g T> {
        // Acquire: with the Release of the writer that stored the pointer, this thread sees the value as the
        // writer published it.
        let found = source.load(order!(Acquire, "epoch_load"));
        // SAFETY: the caller guarantees that the pointer is null or points to a `T`, and that the `T` is
        // freed only after the sections that may have found it have ended. The section of `self` began before
        // the load, and by the contract of the trait it does not end while `self` is borrowed.
        unsafe { found.as_ref() }
    }
}

// SAFETY: a guard's section ends only when the guard is dropped, or in `refresh`, which borrows the guard
// exclusively.
unsafe impl<P: Platform> Protect<P> for Guard<'_, P> {
    #[inline]
    fn domain(&self) -> &Domain<P> {
        self.domain
    }
}

// SAFETY: a section ends only when it is dropped, or in `refresh`, which borrows the section exclusively.
unsafe impl<P: Platform> Protect<P> for Section<'_, P> {
    #[inline]
    fn domain(&self) -> &Domain<P> {
        self.domain
    }
}
