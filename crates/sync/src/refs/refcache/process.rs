//! The process's counts, in which each thread takes part on its own.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::system::System;

use super::cache::{Local, Refcache};

static REFCACHE: OnceLock<Refcache<System>> = OnceLock::new();

fn refcache() -> &'static Refcache<System> {
    REFCACHE.get_or_init(|| Refcache::new(System::detect()))
}

thread_local! {
    static LOCAL: Cell<Option<Local<'static, System>>> = const { Cell::new(None) };
    static MEMBER: Member = Member::join();
}

/// A thread that takes part, until it ends.
struct Member(Local<'static, System>);

impl Member {
    fn join() -> Member {
        let local = refcache().join();
        LOCAL.set(Some(local));
        Member(local)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        LOCAL.set(None);
        // SAFETY: this thread has joined, and the other copy is gone.
        unsafe { self.0.leave() };
    }
}

/// Calls `with` with the calling thread's part, which it may use within the call.
#[inline]
pub(super) fn with_local<R>(with: impl FnOnce(Local<'static, System>) -> R) -> R {
    match LOCAL.get() {
        Some(local) => with(local),
        None => with_new_local(with),
    }
}

#[cold]
fn with_new_local<R>(with: impl FnOnce(Local<'static, System>) -> R) -> R {
    // A thread that is ending has left, and joins for this call.
    let short = MEMBER.try_with(|_| ()).err().map(|_| Member::join());
    let result = with(LOCAL.get().expect("it has joined"));
    drop(short);
    result
}

/// Ends an epoch of the process: flushes the caches that threads have used since the last one, and
/// frees what nobody refers to any more.
///
/// An object is freed by the third tick that begins after its last reference was dropped. What is freed is dropped
/// by the calling thread. A tick costs a heavy fence, and another one for each 16 threads that have
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
                tick();
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
            // If a destructor has panicked, that was said already.
            let _ = thread.join();
        }
    }
}
