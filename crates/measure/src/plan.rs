//! What a run will do, and in which order.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::{LAYOUTS, Source};
use crate::select::Selected;
use crate::testcase::{Family, Mode, Need, Testcase, Variant};

/// Most tasks of a point; beyond it a mistyped number is likelier than a machine that large.
pub const MAX_TASKS: u32 = 16384;

/// A testcase as a run sees it: built in or plugged in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Case {
    /// Name with its variant, unique in a run.
    pub name: String,
    /// Family.
    pub family: Family,
    /// What one iteration does; of a plug-in it is known only once it has run.
    pub description: String,
    /// What its rates count, in the plural.
    pub unit: String,
    /// Bytes that one of them moves; 0 where that is of no interest.
    pub bytes: u64,
    /// Steps of the loop that make one of them.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub steps: u64,
    /// Shortest useful interval, in seconds.
    #[serde(default)]
    pub min_interval: f64,
    /// The file, of a plug-in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<std::path::PathBuf>,
}

fn one() -> u64 {
    1
}

fn is_one(n: &u64) -> bool {
    *n == 1
}

impl Case {
    /// A testcase of knee's own.
    pub fn built_in(selected: &Selected) -> Self {
        let testcase = selected.testcase;
        Self {
            name: selected.label(),
            family: testcase.family,
            description: testcase.description.to_owned(),
            unit: testcase.unit.name.to_owned(),
            bytes: testcase.unit.bytes,
            steps: testcase.unit.steps,
            min_interval: testcase.min_interval,
            plugin: None,
        }
    }

    /// A testcase in a shared object; named after the file.
    pub fn plugin(path: &std::path::Path) -> Self {
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        Self {
            name: name.into_owned(),
            family: Family::Plugin,
            description: String::new(),
            unit: "iterations".to_owned(),
            bytes: 0,
            steps: 1,
            min_interval: 0.0,
            plugin: Some(path.to_owned()),
        }
    }

    /// What a runner is told to load.
    pub fn source(&self) -> Source {
        match &self.plugin {
            Some(path) => Source::Plugin { path: path.clone() },
            None => {
                let (name, variant) = self.name.split_once('@').unwrap_or((&self.name, ""));
                Source::BuiltIn { name: name.to_owned(), variant: variant.to_owned() }
            }
        }
    }

    /// What it needs of the machine.
    pub fn needs(&self) -> &'static [Need] {
        self.testcase().map_or(&[], |testcase| testcase.needs)
    }

    /// Whether a task occupies two CPUs of the placement.
    pub fn uses_next_cpu(&self) -> bool {
        self.testcase().is_some_and(|testcase| {
            let variant = self.name.split_once('@').and_then(|(_, name)| testcase.variant(name));
            variant.unwrap_or(testcase.default_variant()) == Variant::NextCpu
        })
    }

    fn testcase(&self) -> Option<&'static Testcase> {
        match self.source() {
            Source::BuiltIn { name, .. } => crate::testcases::find(&name),
            Source::Plugin { .. } => None,
        }
    }
}

/// One testcase in one mode with one number of tasks.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Point {
    /// Name of the testcase.
    pub testcase: String,
    /// Processes or threads.
    pub mode: Mode,
    /// Number of tasks.
    pub tasks: u32,
}

/// The order in which the points of a round are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// As named on the command line.
    AsGiven,
    /// Anew at random in each round, so that a drift of the machine is no curve.
    Shuffled,
}

/// All points of `cases` in `modes` at each number of `tasks`.
pub fn points(cases: &[Case], modes: &[Mode], tasks: &[u32]) -> Vec<Point> {
    let mut points = Vec::new();
    for case in cases {
        for &mode in modes {
            for &tasks in tasks {
                points.push(Point { testcase: case.name.clone(), mode, tasks });
            }
        }
    }
    points
}

/// One turn of a point, and the layout of its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Which of the points.
    pub point: usize,
    /// See [`crate::job::Job::layout`].
    pub layout: u32,
}

/// The turns of round number `round`: each of `points` once. Depends only on the arguments, so
/// that a resumed run goes on in the order it began.
pub fn turns(points: &[usize], round: u32, order: Order, seed: u64) -> Vec<Turn> {
    let mut random = oorandom::Rand64::new(u128::from(seed) << 32 | u128::from(round));
    let mut points = points.to_vec();
    if order == Order::Shuffled {
        for i in (1..points.len()).rev() {
            points.swap(i, random.rand_range(0..i as u64 + 1) as usize);
        }
    }
    let mut layout = || random.rand_range(0..u64::from(LAYOUTS)) as u32;
    points.into_iter().map(|point| Turn { point, layout: layout() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_point_has_one_turn_a_round(n in 0usize..50, round: u32, seed: u64) {
            let points: Vec<usize> = (0..n).collect();
            let turns = turns(&points, round, Order::Shuffled, seed);
            let mut seen: Vec<usize> = turns.iter().map(|t| t.point).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, points);
        }
    }

    #[test]
    fn rounds_differ_in_order_and_a_seed_repeats_them() {
        let points: Vec<usize> = (0..20).collect();
        let order = |round, seed| turns(&points, round, Order::Shuffled, seed);
        assert_eq!(order(0, 7), order(0, 7));
        assert_ne!(order(0, 7), order(1, 7));
        assert_ne!(order(0, 7), order(0, 8));
        let given = turns(&points, 3, Order::AsGiven, 7);
        assert!(given.iter().map(|t| t.point).eq(points.iter().copied()));
    }

    #[test]
    fn a_case_finds_its_way_back_to_its_source() {
        let selected = crate::select::select(&["getppid1"]).unwrap();
        let case = Case::built_in(&selected[0]);
        assert_eq!(
            case.source(),
            Source::BuiltIn { name: "getppid1".into(), variant: String::new() }
        );
        let plugin = Case::plugin(std::path::Path::new("/x/mine.so"));
        assert_eq!(plugin.name, "mine");
    }
}
