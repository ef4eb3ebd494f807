//! Operations on locked pages: the loop that runs every operation that changes a tree, except page faults.
//!
//! An attempt locks the nodes of its pages, and runs the operation's step if nothing is in the way.
//! An attempt that cannot complete unlocks the nodes and returns the reason. The loop then waits, shoots down
//! or allocates, and retries:
//!
//! ```text
//!   ┌─> lock ── a fork is in progress ─────────> WaitFork ── poll, with a ticket ─────────────┐
//!   │    │ ──── exclusive, others have tickets > WaitTurn ── poll ────────────────────────────┤
//!   │    │ ──── a leaf is being flushed ───────> WaitFlush ─ poll the leaf ───────────────────┤
//!   │    │ ──── unmapped pages linger ─────────> Settle ──── shoot down, free the frames ─────┤
//!   │    v                                                                                    │
//!   │  step ─── a page of 1 GiB is in the way ─> Remove ──── shoot down ──────────────────────┤
//!   │    │ ──── another CPU changes the page ──> WaitGiB ─── poll the branch ─────────────────┤
//!   │    │ ──── it needs memory ───────────────> Need ────── drop the fork lock, refill ──────┤
//!   │    │                                                                                    │
//!   │    v                                                                                    │
//!   │  Done                                                                                   │
//!   └─────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! While a CPU polls, it handles the shootdown IPIs of other CPUs, and must hold no node locks: another CPU
//! that spins on a node lock cannot handle IPIs, and the polling CPU may be waiting for that CPU's
//! acknowledgement.

pub(crate) mod gather;
mod shootdown;

use core::sync::atomic::Ordering::Release;

use knee_sync::shim::{is_mutant, order};

use crate::cpu::{Cpu, PerCpuPool};
use crate::error::OutOfMemory;
use crate::machine::format::Format;
use crate::machine::{Flush, Machine};
use crate::needed::Needed;
use crate::page::Pages;
use crate::transaction::gather::TlbGather;
use crate::tree::branch_link::BranchLink;
use crate::tree::fork_lock::{ForkGuard, WaitTicket};
use crate::tree::gigabyte::GIGABYTE;
use crate::tree::lock::Locked;
use crate::tree::node::{Branch, Leaf};
use crate::tree::query::stale_leaf;
use crate::tree::{LargePageGuard, Tree};

impl Tree {
    /// Locks the pages, ensures that no TLB has stale entries for them, and calls `step`. Repeats this until
    /// the step has all the memory it needs. A step that returns an error must not have changed anything.
    /// Pages of 1 GiB stay in place, unless the step [requests](Locked::has_small_pages) their removal.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the memory cannot be allocated.
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

    /// Like [`locked`](Tree::locked), but locks all nodes. No other operation starts to change anything until
    /// the returned guard is dropped. The operation holds the fork lock while it waits for flushes, so no
    /// further flush begins meanwhile.
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

impl Tree {
    /// Makes all CPUs flush a page of 1 GiB whose entry this operation has cleared, and puts the table in its
    /// place.
    #[cold]
    fn remove_gigabyte<M: Machine>(&self, cpu: &Cpu<'_, M>, branch: &Branch) {
        if !is_mutant!("gigabyte_no_flush") {
            self.shoot_down(cpu, Flush::Range(branch.span()));
        }
        let table = M::Format::table(branch.table_frame());
        // Release: a CPU that finds the table sees the zeros in it.
        branch.end_flush(
            cpu.platform(),
            BranchLink::Table,
            table,
            order!(Release, "branch_publish"),
        );
        self.account.sub_resident(cpu.number(), GIGABYTE);
    }
}

/// An operation on a range of pages of a tree.
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
    /// The operation takes the fork lock, with all nodes locked.
    Exclusive,
}

/// An operation's hold on the fork lock between two attempts.
enum Hold<'a> {
    Nothing,
    /// Forks that have no ticket wait for this operation.
    Ticket(#[expect(dead_code, reason = "other CPUs see the ticket")] WaitTicket<'a>),
    /// The operation has the lock.
    Guard(ForkGuard<'a>),
}

/// The outcome of an attempt.
enum Attempt<'a, R> {
    /// Another operation has the fork lock.
    WaitFork,
    /// Other operations have waited for an earlier fork, and go first.
    WaitTurn,
    /// TLBs may have stale entries for this leaf, and another operation is flushing them.
    WaitFlush(&'a Leaf),
    /// The operation has cleared the entry of this page of 1 GiB, which all CPUs must flush.
    Remove(&'a Branch),
    /// Another CPU is making or removing this page of 1 GiB.
    WaitGiB(&'a Branch),
    /// TLBs may have entries of lazily unmapped pages. The gather flushes and frees these pages.
    Settle(TlbGather<'a>),
    /// The step needs this memory.
    Need(Needed),
    Done(R),
}

impl<'a, M: Machine> Transaction<'a, '_, '_, M> {
    /// Attempts the operation until it is done. After each failed attempt, waits, shoots down or allocates,
    /// as the outcome requires.
    #[inline]
    fn run<R>(
        self,
        mut step: impl FnMut(&Locked<'_>, &mut PerCpuPool) -> Result<R, Needed>,
    ) -> Result<(R, Hold<'a>), OutOfMemory> {
        let fork_lock = &self.tree.fork_lock;
        let (mut hold, mut has_refilled) = (Hold::Nothing, false);
        let mut removing = None;
        if is_mutant!("flush_first") {
            self.tree.shoot_down(self.cpu, Flush::Range(self.pages));
        }
        loop {
            let pin = self.cpu.pin();
            match self.attempt(&mut hold, &mut removing, &mut step) {
                Attempt::WaitFork => self.wait_while(|| fork_lock.is_locked()),
                Attempt::WaitTurn => self.wait_while(|| fork_lock.has_waiters()),
                // The pin keeps the leaf valid, even if it is removed from the tree.
                Attempt::WaitFlush(leaf) => self.wait_while(|| leaf.is_flushing()),
                Attempt::WaitGiB(branch) => self.wait_while(|| branch.is_flushing()),
                Attempt::Remove(branch) => self.tree.remove_gigabyte(self.cpu, branch),
                Attempt::Settle(gather) => {
                    drop(pin);
                    // SAFETY: lingering entries belong to unmapped pages, and all of them are
                    // flush-pending.
                    unsafe { gather.finish(self.tree, self.cpu) };
                }
                Attempt::Need(needed) => {
                    drop(pin);
                    self.cpu.defer();
                    // Release the fork lock: an operation that could free memory may be waiting for the lock.
                    // Take a ticket instead, so that forks without a ticket still wait for this operation.
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

    /// Locks the nodes. Calls `step`, unless the operation must first wait or make a change: see [`Attempt`].
    /// The caller must be pinned.
    #[inline]
    fn attempt<R>(
        &self,
        hold: &mut Hold<'a>,
        removing: &mut Option<LargePageGuard<'a>>,
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
            // Take the fork lock even while a leaf is being flushed, so that no other operation begins
            // another flush.
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
                Err(Needed::SmallPages(pages)) => self.begin_removal(&locked, pages, removing),
                Err(needed) => Attempt::Need(needed),
            },
        }
    }

    /// Begins to remove a page of 1 GiB that overlaps `pages`.
    #[cold]
    fn begin_removal<R>(
        &self,
        locked: &Locked<'a>,
        pages: Pages,
        removing: &mut Option<LargePageGuard<'a>>,
    ) -> Attempt<'a, R> {
        let branch = locked.find_gigabyte(pages).expect("the step has found the page");
        if branch.is_flushing() {
            return Attempt::WaitGiB(branch);
        }
        removing.get_or_insert_with(|| self.tree.delay_large_pages());
        branch.begin_flush();
        Attempt::Remove(branch)
    }

    fn wait_while(&self, condition: impl FnMut() -> bool) {
        // SAFETY: a `Cpu` stays on its CPU. No node locks are held between attempts. A CPU that waits
        // for the fork lock handles shootdowns meanwhile.
        unsafe { self.cpu.machine().wait_while(self.cpu.number(), condition) };
    }
}
