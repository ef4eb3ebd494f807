//! Mutexes of the C library, around nothing or around a small update.
//!
//! will-it-scale has one mutex per process, so with processes its "contended" testcases contend
//! for nothing and, having one thread, do without atomic instructions. That is
//! [`PROCESS_MUTEX`] here; the default, [`SAME_MUTEX`], is one mutex for all tasks in both modes.

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;

use knee_run::area::SharedObject;
use knee_run::{Family, Mode, Outcome, Setup, Task, TaskError, Testcase};
use libc::{c_int, pthread_mutex_t, pthread_mutexattr_t};
use rustix::io::Errno;

use crate::choices::{OWN_MUTEX, PROCESS_MUTEX, SAME_MUTEX};

const CONTENDED: Testcase = Testcase {
    parameters: &[&[SAME_MUTEX, PROCESS_MUTEX]],
    original: Some(PROCESS_MUTEX),
    prepare,
    ..Testcase::new(Family::Lock, lock_and_unlock)
};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "pthread_mutex1",
        description: "pthread_mutex_lock() and pthread_mutex_unlock(), with nothing in between",
        parameters: &[&[SAME_MUTEX, PROCESS_MUTEX, OWN_MUTEX]],
        ..CONTENDED
    },
    Testcase {
        name: "pthread_mutex2",
        description: "pthread_mutex1@mutex=own: a mutex on the stack of each task",
        parameters: &[&[OWN_MUTEX]],
        original: None,
        ..CONTENDED
    },
    Testcase {
        name: "pthread_mutex3",
        description: "lock a mutex, update a number in the mutex's cache line, unlock",
        run: pthread_mutex3,
        ..CONTENDED
    },
    Testcase {
        name: "pthread_mutex4",
        description: "lock a mutex, update a number on the task's stack, unlock",
        run: update_on_stack,
        ..CONTENDED
    },
    Testcase {
        name: "pthread_mutex5",
        description: "lock a mutex, update a thread-local number, unlock",
        run: pthread_mutex5,
        ..CONTENDED
    },
];

fn lock_and_unlock(task: &Task<'_>) -> Outcome {
    lock(task, |_| {})
}

fn pthread_mutex3(task: &Task<'_>) -> Outcome {
    lock(task, increment)
}

fn pthread_mutex5(task: &Task<'_>) -> Outcome {
    lock(task, |_| LOCAL.with(increment))
}

/// A mutex and a number beside it, alone on their pair of cache lines.
#[repr(C, align(256))]
struct Guarded {
    mutex: UnsafeCell<pthread_mutex_t>,
    number: Cell<u64>,
}

// The number shares the line of the mutex, and both fit where all tasks can reach them.
const _: () = assert!(size_of::<pthread_mutex_t>() + size_of::<u64>() <= 64);
const _: () = assert!(size_of::<Guarded>() <= SharedObject::BYTES);

impl Guarded {
    const fn new() -> Self {
        Self { mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER), number: Cell::new(0) }
    }
}

/// A [`Guarded`] as a static.
struct Global(Guarded);

// SAFETY: threads lock the mutex before they touch the number; see `lock`, the only user.
unsafe impl Sync for Global {}

static GLOBAL: Global = Global(Guarded::new());

thread_local! {
    static LOCAL: Cell<u64> = const { Cell::new(0) };
}

/// Volatile, so that the compiler does not combine the updates.
#[inline(always)]
fn increment(number: &Cell<u64>) {
    let number = number.as_ptr();
    // SAFETY: the pointer comes from a reference to a cell, which no other thread may be in: it
    // is this thread's own, or it is guarded by the mutex that this thread holds.
    unsafe { number.write_volatile(number.read_volatile().wrapping_add(1)) };
}

fn update_on_stack(task: &Task<'_>) -> Outcome {
    let number = Cell::new(0);
    lock(task, |_| increment(&number))
}

/// Initialises the mutex that processes share.
fn prepare(setup: &Setup<'_>) -> Result<(), TaskError> {
    if !setup.settings.has(SAME_MUTEX) {
        return Ok(());
    }
    let shared = setup.object.as_ptr().cast::<Guarded>();
    let mut attributes = MaybeUninit::<pthread_mutexattr_t>::uninit();
    // SAFETY: the object is large enough (asserted above), zeroed, aligned to 256, and stays where
    // it is until all tasks are gone; no task exists yet. The attributes are initialised before
    // they are used.
    unsafe {
        let attributes = attributes.as_mut_ptr();
        done(libc::pthread_mutexattr_init(attributes), "pthread_mutexattr_init")?;
        done(
            libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED),
            "pthread_mutexattr_setpshared",
        )?;
        let mutex = (&raw mut (*shared).mutex).cast();
        done(libc::pthread_mutex_init(mutex, attributes), "pthread_mutex_init")
    }
}

fn lock(task: &Task<'_>, mut update: impl FnMut(&Cell<u64>)) -> Outcome {
    let own = Guarded::new();
    let guarded = if task.has(OWN_MUTEX) {
        &own
    } else if task.has(SAME_MUTEX) && task.mode == Mode::Processes {
        // SAFETY: `prepare` has initialised it, and zeros are a valid number.
        unsafe { &*task.object().as_ptr().cast() }
    } else {
        &GLOBAL.0
    };
    let mutex = guarded.mutex.get();
    task.repeat(|| {
        // SAFETY: the mutex is initialised, never moved (`own` stays in this frame) and never
        // destroyed.
        done(unsafe { libc::pthread_mutex_lock(mutex) }, "pthread_mutex_lock")?;
        update(&guarded.number);
        // SAFETY: as above; this thread holds it.
        done(unsafe { libc::pthread_mutex_unlock(mutex) }, "pthread_mutex_unlock")
    })
}

/// Functions of this kind return the error number.
#[inline(always)]
fn done(result: c_int, call: &'static str) -> Result<(), TaskError> {
    match result {
        0 => Ok(()),
        errno => Err(TaskError::new(call, Errno::from_raw_os_error(errno))),
    }
}
