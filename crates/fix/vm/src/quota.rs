//! Accounting: limits on mapped pages, and counts of resident pages.
//!
//! With a single counter, every map and unmap on every CPU would write the same cache line. On FreeBSD, the
//! counter of reserved swap space was a bottleneck until per-CPU quotas replaced it (Macy, 2018). So the
//! unused part of a limit is split into per-CPU *shares* and a common *rest*. A CPU takes pages from its own
//! share, or gives pages back to its share, with one atomic operation on its own cache line.
//!
//! If a CPU's share is too small, the CPU locks the rest and takes the pages from there. It also takes a
//! surplus, so that it seldom needs the lock again. If the rest is too small as well, the CPU *closes* all
//! shares and moves their pages into the rest. While the shares are closed, all other CPUs need the lock. So
//! all unused pages are available to the CPU that has the lock, and its charge fails only if there are too
//! few of them. A sum of open shares would not be enough: other CPUs change the shares during the summation,
//! so the sum may be lower than the number of unused pages ever was.
//!
//! Orderings: shares are plain counts and publish no other data, so relaxed operations suffice. No other
//! CPU changes a closed share: an atomic update always reads the latest value in modification order, so it
//! sees the closed mark. The rest is changed under the lock.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use knee_sync::Platform;
use knee_sync::shim::{AtomicBool, AtomicU64, Padded, order, test_and_set};

use crate::error::{MapError, OutOfMemory};
use crate::machine::Machine;
use crate::per_cpu;

/// The value of a closed share, higher than any limit. Only the CPU that closed the share may change the
/// share.
const CLOSED: u64 = 1 << 63;

/// A strict limit on the number of pages that a group of spaces may map in total.
///
/// A mapped page counts, whatever its protection is and whether or not it is present, because it may need a
/// frame later. [Guards](crate::Protection::GUARD) are the only mapped pages that do not count. A space joins
/// a group when it is [created](crate::Space::with_quota).
///
/// ```
/// use std::sync::Arc;
///
/// use knee_vm::hosted::Hosted;
/// use knee_vm::{MapError, Page, Pages, Protection, Quota, Space};
///
/// let machine = Hosted::new(1024, 2);
/// let cpu = machine.cpu(0);
/// let quota = Arc::new(Quota::new(&machine, 100)?);
/// let one = Space::with_quota(&cpu, Arc::clone(&quota))?;
/// let other = Space::with_quota(&cpu, Arc::clone(&quota))?;
///
/// one.map(&cpu, Pages::new(Page(16), 60), Protection::READ)?;
/// let too_many = Pages::new(Page(16), 41);
/// assert_eq!(other.map(&cpu, too_many, Protection::READ), Err(MapError::QuotaExceeded));
/// one.unmap(&cpu, Pages::new(Page(16), 1))?;
/// other.map(&cpu, too_many, Protection::READ)?;
/// assert_eq!(quota.used(), 100);
/// # Ok::<(), MapError>(())
/// ```
#[derive(Debug)]
pub struct Quota {
    limit: u64,
    /// Unused pages granted to each CPU. Any CPU may change any share.
    shares: Box<[Padded<AtomicU64>]>,
    rest: Padded<Rest>,
}

/// Unused pages that are in no share.
#[derive(Debug, Default)]
struct Rest {
    locked: AtomicBool,
    /// Changed only under the lock.
    pages: AtomicU64,
}

/// Holds the lock of the rest until dropped.
struct Locked<'a>(&'a Rest);

impl<'a> Locked<'a> {
    fn new(rest: &'a Rest, platform: &impl Platform) -> Locked<'a> {
        platform.wait_while(|| test_and_set(&rest.locked, order!(Acquire, "quota_lock")));
        Locked(rest)
    }

    fn pages(&self) -> u64 {
        self.0.pages.load(Relaxed)
    }

    fn set(&self, pages: u64) {
        self.0.pages.store(pages, Relaxed);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.locked.store(false, order!(Release, "quota_unlock"));
    }
}

impl Quota {
    /// Creates an unused quota of `limit` pages, capped at 2⁶³ − 1, with a share for each CPU of `machine`.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the shares cannot be allocated.
    pub fn new<M: Machine>(machine: &M, limit: u64) -> Result<Quota, OutOfMemory> {
        Quota::with_shares(machine.cpus(), limit)
    }

    pub(crate) fn with_shares(cpus: usize, limit: u64) -> Result<Quota, OutOfMemory> {
        let limit = limit.min(CLOSED - 1);
        let rest = Rest { locked: AtomicBool::new(false), pages: AtomicU64::new(limit) };
        Ok(Quota { limit, shares: per_cpu::for_each(cpus)?, rest: Padded(rest) })
    }

    /// Returns the limit in pages.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the number of used pages. The result is exact only if no CPU maps or unmaps during the call.
    pub fn used(&self) -> u64 {
        let shares = self.shares.iter().map(|share| share.0.load(Relaxed) & !CLOSED);
        // If other CPUs move pages from one share to another during the summation, these pages may be counted
        // twice, or not at all.
        let free = shares.fold(self.rest.0.pages.load(Relaxed), u64::saturating_add);
        self.limit.saturating_sub(free)
    }

    /// Returns the number of CPUs with shares.
    pub(crate) fn cpus(&self) -> usize {
        self.shares.len()
    }

    /// Charges `pages` to the share of `cpu`. Use this for what the group uses besides mappings: spaces
    /// charge their mappings themselves. Near the limit, the call may wait for a lock, using `platform`.
    ///
    /// # Errors
    /// [`MapError::QuotaExceeded`] if at some moment during the call fewer than `pages` pages were unused.
    /// The call then charges nothing.
    ///
    /// # Panics
    /// If the machine has no such CPU.
    #[inline]
    pub fn charge(&self, cpu: usize, pages: u64, platform: &impl Platform) -> Result<(), MapError> {
        let less = |share: u64| share.checked_sub(pages).filter(|_| share & CLOSED == 0);
        match self.shares[cpu].0.fetch_update(Relaxed, Relaxed, less) {
            Ok(_) => Ok(()),
            Err(_) => self.charge_slowly(cpu, pages, platform),
        }
    }

    #[cold]
    fn charge_slowly(
        &self,
        cpu: usize,
        pages: u64,
        platform: &impl Platform,
    ) -> Result<(), MapError> {
        let rest = Locked::new(&self.rest.0, platform);
        let closes = rest.pages() < pages;
        if closes {
            let shares = self.shares.iter().map(|share| share.0.swap(CLOSED, Relaxed));
            rest.set(rest.pages() + shares.sum::<u64>());
        }
        let left = rest.pages().checked_sub(pages);
        // After this grant, the rest still has enough pages to grant the same surplus to each of the other
        // CPUs. Near the limit, the surplus rounds to zero: a small surplus would soon have to be reclaimed
        // from the shares, which costs more than locking again.
        let grant = left.map_or(0, |left| left / (2 * self.shares.len() as u64));
        rest.set(left.map_or(rest.pages(), |left| left - grant));
        if closes {
            self.shares.iter().for_each(|share| share.0.store(0, Relaxed));
        }
        self.shares[cpu].0.fetch_add(grant, Relaxed);
        if left.is_some() { Ok(()) } else { Err(MapError::QuotaExceeded) }
    }

    /// Gives back `pages` to the share of `cpu`. Any CPU may have [charged](Quota::charge) them. The call
    /// may wait for a lock, using `platform`.
    ///
    /// # Panics
    /// If the machine has no such CPU.
    #[inline]
    pub fn give_back(&self, cpu: usize, pages: u64, platform: &impl Platform) {
        let more = |share| (share & CLOSED == 0).then(|| share + pages);
        if self.shares[cpu].0.fetch_update(Relaxed, Relaxed, more).is_err() {
            self.give_back_to_rest(pages, platform);
        }
    }

    /// Gives back `pages` to the rest, from which any CPU may take pages. Any CPU may have
    /// [charged](Quota::charge) them. The call may wait for a lock, using `platform`.
    #[cold]
    pub fn give_back_to_rest(&self, pages: u64, platform: &impl Platform) {
        let rest = Locked::new(&self.rest.0, platform);
        rest.set(rest.pages() + pages);
    }
}

/// Charged pages, which are given back on drop unless they are [kept](Charge::keep).
#[derive(Debug)]
pub(crate) struct Charge<'a, P: Platform> {
    account: &'a Account,
    cpu: usize,
    pages: u64,
    platform: &'a P,
}

impl<P: Platform> Charge<'_, P> {
    /// Keeps the charge, because the pages are now mapped.
    #[inline]
    pub(crate) fn keep(mut self) {
        self.pages = 0;
    }
}

impl<P: Platform> Drop for Charge<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.account.give_back(self.cpu, self.pages, self.platform);
    }
}

/// The accounting of a space.
#[derive(Debug)]
pub(crate) struct Account {
    quota: Option<Arc<Quota>>,
    /// For each CPU, the pages that it made present minus those that it removed, modulo 2⁶⁴. Each CPU writes
    /// only its own count.
    resident: Box<[Padded<AtomicU64>]>,
}

impl Account {
    pub(crate) fn new(cpus: usize, quota: Option<Arc<Quota>>) -> Result<Account, OutOfMemory> {
        Ok(Account { quota, resident: per_cpu::for_each(cpus)? })
    }

    /// Charges the quota, if there is one.
    #[inline]
    pub(crate) fn charge<'a, P: Platform>(
        &'a self,
        cpu: usize,
        pages: u64,
        platform: &'a P,
    ) -> Result<Charge<'a, P>, MapError> {
        if let Some(quota) = &self.quota {
            quota.charge(cpu, pages, platform)?;
        }
        Ok(Charge { account: self, cpu, pages, platform })
    }

    /// Gives pages back to the quota, if there is one.
    #[inline]
    pub(crate) fn give_back(&self, cpu: usize, pages: u64, platform: &impl Platform) {
        if let Some(quota) = self.quota.as_deref().filter(|_| pages > 0) {
            quota.give_back(cpu, pages, platform);
        }
    }

    /// Returns the quota, if there is one.
    pub(crate) fn quota(&self) -> Option<&Arc<Quota>> {
        self.quota.as_ref()
    }

    /// Raises the count of present pages by `pages`. `cpu` must be the calling CPU.
    #[inline]
    pub(crate) fn add_resident(&self, cpu: usize, pages: u64) {
        let count = &self.resident[cpu].0;
        count.store(count.load(Relaxed).wrapping_add(pages), Relaxed);
    }

    /// Lowers the count of present pages by `pages`. `cpu` must be the calling CPU.
    #[inline]
    pub(crate) fn sub_resident(&self, cpu: usize, pages: u64) {
        self.add_resident(cpu, pages.wrapping_neg());
    }

    /// Returns the number of present pages. The result is exact only if no page becomes present or absent
    /// during the call.
    pub(crate) fn resident(&self) -> u64 {
        let counts = self.resident.iter().map(|count| count.0.load(Relaxed));
        let sum = counts.fold(0, u64::wrapping_add);
        // The sum may be negative, because it may count the removal of a page on one CPU but miss the page's
        // earlier arrival on another.
        if sum > u64::MAX / 2 { 0 } else { sum }
    }
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;

    use std::sync::atomic::Ordering::SeqCst;
    use std::thread;

    use knee_sync::System;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_quota_used_by_one_thread_behaves_like_one_counter(
            limit in 0_u64..2000,
            operations in prop::collection::vec((0_usize..4, 0_u64..300, any::<bool>()), 1..200)
        ) {
            let (quota, platform) = (Quota::with_shares(4, limit).unwrap(), System::detect());
            let mut used = 0;
            for (cpu, pages, is_charge) in operations {
                if is_charge {
                    let fits = used + pages <= limit;
                    let expected = if fits { Ok(()) } else { Err(MapError::QuotaExceeded) };
                    prop_assert_eq!(quota.charge(cpu, pages, &platform), expected);
                    used += if fits { pages } else { 0 };
                } else {
                    let pages = pages.min(used);
                    quota.give_back(cpu, pages, &platform);
                    used -= pages;
                }
                prop_assert_eq!(quota.used(), used);
            }
        }
    }

    /// No thread ever holds more than `MOST` pages, and the limit is `MOST` pages per thread. So at any
    /// moment a thread can charge `MOST` minus the pages that it holds, whatever the other threads do.
    #[test]
    fn charges_within_the_unused_pages_succeed_and_the_limit_holds() {
        const THREADS: u64 = 4;
        const MOST: u64 = 7;
        const ROUNDS: u32 = if cfg!(miri) { 1000 } else { 20_000 };
        let quota = Quota::with_shares(THREADS as usize, THREADS * MOST).unwrap();
        let (platform, used) = (System::detect(), AtomicU64::new(0));
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (quota, platform, used) = (&quota, &platform, &used);
                scope.spawn(move || {
                    let mut random = thread + 1;
                    let mut mine = 0;
                    for _ in 0..ROUNDS {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        // The CPU that gives the pages back may differ from the CPU that charged them, as
                        // when memory is freed on another CPU.
                        let (cpu, pages) = ((random >> 8) % THREADS, (random >> 32) % MOST + 1);
                        let give = mine.min(pages);
                        used.fetch_sub(give, SeqCst);
                        quota.give_back(cpu as usize, give, platform);
                        mine -= give;
                        let pages = pages.min(MOST - mine);
                        let charged = quota.charge((random >> 16 & 3) as usize, pages, platform);
                        assert_eq!(charged, Ok(()), "{pages} unused pages can be charged");
                        mine += pages;
                        let all = used.fetch_add(pages, SeqCst) + pages;
                        assert!(all <= THREADS * MOST, "{all} pages exceed the limit");
                    }
                    used.fetch_sub(mine, SeqCst);
                    quota.give_back(thread as usize, mine, platform);
                });
            }
        });
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn concurrent_charges_stop_exactly_at_the_limit() {
        let quota = Quota::with_shares(3, 1000).unwrap();
        let (platform, granted) = (System::detect(), AtomicU64::new(0));
        thread::scope(|scope| {
            for cpu in 0..3 {
                let (quota, platform, granted) = (&quota, &platform, &granted);
                scope.spawn(move || {
                    while quota.charge(cpu, 1, platform).is_ok() {
                        granted.fetch_add(1, SeqCst);
                    }
                });
            }
        });
        assert_eq!(granted.load(SeqCst), 1000, "the CPUs charged exactly the limit");
        assert_eq!(quota.used(), 1000);
    }

    #[test]
    fn limits_are_capped_below_the_closed_mark() {
        let (quota, platform) = (Quota::with_shares(1, u64::MAX).unwrap(), System::detect());
        assert_eq!(quota.limit(), CLOSED - 1);
        assert_eq!(quota.charge(0, CLOSED - 1, &platform), Ok(()));
        assert_eq!(quota.charge(0, 1, &platform), Err(MapError::QuotaExceeded));
    }

    #[test]
    fn resident_pages_are_summed_over_all_cpus() {
        let account = Account::new(2, None).unwrap();
        account.add_resident(0, 5);
        account.sub_resident(1, 3);
        assert_eq!(account.resident(), 2);
        account.sub_resident(1, 3);
        assert_eq!(account.resident(), 0, "a negative sum reads as zero");
    }
}
