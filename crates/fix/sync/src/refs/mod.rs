//! Reference counts that scale: threads that take and drop references do not contend for a cache line.
//!
//! | | cost of a reference | when the count is known to be zero | memory |
//! | --- | --- | --- | --- |
//! | `Arc` | an atomic add on a shared line | immediately | 16 bytes |
//! | [`PerCpuRef`] | two plain stores | after the owner has killed the count | 128 bytes for each thread |
//! | [`Snzi`] | two atomic exchanges on a line that few threads share; an arrival at an unused leaf also updates the path to the root | at any time, one load | 128 bytes for each leaf |
//! | [`refcache`] | two plain stores | a few ticks later | 48 bytes for each object, and 4 KiB for each thread |
//!
//! - For objects that their owner shuts down (a service, a device, a mount): [`PerCpuRef`].
//! - For many hot objects that live until their last reference is dropped (pages, cache entries, nodes of a
//!   tree): [`refcache`].
//! - For a count that is only compared with zero: [`Snzi`].

mod percpu;
pub mod refcache;
#[cfg(all(test, shuttle))]
mod scheduled;
mod snzi;

pub use percpu::PerCpuRef;
pub use snzi::{Arrival, Snzi};
