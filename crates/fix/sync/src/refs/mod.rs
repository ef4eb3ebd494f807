//! Counts of references that threads share and do not fight over.
//!
//! | | a reference costs | "is it zero?" | memory |
//! | --- | --- | --- | --- |
//! | `Arc` | an atomic add on a shared line | at once | 16 bytes |
//! | [`PerCpuRef`] | two plain stores | after somebody has said that it is to end | 128 bytes for each thread |
//! | [`Snzi`] | two atomic exchanges on a line that few share; if nobody is there, the way to the root | at any time, one load | 128 bytes for each leaf |
//! | [`refcache`] | two plain stores | a few ticks later | some words, and 4 KiB for each thread |
//!
//! - For objects that somebody ends (a service, a device, a mount): [`PerCpuRef`].
//! - For objects that end when the last reference goes, and that are many and hot (pages, entries of
//!   caches, nodes of a tree): [`refcache`].
//! - To ask "is anybody there?" and never how many: [`Snzi`].

mod percpu;
pub mod refcache;
#[cfg(all(test, shuttle))]
mod scheduled;
mod snzi;

pub use percpu::PerCpuRef;
pub use snzi::{Arrival, Snzi};
