//! The table of FreeBSD 12.

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use knee_sync::epoch;
use parking_lot::Mutex;

use super::{ConnTable, Connection, FourTuple};
use knee_sync::order;

/// A connection table whose readers are in a section of the process's epoch domain.
///
/// A lookup writes to no shared data except the connection that it finds. [`lookup`](ConnTable::lookup) calls
/// `with` within the section. If the process retires an object while `with` runs, the object is freed only
/// after `with` has returned. `with` must not wait for sections to end.
pub struct EpochTable<T: Send + 'static> {
    buckets: Box<[AtomicPtr<Entry<T>>]>,
    /// A thread holds this lock while it links or unlinks an entry.
    writers: Mutex<()>,
}

struct Entry<T> {
    connection: Connection<T>,
    next: AtomicPtr<Entry<T>>,
}

/// An entry, and the link that points to it.
struct Found<'a, T> {
    at: &'a AtomicPtr<Entry<T>>,
    entry: NonNull<Entry<T>>,
}

impl<T: Send + 'static> EpochTable<T> {
    /// Creates a table with `buckets` buckets, rounded up to a power of two. To keep the buckets' lists
    /// short, use at least one bucket for each expected connection.
    pub fn with_buckets(buckets: usize) -> EpochTable<T> {
        let buckets = buckets.next_power_of_two();
        let buckets = (0..buckets).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        EpochTable { buckets, writers: Mutex::new(()) }
    }

    fn bucket(&self, id: &FourTuple) -> &AtomicPtr<Entry<T>> {
        &self.buckets[id.bucket(self.buckets.len())]
    }

    /// # Safety
    /// As long as the caller uses the result, the caller must be in a section of the process's epoch domain,
    /// or hold the writers' lock.
    #[inline]
    unsafe fn find(&self, id: &FourTuple) -> Option<Found<'_, T>> {
        let mut at = self.bucket(id);
        loop {
            // Acquire: this thread must see what was written to the entry before it was linked.
            let entry = NonNull::new(at.load(order!(Acquire, "conn_find")))?;
            // SAFETY: an entry found in an epoch section is freed only after that section, even if it is
            // unlinked meanwhile. While the caller holds the writers' lock, no other thread unlinks an entry.
            // The caller is in an epoch section or holds the lock.
            let of = unsafe { entry.as_ref() };
            if of.connection.id == *id {
                return Some(Found { at, entry });
            }
            at = &of.next;
        }
    }
}

impl<T: Send + 'static> ConnTable<T> for EpochTable<T> {
    fn insert(&self, id: FourTuple, connection: T) -> Result<(), T> {
        let next = AtomicPtr::new(ptr::null_mut());
        let mut entry = Box::new(Entry { connection: Connection::new(id, connection), next });
        let _writing = self.writers.lock();
        // SAFETY: this thread holds the writers' lock.
        if unsafe { self.find(&id) }.is_some() {
            return Err(entry.connection.into_inner().expect("a new entry is not freed"));
        }
        let bucket = self.bucket(&id);
        *entry.next.get_mut() = bucket.load(Relaxed);
        // Release: a thread that finds the entry sees all of it.
        bucket.store(Box::into_raw(entry), order!(Release, "conn_insert"));
        Ok(())
    }

    #[inline]
    fn lookup<R>(&self, id: &FourTuple, with: impl FnOnce(&mut T) -> R) -> Option<R> {
        let _section = epoch::pin();
        // SAFETY: this thread is in an epoch section until `with` has returned.
        let found = unsafe { self.find(id)?.entry.as_ref() };
        found.connection.with(with)
    }

    fn remove(&self, id: &FourTuple) -> Option<T> {
        let entry = {
            let _writing = self.writers.lock();
            // SAFETY: this thread holds the writers' lock.
            let Found { at, entry } = unsafe { self.find(id)? };
            // SAFETY: as above. The entry keeps its own link, so that readers that have reached this entry
            // can go on.
            let next = unsafe { entry.as_ref() }.next.load(Relaxed);
            // Release: readers now find the next entry through this store.
            at.store(next, order!(Release, "conn_remove"));
            entry
        };
        // SAFETY: only the thread that unlinked an entry retires it, and this thread does so below.
        let removed = unsafe { entry.as_ref() }.connection.free();
        // SAFETY: `insert` made the entry as a box, and only this thread has unlinked it. The entry's
        // destructor drops no connection data, because `free` has taken it.
        unsafe { epoch::pin().retire(entry.as_ptr()) };
        removed
    }
}

impl<T: Send + 'static> Drop for EpochTable<T> {
    fn drop(&mut self) {
        for bucket in &mut self.buckets {
            let mut entry = *bucket.get_mut();
            while !entry.is_null() {
                // SAFETY: `insert` made each linked entry as a box, and `&mut self` excludes other threads.
                let mut of = unsafe { Box::from_raw(entry) };
                entry = *of.next.get_mut();
            }
        }
    }
}

impl<T: Send + 'static> fmt::Debug for EpochTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpochTable").finish_non_exhaustive()
    }
}
