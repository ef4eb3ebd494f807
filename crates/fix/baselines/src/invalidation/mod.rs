//! The variants of delayed invalidation that FreeBSD has used, and the variant in
//! [`knee_sync::invalidation`]. That module explains what delayed invalidation is for. In each variant, a
//! waiter waits for the sections that marked the page.
//!
//! | | cost of begin and finish | a waiter also waits for | cost of a wait |
//! |---|---|---|---|
//! | [`Slots`] | three stores to the thread's own line | sections that marked another page whose stamp has the same bit (one of 64) | a scan of all threads, if the page was ever marked |
//! | [`Locked`] | each takes a mutex | older sections | a load |
//! | [`LockFree`] | each walks the active sections and executes a 128-bit compare-exchange | older sections | a load |
//! | [`Epoch`] | two stores to the thread's own line | all other sections | a heavy fence and a scan of all threads |
//!
//! The rules of [`knee_sync::invalidation`] apply to each variant.
//!
//! # Source
//! FreeBSD, `sys/amd64/amd64/pmap.c`: `pmap_delayed_invl_*`, K. Belousov 2016 (here [`Locked`]) and revision
//! 347695 of 2019 (here [`LockFree`]); M. Macy's experiment of 2018 with epochs (here [`Epoch`]), which is
//! still used in `sys/powerpc/aim/mmu_radix.c`.

mod epoch;
mod form;
mod lock_free;
mod locked;
mod slots;
mod tracker;

#[cfg(all(test, loom))]
mod modelled;
#[cfg(all(test, shuttle))]
mod scheduled;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use epoch::{Epoch, EpochPlace};
pub use form::{Invalidation, Stamp};
pub use lock_free::{Link, LockFree};
pub use locked::{Locked, LockedPlace};
pub use slots::Slots;
pub use tracker::{Member, Section, Tracker};
