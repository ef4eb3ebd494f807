//! The refcache of the process. Each thread registers when it first uses the refcache.

use std::io;
use std::mem::ManuallyDrop;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::per_thread::{self, Part, per_thread};
use crate::registry::Node;
use crate::system::System;

use super::cache::{self, Local, Refcache};
use super::threads::Threads;

type Lock = parking_lot::RawMutex;

per_thread!(Member);

/// A registered thread: its `Local`, taken apart. The parts are `Copy`, so a `Cell` can hold them.
#[derive(Clone, Copy)]
struct Member {
    refcache: &'static Refcache<System, Lock>,
    node: &'static Node<cache::Member<Lock>>,
}

impl Member {
    /// Passes the thread's `Local` to `with`, and does not drop it.
    #[inline]
    fn with<R>(self, with: impl FnOnce(&Local<'static, System, Lock>) -> R) -> R {
        // SAFETY: `register` took the thread's `Local` apart, and only this thread has copies of the parts
        // until `unregister`.
        with(&ManuallyDrop::new(unsafe { Local::from_node(self.refcache, self.node) }))
    }
}

impl Part for Member {
    fn register() -> Member {
        let refcache = ThisProcess::refcache();
        Member { refcache, node: refcache.register().into_node() }
    }

    fn unregister(self) -> bool {
        // SAFETY: as in `with`, and no copy of the parts is used after this.
        drop(unsafe { Local::from_node(self.refcache, self.node) });
        true
    }
}

/// The threads of this process.
#[derive(Debug)]
pub struct ThisProcess(());

// SAFETY: there is one refcache, and a thread's `Local` is in its thread-local storage. Signal handlers
// must not use counts. membarrier(2) reaches all threads of the process.
unsafe impl Threads for ThisProcess {
    type Platform = System;
    type Lock = Lock;

    fn refcache() -> &'static Refcache<System, Lock> {
        static REFCACHE: OnceLock<Refcache<System, Lock>> = OnceLock::new();
        REFCACHE.get_or_init(|| Refcache::new(System::detect()))
    }

    #[inline]
    fn with_local<R>(with: impl FnOnce(&Local<'static, System, Lock>) -> R) -> R {
        per_thread::with(&PART, part(), |member| member.with(with))
    }
}

/// Ends an epoch of the process: flushes the caches that threads have used since the last tick, and frees
/// unreferenced objects.
///
/// An object is freed by the third tick that begins after its last reference was dropped, and the objects
/// that it refers to are freed by the third tick after that. The calling thread runs the destructors. A
/// tick costs one heavy fence, and another one for every 16 threads that have used their caches. sv6 ticks
/// every 10 milliseconds. A [`Ticker`] calls `tick` from a thread of its own.
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
                // If a destructor panics, the panic hook reports it. The other objects must still be
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
            // If the ticker's thread frees an object that owns the ticker, the thread must not wait for
            // itself.
            if thread.thread().id() != thread::current().id() {
                // The panic hook has already reported a destructor's panic.
                let _ = thread.join();
            }
        }
    }
}
