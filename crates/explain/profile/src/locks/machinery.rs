//! Functions that implement locks, as opposed to the functions that use them.
//!
//! The stack of a wait begins in the slow path of a lock. The waiting function is the first one outside the
//! lock's implementation. Releasing a lock can take another one, which guards its queue.

/// Prefixes of the names of such functions, without leading underscores.
/// Suffixes (`_irqsave`, `_killable`, `_nested`, `.constprop.0`) vary with kernels and compilers.
const MACHINERY: &[&str] = &[
    // The tracepoint; `bpf_trace_run` if a BPF program listens too.
    "bpf_trace_run",
    "perf_trace_contention_",
    "trace_contention_",
    "traceiter_contention_",
    // Semaphores and rwsems: kernel/locking/semaphore.c, rwsem.c, percpu-rwsem.c.
    "down_",
    "downgrade_write",
    "percpu_down_",
    "percpu_rwsem_",
    "percpu_up_",
    "rwsem_",
    "up_read",
    "up_write",
    // Mutexes: kernel/locking/mutex.c, ww_mutex.h, and osq_lock.c, which rwsems use as well.
    "mutex_lock",
    "mutex_optimistic_spin",
    "mutex_unlock",
    "osq_lock",
    "ww_mutex_lock",
    // Spin locks: kernel/locking/spinlock.c, qspinlock.c, qspinlock_paravirt.h; kernel/bpf/rqspinlock.c.
    "do_raw_spin_lock",
    "native_queued_spin_",
    "pv_queued_spin_",
    "queued_spin_",
    "raw_spin_lock",
    "resilient_queued_spin_",
    "virt_spin_lock",
    // The spin lock of a run queue, which many functions of the scheduler take.
    "raw_spin_rq_lock",
    "task_rq_lock",
    // Rwlocks: kernel/locking/spinlock.c, qrwlock.c.
    "queued_read_lock_",
    "queued_write_lock_",
    "raw_read_lock",
    "raw_write_lock",
    // Rt-mutexes and the locks of PREEMPT_RT: kernel/locking/rtmutex.c, spinlock_rt.c, rwbase_rt.c.
    "rt_mutex_",
    "rt_read_lock",
    "rt_spin_lock",
    "rt_write_lock",
    "rtlock_",
    "rwbase_",
];

fn is_machinery(function: &str) -> bool {
    let name = function.trim_start_matches('_');
    // The plain names of semaphore functions are prefixes of too many others.
    ["down", "up"].contains(&name) || MACHINERY.iter().any(|beginning| name.starts_with(beginning))
}

/// The index of the waiting function in a stack from the innermost; the outermost if all functions belong to
/// the lock.
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
        // From Linux 6.18, 6.1 with CONFIG_PREEMPT_RT, and 5.19.
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
    fn functions_with_similar_names_are_not_machinery() {
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
