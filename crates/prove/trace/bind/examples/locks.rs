//! `knee_sync::rm` and `knee_sync::lock`: critical sections, which begin and end within a call.

use std::process::ExitCode;

use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Model, models::independent::independent};
use knee_sync::System;
use knee_sync::lock::PiMutex;
use knee_sync::rm::{Readers, RmLock};

const OPERATIONS: &[(&str, &str)] = &[
    ("read", "(): takes a read lock and releases it"),
    ("read_recursive", "(): takes a second read lock inside a read lock, and releases both"),
    ("try_read", "(): takes a read lock if no writer has the lock, and releases it"),
    ("read_other", "(): takes a read lock of another lock, and releases it"),
    ("write", "(): takes the write lock and releases it"),
    ("try_write", "(): takes the write lock if no other thread has the lock, and releases it"),
    ("register", "(): registers and unregisters a reader"),
    ("pi_lock", "(): locks a mutex and unlocks it"),
    ("pi_try_lock", "(): locks the mutex if no other thread has it, and unlocks it"),
    ("pi_other", "(): locks another mutex and unlocks it"),
];

/// A lock on cache lines of its own.
#[repr(align(128))]
struct Own<T>(T);

struct Bound {
    rm: [Own<RmLock<()>>; 3],
    mutexes: [Own<PiMutex<()>>; 3],
    readers: Readers,
}

impl Binding for Bound {
    fn model() -> impl Model {
        independent("locks", "critical sections that begin and end within a call", OPERATIONS)
    }

    fn set_up(_: &Setup<'_>) -> Self {
        let rm = std::array::from_fn(|_| Own(RmLock::new(())));
        // Enables the fast path, as the first reader of a lock does.
        rm.iter().for_each(|lock| drop(lock.0.read()));
        let mutexes = std::array::from_fn(|_| Own(PiMutex::new(())));
        let bound = Self { rm, mutexes, readers: Readers::new() };
        // Leaves a free record for the next reader that registers.
        drop(bound.readers.register(&System::detect()));
        bound
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        let other = 1 + call.thread();
        let (rm, own_rm) = (&self.rm[0].0, &self.rm[other].0);
        let (mutex, own_mutex) = (&self.mutexes[0].0, &self.mutexes[other].0);
        let readers = &self.readers;
        // Registers this thread.
        drop((own_rm.read(), own_mutex.lock()));
        let operation: Box<dyn Fn() + '_> = match call.operation() {
            "read" => Box::new(|| drop(rm.read())),
            "read_recursive" => Box::new(|| drop((rm.read(), rm.read_recursive()))),
            "try_read" => Box::new(|| drop(rm.try_read().unwrap())),
            "read_other" => Box::new(|| drop(own_rm.read())),
            "write" => Box::new(|| drop(rm.write())),
            "try_write" => Box::new(|| drop(rm.try_write().unwrap())),
            "register" => Box::new(|| drop(readers.register(&System::detect()))),
            "pi_lock" => Box::new(|| drop(mutex.lock())),
            "pi_try_lock" => Box::new(|| drop(mutex.try_lock().unwrap())),
            "pi_other" => Box::new(|| drop(own_mutex.lock())),
            _ => return None,
        };
        Some(Box::new(move || {
            operation();
            Returned::Nothing
        }))
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Bound>()
}
