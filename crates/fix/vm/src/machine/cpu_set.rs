//! Sets of CPUs.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use knee_sync::shim::{AtomicU64, fence, is_mutant, order};

use crate::error::OutOfMemory;

/// CPUs by number, which come and go at any time.
#[derive(Debug)]
pub struct CpuSet(Box<[AtomicU64]>);

impl CpuSet {
    /// An empty set, for CPUs with numbers below `cpus`.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(cpus: usize) -> Result<CpuSet, OutOfMemory> {
        let mut words = Vec::new();
        words.try_reserve_exact(cpus.div_ceil(64))?;
        words.resize_with(cpus.div_ceil(64), || AtomicU64::new(0));
        Ok(CpuSet(words.into_boxed_slice()))
    }

    /// Whether this one is in it.
    #[inline]
    pub fn contains(&self, cpu: usize) -> bool {
        self.0[cpu / 64].load(order!(Acquire, "cpus_contains")) & 1 << (cpu % 64) != 0
    }

    /// Adds a CPU that will read tables from now on, and executes a full fence. A CPU that changes a table
    /// executes one too before it reads the set: it finds the new CPU there, or the new CPU sees the change.
    pub fn add(&self, cpu: usize) {
        self.0[cpu / 64].fetch_or(1 << (cpu % 64), Relaxed);
        // The CPU goes on to read tables. One that has changed these executes a fence as well and goes on
        // to read the set: one of them sees what the other has done.
        if !is_mutant!("activates_unfenced") {
            fence(SeqCst);
        }
    }

    /// Removes a CPU, which has flushed what it had cached.
    pub fn remove(&self, cpu: usize) {
        // Release: what it did by what it has forgotten comes before.
        self.0[cpu / 64].fetch_and(!(1 << (cpu % 64)), order!(Release, "cpus_remove"));
    }

    /// Those in it, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            // Acquire: who is not in it has left.
            let mut bits = bits.load(order!(Acquire, "cpus_iter"));
            if is_mutant!("skips_a_cpu") {
                bits &= bits.wrapping_sub(1);
            }
            core::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(64 * word + bit)
            })
        })
    }
}
