//! Every order of what mailboxes do: `RUSTFLAGS="--cfg loom" cargo test -p knee-vm --release --lib modelled`.
//!
//! Two CPUs have a space of two pages. Who goes to a page by its TLB while another, who has had it forgotten,
//! takes it for his own is found by loom; and so is who waits for a CPU that answers no more.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use knee_sync::shim::{AtomicU64, Guarded, Model, check_symmetric, thread};

use super::mailbox::{Mailbox, shoot_down};
use super::tlb::Translation;
use crate::machine::Flush;
use crate::machine::cpu_set::CpuSet;
use crate::page::{Frame, Pages, Protection};

/// Switches that no CPU asks for. Without a limit the models hold as well, in five times the time.
const PREEMPTIONS: usize = 5;

const SPACE: u64 = 1;

/// What entries of the table are.
const ABSENT: u64 = 0;
const PRESENT: u64 = 1;

struct World {
    mailboxes: [Mailbox; 2],
    active: CpuSet,
    /// By page.
    table: [AtomicU64; 2],
    memory: [Guarded<u64>; 2],
}

// SAFETY: loom has one thread.
unsafe impl Send for World {}
// SAFETY: as above; and it sees who has the memory when.
unsafe impl Sync for World {}

/// One of the two, on its thread.
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
        // SAFETY: as above.
        unsafe { self.mailbox().leave(SPACE, leave) };
    }

    /// Goes to a page, if it is there.
    fn access(&self, page: usize) {
        // SAFETY: as above.
        unsafe { self.mailbox().handle_ipis() };
        // SAFETY: as above.
        let known = unsafe { self.mailbox().tlb() }.find(SPACE, page as u64);
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
            // SAFETY: as above.
            let tlb = unsafe { self.mailbox().tlb() };
            tlb.insert(Translation {
                space: SPACE,
                page: page as u64,
                frame: Frame(0),
                protection: Protection::READ,
                is_global: false,
                generation: 0,
            });
        }
        is_there
    }

    /// Has the page forgotten by both, and takes it.
    fn unmap(&self, page: usize) {
        self.world.table[page].store(ABSENT, Relaxed);
        let (mailboxes, active) = (&self.world.mailboxes, &self.world.active);
        let pages = Flush::Range(Pages::new(page as u64, 1));
        // SAFETY: as above.
        unsafe { shoot_down(mailboxes, &Model, self.number, active, SPACE, pages) };
        self.take(page);
    }

    fn take(&self, page: usize) {
        // SAFETY: loom sees whether another does so at the same time.
        self.world.memory[page].with(|word| unsafe { *word += 1 });
    }
}

/// Tries all orders of the two, who are there when they begin.
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

/// It answers nobody any more: neither who has posted a message before, nor who has looked before.
#[test]
fn nobody_waits_for_who_has_left_the_space() {
    check(
        |one| one.unmap(0),
        |other| {
            other.access(0);
            other.leave();
        },
    );
}

#[test]
fn who_comes_back_to_the_space_is_waited_for() {
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
fn who_is_asked_has_forgotten_when_he_answers() {
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
fn nobody_waits_for_who_rests() {
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
fn two_who_wait_for_each_other_both_answer() {
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
