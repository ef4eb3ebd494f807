//! Locks that some holders have while they wait for other CPUs.
//!
//! A kernel's CPU that spins for a lock takes interrupts meanwhile. So must one of ours: the holder may be
//! waiting for it to forget pages. Whoever waits for a lock of this file waits as the platform says that
//! it is given, see [`OnCpu`](super::on_cpu::OnCpu).

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use knee_sync::Platform;

/// What one at a time has.
#[derive(Debug, Default)]
pub(super) struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: one at a time has the value.
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

    /// For a lock whose holders wait for nobody.
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

/// A moment of a short wait.
fn relax(round: u32) {
    // A thread that holds a lock may have lost its CPU; a kernel's CPU has not.
    if round.is_multiple_of(64) {
        return std::thread::yield_now();
    }
    std::hint::spin_loop();
}

/// The value of a [`Lock`] that is held.
#[derive(Debug)]
pub(super) struct Held<'a, T>(&'a Lock<T>);

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we have the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: we have the lock.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.held.store(false, Release);
    }
}

/// What one writes or many read: `mmap_lock`. Readers let writers that wait go first.
#[derive(Debug)]
pub(super) struct Shared<T> {
    /// Readers; [`WAITING`] for each writer that waits; [`WRITER`].
    state: AtomicU64,
    value: UnsafeCell<T>,
}

const WAITING: u64 = 1 << 32;
const WRITER: u64 = 1 << 63;

// SAFETY: one has the value, or many read it.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(super) const fn new(value: T) -> Shared<T> {
        Shared { state: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(super) fn read(&self, platform: &impl Platform) -> Reading<'_, T> {
        let try_read = || {
            let state = self.state.load(Relaxed);
            // A state from `WAITING` on has a writer, or one that waits.
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

/// A [`Shared`] that is held for reading.
#[derive(Debug)]
pub(super) struct Reading<'a, T>(&'a Shared<T>);

impl<T> Deref for Reading<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: nobody writes.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> Drop for Reading<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.state.fetch_sub(1, Release);
    }
}

/// A [`Shared`] that is held for writing.
#[derive(Debug)]
pub(super) struct Writing<'a, T>(&'a Shared<T>);

impl<'a, T> Writing<'a, T> {
    /// Others may read from now on, and we do: `mmap_write_downgrade`.
    pub(super) fn downgrade(self) -> Reading<'a, T> {
        let shared = self.0;
        std::mem::forget(self);
        // From a writer to a reader; those who wait stay. Release: readers see what was written.
        shared.state.fetch_sub(WRITER - 1, Release);
        Reading(shared)
    }
}

impl<T> Deref for Writing<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we have it alone.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Writing<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: we have it alone.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Writing<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.state.fetch_sub(WRITER, Release);
    }
}
