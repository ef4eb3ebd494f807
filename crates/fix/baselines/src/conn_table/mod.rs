//! A worked example: how to turn a table under a read lock into one under an epoch.
//!
//! A server finds for each packet that arrives the connection that it belongs to, by the addresses and
//! ports of its two ends. In FreeBSD 11 each lookup took the lock of the whole table for reading; in
//! FreeBSD 12 it enters an epoch. The connections have locks of their own before and after. Here are
//! both: [`LockedTable`], which stops scaling at the second core, and [`EpochTable`].
//!
//! # The way from one to the other
//! 1. **Links that can be followed while they change.** The lists of the table become chains of atomic
//!    pointers. An entry is whole before it is linked (a store with release, which readers acquire), and
//!    one that is unlinked keeps its own link, for those who stand on it.
//! 2. **The read lock becomes a section**, [`epoch::pin`](knee_sync::epoch::pin): two stores in a line of
//!    the thread's own. The write lock becomes a mutex, as there is nobody but writers to exclude.
//! 3. **A freed flag.** Under the read lock what was found was in the table. In a section it may have
//!    been removed since, and is not freed yet: memory that is there is not a connection that is open. So
//!    whoever removes one also locks it and marks it as freed, and whoever finds one looks for that mark
//!    *after* locking it. Here the mark is a `None` where the connection was, so that it cannot be
//!    forgotten. (The old form needs the mark, too: it lets go of the table before it locks what it has
//!    found, or else a busy connection would hold up all who open and close others.)
//! 4. **Free becomes defer**, [`Guard::retire`](knee_sync::epoch::Guard::retire). The count of
//!    references that kept what was found is not needed any more: two more atomic operations are gone.
//!
//! What is not needed is a change in who calls it: both are a [`ConnTable`], with the same promises.
//!
//! ```
//! use knee_baselines::conn_table::{ConnTable, EpochTable, FourTuple};
//!
//! let table = EpochTable::with_buckets(1024);
//! let id = FourTuple {
//!     local: "192.0.2.1:443".parse().unwrap(),
//!     foreign: "198.51.100.7:50000".parse().unwrap(),
//! };
//! table.insert(id, 0).expect("there is no such connection yet");
//!
//! // A packet of 1460 bytes.
//! assert_eq!(table.lookup(&id, |bytes| { *bytes += 1460; *bytes }), Some(1460));
//!
//! assert_eq!(table.remove(&id), Some(1460));
//! assert_eq!(table.lookup(&id, |bytes| *bytes), None);
//! ```
//!
//! `cargo run --release -p knee-baselines --example conn_table` compares them on this machine, and so do
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
    /// This machine's.
    pub local: SocketAddrV4,
    /// The other's.
    pub foreign: SocketAddrV4,
}

impl FourTuple {
    /// Which of the buckets it belongs in; their number is a power of two.
    ///
    /// The addresses and ports times the golden ratio. Whoever is on a network with adversaries takes a
    /// hash with a secret key.
    fn bucket(&self, buckets: usize) -> usize {
        let address = |of: SocketAddrV4| u64::from(of.ip().to_bits());
        let addresses = address(self.local) << 32 | address(self.foreign);
        let ports = u64::from(self.local.port()) << 16 | u64::from(self.foreign.port());
        let hash = (addresses ^ ports.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as usize & (buckets - 1)
    }
}

/// Open connections, found by their ends. `T` is what a connection is.
pub trait ConnTable<T>: Sync {
    /// Opens a connection.
    ///
    /// # Errors
    /// There is one with these ends already: `connection` is given back.
    fn insert(&self, id: FourTuple, connection: T) -> Result<(), T>;

    /// Calls `with` with the connection, locked; `None` if it is not open.
    ///
    /// `with` is to be short, as with any lock, and must not look up or remove the same connection: it
    /// would wait for itself.
    fn lookup<R>(&self, id: &FourTuple, with: impl FnOnce(&mut T) -> R) -> Option<R>;

    /// Closes a connection; `None` if it is not open. Waits until nobody has it any more: from then on no
    /// lookup, also of those that have begun, has it.
    fn remove(&self, id: &FourTuple) -> Option<T>;
}

/// What both tables hold. In lines of its own, as those of FreeBSD, which are far larger, mostly are.
#[derive(Debug)]
#[repr(align(128))]
struct Connection<T> {
    id: FourTuple,
    /// `None` when it is freed, which somebody may find out who has found it before.
    open: Mutex<Option<T>>,
}

impl<T> Connection<T> {
    fn new(id: FourTuple, connection: T) -> Connection<T> {
        Connection { id, open: Mutex::new(Some(connection)) }
    }

    /// Locks it and looks whether it is freed.
    #[inline]
    fn with<R>(&self, with: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.open.lock().as_mut().map(with)
    }

    /// Frees it. What stays is memory.
    fn free(&self) -> Option<T> {
        self.open.lock().take()
    }

    fn into_inner(self) -> Option<T> {
        self.open.into_inner()
    }
}
