//! The table of FreeBSD 12.

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use knee_sync::epoch;
use parking_lot::Mutex;

use super::{ConnTable, Connection, FourTuple};
use knee_sync::order;

/// Connections that are found in a section of the process's epoch domain.
///
/// Those who look something up write to nothing that they share but the connection that they find.
/// [`with`](ConnTable::lookup) is called within the section: while it runs, no garbage of the process is
/// freed, and it must not wait for sections to end.
pub struct EpochTable<T: Send + 'static> {
    buckets: Box<[AtomicPtr<Entry<T>>]>,
    /// For those who link and unlink.
    writers: Mutex<()>,
}

struct Entry<T> {
    connection: Connection<T>,
    next: AtomicPtr<Entry<T>>,
}

/// An entry that was found, and the pointer that leads to it.
struct Found<'a, T> {
    at: &'a AtomicPtr<Entry<T>>,
    entry: NonNull<Entry<T>>,
}

impl<T: Send + 'static> EpochTable<T> {
    /// A table with so many buckets, or up to twice as many: at least one for each connection that is to
    /// come, for short lists.
    pub fn with_buckets(buckets: usize) -> EpochTable<T> {
        let buckets = buckets.next_power_of_two();
        let buckets = (0..buckets).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        EpochTable { buckets, writers: Mutex::new(()) }
    }

    fn bucket(&self, id: &FourTuple) -> &AtomicPtr<Entry<T>> {
        &self.buckets[id.bucket(self.buckets.len())]
    }

    /// # Safety
    /// The caller is in a section of the process's domain, or has the lock of writers, until it is done
    /// with what is found.
    #[inline]
    unsafe fn find(&self, id: &FourTuple) -> Option<Found<'_, T>> {
        let mut at = self.bucket(id);
        loop {
            // Acquire: whoever linked the entry has written to it.
            let entry = NonNull::new(at.load(order!(Acquire, "conn_find")))?;
            // SAFETY: what the pointers lead to in a section is freed after it, also if it is unlinked
            // meanwhile; and with the lock of writers nothing is unlinked.
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
        // SAFETY: we have the lock.
        if unsafe { self.find(&id) }.is_some() {
            return Err(entry.connection.into_inner().expect("nobody has freed it"));
        }
        let bucket = self.bucket(&id);
        *entry.next.get_mut() = bucket.load(Relaxed);
        // Release: who finds it finds it whole.
        bucket.store(Box::into_raw(entry), order!(Release, "conn_insert"));
        Ok(())
    }

    #[inline]
    fn lookup<R>(&self, id: &FourTuple, with: impl FnOnce(&mut T) -> R) -> Option<R> {
        let _section = epoch::pin();
        // SAFETY: we are in a section until `with` has returned.
        let found = unsafe { self.find(id)?.entry.as_ref() };
        found.connection.with(with)
    }

    fn remove(&self, id: &FourTuple) -> Option<T> {
        let entry = {
            let _writing = self.writers.lock();
            // SAFETY: we have the lock.
            let Found { at, entry } = unsafe { self.find(id)? };
            // SAFETY: as above. It keeps its own link, for those who stand on it.
            let next = unsafe { entry.as_ref() }.next.load(Relaxed);
            // Release: what comes next is now found by way of this store.
            at.store(next, order!(Release, "conn_remove"));
            entry
        };
        // SAFETY: only who has unlinked an entry defers its end, which is what we do below.
        let removed = unsafe { entry.as_ref() }.connection.free();
        // SAFETY: it was made by `insert` as a box and is unlinked, by us alone. Its destructor finds no
        // connection in it.
        unsafe { epoch::pin().retire(entry.as_ptr()) };
        removed
    }
}

impl<T: Send + 'static> Drop for EpochTable<T> {
    fn drop(&mut self) {
        for bucket in &mut self.buckets {
            let mut entry = *bucket.get_mut();
            while !entry.is_null() {
                // SAFETY: what is still linked was made by `insert` as a box, and nobody else has the
                // table.
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
