//! The run with a scripted executor instead of processes and time.

use knee_host::{Environment, Placement};
use knee_results::{CONFIDENCE, Curve, Knee, Mark, Mode, Order, Request, Side, UntilDecided};
use knee_stats::{CompareOptions, Verdict};

use super::*;
use crate::fixture::CATALOGUE;
use crate::job::{Phase, Sample, Source};
use crate::record::{InTurns, Paused, Record, SCHEMA};

/// Answers each round with the rate that the script gives for its number.
struct Script<F> {
    rate: F,
    /// Whether a round of a point with this task count is disturbed.
    disturbed: fn(u32, usize) -> bool,
    asked: Vec<(Source, u32)>,
}

impl<F: FnMut(u32, usize) -> Result<f64, Stopped>> Executor for Script<F> {
    fn run(
        &mut self,
        job: &Job,
        _interrupt: &Interrupt,
        receive: &mut dyn FnMut(&str, Sample) -> io::Result<()>,
    ) -> Result<(), Stopped> {
        let nr = self.asked.iter().filter(|(_, tasks)| *tasks == job.tasks).count();
        self.asked.push((job.source.clone(), job.tasks));
        let rate = (self.rate)(job.tasks, nr)?;
        let marks = vec![Mark::Starved; usize::from((self.disturbed)(job.tasks, nr))];
        let sample = |phase| Sample {
            phase,
            seconds: job.interval,
            rates: vec![rate; job.tasks as usize],
            cpu: None,
            lost: None,
            reference: None,
            memory: None,
            server: None,
            latency: None,
            latency_failure: None,
            counters: None,
            marks: if phase == Phase::Round { marks.clone() } else { Vec::new() },
            left_running: Vec::new(),
        };
        receive("scripted", sample(Phase::Warmup)).map_err(Stopped::ByReceiver)?;
        for _ in 0..job.samples.unwrap() {
            receive("scripted", sample(Phase::Measure)).map_err(Stopped::ByReceiver)?;
        }
        receive("scripted", sample(Phase::Round)).map_err(Stopped::ByReceiver)?;
        Ok(())
    }
}

#[derive(Default)]
struct Silent {
    failed: usize,
}

impl Observer for Silent {
    fn round(&mut self, _: &PointId, _: u32, _: &Estimate) {}
    fn first_round_ended(&mut self, _: &RunRecord, _: &Rounds, _: Option<f64>) {}
    fn failed(&mut self, _: &PointFailure) {
        self.failed += 1;
    }
    fn latency_failed(&mut self, _: &PointFailure) {}
    fn repeat_failed(&mut self, _: &PointFailure) {}
}

fn cases(names: &[&str]) -> Vec<Case> {
    CATALOGUE.select(names).unwrap().iter().map(Case::built_in).collect()
}

fn run_record(dir: &Path, change: impl FnOnce(&mut Request)) -> RunRecord {
    let mut request = Request {
        modes: vec![Mode::Processes],
        tasks: vec![1, 2],
        rounds: 5,
        samples: 3,
        interval: 0.2,
        warmup: 0.1,
        start_timeout: 30.0,
        precision: None,
        until_decided: None,
        max_time: 60.0,
        patience: 2.0,
        order: Order::Shuffled,
        seed: 7,
        placement: Placement::Cores,
        cpus: vec![0, 1],
        latency: None,
        counters: None,
        dir: dir.to_owned(),
        aa: false,
    };
    change(&mut request);
    RunRecord {
        schema: SCHEMA,
        complete: false,
        end: None,
        request,
        environment: Environment::capture(dir),
        cases: cases(&["getppid1"]),
        failures: Vec::new(),
        failed_repeats: Vec::new(),
        left_running: Vec::new(),
    }
}

/// Runs a script into `dir/record`, or goes on with what is there.
fn sweep(
    dir: &Path,
    run: RunRecord,
    rate: impl FnMut(u32, usize) -> Result<f64, Stopped>,
) -> (Result<Ended, RecordError>, Record, usize) {
    disturbed_sweep(dir, run, |_, _| false, rate)
}

fn disturbed_sweep(
    dir: &Path,
    run: RunRecord,
    disturbed: fn(u32, usize) -> bool,
    rate: impl FnMut(u32, usize) -> Result<f64, Stopped>,
) -> (Result<Ended, RecordError>, Record, usize) {
    let record_dir = dir.join("record");
    let (mut writer, mut run, finished) = if record_dir.exists() {
        Paused::open(&record_dir).unwrap().go_on().unwrap()
    } else {
        (Writer::create(&record_dir, &run).unwrap(), run, Rounds::default())
    };
    let mut executor = Script { rate, disturbed, asked: Vec::new() };
    let ended = Sweep {
        run: &mut run,
        writer: &mut writer,
        executor: &mut executor,
        observer: &mut Silent::default(),
        interrupt: &Interrupt::install().unwrap(),
        catalogue: CATALOGUE,
    }
    .run(&finished);
    (ended, Record::open(&record_dir).unwrap(), executor.asked.len())
}

fn rounds_per_point(record: &Record) -> BTreeMap<u32, usize> {
    let finished = record.finished_rounds().unwrap();
    record.run.points().iter().map(|point| (point.tasks, finished.of(point).count())).collect()
}

fn samples(record: &Record) -> Vec<SampleLine> {
    record.samples().unwrap().map(Result::unwrap).collect()
}

fn curves(record: &Record) -> Vec<Curve> {
    record.run.curves(&record.finished_rounds().unwrap())
}

#[test]
fn every_point_gets_its_rounds_and_the_record_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_record(dir.path(), |_| {});
    let (ended, record, asked) = sweep(dir.path(), run, |tasks, _| Ok(10.0 / f64::from(tasks)));
    assert_eq!(ended.unwrap(), Ended::Done);
    assert!(record.run.complete);
    assert_eq!(asked, 10);
    assert_eq!(rounds_per_point(&record), BTreeMap::from([(1, 5), (2, 5)]));
    let curves = curves(&record);
    assert_eq!(curves[0].knee(0.8), Knee::At(2));
    assert_eq!(curves[0].last_efficiency(), Some(0.5));
}

#[test]
fn an_interrupted_run_is_marked_and_resumes_with_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_record(dir.path(), |_| {});
    let mut turn = 0;
    let (ended, record, _) = sweep(dir.path(), run.clone(), |_, _| {
        turn += 1;
        if turn == 4 { Err(Stopped::Interrupted(libc::SIGINT)) } else { Ok(1.0) }
    });
    assert_eq!(ended.unwrap(), Ended::Interrupted(libc::SIGINT));
    assert!(!record.run.complete);
    assert_eq!(record.run.end, Some(RunEnd::Interrupted));
    assert_eq!(rounds_per_point(&record).values().sum::<usize>(), 3);

    let (ended, record, asked) = sweep(dir.path(), run, |_, _| Ok(1.0));
    assert_eq!(ended.unwrap(), Ended::Done);
    assert_eq!(asked, 7);
    assert!(record.run.complete);
    assert_eq!(rounds_per_point(&record), BTreeMap::from([(1, 5), (2, 5)]));
}

#[test]
fn a_half_written_line_and_a_half_measured_round_are_taken_again() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_record(dir.path(), |_| {});
    let (_, record, _) = sweep(dir.path(), run.clone(), |_, _| Ok(1.0));
    let lines = samples(&record).len();
    let samples = dir.path().join("record/samples.jsonl");
    let text = std::fs::read(&samples).unwrap();
    // Cuts into the last sample, which the line of its round follows.
    let end_of_sample = text[..text.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap();
    std::fs::write(&samples, &text[..end_of_sample - 20]).unwrap();
    let (ended, again, asked) = sweep(dir.path(), run, |_, _| Ok(1.0));
    assert_eq!(ended.unwrap(), Ended::Done);
    assert_eq!(asked, 1);
    assert_eq!(self::samples(&again).len(), lines);
}

#[test]
fn a_failing_point_is_given_up_and_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_record(dir.path(), |_| {});
    let (ended, record, asked) = sweep(dir.path(), run, |tasks, nr| match (tasks, nr) {
        (2, 1) => Err(Failure::runner("boom").into()),
        _ => Ok(1.0),
    });
    assert_eq!(ended.unwrap(), Ended::Done);
    assert_eq!(asked, 7);
    assert!(!record.run.complete);
    assert_eq!(record.run.failures.len(), 1);
    assert_eq!((record.run.failures[0].point.tasks, record.run.failures[0].round), (2, 1));
    assert_eq!(rounds_per_point(&record), BTreeMap::from([(1, 5), (2, 1)]));
}

#[test]
fn a_failure_in_a_repeated_round_keeps_the_earlier_rounds() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_record(dir.path(), |_| {});
    let (ended, record, asked) = disturbed_sweep(
        dir.path(),
        run,
        |tasks, nr| tasks == 2 && nr < 2,
        |tasks, nr| {
            if (tasks, nr) == (2, 5) { Err(Failure::runner("boom").into()) } else { Ok(1.0) }
        },
    );
    assert_eq!((ended.unwrap(), asked), (Ended::Done, 11));
    assert!(record.run.complete && record.run.failures.is_empty());
    let [failed] = &record.run.failed_repeats[..] else { panic!("{:?}", record.run) };
    assert_eq!((failed.point.tasks, failed.round), (2, 5));
    let point = curves(&record)[0].points()[1].clone();
    assert_eq!((point.rounds.len(), point.measured, point.disturbed), (3, 5, false));
}

#[test]
fn a_failure_in_a_repeated_round_of_a_point_without_a_clean_one_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_record(dir.path(), |request| request.tasks = vec![1]);
    let (_, record, _) = disturbed_sweep(
        dir.path(),
        run,
        |_, _| true,
        |_, nr| if nr == 5 { Err(Failure::runner("boom").into()) } else { Ok(1.0) },
    );
    assert_eq!((record.run.failures.len(), record.run.failed_repeats.len()), (1, 0));
}

#[test]
fn a_failure_in_a_repeated_pair_ends_both_sides_and_keeps_their_earlier_rounds() {
    let dir = tempfile::tempdir().unwrap();
    let run = interleaved(dir.path(), &[1], |request| request.until_decided = None);
    // Turns 0 and 1 are the first pair. After eight pairs, it is repeated.
    let rate = |_: u32, nr: usize| match nr {
        17 => Err(Failure::runner("boom").into()),
        _ => Ok(1.0),
    };
    let (_, record, asked) = disturbed_sweep(dir.path(), run, |_, nr| nr == 0, rate);
    assert_eq!(asked, 18);
    assert!(record.run.complete && record.run.failed_repeats.len() == 1);
    assert_eq!(judged(&record), [(Some(1), Verdict::Same, [7, 7])]);
}

#[test]
fn a_round_that_hangs_after_its_samples_counts_neither_now_nor_on_resume() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_record(dir.path(), |request| request.tasks = vec![1]);
    let (_, _, _) = sweep(dir.path(), run.clone(), |_, _| Ok(1.0));
    let file = dir.path().join("record/run.json");
    let mut record = Record::open(&dir.path().join("record")).unwrap();
    record.run.failures.push(PointFailure {
        point: record.run.points()[0].clone(),
        round: 4,
        failure: Failure::runner("task 0 counted nothing"),
    });
    std::fs::write(&file, serde_json::to_vec(&record.run).unwrap()).unwrap();
    assert_eq!(curves(&record)[0].points()[0].rounds.len(), 4);
    let (_, record, asked) = sweep(dir.path(), run, |_, _| Ok(1.0));
    assert_eq!(asked, 1);
    assert_eq!(rounds_per_point(&record), BTreeMap::from([(1, 5)]));
}

#[test]
fn disturbed_rounds_are_measured_again_until_each_point_has_its_rounds() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_record(dir.path(), |_| {});
    let (_, record, asked) =
        disturbed_sweep(dir.path(), run, |tasks, nr| tasks == 2 && nr < 3, |_, nr| Ok(nr as f64));
    assert_eq!(asked, 13);
    let curves = curves(&record);
    let points: Vec<_> = curves[0].points().iter().collect();
    assert_eq!((points[0].measured, points[0].marked), (5, 0));
    let per_task: Vec<i64> =
        points[1].rounds.iter().map(|rate| (rate / 2.0).round() as i64).collect();
    assert_eq!(per_task, [3, 4, 5, 6, 7]);
    assert_eq!((points[1].measured, points[1].marked, points[1].disturbed), (8, 9, false));
}

/// The rounds done, of how many, and at most.
#[derive(Default)]
struct Estimates(Vec<(usize, usize, Option<usize>)>);

impl Observer for Estimates {
    fn round(&mut self, _: &PointId, _: u32, estimate: &Estimate) {
        self.0.push((estimate.done, estimate.of, estimate.at_most));
    }
    fn first_round_ended(&mut self, _: &RunRecord, _: &Rounds, _: Option<f64>) {}
    fn failed(&mut self, _: &PointFailure) {}
    fn latency_failed(&mut self, _: &PointFailure) {}
    fn repeat_failed(&mut self, _: &PointFailure) {}
}

/// The round counts of the points after the first round, and the remaining seconds.
#[derive(Default)]
struct FirstRounds(Vec<(Vec<usize>, Option<f64>)>);

impl Observer for FirstRounds {
    fn round(&mut self, _: &PointId, _: u32, _: &Estimate) {}
    fn first_round_ended(&mut self, run: &RunRecord, rounds: &Rounds, left: Option<f64>) {
        let counts = run.points().iter().map(|point| rounds.of(point).count()).collect();
        self.0.push((counts, left));
    }
    fn failed(&mut self, _: &PointFailure) {}
    fn latency_failed(&mut self, _: &PointFailure) {}
    fn repeat_failed(&mut self, _: &PointFailure) {}
}

#[test]
fn the_observer_gets_the_first_round_of_all_points_and_the_planned_rest() {
    let first_rounds = |rounds: u32| {
        let dir = tempfile::tempdir().unwrap();
        let mut run = run_record(dir.path(), |request| {
            request.tasks = vec![1, 2];
            request.rounds = rounds;
        });
        let mut observer = FirstRounds::default();
        let rate = |_: u32, _: usize| Ok::<f64, Stopped>(1.0);
        let mut executor = Script { rate, disturbed: |_, _| false, asked: Vec::new() };
        Sweep {
            writer: &mut Writer::create(&dir.path().join("record"), &run).unwrap(),
            run: &mut run,
            executor: &mut executor,
            observer: &mut observer,
            interrupt: &Interrupt::install().unwrap(),
            catalogue: CATALOGUE,
        }
        .run(&Rounds::default())
        .unwrap();
        observer.0
    };
    let once = first_rounds(2);
    let [(counts, Some(rest))] = once.as_slice() else { panic!("{once:?}") };
    assert_eq!(counts, &[1, 1]);
    assert!(*rest > 0.0);
    let [(_, Some(longer))] = first_rounds(4)[..] else { panic!("called once") };
    assert!((longer / rest - 3.0).abs() < 1e-9, "{longer} {rest}");
    assert!(first_rounds(1).is_empty());
}

#[test]
fn progress_counts_a_repeat_as_soon_as_a_round_is_disturbed() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = run_record(dir.path(), |request| {
        request.tasks = vec![1];
        request.rounds = 4;
    });
    let mut estimates = Estimates::default();
    let rate = |_: u32, _: usize| Ok::<f64, Stopped>(1.0);
    let mut executor = Script { rate, disturbed: |_, nr| nr == 1, asked: Vec::new() };
    Sweep {
        writer: &mut Writer::create(&dir.path().join("record"), &run).unwrap(),
        run: &mut run,
        executor: &mut executor,
        observer: &mut estimates,
        interrupt: &Interrupt::install().unwrap(),
        catalogue: CATALOGUE,
    }
    .run(&Rounds::default())
    .unwrap();
    let most = Some(8);
    assert_eq!(estimates.0, [(0, 4, None), (1, 4, None), (2, 5, most), (3, 5, most), (4, 5, most)]);
}

#[test]
fn patience_ends_and_the_points_stay_disturbed() {
    for (patience, expected) in [(1.0, 10), (2.0, 20), (3.0, 30)] {
        let dir = tempfile::tempdir().unwrap();
        let run = run_record(dir.path(), |request| request.patience = patience);
        let (ended, record, asked) = disturbed_sweep(dir.path(), run, |_, _| true, |_, _| Ok(1.0));
        assert_eq!(ended.unwrap(), Ended::Done);
        assert_eq!(asked, expected);
        assert!(record.run.complete);
        assert!(curves(&record)[0].points().iter().all(|point| point.disturbed));
    }
}

#[test]
fn a_point_that_never_counts_has_its_own_patience_also_after_an_interruption() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_record(dir.path(), |_| {});
    let disturbed = |tasks, _| tasks == 1;
    let mut turn = 0;
    let (_, _, _) = disturbed_sweep(dir.path(), run.clone(), disturbed, |_, _| {
        turn += 1;
        if turn == 12 { Err(Stopped::Interrupted(libc::SIGINT)) } else { Ok(1.0) }
    });
    let (_, record, asked) = disturbed_sweep(dir.path(), run, disturbed, |_, _| Ok(1.0));
    assert_eq!(asked, 4);
    assert_eq!(rounds_per_point(&record), BTreeMap::from([(1, 10), (2, 5)]));
}

#[test]
fn both_sides_of_a_disturbed_pair_are_measured_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = run_record(dir.path(), |request| {
        request.order = Order::InTurns;
        request.tasks = vec![1];
    });
    let [case] = &run.cases[..] else { panic!() };
    run.cases = vec![case.clone().on(Side::Before), case.clone().on(Side::After)];
    // Turns 0 and 1 are the first pair, 2 and 3 the second.
    let (_, record, asked) = disturbed_sweep(dir.path(), run, |_, nr| nr == 2, |_, _| Ok(1.0));
    assert_eq!(asked, 12);
    let finished = record.finished_rounds().unwrap();
    assert!(record.run.points().iter().all(|point| finished.of(point).count() == 6));
}

#[test]
fn precision_adds_rounds_to_the_noisy_point_only() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_record(dir.path(), |request| {
        request.precision = Some(0.02);
        request.rounds = 6;
    });
    let (ended, record, _) = sweep(dir.path(), run, |tasks, nr| match tasks {
        1 => Ok(100.0),
        // Two rounds far off, then quiet: the median settles.
        _ => Ok(if nr < 2 { 50.0 } else { 100.0 }),
    });
    assert_eq!(ended.unwrap(), Ended::Done);
    // Both stop at looks. Two rounds that are far off keep the interval wide at the first two.
    assert_eq!(rounds_per_point(&record), BTreeMap::from([(1, 8), (2, 16)]));
    for point in curves(&record)[0].points() {
        assert_eq!(point.confidence, CONFIDENCE);
        assert!(point.relative_half_width() <= 0.02, "{point:?}");
    }
}

/// An interleaved run of one testcase that is to be decided within 2%.
fn interleaved(dir: &Path, tasks: &[u32], change: impl FnOnce(&mut Request)) -> RunRecord {
    let mut run = run_record(dir, |request| {
        request.order = Order::InTurns;
        request.tasks = tasks.to_vec();
        request.until_decided = Some(UntilDecided { within: 0.02, confidence: 0.95 });
        request.rounds = 8;
        change(request);
    });
    let [case] = &run.cases[..] else { panic!("one case") };
    run.cases = [Side::Before, Side::After].map(|side| case.clone().on(side)).into();
    run
}

/// Whether turn `nr` of a point is that of the side before: ABBA.
fn is_before(nr: usize) -> bool {
    [0, 3].contains(&(nr % 4))
}

/// Rates that vary by ±10% from pair to pair.
fn noisy(nr: usize) -> f64 {
    if is_before(nr) { 100.0 } else { 90.0 + (nr / 2 * 7 % 21) as f64 }
}

fn judged(record: &Record) -> Vec<(Option<u32>, Verdict, [usize; 2])> {
    let options = CompareOptions {
        threshold: Some(0.02),
        looks: record.run.looks(),
        ..CompareOptions::default()
    };
    let points = InTurns::of(record, &options).unwrap().unwrap().compared.points;
    let judged = points.iter().map(|p| (p.key.tasks, p.comparison.verdict, p.rounds));
    judged.collect()
}

#[test]
fn a_decided_point_is_not_measured_further() {
    let dir = tempfile::tempdir().unwrap();
    let run = interleaved(dir.path(), &[1, 2, 4], |request| {
        request.rounds = 10;
        request.max_time = 11.9;
    });
    let (ended, record, _) = sweep(dir.path(), run, |tasks, nr| {
        Ok(match tasks {
            1 if is_before(nr) => 200.0,
            1 | 2 => 100.0,
            _ => noisy(nr),
        })
    });
    assert_eq!(ended.unwrap(), Ended::Done);
    assert!(record.run.complete);
    // A round is 0.6 s of measuring a side, so the noisy point ends after twenty.
    assert_eq!(
        judged(&record),
        [
            (Some(1), Verdict::Slower, [10, 10]),
            (Some(4), Verdict::Inconclusive, [20, 20]),
            (Some(2), Verdict::Same, [10, 10])
        ]
    );
}

#[test]
fn a_resumed_comparison_continues_to_its_decision() {
    let dir = tempfile::tempdir().unwrap();
    let rate = |nr: usize| {
        // A quarter more, but the sixth pair hides it at the first look.
        Ok(if nr / 2 == 5 || is_before(nr) { 100.0 } else { 125.0 + (nr % 3) as f64 })
    };
    let run = interleaved(dir.path(), &[1], |_| {});
    let (ended, record, _) = sweep(dir.path(), run.clone(), |_, nr| match nr {
        17 => Err(Stopped::Interrupted(libc::SIGINT)),
        _ => rate(nr),
    });
    assert_eq!(ended.unwrap(), Ended::Interrupted(libc::SIGINT));
    assert_eq!(judged(&record), [(Some(1), Verdict::Inconclusive, [8, 8])]);
    let (_, record, asked) = sweep(dir.path(), run, |_, nr| rate(nr + 17));
    assert_eq!(asked, 5);
    assert_eq!(judged(&record), [(Some(1), Verdict::Faster, [11, 11])]);
}

#[test]
fn precision_gives_up_after_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_record(dir.path(), |request| {
        request.precision = Some(0.001);
        request.max_time = 11.9;
        request.tasks = vec![1];
    });
    // A round is 0.6 s of measuring.
    let (_, record, asked) =
        sweep(dir.path(), run, |_, nr| Ok(if nr % 2 == 0 { 1.0 } else { 2.0 }));
    assert_eq!(asked, 20);
    assert!(record.run.complete);
}

#[test]
fn a_resumed_precision_run_continues_to_its_precision() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_record(dir.path(), |request| {
        request.precision = Some(0.001);
        request.max_time = 11.9;
        request.tasks = vec![1];
    });
    let noisy = |nr: usize| if nr.is_multiple_of(2) { 1.0 } else { 2.0 };
    let (ended, record, _) = sweep(dir.path(), run.clone(), |_, nr| match nr {
        8 => Err(Stopped::Interrupted(libc::SIGINT)),
        _ => Ok(noisy(nr)),
    });
    assert_eq!(ended.unwrap(), Ended::Interrupted(libc::SIGINT));
    assert_eq!(rounds_per_point(&record), BTreeMap::from([(1, 8)]));
    let (_, record, asked) = sweep(dir.path(), run, |_, nr| Ok(noisy(nr)));
    // A round is 0.6 s of measuring.
    assert_eq!(asked, 12);
    assert_eq!(rounds_per_point(&record), BTreeMap::from([(1, 20)]));
    assert!(record.run.complete);
}

#[test]
fn measured_rounds_survive_a_resume_without_a_requirement() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_record(dir.path(), |_| {});
    let mut turn = 0;
    let (_, before, _) = sweep(dir.path(), run, |_, _| {
        turn += 1;
        if turn == 10 { Err(Stopped::Interrupted(libc::SIGINT)) } else { Ok(1.0) }
    });
    let measured = rounds_per_point(&before);
    assert_eq!(measured.values().sum::<usize>(), 9);
    // As if it had been a testcase that wants O_DIRECT, of which /proc knows nothing.
    let mut run = before.run;
    run.cases = cases(&["direct1"]);
    run.request.dir = "/proc".into();
    std::fs::write(before.dir.join("run.json"), serde_json::to_vec(&run).unwrap()).unwrap();
    let samples = before.dir.join("samples.jsonl");
    let text = std::fs::read_to_string(&samples).unwrap();
    std::fs::write(&samples, text.replace("getppid1", "direct1")).unwrap();

    let (_, record, asked) = sweep(dir.path(), run, |_, _| Ok(1.0));
    assert_eq!(asked, 0);
    let [failure] = &record.run.failures[..] else { panic!("{:?}", record.run.failures) };
    assert_eq!(failure.round, 4, "the one that it could not take");
    assert_eq!(measured[&failure.point.tasks], 4, "the whole point needs nothing");
    assert_eq!(rounds_per_point(&record), measured);
}

#[test]
fn a_resumed_record_with_an_unknown_parameter_is_not_measured_as_the_default() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = run_record(dir.path(), |_| {});
    run.cases = cases(&["read1@file=same"]);
    run.cases[0].id.params[0].1 = "nosuch".to_owned();
    let (_, record, asked) = sweep(dir.path(), run, |_, _| Ok(1.0));
    assert_eq!(asked, 0);
    let failure = &record.run.failures[0].failure;
    assert_eq!(failure.kind, FailureKind::CannotRun);
    assert!(failure.reason.starts_with("read1 has no file=nosuch"), "{failure:?}");
}

#[test]
fn the_work_directory_is_empty_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let run = run_record(&work, |_| {});
    let _ = sweep(dir.path(), run, |_, _| Ok(1.0));
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0);
}

#[test]
fn an_unusable_directory_fails_only_the_testcases_that_need_it() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunRecord {
        // One keeps its files in /dev/shm, the other in the directory of the run.
        cases: cases(&["tmpfs1", "getppid1"]),
        ..run_record(dir.path(), |request| request.dir = "/proc".into())
    };
    let (ended, record, asked) = sweep(dir.path(), run, |_, _| Ok(1.0));
    assert_eq!(ended.unwrap(), Ended::Done);
    assert_eq!(asked, 10);
    assert_eq!((record.run.end, record.run.complete), (Some(RunEnd::Done), false));
    assert_eq!(record.run.failures.len(), 2);
    for failure in &record.run.failures {
        assert_eq!(failure.point.case.testcase, "getppid1");
        assert_eq!(failure.failure.kind, FailureKind::CannotRun);
        assert_eq!(failure.failure, record.run.failures[0].failure, "no random name in it");
    }
}

mod files {
    use super::*;

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let run = run_record(dir.path(), |_| {});
        let (_, record, _) = sweep(dir.path(), run, |_, nr| Ok(nr as f64 + 0.123_456_789));
        let text = std::fs::read_to_string(dir.path().join("record/samples.jsonl")).unwrap();
        let again: String = samples(&record)
            .iter()
            .map(|line| serde_json::to_string(line).unwrap() + "\n")
            .collect();
        assert_eq!(text, again);
    }

    #[test]
    fn wherever_the_file_of_samples_is_cut_its_whole_lines_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let run = run_record(dir.path(), |request| {
            request.rounds = 1;
            request.samples = 1;
        });
        let (_, record, _) = sweep(dir.path(), run, |_, _| Ok(1.0));
        let file = record.dir.join("samples.jsonl");
        let text = std::fs::read(&file).unwrap();
        for end in 0..=text.len() {
            std::fs::write(&file, &text[..end]).unwrap();
            let whole = text[..end].iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(samples(&record).len(), whole, "cut at {end}");
        }
    }

    #[test]
    fn a_directory_in_use_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("something"), "").unwrap();
        let error = Writer::create(dir.path(), &run_record(dir.path(), |_| {})).err().unwrap();
        assert!(error.to_string().contains("--resume"), "{error}");
    }

    #[test]
    fn the_cause_of_an_error_is_printed_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("run.json")).unwrap();
        let error = Record::open(dir.path()).unwrap_err();
        assert!(error.to_string().contains("Is a directory"), "{error}");
        assert!(std::error::Error::source(&error).is_none(), "which who prints the chain repeats");
    }

    #[test]
    fn a_directory_without_a_record_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        for dir in [dir.path().to_owned(), dir.path().join("file")] {
            for error in [Record::open(&dir).err(), Paused::open(&dir).err()] {
                assert!(matches!(error, Some(RecordError::NoRecord { .. })), "{error:?}");
            }
        }
        let missing = dir.path().join("missing");
        for error in [Record::open(&missing).err(), Paused::open(&missing).err()] {
            assert!(matches!(error, Some(RecordError::NoDirectory { .. })), "{error:?}");
        }
    }

    #[test]
    fn a_description_that_takes_too_much_memory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let record = dir.path().join("r");
        let mut run = run_record(dir.path(), |_| {});
        drop(Writer::create(&record, &run).unwrap());
        let file = std::fs::OpenOptions::new().append(true).open(record.join("run.json")).unwrap();
        file.set_len((32 << 20) + 1).unwrap();
        for error in [Record::open(&record).err(), Paused::open(&record).err()] {
            let error = error.unwrap().to_string();
            assert!(error.ends_with("run.json: it is larger than 32 MiB"), "{error}");
        }
        // A short text for many points.
        let case = run.cases[0].clone();
        let named = |n: i32| Case { id: knee_results::CaseId::new(n.to_string()), ..case.clone() };
        let all_refuse = |run: &RunRecord, expected: &str| {
            std::fs::write(record.join("run.json"), serde_json::to_vec(run).unwrap()).unwrap();
            for error in [
                Record::open(&record).err(),
                Paused::open(&record).err(),
                Writer::create(&dir.path().join("new"), run).err(),
            ] {
                let error = error.unwrap().to_string();
                assert!(error.contains(expected), "{error}");
            }
            assert!(!dir.path().join("new").exists());
        };
        run.cases = (0..100).map(named).collect();
        run.request.tasks = (1..=1001).collect();
        all_refuse(&run, "the run has 100100 points, and knee reads at most 100000");
        run.cases = (0..5001).map(named).collect();
        run.request.tasks = vec![1];
        all_refuse(&run, "the run has 5001 testcases, and knee reads at most 5000");
        run.cases = vec![Case { id: knee_results::CaseId::new("x".repeat(1001)), ..case.clone() }];
        all_refuse(
            &run,
            "the name of a testcase has 1001 bytes, and knee reads at most 1000; shorten the name \
             that begins with \"xxx",
        );
    }

    #[test]
    fn a_record_that_cannot_begin_leaves_no_directories() {
        let parent = tempfile::tempdir().unwrap();
        // Deep enough for PATH_MAX, 4096 bytes, to hold the directory and not a file in it.
        let mut dir = parent.path().to_owned();
        while dir.as_os_str().len() < 3800 {
            dir.push("x".repeat(200));
        }
        dir.push("x".repeat(4090 - dir.as_os_str().len() - 1));
        let error = Writer::create(&dir, &run_record(parent.path(), |_| {})).err();
        assert!(matches!(error, Some(RecordError::Io { .. })), "{error:?}");
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);

        // What was there before stays.
        std::fs::create_dir_all(&dir).unwrap();
        assert!(Writer::create(&dir, &run_record(parent.path(), |_| {})).is_err());
        assert!(dir.exists());
    }

    #[test]
    fn only_one_resume_at_a_time_writes_to_a_record() {
        let dir = tempfile::tempdir().unwrap();
        let record = dir.path().join("record");
        let run = run_record(dir.path(), |_| {});
        let going = Writer::create(&record, &run).unwrap();
        let refused = |error: Option<RecordError>| {
            assert!(matches!(error, Some(RecordError::InUse { .. })), "{error:?}");
        };
        refused(Paused::open(&record).err());
        refused(Writer::create(&record, &run).err());
        drop(going);
        let first = Paused::open(&record).unwrap();
        refused(Paused::open(&record).err());
        let (_writer, ..) = first.go_on().unwrap();
        refused(Paused::open(&record).err());
    }

    #[test]
    fn a_resumed_record_is_the_locked_one_even_if_another_directory_takes_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let [record, moved, other] = ["record", "moved", "other"].map(|name| dir.path().join(name));
        drop(Writer::create(&record, &run_record(dir.path(), |_| {})).unwrap());
        std::fs::write(&other, "no line").unwrap();
        let paused = Paused::open(&record).unwrap();
        std::fs::rename(&record, &moved).unwrap();
        std::fs::create_dir(&record).unwrap();
        std::os::unix::fs::symlink(&other, record.join("samples.jsonl")).unwrap();
        drop(paused.go_on().unwrap());
        assert_eq!(std::fs::read(&other).unwrap(), b"no line");
        assert!(!moved.join(".lock").exists());
    }

    #[test]
    fn a_record_with_a_link_is_not_resumed() {
        for name in ["run.json", "samples.jsonl"] {
            let dir = tempfile::tempdir().unwrap();
            let record = dir.path().join("record");
            drop(Writer::create(&record, &run_record(dir.path(), |_| {})).unwrap());
            let file = dir.path().join(name);
            std::fs::rename(record.join(name), &file).unwrap();
            std::os::unix::fs::symlink(&file, record.join(name)).unwrap();
            let refused = Paused::open(&record).and_then(|paused| paused.go_on().map(drop));
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(&format!("{name}: it is a symbolic link")), "{refused}");
        }
    }

    #[test]
    fn a_killed_resume_does_not_keep_the_earlier_end() {
        let dir = tempfile::tempdir().unwrap();
        let run = run_record(dir.path(), |_| {});
        let (_, record, _) = sweep(dir.path(), run, |tasks, _| match tasks {
            1 => Ok(1.0),
            _ => Err(Failure::runner("boom").into()),
        });
        assert_eq!((record.run.end, record.run.failures.len()), (Some(RunEnd::Done), 1));

        // Looked at, and left alone.
        drop(Paused::open(&record.dir).unwrap());
        assert_eq!(Record::open(&record.dir).unwrap(), record);

        drop(Paused::open(&record.dir).unwrap().go_on().unwrap());
        let killed = Record::open(&record.dir).unwrap().run;
        assert_eq!((killed.end, killed.complete), (None, false));
        assert_eq!(killed.failures, []);
    }

    #[test]
    fn a_malformed_record_is_reported_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let run = run_record(dir.path(), |_| {});
        drop(Writer::create(&dir.path().join("r"), &run).unwrap());
        std::fs::write(dir.path().join("r/samples.jsonl"), "{}\n").unwrap();
        let record = Record::open(&dir.path().join("r")).unwrap();
        let error = record.finished_rounds().unwrap_err().to_string();
        assert!(error.contains("samples.jsonl:1"), "{error}");
        let text = std::fs::read_to_string(dir.path().join("r/run.json")).unwrap();
        let newer = text.replacen("\"schema\": 1", "\"schema\": 2", 1);
        std::fs::write(dir.path().join("r/run.json"), newer).unwrap();
        let error = Record::open(&dir.path().join("r")).unwrap_err().to_string();
        assert!(error.contains("schema 2"), "{error}");
    }

    #[test]
    fn a_question_that_no_rounds_can_answer_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let run = interleaved(dir.path(), &[1], |request| {
            request.until_decided = Some(UntilDecided { within: 0.02, confidence: 1.0 });
        });
        drop(Writer::create(&dir.path().join("r"), &run).unwrap());
        let error = Record::open(&dir.path().join("r")).unwrap_err().to_string();
        assert!(error.contains("request.until_decided.confidence: 1.0 is not in"), "{error}");
    }

    #[test]
    fn the_committed_schemas_match_the_code() {
        use snapbox::{assert_data_eq, file};
        let pretty = |schema| format!("{schema:#}\n");
        assert_data_eq!(
            pretty(crate::record::run_schema()),
            file!["../../schemas/run.schema.json"].raw()
        );
        assert_data_eq!(
            pretty(crate::record::sample_schema()),
            file!["../../schemas/sample.schema.json"].raw()
        );
    }
}
