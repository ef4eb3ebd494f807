//! The functions with which Linux takes locks.

use super::lock::{Hold, LockKind};

/// Prefixes of the names of such functions, without leading underscores. Suffixes (`_irqsave`, `_killable`,
/// `_nested`, `.constprop.0`) vary with kernels and compilers.
const ACQUIRE: &[(&str, LockKind, Hold)] = &[
    // Spin locks: kernel/locking/spinlock.c, qspinlock.c.
    ("raw_spin_lock", LockKind::Spin, Hold::Exclusive),
    ("raw_spin_trylock", LockKind::Spin, Hold::Exclusive),
    ("native_queued_spin_lock", LockKind::Spin, Hold::Exclusive),
    ("pv_queued_spin_lock", LockKind::Spin, Hold::Exclusive),
    ("queued_spin_lock", LockKind::Spin, Hold::Exclusive),
    // Rwlocks: kernel/locking/spinlock.c, qrwlock.c.
    ("raw_read_lock", LockKind::RwSpin, Hold::Shared),
    ("raw_read_trylock", LockKind::RwSpin, Hold::Shared),
    ("queued_read_lock", LockKind::RwSpin, Hold::Shared),
    ("raw_write_lock", LockKind::RwSpin, Hold::Exclusive),
    ("raw_write_trylock", LockKind::RwSpin, Hold::Exclusive),
    ("queued_write_lock", LockKind::RwSpin, Hold::Exclusive),
    // Mutexes: kernel/locking/mutex.c, ww_mutex.h.
    ("mutex_lock", LockKind::Mutex, Hold::Exclusive),
    ("mutex_trylock", LockKind::Mutex, Hold::Exclusive),
    ("ww_mutex_lock", LockKind::Mutex, Hold::Exclusive),
    ("ww_mutex_trylock", LockKind::Mutex, Hold::Exclusive),
    // Rwsems: kernel/locking/rwsem.c. From 6.4 to 6.14, the lock of a VMA contains an rwsem. A downgrade
    // turns a writer's hold into a reader's.
    ("down_read", LockKind::RwSemaphore, Hold::Shared),
    ("rwsem_down_read", LockKind::RwSemaphore, Hold::Shared),
    ("downgrade_write", LockKind::RwSemaphore, Hold::Shared),
    ("down_write", LockKind::RwSemaphore, Hold::Exclusive),
    ("rwsem_down_write", LockKind::RwSemaphore, Hold::Exclusive),
];

/// The kind of lock that a function takes, and whether it takes the lock exclusively or shared; `None` if it
/// takes no lock.
pub(super) fn acquires(function: &str) -> Option<(LockKind, Hold)> {
    let name = function.trim_start_matches('_');
    let (_, kind, hold) = ACQUIRE.iter().find(|(prefix, ..)| name.starts_with(prefix))?;
    Some((*kind, *hold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_take_locks_are_distinguished_from_those_that_release_them() {
        for (function, kind, hold) in [
            ("_raw_spin_lock_irqsave", LockKind::Spin, Hold::Exclusive),
            ("__pv_queued_spin_lock_slowpath", LockKind::Spin, Hold::Exclusive),
            ("_raw_read_lock_bh", LockKind::RwSpin, Hold::Shared),
            ("_raw_write_lock_irq", LockKind::RwSpin, Hold::Exclusive),
            ("__mutex_lock.constprop.0", LockKind::Mutex, Hold::Exclusive),
            ("down_read_trylock", LockKind::RwSemaphore, Hold::Shared),
            ("rwsem_down_write_slowpath", LockKind::RwSemaphore, Hold::Exclusive),
            ("downgrade_write", LockKind::RwSemaphore, Hold::Shared),
        ] {
            assert_eq!(acquires(function), Some((kind, hold)), "{function}");
        }
        for function in
            ["_raw_spin_unlock", "mutex_unlock", "up_read", "up_write", "down", "download", "dput"]
        {
            assert_eq!(acquires(function), None, "{function}");
        }
    }
}
