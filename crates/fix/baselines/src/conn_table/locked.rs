//! The table of FreeBSD 11.

use std::sync::Arc;

use parking_lot::RwLock;

use super::{ConnTable, Connection, FourTuple};

/// A connection table under a read-write lock.
///
/// Each lookup writes to the lock, so the lock's cache line moves between cores.
#[derive(Debug)]
pub struct LockedTable<T> {
    buckets: RwLock<Box<[Bucket<T>]>>,
}

type Bucket<T> = Vec<Arc<Connection<T>>>;

impl<T> LockedTable<T> {
    /// Creates a table with `buckets` buckets, rounded up to a power of two. To keep the buckets' lists
    /// short, use at least one bucket for each expected connection.
    pub fn with_buckets(buckets: usize) -> LockedTable<T> {
        let buckets = (0..buckets.next_power_of_two()).map(|_| Vec::new()).collect();
        LockedTable { buckets: RwLock::new(buckets) }
    }
}

/// Returns the position of a connection in its bucket.
fn place<T>(bucket: &Bucket<T>, id: &FourTuple) -> Option<usize> {
    bucket.iter().position(|connection| connection.id == *id)
}

impl<T: Send> ConnTable<T> for LockedTable<T> {
    fn insert(&self, id: FourTuple, connection: T) -> Result<(), T> {
        let mut buckets = self.buckets.write();
        let number = id.bucket(buckets.len());
        let bucket = &mut buckets[number];
        if place(bucket, &id).is_some() {
            return Err(connection);
        }
        bucket.push(Arc::new(Connection::new(id, connection)));
        Ok(())
    }

    fn lookup<R>(&self, id: &FourTuple, with: impl FnOnce(&mut T) -> R) -> Option<R> {
        let found = {
            let buckets = self.buckets.read();
            let bucket = &buckets[id.bucket(buckets.len())];
            // This reference keeps the connection alive after the table is unlocked.
            Arc::clone(&bucket[place(bucket, id)?])
        };
        found.with(with)
    }

    fn remove(&self, id: &FourTuple) -> Option<T> {
        let removed = {
            let mut buckets = self.buckets.write();
            let number = id.bucket(buckets.len());
            let bucket = &mut buckets[number];
            bucket.swap_remove(place(bucket, id)?)
        };
        removed.free()
    }
}
