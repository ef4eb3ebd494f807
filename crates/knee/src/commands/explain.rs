//! Explain the curve: where the cycles go.

pub(crate) mod profile;
