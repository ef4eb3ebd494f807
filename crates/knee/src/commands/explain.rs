//! Explain the curve: where the cycles go, and what it costs CPUs to communicate.

pub(crate) mod machine;
pub(crate) mod profile;
