//! How to sample.

/// Samples per second and CPU unless the user says otherwise. No divisor of what programs do by the
/// clock, as Brendan Gregg has it.
pub const FREQUENCY: u64 = 997;

/// What makes a sample due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Every {
    /// Cycles where the machine counts them, else the CPU's clock.
    #[default]
    Best,
    /// Cycles of the CPU.
    Cycles,
    /// A timer that runs while the CPU does (`cpu-clock`).
    CpuClock,
    /// A timer that runs while a thread has no CPU: it sleeps, or waits for one.
    OffCpu,
}

/// How to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What makes a sample due.
    pub every: Every,
    /// Samples per second and CPU.
    pub frequency: u64,
    /// A thread whose samples are left out, such as one that watches the others.
    pub without: Option<i32>,
    /// Whether what is sampled maps no code and starts no programs once sampling is enabled. What is
    /// mapped is read then, and not followed, for which each `mmap` pays a twentieth of its time.
    pub fixed_code: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { every: Every::Best, frequency: FREQUENCY, without: None, fixed_code: false }
    }
}
