//! How to sample.

/// Default samples per second and CPU: a prime, so that samples do not stay in step with periodic work of the
/// program (after Brendan Gregg).
pub const FREQUENCY: u64 = 997;

/// What triggers a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Every {
    /// Cycles if the machine counts them, otherwise the CPU clock.
    #[default]
    Best,
    /// Cycles of the CPU.
    Cycles,
    /// A timer that runs while the CPU runs (`cpu-clock`).
    CpuClock,
    /// A timer that runs while a thread is off-CPU: it sleeps, or waits for a CPU.
    OffCpu,
}

/// How to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What triggers a sample.
    pub every: Every,
    /// Samples per second and CPU.
    pub frequency: u64,
    /// A thread whose samples are left out, such as the one that controls the tasks.
    pub without: Option<i32>,
    /// Whether the target maps no code and starts no programs while sampling is enabled. knee then reads the
    /// mappings once, because following them costs each `mmap` a twentieth of its time.
    pub fixed_code: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { every: Every::Best, frequency: FREQUENCY, without: None, fixed_code: false }
    }
}
