//! Lock types by the flags of `lock:contention_begin`: include/trace/events/lock.h.

const SPIN: u32 = 1 << 0;
const READ: u32 = 1 << 1;
const WRITE: u32 = 1 << 2;
const RT: u32 = 1 << 3;
const PERCPU: u32 = 1 << 4;
pub(super) const MUTEX: u32 = 1 << 5;

/// Names as in `perf lock contention`: `lock_type_table` in tools/perf/builtin-lock.c.
const NAMES: [(u32, &str); 13] = [
    (0, "semaphore"),
    (SPIN, "spinlock"),
    (SPIN | READ, "rwlock:R"),
    (SPIN | WRITE, "rwlock:W"),
    (READ, "rwsem:R"),
    (WRITE, "rwsem:W"),
    (RT, "rt-mutex"),
    (RT | READ, "rwlock-rt:R"),
    (RT | WRITE, "rwlock-rt:W"),
    (PERCPU | READ, "pcpu-sem:R"),
    (PERCPU | WRITE, "pcpu-sem:W"),
    (MUTEX, "mutex"),
    // A mutex whose owner is running, so that a waiter spins before it sleeps.
    (MUTEX | SPIN, "mutex"),
];

/// The name of a lock type, or its flags if it has no name.
pub(super) fn name(flags: u32) -> String {
    let known = NAMES.iter().find(|(of, _)| *of == flags);
    known.map_or_else(|| format!("lock:{flags:#x}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_types_have_the_names_of_perf() {
        assert_eq!(name(0), "semaphore");
        assert_eq!(name(4), "rwsem:W");
        assert_eq!(name(MUTEX | SPIN), name(MUTEX));
        assert_eq!(name(1 << 9), "lock:0x200");
    }
}
