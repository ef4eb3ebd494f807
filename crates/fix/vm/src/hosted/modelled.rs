//! Loom models of the mailboxes: `RUSTFLAGS="--cfg loom" cargo test -p knee-vm --release --lib modelled`.
//!
//! Two CPUs share a space of two pages. A model fails if an access through a stale TLB entry races with the
//! new owner of the page, or if a CPU waits forever for an acknowledgement.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use knee_sync::shim::{AtomicU64, Guarded, Model, check_symmetric, thread};

use super::mailbox::{Mailbox, shoot_down};
use super::tlb::Translation;
use crate::machine::Flush;
use crate::machine::cpu_set::CpuSet;
use crate::page::{Frame, Page, Pages, Protection};

/// Loom's preemption bound. The models also pass without a bound, but take five times as long.
const PREEMPTIONS: usize = 5;

const SPACE: u64 = 1;

/// Values of table entries.
const ABSENT: u64 = 0;
const PRESENT: u64 = 1;

struct World {
    mailboxes: [Mailbox; 2],
    active: CpuSet,
    /// One entry per page.
    table: [AtomicU64; 2],
    memory: [Guarded<u64>; 2],
}

// SAFETY: loom runs all its threads on one OS thread.
unsafe impl Send for World {}
// SAFETY: as above. `Guarded` makes loom detect concurrent accesses to the memory.
unsafe impl Sync for World {}

/// One of the two CPUs, on its thread.
struct Processor {
    world: Arc<World>,
    number: usize,
}

impl Processor {
    fn mailbox(&self) -> &Mailbox {
        &self.world.mailboxes[self.number]
    }

    fn come(&self) {
        assert!(self.mailbox().come());
    }

    fn go(&self) {
        // SAFETY: this is the CPU's thread.
        unsafe { self.mailbox().go() };
    }

    fn leave(&self) {
        let leave = || self.world.active.remove(self.number);
        // SAFETY: this is the CPU's thread.
        unsafe { self.mailbox().leave(SPACE, leave) };
    }

    /// Accesses a page, if it is mapped.
    fn access(&self, page: usize) {
        // SAFETY: this is the CPU's thread.
        unsafe { self.mailbox().handle_ipis() };
        // SAFETY: this is the CPU's thread.
        let known = unsafe { self.mailbox().tlb() }.find(SPACE, Page(page as u64));
        if known.is_some() || self.walk(page) {
            self.take(page);
        }
    }

    fn walk(&self, page: usize) -> bool {
        if !self.world.active.contains(self.number) {
            self.world.active.add(self.number);
        }
        let is_there = self.world.table[page].load(Acquire) == PRESENT;
        if is_there {
            // SAFETY: this is the CPU's thread.
            let tlb = unsafe { self.mailbox().tlb() };
            tlb.insert(Translation {
                space: SPACE,
                page: Page(page as u64),
                frame: Frame(0),
                protection: Protection::READ,
                is_global: false,
                generation: 0,
                level: 0,
            });
        }
        is_there
    }

    /// Unmaps the page, shoots it down on both CPUs, and then accesses its memory as the new owner.
    fn unmap(&self, page: usize) {
        self.world.table[page].store(ABSENT, Relaxed);
        let (mailboxes, active) = (&self.world.mailboxes, &self.world.active);
        let pages = Flush::Range(Pages::new(Page(page as u64), 1));
        // SAFETY: this is the CPU's thread.
        unsafe { shoot_down(mailboxes, &Model, self.number, active, SPACE, pages) };
        self.take(page);
    }

    fn take(&self, page: usize) {
        // SAFETY: loom reports a concurrent access.
        self.world.memory[page].with(|word| unsafe { *word += 1 });
    }
}

/// Explores the interleavings of two CPUs, which are online at the start.
fn check(
    one: impl Fn(&Processor) + Sync + Send + Copy + 'static,
    other: impl Fn(&Processor) + Sync + Send + Copy + 'static,
) {
    check_symmetric(PREEMPTIONS, move || {
        let world = Arc::new(World {
            mailboxes: Default::default(),
            active: CpuSet::new(2).unwrap(),
            table: [AtomicU64::new(PRESENT), AtomicU64::new(PRESENT)],
            memory: Default::default(),
        });
        let [first, second] = [0, 1].map(|number| Processor { world: Arc::clone(&world), number });
        first.come();
        second.come();
        let thread = thread::spawn(move || other(&second));
        one(&first);
        thread.join().unwrap();
    });
}

/// The CPU must acknowledge a message that was posted before the CPU left. A requester that read the set
/// before the CPU left, but posts only afterwards, must not wait for the CPU.
#[test]
fn a_shootdown_does_not_wait_for_a_cpu_that_left_the_space() {
    check(
        |one| one.unmap(0),
        |other| {
            other.access(0);
            other.leave();
        },
    );
}

#[test]
fn a_shootdown_waits_for_a_cpu_that_reactivated_the_space() {
    check(
        |one| one.unmap(0),
        |other| {
            other.access(0);
            other.leave();
            other.access(0);
            other.access(0);
            other.go();
        },
    );
}

#[test]
fn an_acknowledged_shootdown_has_flushed_the_tlb() {
    check(
        |one| one.unmap(0),
        |other| {
            other.access(0);
            other.access(0);
            other.go();
        },
    );
}

#[test]
fn a_shootdown_does_not_wait_for_an_offline_cpu() {
    check(
        |one| one.unmap(0),
        |other| {
            other.access(0);
            other.go();
            other.come();
            other.access(0);
            other.go();
        },
    );
}

#[test]
fn concurrent_shootdowns_acknowledge_each_other() {
    check(
        |one| {
            one.access(0);
            one.unmap(1);
            one.go();
        },
        |other| {
            other.access(1);
            other.unmap(0);
            other.go();
        },
    );
}
