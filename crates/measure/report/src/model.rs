//! What a page shows. Plain data: the caller fills it from records, and the page embeds it as
//! JSON for downloads.

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
    /// What was measured and has no place on a chart, as its number of tasks is not known: a
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
    /// Its number of tasks.
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
    /// Its number of tasks.
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

/// How tasks share memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each task is a process.
    Processes,
    /// All tasks are threads of one process.
    Threads,
}

impl Mode {
    /// Both, in the order in which they are shown.
    pub const ALL: [Self; 2] = [Self::Processes, Self::Threads];

    /// `processes` or `threads`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Threads => "threads",
        }
    }

    /// `16 threads`, `1 process`.
    pub(crate) fn tasks(self, n: u32) -> String {
        match (self, n) {
            (Self::Processes, 1) => "1 process".to_owned(),
            (Self::Threads, 1) => "1 thread".to_owned(),
            _ => format!("{n} {}", self.as_str()),
        }
    }
}

/// One testcase in one mode of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Index into [`Page::runs`].
    pub run: usize,
    /// Name of the testcase.
    pub testcase: String,
    /// Processes or threads.
    pub mode: Mode,
    /// What was measured, in any order; each number of tasks at most once.
    pub points: Vec<Point>,
    /// What was asked for and could not be measured.
    pub missing: Vec<Missing>,
    /// The first number of tasks whose efficiency is below [`Page::knee_efficiency`].
    pub knee: Option<u32>,
    /// The number of tasks with the greatest throughput.
    pub peak: u32,
    /// The Universal Scalability Law, or why it is not fitted.
    pub fit: Result<Fit, String>,
}

impl Curve {
    /// A curve without points and without a fit.
    pub fn new(run: usize, testcase: &str, mode: Mode) -> Self {
        Self {
            run,
            testcase: testcase.to_owned(),
            mode,
            points: Vec::new(),
            missing: Vec::new(),
            knee: None,
            peak: 0,
            fit: Err("not fitted".to_owned()),
        }
    }
}

/// One number of tasks. Rates are per second, in the unit of the testcase.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Number of tasks, at least 1.
    pub tasks: u32,
    /// Median over the rounds, of all tasks together.
    pub rate: f64,
    /// Lower end of the interval of the median.
    pub low: f64,
    /// Upper end of the interval of the median.
    pub high: f64,
    /// Confidence of that interval.
    pub confidence: f64,
    /// The rate of each round.
    pub rounds: Vec<f64>,
    /// What single tasks did, if that is known.
    pub per_task: Option<PerTask>,
    /// Where the CPUs of the point were.
    pub cpu: Option<CpuShares>,
    /// Number of samples that count.
    pub samples: u64,
    /// How many of them are marked as disturbed.
    pub marked: u64,
    /// Against the first run, if this is a further one and both have the point.
    pub change: Option<Change>,
}

impl Point {
    /// A point of which only the rounds are known, with their range as interval; the caller sets
    /// what it knows better.
    pub fn new(tasks: u32, rounds: Vec<f64>) -> Self {
        let rate = knee_stats::median(&rounds).unwrap_or(f64::NAN);
        let low = rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let high = rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self {
            tasks,
            rate,
            low,
            high,
            confidence: 0.95,
            samples: rounds.len() as u64,
            rounds,
            per_task: None,
            cpu: None,
            marked: 0,
            change: None,
        }
    }
}

/// How the tasks of a point differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PerTask {
    /// Slowest task of any sample.
    pub min: f64,
    /// Fastest task of any sample.
    pub max: f64,
    /// Jain's fairness index, 1/tasks to 1.
    pub fairness: f64,
}

/// Shares of the time of the CPUs of a point, 0 to 1. What is left over was stolen by a
/// hypervisor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuShares {
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// Doing nothing.
    pub idle: f64,
}

/// A point that has no result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Missing {
    /// Number of tasks.
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
