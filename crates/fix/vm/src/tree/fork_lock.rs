//! Who copies a space has it for himself, without its locks, until CPUs have forgotten how to write.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use knee_sync::shim::{AtomicBool, AtomicU64, is_mutant, order};

/// Whether somebody copies a space, or is about to.
#[derive(Debug)]
pub(crate) struct Forking {
    /// Set with all nodes locked.
    is_on: AtomicBool,
    /// How many have waited for the end of that, and have not gone on yet.
    turns: AtomicU64,
}

impl Forking {
    pub(crate) fn new() -> Forking {
        Forking { is_on: AtomicBool::new(false), turns: AtomicU64::new(0) }
    }

    /// Whether somebody is [`Alone`] with the space, and CPUs may still write to pages that the copy has. Others
    /// wait: what they did now would not be in the copy, and what they wrote next might. Under a lock of
    /// the space it is seen if it began before. Acquire: it is over everywhere then.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(order!(Acquire, "forking_load"))
    }

    /// Has the space for the caller alone. With all nodes locked, and nobody else has.
    pub(crate) fn begin(&self) -> Alone<'_> {
        // No mutant: the locks of all nodes publish it as well.
        self.is_on.store(true, Release);
        Alone(self)
    }

    /// Who has waited goes first: no other copy begins as long as the result is there. It is until he has the
    /// locks that he wants, and found nobody alone.
    pub(crate) fn turn(&self) -> Turn<'_> {
        self.turns.fetch_add(1, Relaxed);
        Turn(self)
    }

    /// Whether others have their [turn](Forking::turn).
    pub(crate) fn is_others_turn(&self) -> bool {
        self.turns.load(Relaxed) > 0 && !is_mutant!("forks_first")
    }
}

/// Nobody but who has this begins to change the space, or what is present in it.
pub(crate) struct Alone<'a>(&'a Forking);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.is_on.store(false, order!(Release, "forking_end"));
    }
}

/// See [`Forking::turn`].
pub(crate) struct Turn<'a>(&'a Forking);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.turns.fetch_sub(1, Relaxed);
    }
}
