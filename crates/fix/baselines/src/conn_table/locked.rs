//! The table of FreeBSD 11.

use std::sync::Arc;

use parking_lot::RwLock;

use super::{ConnTable, Connection, FourTuple};

/// Connections that are found under a read lock of the whole table.
///
/// All who look something up write to the lock, so its line goes from core to core.
#[derive(Debug)]
pub struct LockedTable<T> {
    buckets: RwLock<Box<[Bucket<T>]>>,
}

type Bucket<T> = Vec<Arc<Connection<T>>>;

impl<T> LockedTable<T> {
    /// A table with so many buckets, or up to twice as many: at least one for each connection that is to
    /// come, for short lists.
    pub fn with_buckets(buckets: usize) -> LockedTable<T> {
        let buckets = (0..buckets.next_power_of_two()).map(|_| Vec::new()).collect();
        LockedTable { buckets: RwLock::new(buckets) }
    }
}

/// Where in its bucket it is.
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
            // A reference of our own, to keep it when we let go of the table.
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
