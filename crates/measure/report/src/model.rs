//! The contents of a page. Plain data: the caller fills it from records, and the page embeds it as
//! JSON for downloads.

use std::collections::BTreeMap;

use knee_results::prediction::Predictions;
use knee_results::{CaseId, CaseInfo, Mode, PointId};
use knee_stats::{Comparison, usl};
use serde::Serialize;

use crate::cpu_map::CpuMap;
use crate::matrix::Matrix;
use crate::shared::Shared;

/// Default efficiency below which a curve has reached its knee.
pub const KNEE_EFFICIENCY: f64 = 0.8;

/// Everything on a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The runs. Further runs are compared with the first.
    pub runs: Vec<Run>,
    /// The testcases.
    pub cases: BTreeMap<CaseId, CaseInfo>,
    /// The curves, at most one per run of [`Page::runs`], testcase and mode, in any order.
    pub curves: Vec<Curve>,
    /// Predicted curves, by file. Without runs, a page shows only these, [`Page::matrices`],
    /// [`Page::shared`] and [`Page::cpu_maps`].
    pub predictions: Vec<Predictions>,
    /// When operations commute, one matrix per interface.
    pub matrices: Vec<Matrix>,
    /// What commuting calls share, one per check.
    pub shared: Vec<Shared>,
    /// What it costs the CPUs of machines to communicate.
    pub cpu_maps: Vec<CpuMap>,
    /// Where the cycles of some points go.
    pub profiles: Vec<Profile>,
    /// Costs per iteration that grow with tasks, at most one per testcase and mode.
    pub growths: Vec<Growth>,
    /// Where tasks wait for locks.
    pub waits: Vec<Waits>,
    /// Efficiency (0 to 1) below which the knee is reached.
    pub knee_efficiency: f64,
    /// The smallest relative difference that matters (0.02 is 2%), if comparisons use one.
    pub threshold: Option<f64>,
    /// A description of the method of comparison, for the section on method.
    pub comparison_method: String,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            cases: BTreeMap::new(),
            curves: Vec::new(),
            predictions: Vec::new(),
            matrices: Vec::new(),
            shared: Vec::new(),
            cpu_maps: Vec::new(),
            profiles: Vec::new(),
            growths: Vec::new(),
            waits: Vec::new(),
            knee_efficiency: KNEE_EFFICIENCY,
            threshold: None,
            comparison_method: String::new(),
        }
    }
}

/// The origin of the numbers of a run. The page omits empty texts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Run {
    /// A short name, unique on the page, such as the name of its directory.
    pub label: String,
    /// Name of the machine.
    pub hostname: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Model and number of the CPUs.
    pub cpu: String,
    /// The hypervisor, or `none`.
    pub virtualisation: String,
    /// Start time, RFC 3339 in UTC.
    pub started_at: String,
    /// Rounds, samples and interval, such as `5 rounds × 3 samples × 1 s`.
    pub plan: String,
    /// The order in which tasks are placed on CPUs.
    pub placement: String,
    /// Seed of the random numbers of the run.
    pub seed: Option<u64>,
    /// The words of the command line.
    pub command_line: Vec<String>,
    /// Version of knee that measured the run.
    pub knee_version: String,
    /// Further facts about the machine: name and value, in display order.
    pub facts: Vec<(String, String)>,
    /// Whether the run ended before it had measured all rounds.
    pub is_incomplete: bool,
    /// Reasons to doubt the numbers, one sentence each.
    pub warnings: Vec<String>,
    /// Points that could not be measured, one sentence each.
    pub failures: Vec<String>,
    /// Results that are not on any chart because their task count is unknown, one sentence each.
    pub off_chart: Vec<String>,
}

/// Where the cycles of a point go.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The point.
    pub point: PointId,
    /// A description of the samples, in one line.
    pub summary: String,
    /// The flame graph: an SVG from knee, with escaped names, that contains [`Profile::style`] and
    /// [`Profile::script`].
    pub flame: String,
    /// The content of its style element.
    pub style: &'static str,
    /// The content of its script element.
    pub script: &'static str,
}

/// Costs per iteration that grow with tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// The testcase.
    pub case: CaseId,
    /// Its mode.
    pub mode: Mode,
    /// The table, as text.
    pub table: String,
}

/// Where tasks wait for locks at a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Waits {
    /// The point.
    pub point: PointId,
    /// The table, as text.
    pub table: String,
}

/// One testcase in one mode of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Index into [`Page::runs`].
    pub run: usize,
    /// The measured points. Rates of single tasks and shares of CPU time must be finite.
    pub measured: knee_results::Curve,
    /// The requested task counts without a point.
    pub missing: Vec<Missing>,
    /// For a further run, the comparisons with the first run, by task count, of points that both
    /// have.
    pub changes: BTreeMap<u32, Change>,
    /// The fit of the Universal Scalability Law, or why there is none.
    pub fit: Result<usl::Fit, String>,
}

impl Curve {
    /// A curve without gaps, changes or a fit.
    pub fn new(run: usize, measured: knee_results::Curve) -> Self {
        Self {
            run,
            measured,
            missing: Vec::new(),
            changes: BTreeMap::new(),
            fit: Err("not fitted".to_owned()),
        }
    }

    /// The measured task counts, then the missing ones.
    pub(crate) fn task_counts(&self) -> impl Iterator<Item = u32> {
        let measured = self.measured.points().iter().map(|point| point.tasks);
        measured.chain(self.missing.iter().map(|gap| gap.tasks))
    }
}

/// The comparison of a point with the same point of the first run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Medians, ratio, interval, p-value and verdict.
    pub comparison: Comparison,
    /// Whether a side is [disturbed](knee_results::Point::disturbed), so that nothing is concluded.
    pub disturbed: bool,
}

/// A point without a result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Missing {
    /// Task count.
    pub tasks: u32,
    /// The reason.
    pub reason: String,
}
