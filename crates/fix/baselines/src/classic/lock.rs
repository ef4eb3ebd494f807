//! Locks that a thread may hold while it waits for other CPUs.
//!
//! In a kernel, a CPU that spins on a lock still takes interrupts. Likewise, a CPU that spins on one of these
//! locks must handle requests, because the lock's holder may be waiting for this CPU to flush pages. So all
//! waits for these locks go through the platform that the caller passes; see [`OnCpu`](super::on_cpu::OnCpu).
//!
//! Locks are taken with Acquire and released with Release: the accesses of a holder happen before the
//! accesses of all later holders.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use knee_sync::Platform;

/// A spin lock.
#[derive(Debug, Default)]
pub(super) struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives one thread at a time access to the value.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(super) const fn new(value: T) -> Lock<T> {
        Lock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(super) fn lock(&self, platform: &impl Platform) -> Held<'_, T> {
        if self.held.swap(true, Acquire) {
            platform.wait_while(|| self.held.load(Relaxed) || self.held.swap(true, Acquire));
        }
        Held(self)
    }

    /// Takes a lock whose holders never wait for other CPUs.
    #[inline]
    pub(super) fn lock_briefly(&self) -> Held<'_, T> {
        let mut round = 0_u32;
        while self.held.load(Relaxed) || self.held.swap(true, Acquire) {
            round = round.wrapping_add(1);
            relax(round);
        }
        Held(self)
    }

    pub(super) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// One round of a short wait.
fn relax(round: u32) {
    // The holder may have been preempted, which cannot happen to the holder of a kernel's spin lock.
    if round.is_multiple_of(64) {
        return std::thread::yield_now();
    }
    std::hint::spin_loop();
}

/// The guard of a [`Lock`].
#[derive(Debug)]
pub(super) struct Held<'a, T>(&'a Lock<T>);

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.held.store(false, Release);
    }
}

/// A read-write lock: `mmap_lock`. Readers let waiting writers go first.
#[derive(Debug)]
pub(super) struct Shared<T> {
    /// The number of readers, plus [`WAITING`] for each waiting writer, plus [`WRITER`] if a writer holds the
    /// lock.
    state: AtomicU64,
    value: UnsafeCell<T>,
}

const WAITING: u64 = 1 << 32;
const WRITER: u64 = 1 << 63;

// SAFETY: either one thread writes the value, or any number of threads read it.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(super) const fn new(value: T) -> Shared<T> {
        Shared { state: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(super) fn read(&self, platform: &impl Platform) -> Reading<'_, T> {
        let try_read = || {
            let state = self.state.load(Relaxed);
            // A state of at least `WAITING` means that a writer holds the lock or waits for it.
            state < WAITING
                && self.state.compare_exchange_weak(state, state + 1, Acquire, Relaxed).is_ok()
        };
        if !try_read() {
            platform.wait_while(|| !try_read());
        }
        Reading(self)
    }

    #[inline]
    pub(super) fn write(&self, platform: &impl Platform) -> Writing<'_, T> {
        if self.state.compare_exchange(0, WRITER, Acquire, Relaxed).is_err() {
            self.state.fetch_add(WAITING, Relaxed);
            platform.wait_while(|| {
                let state = self.state.load(Relaxed);
                let is_free = state & (WRITER | (WAITING - 1)) == 0;
                let ours = state.wrapping_sub(WAITING) | WRITER;
                !is_free || self.state.compare_exchange(state, ours, Acquire, Relaxed).is_err()
            });
        }
        Writing(self)
    }

    pub(super) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// The guard of a [`Shared`] that is locked for reading.
#[derive(Debug)]
pub(super) struct Reading<'a, T>(&'a Shared<T>);

impl<T> Deref for Reading<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock for reading, so no thread writes.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> Drop for Reading<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.state.fetch_sub(1, Release);
    }
}

/// The guard of a [`Shared`] that is locked for writing.
#[derive(Debug)]
pub(super) struct Writing<'a, T>(&'a Shared<T>);

impl<'a, T> Writing<'a, T> {
    /// Turns the write lock into a read lock, so that other threads can read too: `mmap_write_downgrade`.
    pub(super) fn downgrade(self) -> Reading<'a, T> {
        let shared = self.0;
        std::mem::forget(self);
        // Replaces the writer with a reader and keeps the count of waiting writers. Release: readers see the
        // writes.
        shared.state.fetch_sub(WRITER - 1, Release);
        Reading(shared)
    }
}

impl<T> Deref for Writing<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock for writing.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Writing<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock for writing.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Writing<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.state.fetch_sub(WRITER, Release);
    }
}
