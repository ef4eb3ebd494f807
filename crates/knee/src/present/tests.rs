//! Tests of the text that knee prints about a run. Each test checks a few lines. tests/output.rs
//! compares whole tables with golden files.

use std::path::PathBuf;

use knee_results::{
    CaseId, Counts, Curve, Latency, LatencyRequest, Mark, Mode, PointId, ServerUse,
};
use knee_run::job::{Command, Failure, FailureKind, Phase};
use knee_run::noise::{self, Conditions, NoiseFloors, PointNoise};
use knee_run::plan::Case;
use knee_run::record::{Machine, PointFailure, Record, Rounds, RunEnd, RunRecord, SampleLine};
use knee_run::server::Server;
use knee_stats::{Histogram, Spread};
use knee_testcases::{CATALOGUE, SERVERS};
use serde_json::{Value, json};

use knee_host::counters::Counter;
use knee_host::text::Screen;

use super::*;

/// A run on a machine with 8 CPUs, built round by round.
struct Example {
    record: Record,
    rounds: Rounds,
    view: View<'static>,
}

/// The first sample of a round of one second, in which one task had this rate.
fn line(point: &PointId, round: u32, rate: f64) -> SampleLine {
    SampleLine {
        point: point.clone(),
        round,
        sample: 0,
        phase: Phase::Measure,
        seconds: 1.0,
        spread: Spread::of(&[rate]).unwrap(),
        rates: vec![rate],
        reference: None,
        memory: None,
        server: None,
        latency: None,
        latency_failure: None,
        counters: None,
        lost: None,
        cpu: None,
        marks: Vec::new(),
    }
}

impl Example {
    /// A run of `names` as processes at the task counts `tasks`, without rounds.
    fn new(names: &[&str], tasks: &[u32]) -> Self {
        let run = include_str!("../../tests/data/record/run.json");
        let mut run: RunRecord = serde_json::from_str(run).unwrap();
        run.cases = CATALOGUE.select(names).unwrap().iter().map(Case::built_in).collect();
        run.request.modes = vec![Mode::Processes];
        run.request.tasks = tasks.to_vec();
        run.failures.clear();
        run.complete = true;
        let record = Record { run, dir: PathBuf::from("runs/example") };
        let view = View {
            format: Format::Human,
            detail: false,
            all_notes: true,
            by_round: false,
            knee: 0.8,
            floors: None,
            screen: Screen::UNLIMITED,
        };
        Self { record, rounds: Rounds::default(), view }
    }

    /// Adds a round of two samples to a point. `marked` of the samples are disturbed.
    fn round(mut self, testcase: &str, tasks: u32, rate: f64, marked: usize) -> Self {
        let point = PointId { case: testcase.parse().unwrap(), mode: Mode::Processes, tasks };
        let round = self.rounds.of(&point).count() as u32;
        for sample in 0..2 {
            self.rounds.add(&SampleLine {
                sample,
                marks: vec![Mark::Starved; usize::from((sample as usize) < marked)],
                ..line(&point, round, rate)
            });
        }
        self
    }

    /// Adds a round with this latency, or without it for a reason, to the point at one task.
    fn latency(mut self, testcase: &str, latency: Result<&Latency, &Failure>) -> Self {
        let point = PointId { case: testcase.parse().unwrap(), mode: Mode::Processes, tasks: 1 };
        let round = self.rounds.of(&point).count() as u32;
        self.rounds.add(&SampleLine {
            latency: latency.ok().cloned(),
            latency_failure: latency.err().cloned(),
            ..line(&point, round, 100.0)
        });
        self
    }

    /// A run of a server with one CPU at these numbers of connections: the rate of two equal rounds, and the busy
    /// shares of the server and its load.
    fn sweep(points: &[(u32, f64, [f64; 2])]) -> Self {
        Self::sweep_with(points, false)
    }

    /// The same; the load has CPUs of its own, or is `shared`.
    fn sweep_with(points: &[(u32, f64, [f64; 2])], shared: bool) -> Self {
        let text = "name = 's'\nserver.command = 's'\nload.address = 'unix:s'\n\
                    load.request = [{ send = 'x', reply_bytes = 1 }]";
        let server = Case::server(Server::parse(text).unwrap(), PathBuf::new());
        // Shown only if the run asks for counters.
        let counts = Counts {
            seconds: 1.0,
            values: [(Counter::PageFaults, 100.0)].into(),
            ..Counts::default()
        };
        let mut example = Self::new(&["getppid1"], &[1]);
        example.record.run.cases.clear();
        for &(connections, rate, [server_busy, load_busy]) in points {
            let case = server.clone().with_connections(connections.try_into().unwrap());
            let server =
                ServerUse { server_cpu: 1.0, server_busy, load_cpu: 0.5, load_busy, shared };
            let point = PointId { case: case.id.clone(), mode: Mode::Processes, tasks: 1 };
            for round in 0..2 {
                example.rounds.add(&SampleLine {
                    server: Some(server),
                    counters: Some(counts.clone()),
                    ..line(&point, round, rate)
                });
            }
            example.record.run.cases.push(case);
        }
        example
    }

    /// Adds `n` disturbed rounds to a point.
    fn disturbed(self, testcase: &str, tasks: u32, rate: f64, n: usize) -> Self {
        (0..n).fold(self, |example, _| example.round(testcase, tasks, rate, 2))
    }

    /// Adds `n` identical rounds to a point.
    fn rounds(self, testcase: &str, tasks: u32, rate: f64, n: usize) -> Self {
        (0..n).fold(self, |example, _| example.round(testcase, tasks, rate, 0))
    }

    /// Sets the noise floors `of_points`, and `typical` for all other points.
    fn floors(mut self, typical: f64, of_points: &[(&str, u32, f64)]) -> Self {
        let run = &self.record.run;
        let points = of_points.iter().map(|&(testcase, tasks, relative)| PointNoise {
            point: PointId { case: testcase.parse().unwrap(), mode: Mode::Processes, tasks },
            conditions: Conditions::of(&run.request, run.shortest_interval(&CaseId::new(testcase))),
            relative,
            rounds: 10,
            measured_at: String::new(),
        });
        self.view.floors = Some(Box::leak(Box::new(NoiseFloors {
            schema: noise::SCHEMA,
            machine: Machine::from(&run.environment),
            typical,
            points: points.collect(),
        })));
        self
    }

    fn curves(&self) -> Vec<Curve> {
        self.record.run.curves(&self.rounds)
    }

    /// The curves of the JSON document.
    fn curves_as_json(&self) -> Value {
        let mut json = Vec::new();
        // Ignores the error about the missing samples, which come after the curves.
        let _ = super::json::render(&self.record, &self.curves(), self.view.knee, &mut json);
        let json = String::from_utf8(json).unwrap();
        let (_, curves) = json.split_once("\"curves\":").unwrap();
        let (curves, _) = curves.split_once(",\n\"over_connections\"").unwrap();
        serde_json::from_str(curves).unwrap()
    }

    /// The table with one space between words, so that no test depends on the widths of columns.
    fn shown(&self) -> String {
        let text = table::render(&self.record, &self.curves(), &self.view);
        let text = knee_host::text::plain(&text).to_string();
        let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n";
        text.lines().map(line).collect()
    }

    fn shown_in_detail(mut self) -> String {
        self.view.detail = true;
        self.shown()
    }

    #[track_caller]
    fn says(&self, text: &str) -> &Self {
        let shown = self.shown();
        assert!(shown.contains(text), "{text:?} is missing in\n{shown}");
        self
    }

    #[track_caller]
    fn never_says(&self, text: &str) -> &Self {
        let shown = self.shown();
        assert!(!shown.contains(text), "{text:?} is in\n{shown}");
        self
    }
}

#[test]
fn one_round_has_no_interval() {
    let example = Example::new(&["getppid1"], &[1, 2])
        .rounds("getppid1", 1, 100.0, 1)
        .rounds("getppid1", 2, 200.0, 1);
    example
        .says("\n1 round of ")
        .says("100% - - ▄█")
        .says("knee can use only 1 of 6 rounds")
        .never_says("±0")
        .never_says(" % intervals");
    let detail = example.shown_in_detail();
    assert!(detail.contains("1 100 - 1.00×"), "{detail}");
}

#[test]
fn latencies_are_listed_and_a_late_generator_is_reported() {
    let times = |nanos| Histogram::of_buckets([(Histogram::bucket(nanos), 100)], nanos);
    let example = |late| {
        let lateness = Some(times(late));
        let latency =
            Latency { times: times(4000), lateness, rate: Some(70.0), ..Latency::default() };
        let mut example = Example::new(&["getppid1"], &[1]).latency("getppid1", Ok(&latency));
        example.record.run.request.latency = Some(LatencyRequest::Requests { share: 0.7 });
        example
    };
    example(100)
        .says("latency of requests sent on a schedule, at 70% of the rate measured in the same round\n")
        .says("p50 p90 p99 p99.9 max late p99 requests/s\n")
        .says("getppid1 processes ×1 4.00 µs 4.00 µs 4.00 µs 4.00 µs 4.00 µs 100 ns 70.0\n")
        .never_says("sent requests late");
    example(3000).says("knee itself sent requests late at getppid1 processes");
    example(3000)
        .disturbed("getppid1", 1, 100.0, 6)
        .says("other work disturbed")
        .says("knee itself sent requests late at getppid1 processes");
    Example::new(&["getppid1"], &[1]).rounds("getppid1", 1, 100.0, 1).never_says("p99");
}

#[test]
fn a_sweep_over_connections_has_a_table_with_its_knee_and_peak() {
    let busy = [1.0, 0.5];
    let points = [(1, 10.0, [0.3, 0.4]), (8, 80.0, busy), (64, 100.0, busy), (512, 75.0, busy)];
    let example = Example::sweep(&points);
    example
        .says("s on 1 CPU, over connections")
        .says("1 ≥10.0 10.0 to 10.0 100% 30% 40% 100 ms\n")
        .says("512 75.0 75.0 to 75.0 1% 100% 50% 13.3 ms\n")
        .says("knee at 64 connections, peak at 64 connections; 25% slower at 512")
        // It is normal that few connections leave a server idle.
        .never_says("left its CPUs idle")
        .never_says("at 1 task");
    assert!(!example.shown().contains("per second"), "{}", example.shown());
}

#[test]
fn the_counters_of_a_sweep_have_a_row_for_each_number_of_connections() {
    let busy = [1.0, 0.5];
    let mut example = Example::sweep(&[(1, 10.0, busy), (8, 50.0, busy)]);
    example.never_says("counters");
    let set = serde_json::from_value(json!({ "counters": ["page-faults"] })).unwrap();
    example.record.run.request.counters = Some(set);
    example.says(
        "counters per operation, of the server without its load\n\
         connections faults\n\
         s on 1 CPU\n\
         1 10.0\n\
         8 2.00\n",
    );
}

#[test]
fn the_latencies_of_a_sweep_of_any_built_in_server_fit_a_terminal() {
    let times = || Histogram::of_buckets([(Histogram::bucket(4000), 100)], 4000);
    let lateness = Some(times());
    let latency = Latency { times: times(), lateness, rate: Some(70.0), ..Latency::default() };
    let late = Failure::new(FailureKind::Hung, "replies were late", "use a smaller share");
    let longest = SERVERS.iter().max_by_key(|server| server.name.len()).unwrap();
    let server = Case::server(longest.parsed(), PathBuf::new());
    let mut example = Example::new(&["getppid1"], &[1]);
    let cases = [1, 1024].map(|n: u32| server.clone().with_connections(n.try_into().unwrap()));
    for id in cases.iter().map(|case| case.id.to_string()) {
        example = example.latency(&id, Ok(&latency)).latency(&id, Err(&late));
    }
    example.record.run.cases = cases.into();
    example.record.run.request.latency = Some(LatencyRequest::Requests { share: 0.7 });
    example.view.screen = Screen { width: Some(80), is_ascii: false };
    let text = table::render(&example.record, &example.curves(), &example.view);
    let text = knee_host::text::plain(&text);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    example
        // A warning counts the rounds. Only the column tells whose latency it is.
        .says("p50 p99 late p99\n")
        .says("@connections=1024 processes ×1 4.00 µs 4.00 µs 4.00 µs\n");
}

#[test]
fn a_full_load_hides_the_knee_over_connections() {
    let example = Example::sweep(&[(1, 10.0, [0.3, 0.4]), (8, 40.0, [0.9, 0.99])]);
    example
        .says("only one usable number of connections, so there is no knee or peak")
        .says("left its CPUs idle at s@connections=8 processes ×1 (90% busy)")
        .says("the CPUs of the load were full");
    let busy = [1.0, 0.5];
    let example = Example::sweep(&[(1, 10.0, busy), (8, 70.0, busy), (64, 90.0, [0.9, 0.99])]);
    example.says("knee unknown, because a point that is only a lower bound could be the knee");
    let example = Example::sweep(&[(2, 10.0, busy), (8, 70.0, busy)]);
    example.says("knee unknown without a usable result at 1 connection, peak at 8 connections");
}

#[test]
fn a_server_that_shares_its_cores_has_no_knee_over_connections() {
    let points = [(1, 10.0, [1.0, 0.5]), (8, 70.0, [1.0, 0.5])];
    Example::sweep_with(&points, true)
        .says("the load shares cores with the server, so there is no efficiency, knee or peak")
        .never_says("knee unknown");
}

#[test]
fn the_rate_of_a_server_that_shares_its_cores_is_marked_and_not_called_idle() {
    Example::sweep_with(&[(8, 70.0, [0.5, 0.5])], true)
        .says("(70.0)")
        .says(
            "the load shares CPUs with the server at s@connections=8 processes ×1 (rates in \
             parentheses), so these are rates of both",
        )
        .never_says("≥")
        .never_says("use more connections");
}

#[test]
fn one_number_of_connections_is_shown_like_other_points() {
    let example = Example::sweep(&[(8, 70.0, [0.9, 0.5])]);
    example.says("s@connections=8").says("use more connections").never_says("over connections");
}

#[test]
fn rounds_without_latency_are_counted_and_explained() {
    let times = Histogram::of_buckets([(Histogram::bucket(4000), 100)], 4000);
    let latency = Latency { times, rate: Some(70.0), ..Latency::default() };
    let late = Failure::new(FailureKind::Hung, "replies were late", "use a smaller share");
    let mut example = Example::new(&["getppid1"], &[1])
        .latency("getppid1", Ok(&latency))
        .latency("getppid1", Ok(&latency))
        .latency("getppid1", Err(&late));
    example.record.run.request.latency = Some(LatencyRequest::Requests { share: 0.7 });
    let warning = "latency is missing at getppid1 processes ×1 (1 of 3 rounds): replies were late; use a \
                   smaller share";
    example.says("4.00 µs 2 of 3 - 70.0\n").says(warning);
    // The results list a failure, so a warning would repeat it.
    let point = PointId { case: CaseId::new("getppid1"), mode: Mode::Processes, tasks: 1 };
    example.record.run.failures.push(PointFailure { point, round: 2, failure: late });
    example.never_says("latency is missing");
}

#[test]
fn without_a_point_at_one_task_there_is_no_efficiency() {
    let example = Example::new(&["getppid1"], &[2, 8])
        .rounds("getppid1", 2, 200.0, 6)
        .rounds("getppid1", 8, 300.0, 6);
    example
        .says(" - - 0.0% - ▆█")
        .says("no curve has a usable result at 1 task, so there is no speed-up, efficiency or knee; add 1")
        .never_says("First to stop");
    let curve = &example.curves_as_json()[0];
    assert_eq!((&curve["knee"], &curve["points"][1]["efficiency"]), (&Value::Null, &Value::Null));
    let detail = example.shown_in_detail();
    assert!(
        detail.contains("knee unknown without a usable result at 1 task, peak at 8 tasks"),
        "{detail}"
    );
}

#[test]
fn one_task_count_has_no_columns_or_sentences_about_scaling() {
    let example = Example::new(&["getppid1", "getuid1"], &[1])
        .rounds("getppid1", 1, 100.0, 6)
        .rounds("getuid1", 1, 100.0, 6);
    let about_scaling = ["speed-up", "effic", "knee", "curve", "█", "■", "1.00×", "100%"];
    let overview =
        example.says("process per second 1 task ±\ngetppid1 processes 100 0.0%\n").shown();
    let detail = example.shown_in_detail();
    assert!(detail.contains("interval user sys idle\n1 100 100 to 100 - - -\n\n"));
    for text in [overview, detail] {
        // The note about the noise floor names a command.
        let text = text.replace("knee run", "");
        assert!(!about_scaling.iter().any(|word| text.contains(word)), "{text}");
    }
}

#[test]
fn one_usable_point_has_no_speedup_efficiency_or_knee() {
    let example = Example::new(&["getppid1"], &[1, 9])
        .rounds("getppid1", 1, 100.0, 6)
        .rounds("getppid1", 9, 100.0, 6);
    example.says("processes 100 100 - - 0.0% - █\n");
    let detail = example.shown_in_detail();
    assert!(detail.contains("only one usable task count, so there is no knee or peak"), "{detail}");
}

#[test]
fn one_usable_point_beside_disturbed_ones_is_no_peak() {
    let example = Example::new(&["getppid1"], &[1, 2])
        .rounds("getppid1", 1, 100.0, 6)
        .disturbed("getppid1", 2, 190.0, 12);
    let curve = &example.curves_as_json()[0];
    assert_eq!((&curve["peak"], &curve["scaling"]), (&Value::Null, &"disturbed".into()));
    let detail = example.shown_in_detail();
    assert!(detail.contains("point could be the knee, peak unknown"), "{detail}");
}

#[test]
fn the_summary_omits_a_curve_without_a_point_at_one_task() {
    let mut example = Example::new(&["getppid1", "getuid1"], &[1, 2])
        .rounds("getppid1", 1, 100.0, 6)
        .rounds("getppid1", 2, 200.0, 6)
        .rounds("getuid1", 2, 200.0, 6);
    example.record.run.complete = false;
    example.record.run.end = Some(RunEnd::Interrupted);
    example
        .says("to continue it: knee run --resume runs/example\n")
        .says("1 of 2 curves lacks a usable result at 1 task")
        .never_says("add 1 to -t")
        .says("1 of 1 curve stays above 80% efficiency up to 2 tasks.");
}

#[test]
fn the_head_shows_the_measured_rounds_and_a_note_reports_missed_precision() {
    let mut example = Example::new(&["getppid1"], &[1, 2]).rounds("getppid1", 1, 100.0, 6);
    for rate in [150.0, 160.0, 170.0, 180.0, 190.0, 200.0, 210.0, 220.0] {
        example = example.round("getppid1", 2, rate, 0);
    }
    example.record.run.request.precision = Some(0.01);
    example
        .says("\n6–8 rounds of ")
        .says(
            "1 of 2 points did not reach the requested ±1.0% at 95% confidence, at worst \
             getppid1 processes ×2 (±17%)",
        )
        .says("--max-time");
}

#[test]
fn disturbed_rows_are_marked() {
    let example = Example::new(&["getppid1", "getuid1"], &[1, 2])
        .rounds("getppid1", 1, 100.0, 6)
        .rounds("getppid1", 2, 200.0, 5)
        .round("getppid1", 2, 200.0, 1)
        .rounds("getuid1", 1, 100.0, 6)
        .rounds("getuid1", 2, 200.0, 6);
    example.says("100% 0.0% ! - ▄█\n").says("100% 0.0% - ▄█\n").says(
        "1 of 48 samples was disturbed (1 preempted by other work) and does not count (rows marked !)",
    );
    let detail = example.shown_in_detail();
    assert!(detail.contains("200 to 200 ! 2.00×"), "{detail}");
}

#[test]
fn a_disturbed_point_has_no_efficiency_in_any_output() {
    let example = Example::new(&["getppid1"], &[1, 2, 4])
        .rounds("getppid1", 1, 100.0, 6)
        .rounds("getppid1", 2, 190.0, 6)
        .rounds("getppid1", 4, 50.0, 2)
        .disturbed("getppid1", 4, 40.0, 10);
    // The rate is shown; the summary describes the points at 1 and 2 tasks.
    example
        .says("processes 100 190 50.0 1.90× 95% 0.0% !! - ▅█ at 2 tasks\n")
        .says(
            "other work disturbed most rounds of getppid1 processes ×4 (marked !!), so knee \
             concludes nothing from these rates; reduce other load, or measure again with --wait-quiet \
             or more --patience\n",
        )
        .never_says("First to stop");
    let detail = example.shown_in_detail();
    assert!(
        detail
            .contains("4 50.0 50.0 to 50.0 !! - - 1.000 - - -\nknee unknown, because a disturbed"),
        "{detail}"
    );
}

#[test]
fn table_and_json_agree_on_what_a_point_shows() {
    let example = Example::new(&["getppid1"], &[1, 2, 4, 9])
        .rounds("getppid1", 1, 100.0, 6)
        .rounds("getppid1", 2, 240.0, 6)
        .disturbed("getppid1", 2, 240.0, 3)
        .disturbed("getppid1", 4, 50.0, 12)
        .rounds("getppid1", 9, 60.0, 6);
    let curve = &example.curves_as_json()[0];
    assert_eq!((&curve["knee"], &curve["peak"]), (&Value::Null, &2.into()));
    let points = curve["points"].as_array().unwrap();
    let field = |name: &str| Value::from_iter(points.iter().map(|point| point[name].clone()));
    assert_eq!(field("measured"), json!([6, 9, 12, 6]));
    assert_eq!(field("disturbed"), json!([false, false, true, false]));
    assert_eq!(field("oversubscribed"), json!([false, false, false, true]));
    assert_eq!(field("implausible"), json!([false, true, null, null]));
    assert_eq!(field("efficiency"), json!([1.0, 1.2, null, null]));
    let detail = example.shown_in_detail();
    let lines: Vec<&str> = detail.lines().collect();
    let row = |tasks: &str| *lines.iter().find(|line| line.starts_with(tasks)).unwrap();
    assert!(row("2 240").contains(" ! 2.40× 120%? "), "{detail}");
    assert!(row("4 50").contains(" !! - - 1.000 "), "{detail}");
    assert!(row("9 60").ends_with(" - - 1.000 - - -"), "{detail}");
}

#[test]
fn nothing_is_concluded_from_a_run_that_was_disturbed_throughout() {
    let example = Example::new(&["getppid1"], &[1, 2])
        .disturbed("getppid1", 1, 100.0, 12)
        .disturbed("getppid1", 2, 50.0, 9);
    example
        .says("\n0 of 6 rounds, 9–12 measured, each of 2 × 0.2 s, placement")
        .says("processes 100 50.0 - - - !! -\n")
        .says("other work disturbed most rounds of every point, so this run shows nothing; reduce")
        .never_says("usable result at 1 task")
        .never_says("do not count")
        .never_says("curve stays");
    let detail = example.shown_in_detail();
    assert!(detail.contains("knee unknown without a usable result at 1 task, peak unknown"));
}

#[test]
fn a_note_names_the_programs_that_were_busy_when_the_run_began() {
    let mut example = Example::new(&["getppid1"], &[1]).rounds("getppid1", 1, 100.0, 6);
    example.record.run.environment.others_running = Some(3);
    example.says("note 3 threads of other programs occupied or waited for CPUs when the run began");
    example.record.run.environment.running_programs = vec!["cc1".to_owned(), "qemu".to_owned()];
    example.says("note 3 threads of other programs (cc1, qemu) occupied or waited for CPUs");
}

#[test]
fn effects_of_other_work_share_a_note_and_its_advice() {
    let mut example = Example::new(&["getppid1", "getuid1"], &[1])
        .rounds("getppid1", 1, 100.0, 4)
        .disturbed("getppid1", 1, 50.0, 3)
        .disturbed("getuid1", 1, 50.0, 6);
    example.record.run.environment.others_running = Some(1);
    example.says(
        "note other work disturbed most rounds of getuid1 processes ×1 (marked !!), so knee concludes \
         nothing from these rates. knee can use only 4 of 6 rounds at some points, which gives 87.5% \
         confidence (95% requires six). 1 thread of other programs occupied or waited for CPUs when \
         the run began; reduce other load, or measure again with --wait-quiet or more --patience\n",
    );
    assert_eq!(example.shown().matches("--patience").count(), 1);
}

#[test]
fn a_run_without_rounds_has_no_note_except_how_to_continue_it() {
    let mut example = Example::new(&["getppid1"], &[1, 16]);
    example.record.run.complete = false;
    example.record.run.end = Some(RunEnd::Interrupted);
    example.record.run.environment.others_running = Some(3);
    example.record.run.environment.cgroup_cpu_quota = Some(1.5);
    example.says("note the run was interrupted; to continue it: knee run --resume runs/example");
    assert_eq!(example.shown().matches("note ").count(), 1);
}

#[test]
fn notes_that_are_the_same_after_every_run_are_printed_only_with_detail() {
    let mut example = Example::new(&["getppid1"], &[1, 8])
        .rounds("getppid1", 1, 100.0, 6)
        .rounds("getppid1", 8, 800.0, 6);
    example.says("no CPU is free").says("the noise floor of this machine is unknown");
    example.view.all_notes = false;
    example.never_says("note ").never_says("more note");
}

#[test]
fn a_failed_repeat_is_a_note_and_not_a_missing_point() {
    let mut example = Example::new(&["getppid1"], &[1, 2])
        .rounds("getppid1", 1, 100.0, 6)
        .rounds("getppid1", 2, 200.0, 6);
    let point = PointId { case: CaseId::new("getppid1"), mode: Mode::Processes, tasks: 2 };
    let failure = Failure::runner("task 1 hung");
    example.record.run.failed_repeats.push(PointFailure { point, round: 6, failure });
    example
        .says("note round 7 of getppid1 processes ×2 failed: task 1 hung; knee uses the rounds before it")
        .says("1 of 1 curve stays above")
        .never_says("not measured");
}

#[test]
fn the_head_counts_the_rounds_that_count_and_those_that_were_measured() {
    let example = Example::new(&["getppid1"], &[1, 2])
        .rounds("getppid1", 1, 100.0, 6)
        .disturbed("getppid1", 1, 50.0, 3)
        .rounds("getppid1", 2, 200.0, 6)
        .disturbed("getppid1", 2, 50.0, 3);
    example
        .says("\n6 of 6 rounds, 9 measured, each of 2 × 0.2 s, 95.0% intervals")
        .says("12 of 36 samples were disturbed (12 preempted by other work) and do not count")
        .never_says("--wait-quiet");
    let example = example.rounds("getppid1", 2, 200.0, 2);
    example.says("\n6–8 rounds, 9–11 measured, each of 2 × 0.2 s");
    // A round of a command is one invocation.
    let command = Case::command(Command::timed("true", "/"));
    let name = command.id.to_string();
    let mut example = Example::new(&["getppid1"], &[1]);
    example.record.run.cases = vec![command];
    let example = example.rounds(&name, 1, 100.0, 6).disturbed(&name, 1, 50.0, 3);
    example.says("\n6 of 6 rounds, 9 measured, 95.0% intervals");
}

#[test]
fn points_with_more_tasks_than_cpus_are_listed_apart_and_give_no_knee() {
    let helper = "context_switch1@helper=next-cpu";
    let mut example = Example::new(&["getppid1", helper], &[1, 4, 8, 16]);
    for (n, rate) in [(1, 100.0), (4, 390.0), (8, 770.0), (16, 780.0)] {
        example = example.rounds("getppid1", n, rate, 6).rounds(helper, n, rate, 6);
    }
    example
        .says("getppid1 processes 100 390 770 780 7.70× 96% 0.0% - ▂▅█ at 8 tasks\n")
        .says(
            "with more than 8 tasks (4 if each task takes two CPUs, as in context_switch1@helper=",
        )
        .says("tasks share CPUs, so there is no efficiency or knee\n")
        .says("2 of 2 curves stay above 80% efficiency up to 8 tasks.");
    let detail = example.shown_in_detail();
    let heading = "knee not reached, peak at 8 tasks\nmore tasks than CPUs: tasks share CPUs, so there \
                   is no efficiency\n16 780 780 to 780 - - 1.000 - - -\n\n";
    assert!(detail.contains(heading), "{detail}");
    let two_each = "peak at 4 tasks\nmore tasks than CPUs (each task takes two): tasks share CPUs, so \
                    there is no efficiency\n8 770 770 to 770 - - 1.000 - - -\n16 780";
    assert!(detail.contains(two_each), "{detail}");
    assert!(!detail.contains("no efficiency or knee"), "{detail}");
}

#[test]
fn an_implausible_efficiency_is_marked_with_the_likely_reasons() {
    let implausible = Example::new(&["getppid1", "getuid1"], &[1, 2])
        .rounds("getppid1", 1, 100.0, 6)
        .rounds("getppid1", 2, 260.0, 6)
        .rounds("getuid1", 1, 100.0, 6)
        .rounds("getuid1", 2, 200.0, 6);
    assert_eq!(implausible.curves_as_json()[0]["scaling"], "implausible");
    implausible
        .says("1 of 1 curve stays above 80% efficiency up to 2 tasks. 1 implausible curve is excluded.")
        .says("2.60× 130%? 0.0%")
        .says(
            "the efficiency of getppid1 processes ×2 (130%) is implausible: placement, a \
             low CPU frequency or a warm-up effect may have slowed the point at 1 task; try another",
        );
    Example::new(&["getppid1"], &[1, 2])
        .rounds("getppid1", 1, 100.0, 6)
        .rounds("getppid1", 2, 228.0, 6)
        .says("2.28× 114% 0.0%")
        .never_says("implausible");
}

#[test]
fn the_summary_excludes_a_curve_whose_knee_could_be_a_disturbed_point() {
    let example = Example::new(&["getppid1", "getuid1"], &[1, 2, 4, 9])
        .rounds("getppid1", 1, 100.0, 6)
        .disturbed("getppid1", 2, 100.0, 6)
        .rounds("getppid1", 4, 390.0, 6)
        .rounds("getuid1", 1, 100.0, 6)
        .rounds("getuid1", 4, 390.0, 6)
        .disturbed("getuid1", 9, 390.0, 6);
    example.says(
        "1 of 1 curve stays above 80% efficiency up to 4 tasks. 1 disturbed curve is excluded.",
    );
}

#[test]
fn tables_and_notes_fit_the_terminal_with_and_without_detail() {
    let tasks: Vec<u32> = (1..=16).collect();
    let mut example = Example::new(&["getppid1", "context_switch1@helper=next-cpu"], &tasks);
    for n in tasks {
        example = example.rounds("getppid1", n, f64::from(n) * 1e6, 3);
        example = example.rounds("context_switch1@helper=next-cpu", n, 1e6, 6);
    }
    for width in [80, 100, 120] {
        example.view.screen.width = Some(width);
        for detail in [false, true] {
            example.view.detail = detail;
            let text = table::render(&example.record, &example.curves(), &example.view);
            for line in knee_host::text::plain(&text).to_string().lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            assert!(text.contains("left out to fit") || detail, "{text}");
        }
    }
}

#[test]
fn rates_with_more_tasks_than_cpus_are_left_out_first() {
    let tasks = [1, 2, 4, 8, 16, 24, 32];
    let mut example = Example::new(&["getppid1"], &tasks);
    for n in tasks {
        example = example.rounds("getppid1", n, f64::from(n.min(8)) * 1e6, 6);
    }
    example.view.screen.width = Some(80);
    let shown = example.shown();
    let titles = shown.lines().find(|line| line.contains("per second")).unwrap();
    assert!(titles.contains(" 1 task ") && titles.contains(" 8 tasks "), "{shown}");
    assert!(!["16 tasks", "24 tasks", "32 tasks"].iter().any(|n| titles.contains(n)), "{shown}");
}

#[test]
fn three_notes_are_printed_and_all_with_detail() {
    let mut example = Example::new(&["getppid1"], &[1, 9]).rounds("getppid1", 9, 1.0, 1);
    example.record.run.environment.cgroup_cpu_quota = Some(1.5);
    example.view.all_notes = false;
    example.says("\n1 more note: knee show runs/example --detail\n");
    assert_eq!(example.shown().matches("note ").count(), 3);
    example.view.all_notes = true;
    assert!(example.shown().matches("note ").count() > 3);
}

#[test]
fn efficiency_just_below_the_threshold_is_not_rounded_up_to_it() {
    let example = Example::new(&["getppid1"], &[1, 2])
        .rounds("getppid1", 1, 1000.0, 6)
        .rounds("getppid1", 2, 1592.0, 6);
    example.says("1.59× 79.6%").says("(knee 2, 79.6%)");
}

#[test]
fn curves_with_equal_knees_are_sorted_by_the_printed_efficiency() {
    let example = Example::new(&["getppid1", "getuid1"], &[1, 2, 4])
        .rounds("getppid1", 1, 100.0, 6)
        .rounds("getppid1", 2, 140.0, 6)
        .rounds("getppid1", 4, 140.0, 6)
        .rounds("getuid1", 1, 100.0, 6)
        .rounds("getuid1", 2, 120.0, 6)
        .rounds("getuid1", 4, 200.0, 6);
    example.says("getuid1 processes (knee 2, 60%), getppid1 processes (knee 2, 70%)");
}

#[test]
fn a_task_with_a_helper_on_the_next_cpu_occupies_two_cpus() {
    let one_cpu_each = Example::new(&["getppid1"], &[1, 8]).rounds("getppid1", 8, 1.0, 6);
    one_cpu_each.says("starting at 8 tasks, no CPU is free").never_says("share CPUs");
    let more_than_cpus = Example::new(&["getppid1"], &[8, 9]).rounds("getppid1", 9, 1.0, 6);
    more_than_cpus
        .says("with more than 8 tasks, tasks share CPUs")
        .says("starting at 9 tasks, no CPU");
    let two_cpus_each = Example::new(&["context_switch1@helper=next-cpu"], &[1, 4, 5])
        .rounds("context_switch1@helper=next-cpu", 1, 1.0, 6)
        .rounds("context_switch1@helper=next-cpu", 4, 1.0, 6);
    two_cpus_each
        .says(
            "starting at 4 tasks (two CPUs per task, as in context_switch1@helper=next-cpu), no CPU \
             is free",
        )
        .never_says("share CPUs");
    let beyond = two_cpus_each.rounds("context_switch1@helper=next-cpu", 5, 1.0, 6);
    beyond.says(
        "with more than 4 tasks (two CPUs per task, as in context_switch1@helper=next-cpu), tasks \
         share CPUs",
    );
    let mut alone = Example::new(&["getppid1"], &[1, 2]).rounds("getppid1", 2, 1.0, 6);
    alone.record.run.request.cpus = vec![0];
    alone.says("with more than 1 task, tasks share CPUs");
}

#[test]
fn noise_warnings_cover_both_sides_of_the_threshold() {
    let example = |rate: f64| {
        Example::new(&["getppid1"], &[1, 2])
            .rounds("getppid1", 1, 100.0, 6)
            .rounds("getppid1", 2, rate, 6)
    };
    let of_its_own = [("getppid1", 2, 0.05)];
    example(158.0)
        .floors(0.01, &of_its_own)
        .says("possibly noise, not a knee: getppid1 processes (79% at 2 tasks, noise floor 5.0%)")
        .never_says("typical");
    example(162.0)
        .floors(0.01, &of_its_own)
        .says("possibly a knee, hidden by noise: getppid1 processes (81% at 2 tasks, noise floor");
    example(140.0).floors(0.01, &of_its_own).never_says("noise floor");
    example(190.0).floors(0.01, &of_its_own).never_says("noise floor");
}

#[test]
fn a_noise_floor_from_other_testcases_is_called_typical() {
    Example::new(&["getppid1"], &[1, 2])
        .rounds("getppid1", 1, 100.0, 6)
        .rounds("getppid1", 2, 158.0, 6)
        .floors(0.05, &[("getuid1", 2, 0.01)])
        .says("noise floor typically 5.0%)")
        .says("A typical noise floor comes from other testcases");
}

#[test]
fn a_disturbed_point_has_no_result_in_the_csv_of_will_it_scale() {
    let example = Example::new(&["getppid1"], &[1, 2]).rounds("getppid1", 1, 5.0, 2);
    let example = example.round("getppid1", 2, 9.0, 2).round("getppid1", 2, 9.0, 2);
    assert_eq!(
        will_it_scale::csv::render(&example.curves()),
        "tasks,processes,processes_idle,threads,threads_idle,linear\n0,0,100,0,100,0\n\
         1,5,0.00,-1,0.00,5\n2,-1,0.00,-1,0.00,10\n"
    );
}
