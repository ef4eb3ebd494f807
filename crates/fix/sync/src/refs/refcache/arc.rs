//! Owning references and weak references.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use super::cache::{Header, WeakRef};
#[cfg(feature = "std")]
use super::process::ThisProcess;
use super::threads::Threads;

#[repr(C)]
struct Object<T, R> {
    /// The first field, so that its address is the object's address.
    header: Header<R>,
    value: T,
}

/// An owning reference, like [`Arc`]. Threads clone and drop it without writing to a shared cache line.
///
/// Cloning and dropping take a few instructions, which write only to the calling thread's own cache of
/// deltas. After the last reference was dropped, the third [`tick`](super::tick) drops the value, on the
/// thread that calls `tick`.
///
/// Use it for objects that many threads refer to briefly, and that may live a little longer than needed:
/// pages, cache entries, nodes of a tree. Do not use it where a value must be dropped immediately. Where
/// references rarely change, prefer an `Arc`, which needs less memory: a `RefcacheArc` costs 48 bytes for
/// each object, and 4 KiB of cache for each thread. As with `Arc`, cycles are never freed.
///
/// `C` is the set of threads, by default those of the process.
pub struct RefcacheArc<
    T: Send + Sync + 'static,
    #[cfg(feature = "std")] C: Threads = ThisProcess,
    #[cfg(not(feature = "std"))] C: Threads,
> {
    object: NonNull<Object<T, C::Lock>>,
    owns: PhantomData<Object<T, C::Lock>>,
}

// SAFETY: a reference gives other threads `&T`, and any thread may drop the `T`, which is `Send` and `Sync`.
unsafe impl<T: Send + Sync + 'static, C: Threads> Send for RefcacheArc<T, C> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send + Sync + 'static, C: Threads> Sync for RefcacheArc<T, C> {}

#[cfg(feature = "std")]
impl<T: Send + Sync + 'static> RefcacheArc<T> {
    /// Allocates a value and returns its first reference, for the threads of the process.
    pub fn new(value: T) -> RefcacheArc<T> {
        RefcacheArc::new_in(value)
    }
}

impl<T: Send + Sync + 'static, C: Threads> RefcacheArc<T, C> {
    /// Allocates a value and returns its first reference.
    pub fn new_in(value: T) -> RefcacheArc<T, C> {
        unsafe fn free<T, R>(header: NonNull<Header<R>>) {
            // SAFETY: the header is the first field of the object, which was boxed below. Nothing refers to
            // the object any more.
            drop(unsafe { Box::from_raw(header.cast::<Object<T, R>>().as_ptr()) });
        }
        let object = Box::new(Object { header: Header::new(free::<T, C::Lock>), value });
        RefcacheArc { object: NonNull::from(Box::leak(object)), owns: PhantomData }
    }

    /// A weak reference, which does not keep the value alive.
    pub fn downgrade(&self) -> Weak<T, C> {
        // SAFETY: `self` is a reference, and the pointer came from the box of the whole object.
        let word = unsafe { Header::<C::Lock>::weak_ref(self.object.cast()) };
        Weak { word, value: PhantomData }
    }

    /// Whether two references refer to the same object.
    pub fn ptr_eq(this: &RefcacheArc<T, C>, other: &RefcacheArc<T, C>) -> bool {
        this.object == other.object
    }

    fn add(&self, change: i64) {
        // SAFETY: `self` is a reference, which the caller clones or gives up.
        C::with_local(|local| unsafe { local.add(self.object.cast(), change) });
    }
}

impl<T: Send + Sync + 'static, C: Threads> Clone for RefcacheArc<T, C> {
    #[inline]
    fn clone(&self) -> RefcacheArc<T, C> {
        self.add(1);
        RefcacheArc { object: self.object, owns: PhantomData }
    }
}

impl<T: Send + Sync + 'static, C: Threads> Drop for RefcacheArc<T, C> {
    #[inline]
    fn drop(&mut self) {
        self.add(-1);
    }
}

impl<T: Send + Sync + 'static, C: Threads> Deref for RefcacheArc<T, C> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `self` is a reference, so the object is alive.
        unsafe { &self.object.as_ref().value }
    }
}

impl<T: Send + Sync + 'static, C: Threads> AsRef<T> for RefcacheArc<T, C> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: Send + Sync + 'static, C: Threads> Borrow<T> for RefcacheArc<T, C> {
    fn borrow(&self) -> &T {
        self
    }
}

impl<T: Send + Sync + 'static, C: Threads> From<T> for RefcacheArc<T, C> {
    fn from(value: T) -> RefcacheArc<T, C> {
        RefcacheArc::new_in(value)
    }
}

impl<T: Default + Send + Sync + 'static, C: Threads> Default for RefcacheArc<T, C> {
    fn default() -> RefcacheArc<T, C> {
        RefcacheArc::new_in(T::default())
    }
}

impl<T: PartialEq + Send + Sync + 'static, C: Threads> PartialEq for RefcacheArc<T, C> {
    fn eq(&self, other: &RefcacheArc<T, C>) -> bool {
        **self == **other
    }
}

impl<T: Eq + Send + Sync + 'static, C: Threads> Eq for RefcacheArc<T, C> {}

impl<T: PartialOrd + Send + Sync + 'static, C: Threads> PartialOrd for RefcacheArc<T, C> {
    fn partial_cmp(&self, other: &RefcacheArc<T, C>) -> Option<Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<T: Ord + Send + Sync + 'static, C: Threads> Ord for RefcacheArc<T, C> {
    fn cmp(&self, other: &RefcacheArc<T, C>) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: Hash + Send + Sync + 'static, C: Threads> Hash for RefcacheArc<T, C> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<T: Send + Sync + fmt::Debug + 'static, C: Threads> fmt::Debug for RefcacheArc<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Send + Sync + fmt::Display + 'static, C: Threads> fmt::Display for RefcacheArc<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A reference that does not keep its value alive, like [`std::sync::Weak`].
///
/// An upgrade succeeds until the value is freed, even after the last [`RefcacheArc`] was dropped. So a cache
/// with weak entries can revive a value whose last reference was dropped a moment ago. All weak references of
/// a value share one word, in an `Arc`.
pub struct Weak<
    T: Send + Sync + 'static,
    #[cfg(feature = "std")] C: Threads = ThisProcess,
    #[cfg(not(feature = "std"))] C: Threads,
> {
    word: Arc<WeakRef>,
    value: PhantomData<RefcacheArc<T, C>>,
}

impl<T: Send + Sync + 'static, C: Threads> Weak<T, C> {
    /// An owning reference, if the value has not been freed yet.
    pub fn upgrade(&self) -> Option<RefcacheArc<T, C>> {
        let header = C::with_local(|local| local.upgrade(&self.word))?;
        // The cast is right, because the word was made for an object of this type.
        Some(RefcacheArc { object: header.cast(), owns: PhantomData })
    }
}

impl<T: Send + Sync + 'static, C: Threads> Clone for Weak<T, C> {
    fn clone(&self) -> Weak<T, C> {
        Weak { word: Arc::clone(&self.word), value: PhantomData }
    }
}

impl<T: Send + Sync + 'static, C: Threads> fmt::Debug for Weak<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Weak")
    }
}
