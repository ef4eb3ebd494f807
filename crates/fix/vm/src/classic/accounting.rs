//! What is counted, and where.

use core::fmt::Debug;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use alloc::sync::Arc;

use knee_sync::Platform;

use crate::error::{MapError, OutOfMemory};
use crate::quota::{Account, Quota};

/// How pages that are mapped are counted for all spaces of a [`Memory`](super::Memory), up to a limit, and
/// those that are present for each.
pub trait Accounting: Debug + Send + Sync + Sized + 'static {
    /// Pages of a space that are present.
    type Resident: Debug + Send + Sync;

    /// A limit of so many pages.
    ///
    /// # Errors
    /// There is no memory.
    fn new(cpus: usize, limit: u64) -> Result<Self, OutOfMemory>;

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
    used: Line,
}

/// A number in a line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Line(AtomicU64);

impl Accounting for OneCounter {
    type Resident = Line;

    fn new(_: usize, limit: u64) -> Result<OneCounter, OutOfMemory> {
        Ok(OneCounter { limit, used: Line::default() })
    }

    #[inline]
    fn charge(&self, _: usize, pages: u64, _: &impl Platform) -> Result<(), MapError> {
        let more = |used: u64| used.checked_add(pages).filter(|used| *used <= self.limit);
        let charged = self.used.0.fetch_update(Relaxed, Relaxed, more);
        charged.map(drop).map_err(|_| MapError::QuotaExceeded)
    }

    #[inline]
    fn give_back(&self, _: Option<usize>, pages: u64, _: &impl Platform) {
        if pages > 0 {
            self.used.0.fetch_sub(pages, Relaxed);
        }
    }

    fn used(&self) -> u64 {
        self.used.0.load(Relaxed)
    }

    fn resident(&self, _: usize) -> Result<Line, OutOfMemory> {
        Ok(Line::default())
    }

    #[inline]
    fn add(resident: &Line, _: usize, pages: u64) {
        if pages > 0 {
            resident.0.fetch_add(pages, Relaxed);
        }
    }

    fn count(resident: &Line) -> u64 {
        resident.0.load(Relaxed)
    }
}

/// A share for each CPU: [`Quota`], and Linux' `percpu_counter` of what is resident since 6.2.
#[derive(Debug)]
pub struct PerCpu(Account);

impl Accounting for PerCpu {
    type Resident = Counts;

    fn new(cpus: usize, limit: u64) -> Result<PerCpu, OutOfMemory> {
        let quota = Arc::new(Quota::with_shares(cpus, limit)?);
        Ok(PerCpu(Account::new(cpus, Some(quota))?))
    }

    #[inline]
    fn charge(&self, cpu: usize, pages: u64, platform: &impl Platform) -> Result<(), MapError> {
        self.0.charge(cpu, pages, platform)?.keep();
        Ok(())
    }

    #[inline]
    fn give_back(&self, cpu: Option<usize>, pages: u64, platform: &impl Platform) {
        match (cpu, self.0.quota()) {
            (Some(cpu), _) => self.0.give_back(cpu, pages, platform),
            (None, Some(quota)) => quota.give_back_to_rest(pages, platform),
            (None, None) => (),
        }
    }

    fn used(&self) -> u64 {
        self.0.quota().map_or(0, |quota| quota.used())
    }

    fn resident(&self, cpus: usize) -> Result<Counts, OutOfMemory> {
        Ok(Counts(Account::new(cpus, None)?))
    }

    #[inline]
    fn add(resident: &Counts, cpu: usize, pages: u64) {
        resident.0.add_resident(cpu, pages);
    }

    fn count(resident: &Counts) -> u64 {
        resident.0.resident()
    }
}

/// Pages that came and went on each CPU.
#[derive(Debug)]
pub struct Counts(Account);
