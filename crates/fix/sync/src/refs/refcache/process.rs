//! The refcache of the process, in which each thread registers at its first use.

use std::io;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::per_thread::{self, Part, per_thread};
use crate::system::System;

use super::cache::{Local, Refcache};
use super::threads::Threads;

type Member = Local<'static, System, parking_lot::RawMutex>;

per_thread!(Member);

impl Part for Member {
    fn register() -> Self {
        ThisProcess::refcache().register()
    }

    fn unregister(self) -> bool {
        // SAFETY: this thread has registered, and no copy is used after this.
        unsafe { self.unregister() };
        true
    }
}

/// The threads of this process.
#[derive(Debug)]
pub struct ThisProcess(());

// SAFETY: only the thread that registered uses its `Local`, until it exits. membarrier(2) reaches all
// threads of the process.
unsafe impl Threads for ThisProcess {
    type Platform = System;
    type Lock = parking_lot::RawMutex;

    fn refcache() -> &'static Refcache<System, parking_lot::RawMutex> {
        static REFCACHE: OnceLock<Refcache<System, parking_lot::RawMutex>> = OnceLock::new();
        REFCACHE.get_or_init(|| Refcache::new(System::detect()))
    }

    #[inline]
    fn with_local<R>(with: impl FnOnce(Member) -> R) -> R {
        per_thread::with(part(), with)
    }
}

/// Ends an epoch of the process: flushes the caches that threads have used since the last tick, and frees
/// unreferenced objects.
///
/// An object is freed by the third tick that begins after its last reference was dropped, and objects
/// that it refers to by the third tick after that. The calling thread runs the destructors. A tick costs
/// a heavy fence, and another one for each 16 threads that have used their caches; sv6 ticks every 10
/// milliseconds. A [`Ticker`] calls it from a thread of its own.
pub fn tick() {
    ThisProcess::refcache().tick();
}

/// A thread that [ticks](tick) periodically, until this value is dropped.
#[derive(Debug)]
pub struct Ticker {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts a thread that ticks at this interval.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn every(interval: Duration) -> io::Result<Ticker> {
        let end = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&end);
        let thread = thread::Builder::new().name("refcache".to_owned()).spawn(move || {
            while !until.load(Relaxed) {
                // A panic of a destructor has been reported by its hook; other objects are still to be
                // freed.
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
            // It may be dropped by an object that its own thread frees, and must not wait for itself
            // then.
            if thread.thread().id() != thread::current().id() {
                // A panic of a destructor has been reported already.
                let _ = thread.join();
            }
        }
    }
}
