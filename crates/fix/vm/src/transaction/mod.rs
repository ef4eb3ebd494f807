//! Operations on locked pages: the loop that every change of a tree goes through.
//!
//! An attempt locks the nodes of its pages, and runs the operation's step if nothing is in the way. Else it ends with
//! what has to happen first, which the driver does without locks before it tries again:
//!
//! ```text
//!   ┌─> lock ── a fork is in progress ─────────> WaitFork ── poll, with a ticket ─────────────┐
//!   │    │ ──── exclusive, others have tickets > WaitTurn ── poll ────────────────────────────┤
//!   │    │ ──── a leaf is being flushed ───────> WaitFlush ─ poll the leaf ───────────────────┤
//!   │    │ ──── unmapped pages linger ─────────> Settle ──── shoot down, free the frames ─────┤
//!   │    v                                                                                    │
//!   │  step ─── it has to allocate ────────────> Need ────── give the fork lock back, refill ─┤
//!   │    │                                                                                    │
//!   │    v                                                                                    │
//!   │  Done                                                                                   │
//!   └─────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Polling CPUs answer the shootdowns of others. That is why all this happens without locks: a CPU that spins on a lock
//! could not answer, and the one that holds it may be waiting for the answer.

pub(crate) mod gather;
mod shootdown;

use knee_sync::shim::is_mutant;

use crate::cpu::{Cpu, PerCpuPool};
use crate::error::OutOfMemory;
use crate::machine::Machine;
use crate::needed::Needed;
use crate::page::Pages;
use crate::transaction::gather::TlbGather;
use crate::tree::Tree;
use crate::tree::fork_lock::{ForkGuard, WaitTicket};
use crate::tree::lock::Locked;
use crate::tree::node::Leaf;
use crate::tree::query::stale_leaf;

impl Tree {
    /// Calls `step` with the pages locked until it has all the memory that it needs, and when no CPU knows what was
    /// there before. A step that returns an error has changed nothing.
    #[inline]
    pub(crate) fn locked<M: Machine, R>(
        &self,
        cpu: &Cpu<'_, M>,
        pages: Pages,
        step: impl FnMut(&Locked<'_>, &mut PerCpuPool) -> Result<R, Needed>,
    ) -> Result<R, OutOfMemory> {
        let transaction = Transaction { tree: self, cpu, pages, mode: Mode::Shared };
        transaction.run(step).map(|(result, _)| result)
    }

    /// The same with all nodes, and nobody else begins to change anything until what is returned is dropped: from
    /// the first attempt on, so that there are few flushes to wait for.
    pub(crate) fn locked_exclusive<M: Machine, R>(
        &self,
        cpu: &Cpu<'_, M>,
        step: impl FnMut(&Locked<'_>, &mut PerCpuPool) -> Result<R, Needed>,
    ) -> Result<(R, ForkGuard<'_>), OutOfMemory> {
        let pages = self.pages();
        let transaction = Transaction { tree: self, cpu, pages, mode: Mode::Exclusive };
        let (result, hold) = transaction.run(step)?;
        let Hold::Guard(guard) = hold else { unreachable!("the attempt was exclusive") };
        Ok((result, guard))
    }
}

/// An operation on some pages of a tree.
struct Transaction<'a, 'c, 'm, M: Machine> {
    tree: &'a Tree,
    cpu: &'c Cpu<'m, M>,
    pages: Pages,
    mode: Mode,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Other operations may run on other pages.
    Shared,
    /// It takes the fork lock, with all nodes locked.
    Exclusive,
}

/// What an operation has of the fork lock between two attempts.
enum Hold<'a> {
    Nothing,
    /// It has waited, and goes before forks that begin later.
    Ticket(#[expect(dead_code, reason = "others see it until it is dropped")] WaitTicket<'a>),
    /// The lock.
    Guard(ForkGuard<'a>),
}

/// What an attempt comes to.
enum Attempt<'a, R> {
    /// Somebody else has the fork lock.
    WaitFork,
    /// Others have waited for an earlier fork, and go first.
    WaitTurn,
    /// CPUs may know what this leaf had before, and somebody waits for them.
    WaitFlush(&'a Leaf),
    /// CPUs may know what was unmapped lazily: this is what to flush and free.
    Settle(TlbGather),
    /// The step has to allocate this.
    Need(Needed),
    Done(R),
}

impl<'a, M: Machine> Transaction<'a, '_, '_, M> {
    /// Does what attempts come to, until one is done.
    #[inline]
    fn run<R>(
        self,
        mut step: impl FnMut(&Locked<'_>, &mut PerCpuPool) -> Result<R, Needed>,
    ) -> Result<(R, Hold<'a>), OutOfMemory> {
        let fork_lock = &self.tree.fork_lock;
        let (mut hold, mut has_refilled) = (Hold::Nothing, false);
        loop {
            let pin = self.cpu.pin();
            match self.attempt(&mut hold, &mut step) {
                Attempt::WaitFork => self.wait_while(|| fork_lock.is_locked()),
                Attempt::WaitTurn => self.wait_while(|| fork_lock.has_waiters()),
                // The pin keeps the leaf, which may be taken out of the tree meanwhile.
                Attempt::WaitFlush(leaf) => self.wait_while(|| leaf.is_flushing()),
                Attempt::Settle(gather) => {
                    drop(pin);
                    // SAFETY: what lingers is of pages that are not mapped.
                    unsafe { gather.finish(self.tree, self.cpu) };
                }
                Attempt::Need(needed) => {
                    drop(pin);
                    self.cpu.defer();
                    // Whoever could free memory may be waiting for the lock. The ticket keeps the place.
                    if let Hold::Guard(guard) = hold {
                        drop(guard);
                        hold = Hold::Ticket(fork_lock.wait_ticket());
                    }
                    self.cpu.refill(needed)?;
                    has_refilled = true;
                }
                Attempt::Done(result) => {
                    drop(pin);
                    self.cpu.defer();
                    if has_refilled {
                        self.cpu.with_pool(|pool| pool.tree.free_rest());
                    }
                    return Ok((result, hold));
                }
            }
        }
    }

    /// Locks the nodes, and calls `step` if nothing is in the way. Under an epoch.
    #[inline]
    fn attempt<R>(
        &self,
        hold: &mut Hold<'a>,
        step: &mut impl FnMut(&Locked<'_>, &mut PerCpuPool) -> Result<R, Needed>,
    ) -> Attempt<'a, R> {
        let Transaction { tree, cpu, pages, mode } = *self;
        let locked = tree.lock_pages(cpu.machine(), pages);
        let stale = stale_leaf::<M>(locked.top, pages);
        let flushing = stale.filter(|leaf| leaf.is_flushing());
        if !matches!(hold, Hold::Guard(_)) {
            let has_waited = matches!(hold, Hold::Ticket(_));
            if tree.fork_lock.is_locked() && !is_mutant!("no_wait_for_fork") {
                if !has_waited {
                    *hold = Hold::Ticket(tree.fork_lock.wait_ticket());
                }
                return Attempt::WaitFork;
            }
            let is_exclusive = mode == Mode::Exclusive;
            if is_exclusive && !has_waited && tree.fork_lock.has_waiters() {
                return Attempt::WaitTurn;
            }
            // Before the flush is over: so no other operation begins one.
            let is_late = flushing.is_some() && is_mutant!("forks_last");
            *hold = match is_exclusive && !is_late {
                true => Hold::Guard(tree.fork_lock.lock()),
                false => Hold::Nothing,
            };
        }
        match (stale, flushing) {
            (_, Some(leaf)) if !is_mutant!("no_wait_for_flush") => Attempt::WaitFlush(leaf),
            (Some(_), None) => {
                let mut gather = TlbGather::of_lingering();
                locked.for_each_leaf(|leaf| gather.settle(tree, cpu.machine(), leaf, pages));
                Attempt::Settle(gather)
            }
            _ => match cpu.with_pool(|pool| step(&locked, pool)) {
                Ok(result) => Attempt::Done(result),
                Err(needed) => Attempt::Need(needed),
            },
        }
    }

    fn wait_while(&self, condition: impl FnMut() -> bool) {
        // SAFETY: a `Cpu` stays on its CPU, and between attempts there are no locks.
        unsafe { self.cpu.machine().wait_while(self.cpu.number(), condition) };
    }
}
