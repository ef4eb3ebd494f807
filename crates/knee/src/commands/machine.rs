//! This machine, and knee on it.

pub(crate) mod doctor;
pub(crate) mod generate;
pub(crate) mod topology;
