//! Explain it: where the cycles go.

pub(crate) mod profile;
