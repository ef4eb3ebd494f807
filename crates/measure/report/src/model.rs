//! What a page shows. Plain data: the caller fills it from records, and the page embeds it as
//! JSON for downloads.

use std::collections::BTreeMap;

use knee_results::{CaseId, CaseInfo, Mode, PointId};
use knee_stats::{Comparison, usl};
use serde::Serialize;

use crate::matrix::Matrix;
use crate::shared::Shared;

/// Efficiency below which a curve has reached its knee, unless the caller says otherwise.
pub const KNEE_EFFICIENCY: f64 = 0.8;

/// Everything on a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The runs. The first is the one that further ones are compared with.
    pub runs: Vec<Run>,
    /// The testcases.
    pub cases: BTreeMap<CaseId, CaseInfo>,
    /// The curves, at most one per run of [`Page::runs`], testcase and mode, in any order.
    pub curves: Vec<Curve>,
    /// When operations commute, an interface each. A page of these alone says nothing of runs.
    pub matrices: Vec<Matrix>,
    /// What commuting calls share, a check each; they too may be all that there is.
    pub shared: Vec<Shared>,
    /// Where the cycles of some points go.
    pub profiles: Vec<Profile>,
    /// What iterations take more of with more tasks, at most one per testcase and mode.
    pub growths: Vec<Growth>,
    /// Where tasks wait for locks.
    pub waits: Vec<Waits>,
    /// Efficiency (0 to 1) below which the knee is reached.
    pub knee_efficiency: f64,
    /// The smallest relative difference that matters (0.02 is 2%), if comparisons had one.
    pub threshold: Option<f64>,
    /// How comparisons were made, in a sentence for the section on method.
    pub comparison_method: String,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            cases: BTreeMap::new(),
            curves: Vec::new(),
            matrices: Vec::new(),
            shared: Vec::new(),
            profiles: Vec::new(),
            growths: Vec::new(),
            waits: Vec::new(),
            knee_efficiency: KNEE_EFFICIENCY,
            threshold: None,
            comparison_method: String::new(),
        }
    }
}

/// A run: where its numbers come from. Empty texts are left out of the page.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Run {
    /// A short name, unique on the page, such as the name of its directory.
    pub label: String,
    /// Name of the machine.
    pub hostname: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Model of the CPUs, and how many.
    pub cpu: String,
    /// What the machine is a guest of, or that it is none.
    pub virtualisation: String,
    /// When it started, RFC 3339 in UTC.
    pub started_at: String,
    /// Rounds, samples and interval, such as `5 rounds × 3 samples × 1 s`.
    pub plan: String,
    /// Which CPUs come first.
    pub placement: String,
    /// Seed of all that was random.
    pub seed: Option<u64>,
    /// The command line, a word each.
    pub command_line: Vec<String>,
    /// Version of knee that measured.
    pub knee_version: String,
    /// Whatever else is known of the machine: name and value, in the order to show.
    pub facts: Vec<(String, String)>,
    /// What makes its numbers doubtful, a sentence each.
    pub warnings: Vec<String>,
    /// What could not be measured, a sentence each that names the point.
    pub failures: Vec<String>,
    /// What was measured and has no place on a chart, as its task count is not known: a
    /// sentence each.
    pub off_chart: Vec<String>,
}

/// Where the cycles of a point go.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The point.
    pub point: PointId,
    /// What was sampled, in a line.
    pub summary: String,
    /// The flame graph: an SVG of ours, whose names are escaped, with [`Profile::style`] and
    /// [`Profile::script`] in it.
    pub flame: String,
    /// The content of its style element.
    pub style: &'static str,
    /// The content of its script element.
    pub script: &'static str,
}

/// What an iteration takes more of with more tasks.
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
    /// What was measured.
    pub measured: knee_results::Curve,
    /// The task counts that were asked for and have no point.
    pub missing: Vec<Missing>,
    /// Against the first run, by task count, if this is a further one and both have the point.
    pub changes: BTreeMap<u32, Comparison>,
    /// The Universal Scalability Law, or why it is not fitted.
    pub fit: Result<usl::Fit, String>,
}

impl Curve {
    /// A curve without gaps, changes and a fit.
    pub fn new(run: usize, measured: knee_results::Curve) -> Self {
        Self {
            run,
            measured,
            missing: Vec::new(),
            changes: BTreeMap::new(),
            fit: Err("not fitted".to_owned()),
        }
    }

    /// The task counts that were measured, then those that could not be.
    pub(crate) fn task_counts(&self) -> impl Iterator<Item = u32> {
        let measured = self.measured.points().iter().map(|point| point.tasks);
        measured.chain(self.missing.iter().map(|gap| gap.tasks))
    }
}

/// A point that has no result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Missing {
    /// Task count.
    pub tasks: u32,
    /// Why.
    pub reason: String,
}
