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
    /// What to run, of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
}

/// A command that is measured as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Command {
    /// As typed; [`Command::TASKS`] in it stands for the number of tasks.
    pub line: String,
    /// What its rate is.
    pub score: Score,
    /// Where it runs.
    pub dir: std::path::PathBuf,
}

impl Command {
    /// Stands for the number of tasks in a command.
    pub const TASKS: &str = "{tasks}";

    /// Whether it can be told how many tasks to run.
    pub fn takes_tasks(&self) -> bool {
        self.line.contains(Self::TASKS)
    }
}

/// What is taken for the rate of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Score {
    /// Invocations per second: the time it takes is what counts.
    Time,
    /// The last number on its standard output.
    Printed,
}

/// One of two that are measured in turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// What the other is compared with.
    Before,
    /// The other.
    After,
}

impl Side {
    /// What comes before the colon in the name of a case of this side.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
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
            command: None,
        }
    }

    /// A command; named after its program.
    pub fn command(command: Command) -> Self {
        let program = command.line.split_whitespace().next().unwrap_or_default();
        let name = std::path::Path::new(program).file_name().unwrap_or(program.as_ref());
        let (description, unit) = match command.score {
            Score::Time => ("runs it from start to end", "runs"),
            Score::Printed => ("prints its rate", "units"),
        };
        Self {
            name: name.to_string_lossy().into_owned(),
            family: Family::Command,
            description: format!("{description}: {}", command.line),
            unit: unit.to_owned(),
            bytes: 0,
            steps: 1,
            min_interval: 0.0,
            plugin: None,
            command: Some(command),
        }
    }

    /// The same as one of two that are measured in turns, and may otherwise have one name.
    pub fn on(self, side: Side) -> Self {
        Self { name: format!("{}:{}", side.as_str(), self.name), ..self }
    }

    /// Its side, where it has one, and its name without it.
    pub fn side(&self) -> (Option<Side>, &str) {
        for side in [Side::Before, Side::After] {
            let name = self.name.strip_prefix(side.as_str()).and_then(|n| n.strip_prefix(':'));
            if let Some(name) = name {
                return (Some(side), name);
            }
        }
        (None, &self.name)
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
            command: None,
        }
    }

    /// Whether it is a testcase of knee's own, and as fast as knee was compiled.
    pub fn is_built_in(&self) -> bool {
        self.plugin.is_none() && self.command.is_none()
    }

    /// What a runner is told to load.
    pub fn source(&self) -> Source {
        match (&self.plugin, &self.command) {
            (Some(path), _) => Source::Plugin { path: path.clone() },
            (_, Some(command)) => Source::Command(command.clone()),
            (None, None) => {
                let (_, label) = self.side();
                let (name, variant) = label.split_once('@').unwrap_or((label, ""));
                Source::BuiltIn { name: name.to_owned(), variant: variant.to_owned() }
            }
        }
    }

    /// What it needs of the machine.
    pub fn needs(&self) -> &'static [Need] {
        self.testcase().map_or(&[], |testcase| testcase.needs)
    }

    /// Those of the modes that were asked for in which it is measured.
    ///
    /// One for threads only has no points with processes beside those with threads; where processes
    /// alone were asked for it has them, and they say why it cannot run.
    pub fn modes(&self, asked: &[Mode]) -> Vec<Mode> {
        let needs_threads = self.needs().contains(&Need::Threads);
        match needs_threads && asked.contains(&Mode::Threads) {
            true => vec![Mode::Threads],
            false => asked.to_vec(),
        }
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
            Source::Plugin { .. } | Source::Command(_) => None,
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
    /// Those of the two sides in turns: before, after; after, before; and so on (ABBA), so that a
    /// drift of the machine hits both alike. The pairs of a round are shuffled.
    InTurns,
}

/// All points of `cases` in those of `modes` that they have, at each number of `tasks`.
pub fn points(cases: &[Case], modes: &[Mode], tasks: &[u32]) -> Vec<Point> {
    let mut points = Vec::new();
    for case in cases {
        for mode in case.modes(modes) {
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

/// The turns of round number `round`: each of `points` once, out of `all` that the run has.
/// Depends only on the arguments, so that a resumed run goes on in the order it began.
pub fn turns(points: &[usize], all: usize, round: u32, order: Order, seed: u64) -> Vec<Turn> {
    let mut random = oorandom::Rand64::new(u128::from(seed) << 32 | u128::from(round));
    // What is measured at one go, with one layout.
    let mut groups: Vec<Vec<usize>> = match order {
        Order::AsGiven | Order::Shuffled => points.iter().map(|&point| vec![point]).collect(),
        Order::InTurns => pairs(points, all, round),
    };
    if order != Order::AsGiven {
        for i in (1..groups.len()).rev() {
            groups.swap(i, random.rand_range(0..i as u64 + 1) as usize);
        }
    }
    let mut turns = Vec::with_capacity(points.len());
    for group in groups {
        let layout = random.rand_range(0..u64::from(LAYOUTS)) as u32;
        turns.extend(group.into_iter().map(|point| Turn { point, layout }));
    }
    turns
}

/// The point of the other side, of `all` that a run in turns has.
pub fn partner(point: usize, all: usize) -> usize {
    (point + all / 2) % all
}

/// Those of `points` that belong together, in the order of this round.
fn pairs(points: &[usize], all: usize, round: u32) -> Vec<Vec<usize>> {
    (0..all / 2)
        .map(|before| {
            let mut pair = vec![before, partner(before, all)];
            if round % 2 == 1 {
                pair.reverse();
            }
            pair.retain(|point| points.contains(point));
            pair
        })
        .filter(|pair| !pair.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_point_has_one_turn_a_round(n in 0usize..50, round: u32, seed: u64) {
            let points: Vec<usize> = (0..n).collect();
            let turns = turns(&points, n, round, Order::Shuffled, seed);
            let mut seen: Vec<usize> = turns.iter().map(|t| t.point).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, points);
        }
    }

    #[test]
    fn rounds_differ_in_order_and_a_seed_repeats_them() {
        let points: Vec<usize> = (0..20).collect();
        let order = |round, seed| turns(&points, 20, round, Order::Shuffled, seed);
        assert_eq!(order(0, 7), order(0, 7));
        assert_ne!(order(0, 7), order(1, 7));
        assert_ne!(order(0, 7), order(0, 8));
        let given = turns(&points, 20, 3, Order::AsGiven, 7);
        assert!(given.iter().map(|t| t.point).eq(points.iter().copied()));
    }

    #[test]
    fn pairs_stay_together_and_take_turns_at_being_first() {
        let points: Vec<usize> = (0..8).collect();
        for round in 0..4 {
            let turns = turns(&points, 8, round, Order::InTurns, 7);
            assert_eq!(turns.len(), 8);
            for pair in turns.chunks(2) {
                let first = if round % 2 == 0 { 0 } else { 1 };
                assert_eq!(pair[1 - first].point, pair[first].point + 4);
                assert_eq!(pair[0].layout, pair[1].layout);
            }
        }
        // The run was interrupted between the two of a pair.
        let rest = turns(&[5], 8, 0, Order::InTurns, 7);
        assert_eq!(rest.iter().map(|turn| turn.point).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn a_side_is_no_part_of_what_is_measured() {
        let selected = crate::select::select(&["read1@same-file"]).unwrap();
        let plain = Case::built_in(&selected[0]);
        let after = plain.clone().on(Side::After);
        assert_eq!(after.source(), plain.source());
        assert_eq!((after.uses_next_cpu(), after.needs()), (plain.uses_next_cpu(), plain.needs()));
        assert_eq!(after.side(), (Some(Side::After), "read1@same-file"));
        assert_eq!(plain.side(), (None, "read1@same-file"));
    }

    #[test]
    fn a_testcase_for_threads_has_no_points_with_processes_beside_them() {
        let selected = crate::select::select(&["epoch1", "getppid1"]).unwrap();
        let cases: Vec<Case> = selected.iter().map(Case::built_in).collect();
        let modes = |asked: &[Mode]| {
            let points = points(&cases, asked, &[1]);
            let modes = points.into_iter().map(|point| (point.testcase, point.mode));
            modes.collect::<Vec<_>>()
        };
        let point = |testcase: &str, mode| (testcase.to_owned(), mode);
        use Mode::{Processes, Threads};
        assert_eq!(
            modes(&[Processes, Threads]),
            [point("epoch1", Threads), point("getppid1", Processes), point("getppid1", Threads)]
        );
        // They fail, and say why.
        assert_eq!(modes(&[Processes])[0], point("epoch1", Processes));
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
