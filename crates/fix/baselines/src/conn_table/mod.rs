//! A worked example: how to replace a table's read lock with an epoch.
//!
//! For each packet that arrives, a server looks up the packet's connection by the addresses and ports of both
//! ends. In FreeBSD 11 each lookup takes a read lock on the whole table; in FreeBSD 12 each lookup enters an
//! epoch section. In both versions, each connection has its own lock. This module contains both designs:
//! [`LockedTable`], which stops scaling at the second core, and [`EpochTable`].
//!
//! # From the lock to the epoch
//! 1. **Links that readers can follow while a writer changes them.** The table's lists become chains of
//!    atomic pointers. A writer links a complete entry with a release store, which pairs with the readers'
//!    acquire loads. An unlinked entry keeps its own link, so that readers that have reached this entry can
//!    go on.
//! 2. **The read lock becomes a section**, [`epoch::pin`](knee_sync::epoch::pin): two stores to the thread's
//!    own cache line. The write lock becomes a mutex, because it now has to exclude only other writers.
//! 3. **A freed flag.** A connection that was found under the read lock is in the table. A connection that
//!    was found in a section may already have been removed from the table: its memory is still valid, but the
//!    connection may be closed. So when a thread removes a connection, it locks the connection and marks it
//!    as freed. When a thread has found a connection, it locks the connection *before* checking the mark.
//!    Here the mark is `None` in place of the connection, so that no caller can forget the check.
//!    (`LockedTable` needs the mark too, because it unlocks the table before it locks the connection. If it
//!    kept the table locked, a busy connection would block all threads that open or close other connections.)
//! 4. **Free becomes retire**, [`Guard::retire`](knee_sync::epoch::Guard::retire). The reference count that
//!    kept a connection alive is no longer needed, so each lookup saves two atomic operations.
//!
//! Callers need no change: both tables implement [`ConnTable`], with the same guarantees.
//!
//! ```
//! use knee_baselines::conn_table::{ConnTable, EpochTable, FourTuple};
//!
//! let table = EpochTable::with_buckets(1024);
//! let id = FourTuple {
//!     local: "192.0.2.1:443".parse().unwrap(),
//!     foreign: "198.51.100.7:50000".parse().unwrap(),
//! };
//! table.insert(id, 0).expect("the connection is new");
//!
//! // A packet of 1460 bytes.
//! assert_eq!(table.lookup(&id, |bytes| { *bytes += 1460; *bytes }), Some(1460));
//!
//! assert_eq!(table.remove(&id), Some(1460));
//! assert_eq!(table.lookup(&id, |bytes| *bytes), None);
//! ```
//!
//! `cargo run --release -p knee-baselines --example conn_table` compares both on this machine, and so do
//! `conn_lookup_rwlock1` and `conn_lookup_epoch1` of `knee run`.
//!
//! # Source
//! FreeBSD, `sys/netinet/in_pcb.c`: `in_pcblookup_hash`, `INP_HASH_RLOCK` and `in_pcbref` of 11,
//! `INP_HASH_RLOCK_ET` and `INP_FREED` of 12, by M. Macy, 2018.

mod epoch;
mod locked;
#[cfg(test)]
mod tests;

use std::net::SocketAddrV4;

use parking_lot::Mutex;

pub use epoch::EpochTable;
pub use locked::LockedTable;

/// The two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FourTuple {
    /// The address and port on this machine.
    pub local: SocketAddrV4,
    /// The address and port of the peer.
    pub foreign: SocketAddrV4,
}

impl FourTuple {
    /// Returns the connection's bucket. The bucket count must be a power of two.
    ///
    /// The hash combines the addresses and ports, and multiplies the result by the golden ratio. Adversaries
    /// can choose addresses and ports whose hashes collide, so on a network with adversaries, use a hash with
    /// a secret key.
    fn bucket(&self, buckets: usize) -> usize {
        let address = |of: SocketAddrV4| u64::from(of.ip().to_bits());
        let addresses = address(self.local) << 32 | address(self.foreign);
        let ports = u64::from(self.local.port()) << 16 | u64::from(self.foreign.port());
        let hash = (addresses ^ ports.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as usize & (buckets - 1)
    }
}

/// A table of open connections, keyed by both ends. `T` is the connection's data.
pub trait ConnTable<T>: Sync {
    /// Opens a connection.
    ///
    /// # Errors
    /// Returns `connection` if a connection with these ends is already open.
    fn insert(&self, id: FourTuple, connection: T) -> Result<(), T>;

    /// Locks the connection and passes it to `with`. Returns `None` if the connection is not open.
    ///
    /// Keep `with` short, as under any lock. `with` must not look up or remove the same connection, because
    /// that would deadlock.
    fn lookup<R>(&self, id: &FourTuple, with: impl FnOnce(&mut T) -> R) -> Option<R>;

    /// Closes a connection and returns it, or returns `None` if it is not open. Waits for the connection's
    /// lock: after this returns, no lookup sees the connection, not even one that began earlier.
    fn remove(&self, id: &FourTuple) -> Option<T>;
}

/// A connection in either table. Two connections never share a cache line, as is mostly true of FreeBSD's far
/// larger connections.
#[derive(Debug)]
#[repr(align(128))]
struct Connection<T> {
    id: FourTuple,
    /// `None` if the connection is freed. A thread that found the connection before its removal may still
    /// lock it.
    open: Mutex<Option<T>>,
}

impl<T> Connection<T> {
    fn new(id: FourTuple, connection: T) -> Connection<T> {
        Connection { id, open: Mutex::new(Some(connection)) }
    }

    /// Locks the connection, and calls `with` unless the connection is freed.
    #[inline]
    fn with<R>(&self, with: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.open.lock().as_mut().map(with)
    }

    /// Marks the connection as freed and returns its data. The connection's memory stays allocated.
    fn free(&self) -> Option<T> {
        self.open.lock().take()
    }

    fn into_inner(self) -> Option<T> {
        self.open.into_inner()
    }
}
