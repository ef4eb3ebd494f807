//! What a page shows. Plain data: the caller fills it from records, and the page embeds it as
//! JSON for downloads.

use std::collections::BTreeMap;

use knee_results::{Mode, Point};
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
    /// The testcases, each once, in any order.
    pub cases: Vec<Case>,
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
            cases: Vec::new(),
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
    /// Name of the testcase.
    pub case: String,
    /// Its mode.
    pub mode: Mode,
    /// Its task count.
    pub tasks: u32,
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
    /// Name of the testcase.
    pub case: String,
    /// Its mode.
    pub mode: Mode,
    /// The table, as text.
    pub table: String,
}

/// Where tasks wait for locks at a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Waits {
    /// Name of the testcase.
    pub case: String,
    /// Its mode.
    pub mode: Mode,
    /// Its task count.
    pub tasks: u32,
    /// The table, as text.
    pub table: String,
}

/// A testcase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The family it belongs to.
    pub family: String,
    /// What one iteration does.
    pub description: String,
    /// What is counted, in the plural: `iterations`.
    pub unit: String,
    /// Bytes that one unit moves; 0 if that is not the point of it.
    pub bytes_per_unit: u64,
}

impl Case {
    /// A testcase that moves no bytes.
    pub fn new(name: &str, family: &str, description: &str, unit: &str) -> Self {
        Self {
            name: name.to_owned(),
            family: family.to_owned(),
            description: description.to_owned(),
            unit: unit.to_owned(),
            bytes_per_unit: 0,
        }
    }
}

/// One testcase in one mode of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Index into [`Page::runs`].
    pub run: usize,
    /// What was measured.
    pub measured: knee_results::Curve,
    /// What was asked for and could not be measured.
    pub missing: Vec<Missing>,
    /// Against the first run, by task count, if this is a further one and both have the point.
    pub changes: BTreeMap<u32, Change>,
    /// The Universal Scalability Law, or why it is not fitted.
    pub fit: Result<Fit, String>,
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

    /// Name of the testcase, as in [`Case::name`].
    pub fn name(&self) -> String {
        self.measured.case.to_string()
    }

    /// Processes or threads.
    pub fn mode(&self) -> Mode {
        self.measured.mode
    }

    /// What was measured, fewest tasks first.
    pub fn points(&self) -> &[Point] {
        self.measured.points()
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

/// A number with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Lower and upper end, if there is an interval; infinite where nothing bounds it.
    pub interval: Option<(f64, f64)>,
}

/// The Universal Scalability Law: rate(n) = λn / (1 + σ(n−1) + κn(n−1)).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// Throughput of one task.
    pub lambda: Estimate,
    /// Contention: the share of work that is serial.
    pub sigma: Estimate,
    /// Coherency: the cost of keeping pairs of tasks consistent.
    pub kappa: Estimate,
    /// Coefficient of determination; `None` where all points are equal.
    pub r2: Option<f64>,
    /// The n of greatest throughput, √((1−σ)/κ), if there is one.
    pub peak: Option<Estimate>,
    /// Whether there are enough points to predict from.
    pub is_prediction: bool,
    /// What to know about it, such as `4 points: not a prediction`.
    pub note: String,
}

impl Fit {
    /// Its throughput at `n` tasks.
    pub(crate) fn at(&self, n: f64) -> f64 {
        let contention = self.sigma.value * (n - 1.0);
        let coherency = self.kappa.value * n * (n - 1.0);
        self.lambda.value * n / (1.0 + contention + coherency)
    }
}

/// A point against the same point of the first run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// By how much; `None` where there is no ratio, as the note says.
    pub ratio: Option<Ratio>,
    /// Probability of such a difference by chance alone, corrected for the number of points.
    pub p: f64,
    /// What follows.
    pub verdict: ChangeVerdict,
    /// What to know about it, such as how many rounds would be needed; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// This median over that of the first run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The ratio.
    pub value: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
}

/// What a comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeVerdict {
    /// Shown to be slower than the first run.
    Slower,
    /// Shown to be faster.
    Faster,
    /// Too noisy to tell.
    Inconclusive,
    /// Shown to be the same within the threshold, or no difference found.
    Same,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_is_lambda_at_one_task() {
        let exactly = |value| Estimate { value, interval: None };
        let fit = Fit {
            lambda: exactly(100.0),
            sigma: exactly(0.1),
            kappa: exactly(0.01),
            r2: Some(1.0),
            peak: None,
            is_prediction: true,
            note: String::new(),
        };
        assert_eq!(fit.at(1.0), 100.0);
        assert!((fit.at(10.0) - 1000.0 / 2.8).abs() < 1e-9);
    }
}
