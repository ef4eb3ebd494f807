//! The events that can be counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// An event to count. The names are those of perf(1), except `llc-misses`, which perf calls LLC-load-misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, Display, EnumString, IntoStaticStr, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Counter {
    /// Cycles of the processor.
    Cycles,
    /// Instructions that were executed.
    Instructions,
    /// Reads that missed the last-level cache.
    LlcMisses,
    /// Cache misses as the processor's maker defines them: of the last level on Intel, and of the
    /// second level on AMD.
    CacheMisses,
    /// Branches that the processor predicted wrongly.
    BranchMisses,
    /// Switches from one of the threads to another thread.
    ContextSwitches,
    /// Moves of a thread to another CPU.
    CpuMigrations,
    /// Page faults.
    PageFaults,
    /// Nanoseconds of CPU time.
    TaskClock,
}

impl Counter {
    /// All counters, those of the processor first.
    pub const ALL: &[Counter] = Counter::VARIANTS;

    /// Its name on the command line, in records and on pages: `context-switches`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
