//! The older designs that knee-sync and knee-vm are measured against. The effect of each improvement can be
//! measured separately.
//!
//! | | |
//! | --- | --- |
//! | [`classic`] | address spaces as in FreeBSD, DragonFly BSD and Linux |
//! | [`AddressSpace`] | the operations of all these designs and of [`knee_vm::Space`] |
//! | [`invalidation`] | delayed invalidation as in FreeBSD in 2016, 2018 and 2019 |
//! | [`conn_table`] | FreeBSD's lookup of connections, under a read lock and under an epoch |
//!
//! This crate is not published. The testcases of `knee run` and the benchmarks of `peers` use it.

#[cfg(not(any(loom, shuttle)))]
mod address_space;
#[cfg(not(any(loom, shuttle)))]
pub mod classic;
#[cfg(not(any(loom, shuttle)))]
pub mod conn_table;
pub mod invalidation;

mod primitive;

#[cfg(not(any(loom, shuttle)))]
pub use address_space::AddressSpace;
