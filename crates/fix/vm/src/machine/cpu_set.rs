//! Sets of CPUs.

use alloc::boxed::Box;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use knee_sync::shim::{AtomicU64, Padded, fence, is_mutant, order};

use crate::error::OutOfMemory;
use crate::per_cpu::for_each;

/// A set of CPU numbers that any CPU may change concurrently.
#[derive(Debug)]
pub struct CpuSet(
    /// A word for every 64 CPUs. Each word has cache lines of its own, because CPUs change it when they
    /// switch spaces.
    Box<[Padded<AtomicU64>]>,
);

impl CpuSet {
    /// Creates an empty set for CPU numbers below `cpus`.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the set cannot be allocated.
    pub fn new(cpus: usize) -> Result<CpuSet, OutOfMemory> {
        for_each(cpus.div_ceil(64)).map(CpuSet)
    }

    /// Returns whether `cpu` is in the set.
    ///
    /// # Panics
    /// If `cpu` is beyond the capacity of the set.
    #[inline]
    pub fn contains(&self, cpu: usize) -> bool {
        self.0[cpu / 64].0.load(order!(Acquire, "cpus_contains")) & 1 << (cpu % 64) != 0
    }

    /// Adds `cpu`, which may walk tables after this call. A CPU that changes tables must execute a full fence
    /// before it reads the set. Then either the changing CPU finds `cpu` in the set, or `cpu` observes the
    /// change.
    pub fn add(&self, cpu: usize) {
        self.0[cpu / 64].0.fetch_or(1 << (cpu % 64), Relaxed);
        // Store buffering: this CPU writes the set and then reads tables; an unmapper writes tables and then
        // reads the set. If each executes a full fence between its write and its reads, at least one of the
        // two observes the other's write.
        if !is_mutant!("activates_unfenced") {
            fence(SeqCst);
        }
    }

    /// Removes `cpu`, which must have flushed its cached translations.
    pub fn remove(&self, cpu: usize) {
        // Release: the CPU's accesses through flushed entries happen before the removal.
        self.0[cpu / 64].0.fetch_and(!(1 << (cpu % 64)), order!(Release, "cpus_remove"));
    }

    /// Iterates over the CPUs in the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            // Acquire: if a CPU has left the set, its accesses happen before this load.
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
