//! The points of a run and their order.

use std::num::NonZeroU32;
use std::path::PathBuf;

use knee_host::text::visible_newlines;
use knee_results::{CaseId, Family, Mode, Order, PointId, Side};
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::catalogue::Selected;
use crate::job::{Command, LAYOUTS, Score, Source};
use crate::server::Server;
use crate::task::NEXT_CPU;
use crate::testcase::Need;

/// A testcase, plug-in or command as a run sees it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Case {
    /// Its identity, unique in a run.
    #[serde(rename = "name")]
    pub id: CaseId,
    /// Family.
    pub family: Family,
    /// What one iteration does. For a plug-in, it is known only after the plug-in has run.
    pub description: String,
    /// What its rates count, in the plural.
    pub unit: String,
    /// Bytes that one of them moves; 0 if not applicable.
    pub bytes: u64,
    /// Steps of the loop that make one of them.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub steps: u64,
    /// Shortest useful interval, in seconds.
    #[serde(default)]
    pub min_interval: f64,
    /// Whether its tasks share an object within one process, so that it runs only as threads.
    #[serde(default)]
    pub is_threads_only: bool,
    /// CPUs of the placement that a task occupies: 2 with a helper on the next CPU.
    #[serde(default = "one")]
    pub cpus_per_task: u64,
    /// Where its loop comes from.
    #[serde(flatten)]
    pub source: Source,
}

// As with `deserialize_flattened!`, which is for structs alone.
impl<'de> Deserialize<'de> for Case {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            name: CaseId,
            family: Family,
            description: String,
            unit: String,
            bytes: u64,
            #[serde(default = "one")]
            steps: u64,
            #[serde(default)]
            min_interval: f64,
            #[serde(default)]
            is_threads_only: bool,
            #[serde(default = "one")]
            cpus_per_task: u64,
            plugin: Option<PathBuf>,
            sha256: Option<String>,
            command: Option<Command>,
            server: Option<Box<Server>>,
            here: Option<PathBuf>,
        }

        let fields = Fields::deserialize(from)?;
        let source = match (fields.plugin, fields.command, fields.server) {
            (Some(plugin), _, _) => Source::Plugin { plugin, sha256: fields.sha256 },
            (_, Some(command), _) => Source::Command { command },
            (_, _, Some(server)) => Source::Server {
                server,
                here: fields.here.ok_or_else(|| D::Error::missing_field("here"))?,
            },
            (None, None, None) => Source::BuiltIn {},
        };
        Ok(Self {
            id: fields.name,
            family: fields.family,
            description: fields.description,
            unit: fields.unit,
            bytes: fields.bytes,
            steps: fields.steps,
            min_interval: fields.min_interval,
            is_threads_only: fields.is_threads_only,
            cpus_per_task: fields.cpus_per_task,
            source,
        })
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
            family: testcase.family,
            description: testcase.description.to_owned(),
            unit: testcase.unit.name.to_owned(),
            bytes: testcase.unit.bytes,
            steps: testcase.unit.steps,
            min_interval: testcase.min_interval,
            is_threads_only: testcase.needs.contains(&Need::Threads),
            cpus_per_task: if selected.settings.has(NEXT_CPU) { 2 } else { 1 },
            ..Self::foreign(selected.id(), Source::BuiltIn {})
        }
    }

    /// A command; named after its program.
    pub fn command(command: Command) -> Self {
        let program = command.line.split_whitespace().next().unwrap_or_default();
        let name = std::path::Path::new(program).file_name().unwrap_or(program.as_ref());
        let unit = match command.score {
            Score::Time => "runs",
            Score::Printed => "units",
        };
        Self {
            family: Family::Command,
            description: described_command(&command),
            unit: unit.to_owned(),
            ..Self::foreign(CaseId::new(name.to_string_lossy()), Source::Command { command })
        }
    }

    /// A server whose description is in the directory `here`.
    pub fn server(server: Server, here: PathBuf) -> Self {
        Self {
            family: Family::Server,
            description: described_server(&server),
            unit: server.unit.clone(),
            ..Self::foreign(
                CaseId::new(server.name.clone()),
                Source::Server { server: Box::new(server), here },
            )
        }
    }

    /// The same server with this number of connections instead of that of its description. Its identity
    /// contains the number, so that a run can have several. Other cases stay as they are.
    pub fn with_connections(mut self, connections: NonZeroU32) -> Self {
        if let Source::Server { server, .. } = &mut self.source {
            server.load.connections = connections;
            self.id = self.id.with_connections(connections.get());
        }
        self
    }

    /// A testcase in a shared object with this SHA-256; named after the file.
    pub fn plugin(path: &std::path::Path, sha256: String) -> Self {
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        let source = Source::Plugin { plugin: path.to_owned(), sha256: Some(sha256) };
        Self::foreign(CaseId::new(name), source)
    }

    /// Derives the description of a case of a record from what a resumed run runs: its author can have written another
    /// one, which hides that.
    pub(crate) fn describe_source(&mut self) {
        match &self.source {
            Source::Command { command } => self.description = described_command(command),
            Source::Server { server, .. } => self.description = described_server(server),
            Source::BuiltIn {} | Source::Plugin { .. } => {}
        }
    }

    fn foreign(id: CaseId, source: Source) -> Self {
        Self {
            id,
            family: Family::Plugin,
            description: String::new(),
            unit: "iterations".to_owned(),
            bytes: 0,
            steps: 1,
            min_interval: 0.0,
            is_threads_only: false,
            cpus_per_task: 1,
            source,
        }
    }

    /// The same case on one side of a comparison. Without a side, both could have the same
    /// identity.
    pub fn on(self, side: Side) -> Self {
        Self { id: self.id.on(side), ..self }
    }

    /// Whether it is a built-in testcase, whose speed depends on the build of knee.
    pub fn is_built_in(&self) -> bool {
        self.source == Source::BuiltIn {}
    }

    /// Whether it is a command, of which a round is one invocation.
    pub fn is_command(&self) -> bool {
        matches!(self.source, Source::Command { .. })
    }

    /// Whether it is a server under load.
    pub fn is_server(&self) -> bool {
        matches!(self.source, Source::Server { .. })
    }

    /// Whether it is a server that gets requests from knee, and not from a command.
    pub fn has_generator(&self) -> bool {
        match &self.source {
            Source::Server { server, .. } => server.load.address.is_some(),
            _ => false,
        }
    }

    /// Whether it is a server that gets its load from this machine.
    pub fn has_load_here(&self) -> bool {
        match &self.source {
            Source::Server { server, .. } => server.load.host.is_none(),
            _ => false,
        }
    }

    /// Whether a round has one sample, and a duration that is known only afterwards.
    pub fn is_foreign_process(&self) -> bool {
        self.is_command() || self.is_server()
    }

    /// The requested modes in which it is measured.
    ///
    /// A testcase for threads only has points with threads alone. If only processes were requested,
    /// it has points with processes, which fail with the reason.
    pub fn modes(&self, asked: &[Mode]) -> Vec<Mode> {
        match self.is_threads_only && asked.contains(&Mode::Threads) {
            true => vec![Mode::Threads],
            false => asked.to_vec(),
        }
    }
}

/// How a command is run, and the command, with its newlines as `\n`.
fn described_command(command: &Command) -> String {
    let how = match (command.score, command.copies) {
        (Score::Time, false) => "runs the command from start to end",
        (Score::Time, true) => "runs a copy of the command per task",
        (Score::Printed, false) => "prints its own rate",
        (Score::Printed, true) => "prints its own rate, a copy per task",
    };
    format!("{how}: {}", visible_newlines(&command.line))
}

/// What the load on a server does, and where it comes from.
fn described_server(server: &Server) -> String {
    let text = &server.description;
    match &server.load.host {
        None => text.clone(),
        Some(host) if text.is_empty() => format!("load from {}", host.name()),
        Some(host) => format!("{text}; load from {}", host.name()),
    }
}

/// All points of `cases` in their modes among `modes`, at each task count of `tasks`, each with its case.
pub fn points<'c>(
    cases: &'c [Case],
    modes: &'c [Mode],
    tasks: &'c [u32],
) -> impl Iterator<Item = (&'c Case, PointId)> {
    cases.iter().flat_map(move |case| {
        case.modes(modes).into_iter().flat_map(move |mode| {
            tasks.iter().map(move |&tasks| (case, PointId { case: case.id.clone(), mode, tasks }))
        })
    })
}

/// One turn of a point, and the layout of its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Which of the points.
    pub point: usize,
    /// See [`crate::job::Job::layout`].
    pub layout: u32,
}

/// The turns of round number `round`: each of `points` once, where the run has `all` points in
/// total. The order depends only on the arguments, so that a resumed run continues in the same
/// order.
pub fn turns(points: &[usize], all: usize, round: u32, order: Order, seed: u64) -> Vec<Turn> {
    let mut random = oorandom::Rand64::new(u128::from(seed) << 32 | u128::from(round));
    // The points of a group are measured one after the other, with one layout.
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

/// The same point on the other side, in an interleaved run with `all` points.
pub fn partner(point: usize, all: usize) -> usize {
    (point + all / 2) % all
}

/// The pairs among `points`, in the order of this round.
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

    #[test]
    fn unknown_fields_of_a_case_are_not_kept_and_those_of_its_source_are_required() {
        let case = |fields: &str| {
            let json = format!(
                r#"{{"name": "x", "family": "command", "description": "", "unit": "runs", "bytes": 0{fields}}}"#
            );
            serde_json::from_str::<Case>(&json).map(|case| case.source)
        };
        // serde_json skips a number that it cannot represent, but cannot keep it.
        assert_eq!(case(r#", "y": 1e999"#).unwrap(), Source::BuiltIn {});
        let plugin = Source::Plugin { plugin: "x.so".into(), sha256: None };
        assert_eq!(case(r#", "plugin": "x.so""#).unwrap(), plugin);
        let error = case(r#", "command": {"line": "x"}"#).unwrap_err().to_string();
        assert!(error.contains("missing field `score`"), "{error}");
    }

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
    fn a_testcase_for_threads_has_no_points_with_processes_beside_them() {
        let case = |name: &str, is_threads_only| Case {
            is_threads_only,
            ..Case::foreign(CaseId::new(name), Source::BuiltIn {})
        };
        let cases = [case("epoch1", true), case("getppid1", false)];
        let modes = |asked: &[Mode]| {
            let points = points(&cases, asked, &[1]);
            let modes = points.map(|(case, point)| (case.id.to_string(), point.mode));
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
    fn a_case_reads_back_as_written_for_every_source() {
        let command = Command::timed("make -j{tasks}", "/");
        let cases = [
            Case::foreign(CaseId::new("getppid1"), Source::BuiltIn {}),
            Case::plugin(std::path::Path::new("/x/mine.so"), "0f".repeat(32)),
            Case::command(command).on(Side::After),
        ];
        let names = cases.each_ref().map(|case| case.id.to_string());
        assert_eq!(names, ["getppid1", "mine", "after:make"]);
        for case in cases {
            let text = serde_json::to_string(&case).unwrap();
            assert_eq!(serde_json::from_str::<Case>(&text).unwrap(), case, "{text}");
        }
    }
}
