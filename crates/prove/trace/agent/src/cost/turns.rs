//! Turns of tasks, which may be threads of one process or separate processes.

use std::cell::UnsafeCell;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::steps::Failed;

/// A task's state, on cache lines of its own.
#[repr(align(128))]
struct Place {
    /// The number of turns that the task has been given.
    given: AtomicU32,
    /// The thread ID of the task, once it has arrived.
    thread: AtomicI32,
}

/// The turns of all tasks, in memory that the tasks share. The memory stays mapped until the guest
/// powers off.
#[derive(Clone, Copy)]
pub(super) struct Turns {
    places: &'static [Place],
    shared: &'static Shared,
}

struct Shared {
    /// The number of tasks that have arrived.
    ready: AtomicU32,
    failure: UnsafeCell<Option<Failed>>,
}

// SAFETY: while tasks run, only the task that has the turn accesses `failure`. Before the tasks
// begin and after they have ended, only their parent accesses `failure`. A task passes its turn with
// a Release operation, and the next task reads the new value with Acquire, so the accesses of the two
// tasks are ordered. The accesses of the parent are ordered by fork and waitpid.
unsafe impl Sync for Shared {}

impl Turns {
    /// Returns turns for at most `tasks` tasks. All experiments share one `Turns`, since the
    /// mappings of an experiment's own `Turns` would stay in the address space of later
    /// experiments.
    pub(super) fn new(tasks: usize) -> io::Result<Self> {
        let places = shared_zeroes(tasks * size_of::<Place>())?.cast::<Place>();
        let shared = shared_zeroes(size_of::<Shared>())?.cast::<Shared>();
        // SAFETY: both mappings have the right size and alignment and are never unmapped. They contain only
        // zeroes, which are valid values of atomics. The failure is initialized through a pointer before
        // there is a reference to it.
        unsafe {
            (&raw mut (*shared).failure).write(UnsafeCell::new(None));
            Ok(Turns { places: std::slice::from_raw_parts(places, tasks), shared: &*shared })
        }
    }

    /// Resets the turns for `tasks` tasks. The first task gets the first turn once all tasks have
    /// arrived. Call this method after the tasks of the previous experiment have ended.
    pub(super) fn again(self, tasks: usize) -> Turns {
        let places = &self.places[..tasks];
        for place in places {
            place.given.store(0, Ordering::Relaxed);
        }
        self.shared.ready.store(0, Ordering::Relaxed);
        // SAFETY: there are no tasks, so nothing else accesses the failure.
        unsafe { *self.shared.failure.get() = None };
        Turns { places, ..self }
    }

    /// Announces that task `nr` has arrived, and waits for its first turn. The first turn of a task comes
    /// after all tasks have arrived. Returns the thread ID of the task whose turn comes directly before this
    /// task's turn.
    pub(super) fn arrive(self, nr: usize) -> libc::pid_t {
        // SAFETY: this is a plain system call.
        let thread = unsafe { libc::gettid() };
        self.places[nr].thread.store(thread, Ordering::Relaxed);
        let all = self.places.len() as u32;
        if self.shared.ready.fetch_add(1, Ordering::AcqRel) + 1 == all {
            self.give(0);
        }
        self.wait(nr, 1);
        let before = (nr + self.places.len() - 1) % self.places.len();
        self.places[before].thread.load(Ordering::Relaxed)
    }

    /// Waits until task `nr` has its `nth` turn, counted from 1.
    pub(super) fn wait(self, nr: usize, nth: u32) {
        let given = &self.places[nr].given;
        loop {
            let now = given.load(Ordering::Acquire);
            if now == nth {
                return;
            }
            // SAFETY: the word is in memory that no task unmaps.
            unsafe {
                let timeout = std::ptr::null::<libc::timespec>();
                libc::syscall(libc::SYS_futex, given.as_ptr(), libc::FUTEX_WAIT, now, timeout);
            }
        }
    }

    /// Ends the turn of task `nr`.
    pub(super) fn pass(self, nr: usize) {
        self.give((nr + 1) % self.places.len());
    }

    fn give(self, nr: usize) {
        let given = &self.places[nr].given;
        given.fetch_add(1, Ordering::Release);
        // SAFETY: as in `wait`.
        unsafe { libc::syscall(libc::SYS_futex, given.as_ptr(), libc::FUTEX_WAKE, 1) };
    }

    /// Records this failure, unless there was an earlier failure. Only the task that has the turn
    /// may call this method.
    pub(super) fn fail(self, failed: Failed) {
        // SAFETY: the caller has the turn, so nothing else accesses the failure.
        unsafe { (*self.shared.failure.get()).get_or_insert(failed) };
    }

    /// Returns the first failure. While tasks run, only the task that has the turn may call this method.
    /// After all tasks have ended, the parent may call it.
    pub(super) fn failure(self) -> Option<Failed> {
        // SAFETY: as in `fail`. The text in the failure is a constant of the program. The constant has the
        // same address in all processes, since these processes are forks of the agent.
        unsafe { *self.shared.failure.get() }
    }
}

/// Returns new zeroed memory that child processes share. It is page-aligned.
fn shared_zeroes(bytes: usize) -> io::Result<*mut u8> {
    // SAFETY: the kernel chooses the address, so no mapping is replaced.
    let at = unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0)
    };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at.cast()) }
}
