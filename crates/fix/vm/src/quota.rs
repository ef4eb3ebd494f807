//! Accounting: how many pages may be mapped, and how many are there.
//!
//! One counter for all would be the line that all CPUs write at every map and unmap: on FreeBSD the
//! reservation of swap was the next bottleneck after delayed invalidation, and per-CPU quotas the remedy
//! (Macy, 2018). So what is free of a limit is in *shares*, one for each CPU, and in a *rest*. A CPU
//! charges its own share and gives back to it, by one atomic in a line of its own.
//!
//! Only when its share does not do, it locks the rest and takes from that, with something on top so that
//! it seldom comes again. When the rest does not do either, it *closes* all shares and puts what they
//! had into the rest. While they are closed everybody else has to come to the lock. So what is free is in
//! one hand at that moment, and less than asked for if the charge fails: no sum over shares that change
//! meanwhile could tell.
//!
//! Orderings: the shares are numbers, by which nobody finds anything else. That a closed share stays as
//! it was follows from the order of changes to one atomic. The rest is changed under the lock.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use knee_sync::Platform;
use knee_sync::shim::{AtomicBool, AtomicU64, Padded, order, test_and_set};

use crate::error::{MapError, OutOfMemory};
use crate::machine::Machine;
use crate::per_cpu;

/// A closed share, which is not to be changed: there is no limit as high.
const CLOSED: u64 = 1 << 63;

/// How many pages the spaces of a group may have mapped, all together: a strict limit.
///
/// All mapped pages count, whatever their protection and whether they are present: each of them may have
/// to have a frame some day. A space belongs to a group [from its beginning](crate::Space::with_quota).
///
/// ```
/// use std::sync::Arc;
///
/// use knee_vm::hosted::Hosted;
/// use knee_vm::{MapError, Pages, Protection, Quota, Space};
///
/// let machine = Hosted::new(1024, 2);
/// let cpu = machine.cpu(0);
/// let quota = Arc::new(Quota::new(&machine, 100)?);
/// let one = Space::with_quota(&cpu, Arc::clone(&quota))?;
/// let other = Space::with_quota(&cpu, Arc::clone(&quota))?;
///
/// one.map(&cpu, Pages::new(16, 60), Protection::READ)?;
/// let too_many = Pages::new(16, 41);
/// assert_eq!(other.map(&cpu, too_many, Protection::READ), Err(MapError::QuotaExceeded));
/// one.unmap(&cpu, Pages::new(16, 1))?;
/// other.map(&cpu, too_many, Protection::READ)?;
/// assert_eq!(quota.used(), 100);
/// # Ok::<(), MapError>(())
/// ```
#[derive(Debug)]
pub struct Quota {
    limit: u64,
    /// What is free and was granted to a CPU. Anybody may change any.
    shares: Box<[Padded<AtomicU64>]>,
    rest: Padded<Rest>,
}

/// What is free and in no share.
#[derive(Debug, Default)]
struct Rest {
    locked: AtomicBool,
    /// Changed under the lock.
    pages: AtomicU64,
}

/// The rest, locked.
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
    /// A limit of so many pages, of which none is used. No limit is above 2⁶³ - 1 pages.
    ///
    /// # Errors
    /// There is no memory for shares of the machine's CPUs.
    pub fn new<M: Machine>(machine: &M, limit: u64) -> Result<Quota, OutOfMemory> {
        Quota::with_shares(machine.cpus(), limit)
    }

    pub(crate) fn with_shares(cpus: usize, limit: u64) -> Result<Quota, OutOfMemory> {
        let limit = limit.min(CLOSED - 1);
        let rest = Rest { locked: AtomicBool::new(false), pages: AtomicU64::new(limit) };
        Ok(Quota { limit, shares: per_cpu::for_each(cpus)?, rest: Padded(rest) })
    }

    /// The limit.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How many pages are used. Exact if nobody maps or unmaps meanwhile.
    pub fn used(&self) -> u64 {
        let shares = self.shares.iter().map(|share| share.0.load(Relaxed) & !CLOSED);
        // Pages that move while we look may be seen twice, or not at all.
        let free = shares.fold(self.rest.0.pages.load(Relaxed), u64::saturating_add);
        self.limit.saturating_sub(free)
    }

    /// CPUs that it has shares for.
    pub(crate) fn cpus(&self) -> usize {
        self.shares.len()
    }

    /// Takes pages for CPU `cpu`, beside those that spaces take: for what else the group uses. The platform is
    /// what the CPU waits on if it comes to the limit.
    ///
    /// # Errors
    /// [`MapError::QuotaExceeded`] if fewer were free at some moment. Nothing is taken then.
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
        // On top, as much as leaves the same to others if all come. At the limit it is nothing: to take it
        // from others again would cost more than to come again.
        let grant = left.map_or(0, |left| left / (2 * self.shares.len() as u64));
        rest.set(left.map_or(rest.pages(), |left| left - grant));
        if closes {
            self.shares.iter().for_each(|share| share.0.store(0, Relaxed));
        }
        self.shares[cpu].0.fetch_add(grant, Relaxed);
        if left.is_some() { Ok(()) } else { Err(MapError::QuotaExceeded) }
    }

    /// Gives back pages that any CPU has [taken](Quota::charge), to CPU `cpu`.
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

    /// Gives back pages that any CPU has [taken](Quota::charge), for any CPU to take.
    #[cold]
    pub fn give_back_to_rest(&self, pages: u64, platform: &impl Platform) {
        let rest = Locked::new(&self.rest.0, platform);
        rest.set(rest.pages() + pages);
    }
}

/// Pages that were charged, and that are given back unless they come to be [used](Charge::keep).
#[derive(Debug)]
pub(crate) struct Charge<'a, P: Platform> {
    account: &'a Account,
    cpu: usize,
    pages: u64,
    platform: &'a P,
}

impl<P: Platform> Charge<'_, P> {
    /// The pages are mapped.
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

/// What is counted of a space.
#[derive(Debug)]
pub(crate) struct Account {
    quota: Option<Arc<Quota>>,
    /// Pages that came on a CPU without those that went there, modulo 2⁶⁴: each changes only its own.
    resident: Box<[Padded<AtomicU64>]>,
}

impl Account {
    pub(crate) fn new(cpus: usize, quota: Option<Arc<Quota>>) -> Result<Account, OutOfMemory> {
        Ok(Account { quota, resident: per_cpu::for_each(cpus)? })
    }

    /// Takes pages from the quota, if there is one.
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

    /// The quota.
    pub(crate) fn quota(&self) -> Option<&Arc<Quota>> {
        self.quota.as_ref()
    }

    /// So many pages have become present, on the calling CPU.
    #[inline]
    pub(crate) fn add_resident(&self, cpu: usize, pages: u64) {
        let count = &self.resident[cpu].0;
        count.store(count.load(Relaxed).wrapping_add(pages), Relaxed);
    }

    /// So many are not any more, on the calling CPU.
    #[inline]
    pub(crate) fn sub_resident(&self, cpu: usize, pages: u64) {
        self.add_resident(cpu, pages.wrapping_neg());
    }

    /// How many are present; exact if nobody changes that meanwhile.
    pub(crate) fn resident(&self) -> u64 {
        let counts = self.resident.iter().map(|count| count.0.load(Relaxed));
        let sum = counts.fold(0, u64::wrapping_add);
        // Who looks meanwhile may see a page go that it has not seen come.
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
        fn it_is_one_counter_to_who_is_alone(
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

    /// Each thread has at most `MOST` pages, and the limit is just enough for that: whatever others do,
    /// `MOST` minus what one has are free at any moment.
    #[test]
    fn nobody_is_refused_what_is_free_at_all_times_and_the_limit_holds() {
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
                        // Not the CPU that has charged them, as with memory that is passed on.
                        let (cpu, pages) = ((random >> 8) % THREADS, (random >> 32) % MOST + 1);
                        let give = mine.min(pages);
                        used.fetch_sub(give, SeqCst);
                        quota.give_back(cpu as usize, give, platform);
                        mine -= give;
                        let pages = pages.min(MOST - mine);
                        let charged = quota.charge((random >> 16 & 3) as usize, pages, platform);
                        assert_eq!(charged, Ok(()), "{pages} were free");
                        mine += pages;
                        let all = used.fetch_add(pages, SeqCst) + pages;
                        assert!(all <= THREADS * MOST, "{all} pages");
                    }
                    used.fetch_sub(mine, SeqCst);
                    quota.give_back(thread as usize, mine, platform);
                });
            }
        });
        assert_eq!(quota.used(), 0);
    }

    #[test]
    fn more_than_is_asked_for_at_the_limit_is_refused_to_all() {
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
        assert_eq!(granted.load(SeqCst), 1000, "all of it was granted, and no more");
        assert_eq!(quota.used(), 1000);
    }

    #[test]
    fn there_is_a_highest_limit() {
        let (quota, platform) = (Quota::with_shares(1, u64::MAX).unwrap(), System::detect());
        assert_eq!(quota.limit(), CLOSED - 1);
        assert_eq!(quota.charge(0, CLOSED - 1, &platform), Ok(()));
        assert_eq!(quota.charge(0, 1, &platform), Err(MapError::QuotaExceeded));
    }

    #[test]
    fn what_is_resident_is_the_sum_of_what_came_and_went_on_any_cpu() {
        let account = Account::new(2, None).unwrap();
        account.add_resident(0, 5);
        account.sub_resident(1, 3);
        assert_eq!(account.resident(), 2);
        account.sub_resident(1, 3);
        assert_eq!(account.resident(), 0, "one has gone that is not seen to have come");
    }
}
