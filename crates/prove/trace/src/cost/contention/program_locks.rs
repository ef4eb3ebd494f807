//! The functions with which programs take reader-writer locks.
//!
//! Exclusive locks are recognised without the names of functions, see [`sections`](super::sections). But a
//! reader takes a lock with an instruction that could also update any other counter: an atomic addition, or a
//! compare and exchange that expects a loaded value.

use super::lock::{Hold, LockKind};

/// Parts of the names of C library functions.
const C: &[(&str, Hold)] = &[
    ("rwlock_rdlock", Hold::Shared),
    ("rwlock_tryrdlock", Hold::Shared),
    ("rwlock_timedrdlock", Hold::Shared),
    ("rwlock_wrlock", Hold::Exclusive),
    ("rwlock_trywrlock", Hold::Exclusive),
    ("rwlock_timedwrlock", Hold::Exclusive),
];
/// Prefixes of the method names of `lock_api::RawRwLock`, a trait that the locks of many crates implement.
const RAW: &[(&str, Hold)] = &[
    ("lock_shared", Hold::Shared),
    ("try_lock_shared", Hold::Shared),
    ("lock_exclusive", Hold::Exclusive),
    ("try_lock_exclusive", Hold::Exclusive),
];
/// Prefixes of the method names of types whose names contain `RwLock`, such as `std::sync::RwLock`.
const RW_LOCK: &[(&str, Hold)] = &[
    ("read", Hold::Shared),
    ("try_read", Hold::Shared),
    ("write", Hold::Exclusive),
    ("try_write", Hold::Exclusive),
];

/// The kind of lock that a function takes, and whether it takes the lock exclusively or shared; `None` if it
/// takes no lock. The name may end with the place of the code, such as `(rwlock.rs:120)`.
pub(super) fn acquires(function: &str) -> Option<(LockKind, Hold)> {
    let function = function.split(" (").next().unwrap_or_default();
    let (path, method) = function.rsplit_once("::").unwrap_or(("", function));
    if method.contains("unlock") {
        return None;
    }
    let starts = |(prefix, _): &&(&str, Hold)| method.starts_with(prefix);
    let of_rw_lock = || RW_LOCK.iter().filter(|_| path.contains("RwLock")).find(starts);
    let of_c = || C.iter().find(|(part, _)| path.is_empty() && method.contains(part));
    let (_, hold) = RAW.iter().find(starts).or_else(of_rw_lock).or_else(of_c)?;
    Some((LockKind::RwSemaphore, *hold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_take_reader_writer_locks_are_known_by_their_names() {
        for (function, hold) in [
            ("<std::sys::sync::rwlock::futex::RwLock>::read (futex.rs:99)", Hold::Shared),
            ("<std::sys::sync::rwlock::futex::RwLock>::write (futex.rs:173)", Hold::Exclusive),
            ("dashmap::lock::RawRwLock::try_lock_shared_fast (lock.rs:189)", Hold::Shared),
            (
                "<dashmap::lock::RawRwLock as lock_api::rwlock::RawRwLock>::lock_exclusive (lock.rs:36)",
                Hold::Exclusive,
            ),
            ("__pthread_rwlock_rdlock_full64", Hold::Shared),
            ("pthread_rwlock_wrlock", Hold::Exclusive),
        ] {
            assert_eq!(acquires(function), Some((LockKind::RwSemaphore, hold)), "{function}");
        }
        for function in [
            "<std::sys::sync::rwlock::futex::RwLock>::write_unlock (futex.rs:183)",
            "<std::sys::sync::rwlock::futex::RwLock>::read_unlock (futex.rs:111)",
            "<dashmap::lock::RawRwLock as lock_api::rwlock::RawRwLock>::unlock_shared (lock.rs:68)",
            "pthread_rwlock_unlock",
            "hashbrown::raw::Bucket<T>::write (mod.rs:562)",
            "read",
            "libc.so.6, where it has no symbols",
        ] {
            assert_eq!(acquires(function), None, "{function}");
        }
    }
}
