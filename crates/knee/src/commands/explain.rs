//! Explain the curve: where the cycles go, what it costs CPUs to communicate, and the curves of other
//! machines.

pub(crate) mod machine;
#[cfg(feature = "prove")]
pub(crate) mod predict;
pub(crate) mod profile;
