//! Accounting of mapped and present pages.

use std::fmt::Debug;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_utils::CachePadded;
use knee_sync::Platform;
use knee_vm::{Machine, MapError, OutOfMemory, Quota};

/// Counts the mapped pages in all spaces of a [`Memory`](super::Memory), and the present pages in each space.
/// Only the mapped pages have a limit.
pub trait Accounting: Debug + Send + Sync + Sized + 'static {
    /// The count of a space's present pages.
    type Resident: Debug + Send + Sync;

    /// Creates an account with a limit of `limit` pages.
    ///
    /// # Errors
    /// If there is not enough memory.
    fn new<M: Machine>(machine: &M, limit: u64) -> Result<Self, OutOfMemory>;

    /// Charges `pages` pages.
    ///
    /// # Errors
    /// [`MapError::QuotaExceeded`].
    fn charge(&self, cpu: usize, pages: u64, platform: &impl Platform) -> Result<(), MapError>;

    /// Uncharges `pages` pages. `cpu` is the calling CPU, or `None` if the caller is not on a CPU.
    fn give_back(&self, cpu: Option<usize>, pages: u64, platform: &impl Platform);

    /// Returns the number of charged pages. The number is exact only if there are no concurrent changes.
    fn used(&self) -> u64;

    /// Creates a count of zero present pages.
    ///
    /// # Errors
    /// If there is not enough memory.
    fn resident(&self, cpus: usize) -> Result<Self::Resident, OutOfMemory>;

    /// Adds `pages` to the number of present pages, modulo 2⁶⁴. `cpu` is the calling CPU.
    fn add(resident: &Self::Resident, cpu: usize, pages: u64);

    /// Returns the number of present pages. The number is exact only if there are no concurrent changes.
    fn count(resident: &Self::Resident) -> u64;
}

/// One counter for all CPUs, like FreeBSD's `swap_reserved`, and like the counters of `mm_struct` before
/// Linux 6.2.
#[derive(Debug)]
pub struct OneCounter {
    limit: u64,
    used: CachePadded<AtomicU64>,
}

impl Accounting for OneCounter {
    type Resident = CachePadded<AtomicU64>;

    fn new<M: Machine>(_: &M, limit: u64) -> Result<OneCounter, OutOfMemory> {
        Ok(OneCounter { limit, used: CachePadded::default() })
    }

    #[inline]
    fn charge(&self, _: usize, pages: u64, _: &impl Platform) -> Result<(), MapError> {
        let more = |used: u64| used.checked_add(pages).filter(|used| *used <= self.limit);
        let charged = self.used.fetch_update(Relaxed, Relaxed, more);
        charged.map(drop).map_err(|_| MapError::QuotaExceeded)
    }

    #[inline]
    fn give_back(&self, _: Option<usize>, pages: u64, _: &impl Platform) {
        if pages > 0 {
            self.used.fetch_sub(pages, Relaxed);
        }
    }

    fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    fn resident(&self, _: usize) -> Result<CachePadded<AtomicU64>, OutOfMemory> {
        Ok(CachePadded::default())
    }

    #[inline]
    fn add(resident: &CachePadded<AtomicU64>, _: usize, pages: u64) {
        if pages > 0 {
            resident.fetch_add(pages, Relaxed);
        }
    }

    fn count(resident: &CachePadded<AtomicU64>) -> u64 {
        resident.load(Relaxed)
    }
}

/// Per-CPU accounting. Mapped pages are charged to a [`Quota`], whose limit is split into shares. Each CPU
/// counts present pages separately, as in the `percpu_counter`s of `mm_struct` since Linux 6.2.
#[derive(Debug)]
pub struct PerCpu(Quota);

impl Accounting for PerCpu {
    /// For each CPU, the number of pages that the CPU has made present minus the number of pages that it has
    /// removed, modulo 2⁶⁴. Each CPU changes only its own element.
    type Resident = Box<[CachePadded<AtomicU64>]>;

    fn new<M: Machine>(machine: &M, limit: u64) -> Result<PerCpu, OutOfMemory> {
        Ok(PerCpu(Quota::new(machine, limit)?))
    }

    #[inline]
    fn charge(&self, cpu: usize, pages: u64, platform: &impl Platform) -> Result<(), MapError> {
        self.0.charge(cpu, pages, platform)
    }

    #[inline]
    fn give_back(&self, cpu: Option<usize>, pages: u64, platform: &impl Platform) {
        match cpu {
            Some(cpu) => self.0.give_back(cpu, pages, platform),
            None => self.0.give_back_to_rest(pages, platform),
        }
    }

    fn used(&self) -> u64 {
        self.0.used()
    }

    fn resident(&self, cpus: usize) -> Result<Self::Resident, OutOfMemory> {
        Ok((0..cpus).map(|_| CachePadded::default()).collect())
    }

    #[inline]
    fn add(resident: &Self::Resident, cpu: usize, pages: u64) {
        let count = &resident[cpu];
        count.store(count.load(Relaxed).wrapping_add(pages), Relaxed);
    }

    fn count(resident: &Self::Resident) -> u64 {
        let sum = resident.iter().fold(0, |sum: u64, count| sum.wrapping_add(count.load(Relaxed)));
        // The loads may see that one CPU removed a page but miss that another CPU added it, so the sum may be
        // negative.
        if sum > u64::MAX / 2 { 0 } else { sum }
    }
}
