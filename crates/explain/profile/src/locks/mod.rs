//! Waits for kernel locks: lock type, call site, count and duration.
//!
//! The kernel records when a thread begins and ends a wait for a lock (`lock:contention_begin` and
//! `lock:contention_end`, Linux 5.19). Waits are not sampled: all are recorded, and lost records are counted.
//! Taking a free lock causes no record and no cost.
//!
//! A wait includes the time to record its stack, some microseconds. Waits for spin locks that are held for
//! less than that appear longer than without recording. Compare durations only between recordings.
//!
//! The file is JSON (`schemas/lock-waits.schema.json`).

mod contention;
mod kinds;
mod machinery;
mod table;

use std::collections::BTreeMap;

use knee_host::deserialize_flattened;
use knee_host::json::{has_fields, with_one_line_strings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use contention::{Contention, Thread};
pub use table::table;

use crate::capture::{Machine, Work, other_schema};
use crate::kernel_symbols::KernelSymbols;

/// The version of the file format that this knee writes.
pub const SCHEMA: u32 = 1;

/// Lock waits, by lock and call site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LockWaits {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The target: a testcase, a command line, or a process.
    pub title: String,
    /// Where and when.
    pub machine: Machine,
    /// Duration of the recording, in seconds.
    pub seconds: f64,
    /// Its work meanwhile; `None` if the target does not count iterations.
    pub work: Option<Work>,
    /// What is missing.
    pub losses: WaitLosses,
    /// Call sites ordered by waiting time, the longest first.
    pub sites: Vec<Site>,
}

/// The lock waits that are known to be missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitLosses {
    /// Records lost because the buffer was full. A wait has two records.
    pub lost: u64,
    /// Waits that are left out because their begin or end is unknown: they began before the
    /// recording, or a record was lost.
    pub unmatched: u64,
    /// Records that could not be read.
    pub unreadable: u64,
}

/// Statistics of lock waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waits {
    /// Completed waits: acquisitions of locks that were not free. A wait that a signal ended counts
    /// as well.
    pub acquisitions: u64,
    /// Total duration, in nanoseconds.
    pub total_ns: u64,
    /// Duration of the longest wait, in nanoseconds.
    pub longest_ns: u64,
    /// Waits that had not ended when the recording did. The other numbers do not include them.
    pub still_waiting: u64,
}

/// Where threads waited for a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Site {
    /// The kind of lock, as `perf lock contention` writes it: `spinlock`, `mutex`, `rwsem:R` and `rwsem:W`
    /// for readers and writers, and so on.
    pub lock: String,
    /// The waiting function: the first one outside the lock's own implementation.
    pub function: String,
    /// Its waits.
    #[serde(flatten)]
    pub waits: Waits,
    /// Call paths to the function, ordered by waiting time, the longest first.
    pub stacks: Vec<WaitStack>,
}

deserialize_flattened!(Site {
    lock: String,
    function: String,
    stacks: Vec<WaitStack>,
    ..waits: Waits {
        acquisitions: u64,
        total_ns: u64,
        longest_ns: u64,
        still_waiting: u64,
    },
});

/// A call path on which threads waited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WaitStack {
    /// Kernel functions, from the innermost to the outermost, including the lock's own.
    pub functions: Vec<String>,
    /// Its waits.
    #[serde(flatten)]
    pub waits: Waits,
}

deserialize_flattened!(WaitStack {
    functions: Vec<String>,
    ..waits: Waits {
        acquisitions: u64,
        total_ns: u64,
        longest_ns: u64,
        still_waiting: u64,
    },
});

impl Waits {
    /// Adds a completed wait of this duration.
    fn add(&mut self, nanoseconds: u64) {
        self.acquisitions += 1;
        self.total_ns = self.total_ns.saturating_add(nanoseconds);
        self.longest_ns = self.longest_ns.max(nanoseconds);
    }

    fn join(&mut self, other: &Waits) {
        self.acquisitions = self.acquisitions.saturating_add(other.acquisitions);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.still_waiting = self.still_waiting.saturating_add(other.still_waiting);
    }

    /// Mean duration in nanoseconds; 0 without waits.
    pub fn mean_ns(&self) -> f64 {
        self.total_ns as f64 / self.acquisitions.max(1) as f64
    }
}

impl LockWaits {
    /// Reads the text of a file of lock waits.
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub fn parse(text: &[u8]) -> Result<LockWaits, String> {
        let waits = serde_json::from_slice(&with_one_line_strings(text));
        let waits: LockWaits = waits.map_err(|error| {
            format!("this is not a lock-wait file of knee profile --locks: {error}")
        })?;
        match waits.schema == SCHEMA {
            true => Ok(waits),
            false => Err(other_schema(waits.schema.into(), SCHEMA)),
        }
    }

    /// Whether a text contains lock waits of any schema.
    pub fn is(text: &[u8]) -> bool {
        has_fields(text, &["sites", "losses"])
    }

    /// Waiting time per iteration, in nanoseconds; `None` if the target does not count iterations.
    pub fn ns_per_iteration(&self, waits: &Waits) -> Option<f64> {
        let work = self.work.as_ref().filter(|work| work.iterations > 0)?;
        Some(waits.total_ns as f64 / work.iterations as f64)
    }

    /// Waits of all sites.
    pub fn all(&self) -> Waits {
        let mut all = Waits::default();
        self.sites.iter().for_each(|site| all.join(&site.waits));
        all
    }
}

impl WaitStack {
    /// The index of the waiting function.
    fn site(&self) -> usize {
        machinery::site(self.functions.iter().map(String::as_str))
    }

    /// The callers of the waiting function: its caller, the caller's caller, and so on.
    pub fn callers(&self) -> &[String] {
        self.functions.get(self.site() + 1..).unwrap_or_default()
    }
}

/// Lock waits by call site, from the flags and addresses of each stack and its waits.
pub(crate) fn sites<'a>(
    stacks: impl IntoIterator<Item = (&'a [u64], &'a Waits)>,
    kernel: &KernelSymbols,
) -> Vec<Site> {
    let mut by_names: BTreeMap<(String, Vec<String>), Waits> = BTreeMap::new();
    for (key, waits) in stacks {
        let (flags, addresses) = key.split_first().expect("flags stand before addresses");
        let name = |(place, &address): (usize, &u64)| {
            // The innermost address is the current instruction. The others are return addresses.
            let found = kernel.find(address.saturating_sub(u64::from(place > 0)));
            found.map_or("[kernel]", |(name, _)| name).to_owned()
        };
        let names = addresses.iter().enumerate().map(name).collect();
        by_names.entry((kinds::name(*flags as u32), names)).or_default().join(waits);
    }
    let mut by_site: BTreeMap<(String, String), Site> = BTreeMap::new();
    for ((lock, functions), waits) in by_names {
        let stack = WaitStack { functions, waits };
        let function = stack.functions.get(stack.site()).map_or("[kernel]", String::as_str);
        let (lock, function) = (lock, function.to_owned());
        let site = by_site.entry((lock.clone(), function.clone())).or_insert_with(|| Site {
            lock,
            function,
            waits: Waits::default(),
            stacks: Vec::new(),
        });
        site.waits.join(&stack.waits);
        site.stacks.push(stack);
    }
    let mut sites: Vec<Site> = by_site.into_values().collect();
    // The sort is stable: sites with equal waits stay in the order of their names.
    sites.sort_by_key(|site| std::cmp::Reverse(rank(&site.waits)));
    for site in &mut sites {
        site.stacks.sort_by_key(|stack| std::cmp::Reverse(rank(&stack.waits)));
    }
    sites
}

fn rank(waits: &Waits) -> (u64, u64, u64) {
    (waits.total_ns, waits.acquisitions, waits.still_waiting)
}

/// The JSON schema of the file.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(LockWaits).to_value()
}

#[cfg(test)]
mod tests;
