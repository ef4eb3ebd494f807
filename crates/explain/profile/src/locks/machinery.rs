//! Functions that take and release locks, in contrast to those that want them.
//!
//! A stack of a wait begins in the slow path of a lock. That names the kind of lock, which is known
//! already; who wanted it is the first function further out that is not of the lock's own. To release a
//! lock can take another one, that of its queue.

/// How the names of such functions begin, without underscores before them; what they are of.
/// Suffixes (`_irqsave`, `_killable`, `_nested`, `.constprop.0`) vary with kernels and compilers.
const MACHINERY: &[(&str, &str)] = &[
    ("bpf_trace_run", "the tracepoint: a BPF program listens as well"),
    ("do_raw_spin_lock", "spin locks with CONFIG_DEBUG_SPINLOCK"),
    ("down_common", "semaphores: kernel/locking/semaphore.c"),
    ("down_interruptible", "semaphores"),
    ("down_killable", "semaphores"),
    ("down_read", "rwsems: kernel/locking/rwsem.c"),
    ("down_timeout", "semaphores"),
    ("down_write", "rwsems"),
    ("downgrade_write", "rwsems"),
    ("mutex_lock", "mutexes: kernel/locking/mutex.c"),
    ("mutex_optimistic_spin", "mutexes"),
    ("mutex_unlock", "mutexes"),
    ("native_queued_spin_", "spin locks on bare metal: kernel/locking/qspinlock.c"),
    ("osq_lock", "optimistic spinning for a mutex or rwsem: kernel/locking/osq_lock.c"),
    ("percpu_down_", "percpu-rwsems: kernel/locking/percpu-rwsem.c"),
    ("percpu_rwsem_", "percpu-rwsems"),
    ("percpu_up_", "percpu-rwsems"),
    ("perf_trace_contention_", "the tracepoint"),
    ("pv_queued_spin_", "spin locks in a guest: kernel/locking/qspinlock_paravirt.h"),
    ("queued_read_lock_", "rwlocks: kernel/locking/qrwlock.c"),
    ("queued_spin_", "spin locks"),
    ("queued_write_lock_", "rwlocks"),
    ("raw_read_lock", "rwlocks: kernel/locking/spinlock.c"),
    ("raw_spin_lock", "spin locks"),
    (
        "raw_spin_rq_lock",
        "the spin lock of a run queue, which many functions of the scheduler want",
    ),
    ("raw_write_lock", "rwlocks"),
    ("resilient_queued_spin_", "spin locks of BPF: kernel/bpf/rqspinlock.c"),
    ("rt_mutex_", "rt-mutexes: kernel/locking/rtmutex.c"),
    ("rt_read_lock", "rwlocks of PREEMPT_RT: kernel/locking/spinlock_rt.c"),
    ("rt_spin_lock", "spin locks of PREEMPT_RT"),
    ("rt_write_lock", "rwlocks of PREEMPT_RT"),
    ("rtlock_", "spin locks of PREEMPT_RT"),
    ("rwbase_", "rwlocks and rwsems of PREEMPT_RT: kernel/locking/rwbase_rt.c"),
    ("rwsem_", "rwsems"),
    ("task_rq_lock", "the same of the run queue that a thread is in"),
    ("trace_contention_", "the tracepoint"),
    ("traceiter_contention_", "the tracepoint"),
    ("up_read", "rwsems"),
    ("up_write", "rwsems"),
    ("virt_spin_lock", "spin locks in a guest without paravirtual ones"),
    ("ww_mutex_lock", "mutexes: kernel/locking/ww_mutex.h"),
];

fn is_machinery(function: &str) -> bool {
    let name = function.trim_start_matches('_');
    // A semaphore's plain names are the beginning of too many others.
    ["down", "up"].contains(&name)
        || MACHINERY.iter().any(|(beginning, _)| name.starts_with(beginning))
}

/// The place of the function that wanted the lock, in a stack from the innermost; the outermost if all are
/// of the lock's own.
pub(super) fn site<'a>(functions: impl ExactSizeIterator<Item = &'a str>) -> usize {
    let last = functions.len().saturating_sub(1);
    let mut functions = functions;
    functions.position(|function| !is_machinery(function)).unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(stack: &str) -> &str {
        let functions: Vec<&str> = stack.split(' ').collect();
        functions[site(functions.iter().copied())]
    }

    #[test]
    fn the_waiting_function_is_the_caller_of_the_lock() {
        // Of Linux 6.18, 6.1 with CONFIG_PREEMPT_RT, and 5.19.
        for (stack, function) in [
            ("rwsem_down_write_slowpath down_write_killable vm_mmap_pgoff ksys", "vm_mmap_pgoff"),
            (
                "__pv_queued_spin_lock_slowpath _raw_spin_lock_irqsave try_to_wake_up x",
                "try_to_wake_up",
            ),
            ("__mutex_lock.constprop.0 pipe_write vfs_write", "pipe_write"),
            ("___down_common __down down console_lock", "console_lock"),
            ("rtlock_slowlock_locked rt_spin_lock __wake_up_common_lock", "__wake_up_common_lock"),
            ("percpu_rwsem_wait __percpu_down_read sb_start_write", "sb_start_write"),
            ("queued_write_lock_slowpath _raw_write_lock_irq do_exit", "do_exit"),
            ("_raw_spin_lock_irqsave rwsem_wake.isra.0 up_write __vm_munmap x", "__vm_munmap"),
            ("_raw_spin_lock", "_raw_spin_lock"),
        ] {
            assert_eq!(wants(stack), function);
        }
    }

    #[test]
    fn those_whose_names_are_only_alike_are_no_machinery() {
        for name in [
            "download_image",
            "update_process_times",
            "rtnl_lock",
            "lock_sock_nested",
            "mutation",
            "trace_event",
        ] {
            assert!(!is_machinery(name), "{name}");
        }
    }
}
