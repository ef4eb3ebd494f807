//! The CPUs that the scheduler lets a thread run on.

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

/// Enough for 65536 CPUs. The call fails with `EINVAL` when the mask is smaller than the
/// kernel's, and libc's `cpu_set_t` ends at 1024.
const MASK_WORDS: usize = 1024;

/// The CPUs in the affinity mask of this process, ascending: those that `taskset`, `isolcpus=` and
/// cpuset cgroups allow, without offline CPUs.
///
/// # Errors
/// What `sched_getaffinity(2)` reports, in practice only a seccomp filter's `EPERM`.
pub fn usable_cpus() -> io::Result<Vec<u32>> {
    let mut mask = [0_u64; MASK_WORDS];
    // SAFETY: the kernel writes at most the size that is passed, the whole of `mask`, which
    // lives until the call returns. Pid 0 is the calling thread.
    let written = unsafe {
        libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr())
    };
    if written < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bits(&mask).collect())
}

/// Binds the calling thread to one CPU.
///
/// # Errors
/// Those of [`confine`].
pub fn pin(cpu: u32) -> io::Result<()> {
    confine(&[cpu])
}

/// Binds the calling thread to a set of CPUs. Allocates only on an error.
///
/// # Errors
/// What `sched_setaffinity(2)` reports, or a CPU beyond what `cpu_set_t` holds.
pub fn confine(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu as usize >= CpuSet::MAX_CPU {
            let reason = format!(
                "a task cannot be bound to CPU {cpu}; the limit is {} CPUs",
                CpuSet::MAX_CPU
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        set.set(cpu as usize);
    }
    Ok(sched_setaffinity(None, &set)?)
}

fn bits(mask: &[u64]) -> impl Iterator<Item = u32> + '_ {
    (0_u32..)
        .zip(mask.iter().flat_map(|word| (0..64).map(move |bit| word >> bit & 1 == 1)))
        .filter_map(|(cpu, set)| set.then_some(cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_may_use_at_least_one_cpu() {
        assert!(!usable_cpus().unwrap().is_empty());
    }

    #[test]
    fn bit_n_is_cpu_n() {
        assert_eq!(bits(&[0b101, 0, 1 << 63]).collect::<Vec<_>>(), [0, 2, 191]);
    }
}
