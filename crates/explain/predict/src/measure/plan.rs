//! What to measure.

use knee_host::Topology;

/// What to measure, and how the machine will be called.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    /// The CPUs.
    pub topology: &'a Topology,
    /// Time for all transfers together, in seconds. The rest takes a few seconds.
    pub seconds: f64,
    /// Name of the machine.
    pub name: String,
    /// What the machine is.
    pub title: String,
    /// When and where the figures were measured.
    pub source: String,
}
