//! The lazy kind of shootdown: who was not interrupted forgets at its next tick.
//!
//! A clock counts ticks of all CPUs. Who has taken entries out of tables reads it: that is the *ticket*. A
//! CPU that ticks counts the clock up and then forgets all that it knows, so a tick of a time after the
//! ticket forgets what the tables had before. When all CPUs have had one nobody knows it any more (LATR,
//! ASPLOS 2018).

use alloc::boxed::Box;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use knee_sync::shim::{AtomicU64, Padded, fence, is_mutant, order};

use crate::error::OutOfMemory;
use crate::machine::cpu_set::CpuSet;
use crate::per_cpu::for_each;

/// When each CPU of a [machine](crate::Machine::ticks) last forgot all that it knew of tables.
#[derive(Debug)]
pub struct Ticks {
    clock: Padded<AtomicU64>,
    /// For each CPU, the time of its last tick; [`AWAY`] while it is not there.
    last: Box<[Padded<AtomicU64>]>,
}

/// A CPU that is not there knows nothing: it is later than any ticket.
const AWAY: u64 = u64::MAX;

impl Ticks {
    /// Those of so many CPUs, none of which is there yet.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(cpus: usize) -> Result<Ticks, OutOfMemory> {
        let last: Box<[Padded<AtomicU64>]> = for_each(cpus)?;
        last.iter().for_each(|last| last.0.store(AWAY, Relaxed));
        Ok(Ticks { clock: Padded::default(), last })
    }

    /// The CPU is there from now on. It knows nothing yet.
    pub fn cpu_online(&self, cpu: usize) {
        // Who reads that we are away has changed tables before we look at them.
        self.last[cpu].0.store(0, Relaxed);
        // No mutant: the fence of the tick orders these two as well.
        fence(SeqCst);
        self.tick(cpu, || ());
    }

    /// The CPU knows nothing, and nobody waits for it until it [comes back](Ticks::cpu_online) again: it is idle, or off.
    pub fn cpu_offline(&self, cpu: usize) {
        // Release: what it did by what it has forgotten comes before.
        self.last[cpu].0.store(AWAY, order!(Release, "ticks_go"));
    }

    /// The CPU forgets all that it knows, which `forget` does: at each interrupt of its timer, and whenever
    /// it flushes all of its TLB anyway. Until then it uses what lazy spaces have unmapped.
    pub fn tick(&self, cpu: usize, forget: impl FnOnce()) {
        if is_mutant!("ticks_late") {
            forget();
            self.last[cpu].0.store(self.clock.0.fetch_add(1, Relaxed) + 1, Release);
            return;
        }
        // What it learns from here on is of tables as they are. Who has changed them before executes a fence
        // as well, and reads the clock: if his ticket is before this time, we see what he has done.
        let time = self.now();
        forget();
        // Release: what it did by what it has forgotten comes before.
        self.last[cpu].0.store(time, order!(Release, "ticks_end"));
    }

    /// The ticket of who has changed tables.
    pub(crate) fn ticket(&self) -> u64 {
        // As said above.
        if !is_mutant!("ticks_ticket_no_fence") {
            fence(SeqCst);
        }
        self.clock.0.load(Relaxed)
    }

    /// A time that is after all tickets of those who have changed tables before.
    pub(crate) fn now(&self) -> u64 {
        let time = self.clock.0.fetch_add(1, Relaxed) + 1;
        if !is_mutant!("ticks_now_no_fence") {
            fence(SeqCst);
        }
        time
    }

    /// Whether all of these CPUs have forgotten what tables had before this ticket was given.
    pub(crate) fn is_over(&self, ticket: u64, on: &CpuSet) -> bool {
        // A CPU that is away may come, and then sees what was done before, or we see it here.
        // No mutant: the fence of the ticket came before as well.
        fence(SeqCst);
        let has_ticked = |cpu: usize| self.last[cpu].0.load(order!(Acquire, "ticks_over")) > ticket;
        match is_mutant!("one_tick_is_enough") {
            true => on.iter().any(has_ticked),
            false => on.iter().all(has_ticked),
        }
    }
}
