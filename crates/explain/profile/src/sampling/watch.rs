//! What samplers of all kinds can do.

use super::access::SampleError;
use crate::capture::Work;

/// A sampler that is ready. Dropping it ends it.
pub trait Watch: Sized {
    /// What it takes.
    type Taken;

    /// Begins.
    ///
    /// # Errors
    /// The kernel refuses.
    fn enable(&mut self) -> Result<(), SampleError>;

    /// Ceases.
    ///
    /// # Errors
    /// The kernel refuses.
    fn disable(&mut self) -> Result<(), SampleError>;

    /// Records that have been taken so far, some tenths of a second late.
    fn seen(&self) -> u64;

    /// Whether functions of the kernel have names for us.
    fn knows_kernel_names(&self) -> bool;

    /// Ends it, and gives names to what was seen.
    ///
    /// # Errors
    /// The kernel refuses to stop.
    fn finish(
        self,
        title: impl Into<String>,
        started_at: impl Into<String>,
        work: Option<Work>,
    ) -> Result<Self::Taken, SampleError>;
}
