//! This machine, knee on it, and jobs on others.

pub(crate) mod doctor;
pub(crate) mod generate;
pub(crate) mod jobs;
pub(crate) mod topology;
