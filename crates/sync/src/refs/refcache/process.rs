//! The process's counts, in which each thread takes part on its own.

use std::io;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::per_thread::{self, Part, per_thread};
use crate::system::System;

use super::cache::{Local, Refcache};

static REFCACHE: OnceLock<Refcache<System>> = OnceLock::new();

fn refcache() -> &'static Refcache<System> {
    REFCACHE.get_or_init(|| Refcache::new(System::detect()))
}

per_thread!(Local<'static, System>);

impl Part for Local<'static, System> {
    fn join() -> Self {
        refcache().join()
    }

    fn leave(self) -> bool {
        // SAFETY: this thread has joined, and no copy is used after this.
        unsafe { self.leave() };
        true
    }
}

/// Calls `with` with the calling thread's part, which it may use within the call.
#[inline]
pub(super) fn with_local<R>(with: impl FnOnce(Local<'static, System>) -> R) -> R {
    per_thread::with(part(), with)
}

/// Ends an epoch of the process: flushes the caches that threads have used since the last one, and
/// frees what nobody refers to any more.
///
/// An object is freed by the third tick that begins after its last reference was dropped, and what it refers to
/// by the third tick after that. What is freed is dropped by the calling thread. A tick costs a heavy fence, and another one for each 16 threads that have
/// used their caches; sv6 ticks every 10 milliseconds. Who does not want to call it starts a [`Ticker`].
pub fn tick() {
    refcache().tick();
}

/// A thread that [ticks](tick) now and then, until this is dropped.
#[derive(Debug)]
pub struct Ticker {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts a thread that ticks this often.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn every(interval: Duration) -> io::Result<Ticker> {
        let end = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&end);
        let thread = thread::Builder::new().name("refcache".to_owned()).spawn(move || {
            while !until.load(Relaxed) {
                // What is freed may panic, which is said by then; others are to be freed all the same.
                let _ = panic::catch_unwind(tick);
                thread::park_timeout(interval);
            }
        })?;
        Ok(Ticker { end, thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.end.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It may be dropped with what it frees: then it does not wait for itself.
            if thread.thread().id() != thread::current().id() {
                // If a destructor has panicked, that was said already.
                let _ = thread.join();
            }
        }
    }
}
