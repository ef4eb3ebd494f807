//! The interface of all samplers.

use super::access::SampleError;
use super::options::Options;
use super::target::Target;
use crate::capture::Work;

/// A prepared recording. Dropping it ends the recording.
pub trait Watch: Sized {
    /// The result.
    type Taken;

    /// Prepares a recording, which [`Watch::enable`] starts. [`Target::Exec`] starts it by itself.
    ///
    /// # Errors
    /// A permission or feature is missing; the error states how to get it.
    fn open(target: &Target, options: &Options) -> Result<Self, SampleError>;

    /// Starts or resumes recording.
    ///
    /// # Errors
    /// The kernel refuses.
    fn enable(&mut self) -> Result<(), SampleError>;

    /// Pauses recording.
    ///
    /// # Errors
    /// The kernel refuses.
    fn disable(&mut self) -> Result<(), SampleError>;

    /// Records so far, up to some tenths of a second ago.
    fn seen(&self) -> u64;

    /// How many processes of the target were running when the recording was prepared. 0 for the whole system.
    fn running(&self) -> usize;

    /// Whether the names of kernel functions are known.
    fn knows_kernel_names(&self) -> bool;

    /// Ends the recording and resolves the names of functions.
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
