//! Tests of the text that knee prints about a run. Each test checks a few lines. tests/output.rs
//! compares whole tables with golden files.

use std::path::PathBuf;

use knee_results::{CaseId, Curve, Mark, Mode, PointId};
use knee_run::job::Phase;
use knee_run::noise::{self, Conditions, NoiseFloors, PointNoise};
use knee_run::plan::Case;
use knee_run::record::{Machine, Record, Rounds, RunEnd, RunRecord, SampleLine};
use knee_stats::Spread;
use knee_testcases::CATALOGUE;

use knee_host::text::Screen;

use super::*;

/// A run on a machine with 8 CPUs, built round by round.
struct Example {
    record: Record,
    rounds: Rounds,
    view: View<'static>,
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
                point: point.clone(),
                round,
                sample,
                phase: Phase::Measure,
                seconds: 1.0,
                spread: Spread::of(&[rate]).unwrap(),
                rates: vec![rate],
                reference: None,
                memory: None,
                lost: None,
                cpu: None,
                marks: vec![Mark::Starved; usize::from((sample as usize) < marked)],
            });
        }
        self
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

    /// The table with one space between words, so that no test depends on the widths of columns.
    fn shown(&self) -> String {
        let text = table::render(&self.record, &self.curves(), &self.view);
        let text = anstream::adapter::strip_str(&text).to_string();
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
fn without_a_point_at_one_task_there_is_no_efficiency() {
    let example = Example::new(&["getppid1"], &[2, 8])
        .rounds("getppid1", 2, 200.0, 6)
        .rounds("getppid1", 8, 300.0, 6);
    example
        .says(" - - 0.0% - ▆█")
        .says("no curve has a result at 1 task, so there is no speed-up, efficiency or knee; add 1")
        .never_says("First to stop");
    let mut json = Vec::new();
    // Ignores the error about the missing samples, which come after the summaries.
    let _ = json::render(&example.record, &example.curves(), 0.8, &mut json);
    let json = String::from_utf8(json).unwrap();
    assert!(json.contains(r#""knee":null"#) && !json.contains(r#""knee":8"#), "{json}");
    assert!(json.contains(r#""efficiency":null"#), "{json}");
    let detail = example.shown_in_detail();
    assert!(
        detail.contains("knee unknown without a result at 1 task, peak at 8 tasks"),
        "{detail}"
    );
}

#[test]
fn a_single_point_has_no_speedup_efficiency_or_knee() {
    Example::new(&["getppid1"], &[1]).rounds("getppid1", 1, 100.0, 6).says(" - - 0.0% - █");
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
        .says("1 of 2 curves lacks a result at 1 task")
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
             getppid1 processes ×2 (±14%)",
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
        "1 of 48 samples was disturbed (1 preempted by other work) and is left out where possible",
    );
    let detail = example.shown_in_detail();
    assert!(detail.contains("200 to 200 ! 2.00×"), "{detail}");
}

#[test]
fn a_point_with_only_disturbed_samples_causes_a_warning() {
    let disturbed = |example: Example, tasks| {
        (0..6).fold(example, |e, _| e.round("getppid1", tasks, f64::from(tasks), 2))
    };
    let half = disturbed(Example::new(&["getppid1"], &[1, 2]).rounds("getppid1", 1, 1.0, 6), 2);
    half.says("all samples of getppid1 processes ×2 were disturbed, so do not trust these points")
        .says(" !! ");
    let all = disturbed(disturbed(Example::new(&["getppid1"], &[1, 2]), 1), 2);
    all.says("all samples of this run were disturbed, so do not trust it").never_says("left out");
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
            for line in anstream::adapter::strip_str(&text).to_string().lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            assert!(text.contains("left out to fit") || detail, "{text}");
        }
    }
}

#[test]
fn three_notes_are_printed_and_all_with_detail() {
    let mut example = Example::new(&["getppid1"], &[1, 9]).rounds("getppid1", 9, 1.0, 1);
    example.view.all_notes = false;
    example.says("more notes: knee show runs/example --detail\n");
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
