//! What is counted, and where.

use std::fmt::Debug;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_utils::CachePadded;
use knee_sync::Platform;
use knee_vm::{Machine, MapError, OutOfMemory, Quota};

/// How pages that are mapped are counted for all spaces of a [`Memory`](super::Memory), up to a limit, and
/// those that are present for each.
pub trait Accounting: Debug + Send + Sync + Sized + 'static {
    /// Pages of a space that are present.
    type Resident: Debug + Send + Sync;

    /// A limit of so many pages.
    ///
    /// # Errors
    /// There is no memory.
    fn new<M: Machine>(machine: &M, limit: u64) -> Result<Self, OutOfMemory>;

    /// Takes so many pages.
    ///
    /// # Errors
    /// [`MapError::QuotaExceeded`].
    fn charge(&self, cpu: usize, pages: u64, platform: &impl Platform) -> Result<(), MapError>;

    /// Gives pages back, on a CPU or on none's behalf.
    fn give_back(&self, cpu: Option<usize>, pages: u64, platform: &impl Platform);

    /// Pages that are taken. Exact if nobody takes or gives meanwhile.
    fn used(&self) -> u64;

    /// No page is present.
    ///
    /// # Errors
    /// There is no memory.
    fn resident(&self, cpus: usize) -> Result<Self::Resident, OutOfMemory>;

    /// So many pages more are present, modulo 2⁶⁴; on the calling CPU.
    fn add(resident: &Self::Resident, cpu: usize, pages: u64);

    /// How many are present. Exact if nobody changes that meanwhile.
    fn count(resident: &Self::Resident) -> u64;
}

/// One number for all CPUs: FreeBSD's `swap_reserved`, and `mm_struct`'s counts before Linux 6.2.
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

/// A share for each CPU: [`Quota`], and Linux' `percpu_counter` of what is resident since 6.2.
#[derive(Debug)]
pub struct PerCpu(Quota);

impl Accounting for PerCpu {
    /// Pages that came on a CPU without those that went there, modulo 2⁶⁴: each CPU changes only its own.
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
        // A reader may see a page go that it has not seen come.
        if sum > u64::MAX / 2 { 0 } else { sum }
    }
}
