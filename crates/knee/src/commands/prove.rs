//! Prove what can scale: with a model of an interface, and on real kernels and libraries.

pub(crate) mod commute;
pub(crate) mod kernel;
pub(crate) mod qemu;
