//! Prove what can scale: from a model of an interface, on real kernels and libraries.

pub(crate) mod commute;
pub(crate) mod kernel;
pub(crate) mod qemu;
