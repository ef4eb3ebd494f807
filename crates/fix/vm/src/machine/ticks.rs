//! Lazy shootdown: CPUs flush at their next tick instead of being interrupted.
//!
//! A clock counts the ticks of all CPUs. An unmapper clears entries and then reads the clock: the time that
//! it reads is its *ticket*. A ticking CPU advances the clock and then flushes its whole TLB, so a tick
//! flushes the cleared entries if its time is after the ticket. Once every CPU has ticked after the ticket,
//! no TLB holds the cleared entries (LATR, ASPLOS 2018).

use alloc::boxed::Box;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use knee_sync::shim::{AtomicU64, Padded, fence, is_mutant, order};

use crate::error::OutOfMemory;
use crate::machine::cpu_set::CpuSet;
use crate::per_cpu::for_each;

/// When each CPU of a [machine](crate::LazyMachine) last flushed its whole TLB.
#[derive(Debug)]
pub struct Ticks {
    clock: Padded<AtomicU64>,
    /// The time of each CPU's last tick, or [`AWAY`] while the CPU is offline.
    last: Box<[Padded<AtomicU64>]>,
}

/// The time stored for an offline CPU: later than any ticket. The CPU caches nothing, so nobody needs to wait
/// for it.
const AWAY: u64 = u64::MAX;

impl Ticks {
    /// Creates the record of `cpus` CPUs, all of which are offline.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the record cannot be allocated.
    pub fn new(cpus: usize) -> Result<Ticks, OutOfMemory> {
        let last: Box<[Padded<AtomicU64>]> = for_each(cpus)?;
        last.iter().for_each(|last| last.0.store(AWAY, Relaxed));
        Ok(Ticks { clock: Padded::default(), last })
    }

    /// Brings `cpu` online. Call this method before the CPU caches any translation.
    pub fn cpu_online(&self, cpu: usize) {
        // If an unmapper still reads `AWAY`, this CPU observes the table change of that unmapper: the fence
        // in `now` comes between this store and the CPU's first walk.
        self.last[cpu].0.store(0, Relaxed);
        self.tick(cpu, || ());
    }

    /// Takes `cpu` offline. Call this method before the CPU idles or stops. Until the CPU is
    /// [online](Ticks::cpu_online) again, lazy spaces do not wait for its ticks.
    ///
    /// Before the call, the CPU must load a root table that only the kernel uses, and then flush its whole
    /// TLB. Until it is online again, the CPU must cache no translation. An offline CPU still receives
    /// shootdowns: as long as the CPU is [active](crate::Space::active_cpus) in a space, it must acknowledge
    /// them. To spare the CPU these shootdowns, [deactivate](crate::Space::deactivate) the space before the
    /// call. `GUIDE.md` in the package has all steps in order.
    pub fn cpu_offline(&self, cpu: usize) {
        // Release: the CPU's accesses through flushed entries happen before this store.
        self.last[cpu].0.store(AWAY, order!(Release, "ticks_go"));
    }

    /// Records a tick of `cpu`. `flush` must flush the CPU's whole TLB. Call `tick` from each timer
    /// interrupt, and whenever the CPU flushes its whole TLB anyway. Until the next tick, the CPU may use
    /// pages that lazy spaces have unmapped.
    pub fn tick(&self, cpu: usize, flush: impl FnOnce()) {
        if is_mutant!("ticks_late") {
            flush();
            self.last[cpu].0.store(self.clock.0.fetch_add(1, Relaxed) + 1, Release);
            return;
        }
        // An unmapper executes a fence between its change to a table and its read of the clock, and `now`
        // executes one after it advances the clock. So if the unmapper's ticket is earlier than `time`, every
        // translation that this CPU caches from here on reflects the change.
        let time = self.now();
        flush();
        // Release: the CPU's accesses through flushed entries happen before this store.
        self.last[cpu].0.store(time, order!(Release, "ticks_end"));
    }

    /// Returns whether `cpu` is online.
    pub(crate) fn is_online(&self, cpu: usize) -> bool {
        self.last[cpu].0.load(Relaxed) != AWAY
    }

    /// Returns a ticket for table changes that the caller has made.
    pub(crate) fn ticket(&self) -> u64 {
        // Pairs with the fence in `now`, as `tick` explains.
        if !is_mutant!("ticks_ticket_no_fence") {
            fence(SeqCst);
        }
        self.clock.0.load(Relaxed)
    }

    /// Advances the clock and returns the new time. After the call, the caller observes every table change
    /// whose ticket is earlier than the returned time.
    pub(crate) fn now(&self) -> u64 {
        let time = self.clock.0.fetch_add(1, Relaxed) + 1;
        if !is_mutant!("ticks_now_no_fence") {
            fence(SeqCst);
        }
        time
    }

    /// Returns whether all CPUs in `on` have flushed the entries that were cleared before `ticket`.
    pub(crate) fn is_over(&self, ticket: u64, on: &CpuSet) -> bool {
        // A CPU may come online during this call. The fence of `ticket` happens before this call, and that
        // CPU executes the fence of `now` after its store in `cpu_online`. So either that CPU observes the
        // table change, or this load sees that the CPU is online.
        let has_ticked = |cpu: usize| self.last[cpu].0.load(order!(Acquire, "ticks_over")) > ticket;
        match is_mutant!("one_tick_is_enough") {
            true => on.iter().any(has_ticked),
            false => on.iter().all(has_ticked),
        }
    }
}
