//! References that own, and weak ones.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use super::cache::{Header, Word};
use super::process::with_local;

#[repr(C)]
struct Object<T> {
    /// At the beginning: its address is the object's.
    header: Header,
    value: T,
}

/// An owning reference, as [`Arc`] is one, which threads clone and drop without a shared line.
///
/// To clone and to drop are a few instructions in a cache of the calling thread. What is referred to
/// is dropped by the third [`tick`](super::tick) after the last reference, by the thread that ticks.
///
/// Use it for objects that many threads refer to for short times and that may stay a little longer
/// than needed: pages, entries of caches, nodes of a tree. Do not use it where the end has to come at
/// once, nor where references hardly move: 48 bytes for each object and 4 KiB for each thread are
/// more than an `Arc` needs. As with `Arc`, cycles are never freed.
pub struct Shared<T: Send + Sync + 'static> {
    object: NonNull<Object<T>>,
    owns: PhantomData<Object<T>>,
}

// SAFETY: a reference gives others `&T`, and the last one drops `T` on any thread.
unsafe impl<T: Send + Sync + 'static> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync + 'static> Sync for Shared<T> {}

impl<T: Send + Sync + 'static> Shared<T> {
    /// The first reference of a value.
    pub fn new(value: T) -> Shared<T> {
        unsafe fn free<T>(header: NonNull<Header>) {
            // SAFETY: the header is the beginning of the box below.
            drop(unsafe { Box::from_raw(header.cast::<Object<T>>().as_ptr()) });
        }
        let object = Box::new(Object { header: Header::new(free::<T>), value });
        Shared { object: NonNull::from(Box::leak(object)), owns: PhantomData }
    }

    /// A reference that does not keep the value.
    pub fn downgrade(&self) -> Weak<T> {
        // SAFETY: we have a reference, and the pointer comes from the object's box.
        let word = unsafe { Header::word(self.object.cast()) };
        Weak { word, value: PhantomData }
    }

    fn add(&self, change: i64) {
        // SAFETY: the local part is this thread's, and we have a reference, or give it up.
        with_local(|local| unsafe { local.add(self.object.cast(), change) });
    }
}

impl<T: Send + Sync + 'static> Clone for Shared<T> {
    #[inline]
    fn clone(&self) -> Shared<T> {
        self.add(1);
        Shared { object: self.object, owns: PhantomData }
    }
}

impl<T: Send + Sync + 'static> Drop for Shared<T> {
    #[inline]
    fn drop(&mut self) {
        self.add(-1);
    }
}

impl<T: Send + Sync + 'static> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we have a reference.
        unsafe { &self.object.as_ref().value }
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("Shared").field(&**self).finish()
    }
}

/// A reference that does not keep its value, as [`std::sync::Weak`] is one.
///
/// An upgrade succeeds until the value is freed, so also after the last [`Shared`] has gone: a cache
/// whose entries are weak finds again what was dropped a moment ago. All weak references of a value
/// share one word, and an `Arc` of it.
pub struct Weak<T: Send + Sync + 'static> {
    word: Arc<Word>,
    value: PhantomData<Shared<T>>,
}

impl<T: Send + Sync + 'static> Weak<T> {
    /// A reference, if the value is still there.
    pub fn upgrade(&self) -> Option<Shared<T>> {
        // SAFETY: the local part is this thread's.
        let header = with_local(|local| unsafe { local.upgrade(&self.word) })?;
        // The word came from an object of this type.
        Some(Shared { object: header.cast(), owns: PhantomData })
    }
}

impl<T: Send + Sync + 'static> Clone for Weak<T> {
    fn clone(&self) -> Weak<T> {
        Weak { word: Arc::clone(&self.word), value: PhantomData }
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for Weak<T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Weak")
    }
}
