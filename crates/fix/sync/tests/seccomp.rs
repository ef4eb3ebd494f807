//! A process that is not allowed to call membarrier(2). The test has a file of its own, and so a process of
//! its own, because knee-sync checks for membarrier(2) only once in a process, at its first use.

#![cfg(all(target_os = "linux", not(miri)))]

use std::io;
use std::sync::Arc;
use std::thread;

use knee_sync::{Platform, Rcu, System, epoch};
use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter, sock_fprog};

/// Makes membarrier(2) fail in this thread and in the threads that it starts, as in a container.
fn forbid_membarrier() -> io::Result<()> {
    let instruction = |code: u32, jf: u8, k: u32| sock_filter { code: code as u16, jt: 0, jf, k };
    let mut filter = [
        // Loads the first word of the filter's data, which is the number of the system call.
        instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0),
        instruction(BPF_JMP | BPF_JEQ | BPF_K, 1, libc::SYS_membarrier as u32),
        instruction(BPF_RET | BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        instruction(BPF_RET | BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: this operation of prctl(2) takes only numbers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the program outlives the call, which copies it.
    match unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[test]
fn both_sides_execute_a_fence_where_membarrier_is_forbidden() {
    if let Err(error) = forbid_membarrier() {
        eprintln!("skipped: cannot install a seccomp filter: {error}");
        return;
    }
    // SAFETY: membarrier(2) takes numbers. This is MEMBARRIER_CMD_QUERY.
    assert_eq!(unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) }, -1);
    assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EPERM));

    assert!(System::detect().is_symmetric());
    let value = Rcu::new(Arc::new(0));
    let first = Arc::clone(value.load(&epoch::pin()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..1000).for_each(|_| value.update(|old| Arc::new(**old + 1))));
        }
    });
    assert_eq!(**value.load(&epoch::pin()), 2000);
    epoch::shared().barrier();
    assert_eq!(Arc::strong_count(&first), 1, "the replaced value is freed");
}
