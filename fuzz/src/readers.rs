//! A function per reader of knee: whatever the text, it does not panic, an error names the file,
//! and what has been read can be worked with.
//!
//! crates/knee/tests/corpus.rs uses this file too, to replay the corpus without a fuzzer.

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;

use knee_host::CpuList;
use knee_predict::Machine;
use knee_predict::simulate::{Plan, Simulator};
use knee_predict::trace::Traces;
use knee_profile::Capture;
use knee_profile::diff::{diff, table};
use knee_profile::view::flame::{Widths, difference, flame};
use knee_profile::view::folded::{FoldedOptions, folded};
use knee_profile::view::functions::functions;
use knee_profile::view::pprof::pprof;
use knee_profile::view::speedscope::speedscope;
use knee_profile::view::tree::{Root, tree};
use knee_report::{Matrix, Page, render};
use knee_results::prediction::Predictions;
use knee_results::{Compared, Results, history};
use knee_run::noise::NoiseFloors;
use knee_run::record::Record;
use knee_run::server::Server;
use knee_stats::ministat::{Comparison, DataSet, Quantiles, ReadError, Reader, plot};
use knee_stats::{ChangeOptions, CompareOptions};
use knee_trace::findings::{Diff, Findings, Ranking, Separations, Tally, TestLine};

/// Beyond this many rounds statistics would take the time that the fuzzer has for reading.
const FEW_ROUNDS: usize = 40;

/// `run.json`, beside samples that are good for the one it began as.
pub fn run_json(dir: &Path, text: &[u8]) {
    fs::write(dir.join("run.json"), text).unwrap();
    fs::write(dir.join("samples.jsonl"), include_str!("../fixed/samples.jsonl")).unwrap();
    record(dir);
}

/// `samples.jsonl`, beside a good `run.json`.
pub fn samples_jsonl(dir: &Path, text: &[u8]) {
    fs::write(dir.join("run.json"), include_str!("../fixed/run.json")).unwrap();
    fs::write(dir.join("samples.jsonl"), text).unwrap();
    record(dir);
}

fn record(dir: &Path) {
    let record = Record::open(dir);
    results(record.and_then(|record| record.results(dir)), dir);
    let Ok(record) = Record::open(dir) else { return };
    if let Ok(rounds) = record.rounds_left() {
        for curve in record.run.curves(&rounds) {
            curve.verdict(0.8);
        }
        NoiseFloors::of_run(&record.run, &rounds);
    }
}

/// CSV of will-it-scale's `runtest.py`.
pub fn csv(dir: &Path, text: &[u8]) {
    let file = dir.join("mmap1.csv");
    fs::write(&file, text).unwrap();
    results(Results::read(&file), &file);
}

/// What a binary of will-it-scale prints.
pub fn will_it_scale(dir: &Path, text: &[u8]) {
    let file = dir.join("mmap1_threads-2.txt");
    fs::write(&file, text).unwrap();
    results(Results::read(&file), &file);
}

fn results(read: Result<Results, impl Error>, path: &Path) {
    let results = match read {
        Ok(results) => results,
        Err(error) => {
            let (error, path) = (error.to_string(), path.to_str().unwrap());
            assert!(error.contains(path), "{error:?} does not name {path}");
            return;
        }
    };
    assert!(!results.points.is_empty() || results.origin.is_some(), "nothing, without a reason");
    results.curves();
    let rounds: usize = results.points.values().map(|measured| measured.rounds.len()).sum();
    if rounds <= FEW_ROUNDS {
        Compared::new(&results, &results, &CompareOptions::default());
        history(&vec![results; 6], &ChangeOptions::default());
    }
}

/// Files of numbers, as ministat reads them.
pub fn numbers(text: &[u8]) {
    let confidence = "95".parse().unwrap();
    for (column, delimiters, longest_line) in [
        (1, " \t", None),
        (2, ",;", None),
        (1, " ", Some(Reader::MINISTAT_BUFFER)),
        (1, "1", Some(3)),
    ] {
        let takes_groups = longest_line.is_none();
        let reader =
            Reader { column, delimiters: delimiters.as_bytes(), longest_line, takes_groups };
        let values = match reader.values(text) {
            Ok(values) => values,
            Err(ReadError::BadNumber { line, text: field }) => {
                let lines = text.split(|&byte| byte == b'\n').count();
                assert!((1..=lines).contains(&line), "{line}: {field}");
                continue;
            }
            Err(ReadError::TooMany) => continue,
        };
        let numbers: Vec<f64> = values.iter().map(|value| value.number).collect();
        let Some(set) = DataSet::new(&numbers) else { continue };
        Comparison::new(&set, &set, confidence, Quantiles::Exact).is_proven();
        for separate in [false, true] {
            let _ = plot(&[&set, &set], 60, separate);
        }
    }
}

/// The noise floors of a machine.
pub fn noise_json(text: &[u8]) {
    let path = Path::new("/state/noise.json");
    match NoiseFloors::parse(text, path) {
        Ok(Some(floors)) => {
            let text = serde_json::to_vec(&floors).unwrap();
            assert!(NoiseFloors::parse(&text, path).unwrap().is_some());
        }
        Ok(None) => {}
        Err(error) => assert!(error.to_string().starts_with("/state/noise.json"), "{error}"),
    }
}

/// Records of when operations commute.
pub fn matrix_json(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    match Matrix::from_json(text) {
        Ok(matrix) => {
            assert_eq!(Matrix::from_json(&matrix.to_json()).unwrap(), matrix);
            render(&Page { matrices: vec![matrix], ..Page::default() });
        }
        Err(error) => assert!(error.to_string().contains("knee commute matrix"), "{error}"),
    }
}

/// Predictions of `knee predict`, on a page.
pub fn prediction_json(text: &[u8]) {
    match Predictions::parse(text) {
        Ok(predictions) => {
            let written = serde_json::to_vec(&predictions).unwrap();
            Predictions::parse(&written).expect("a written prediction is read");
            let page = render(&Page { predictions: vec![predictions], ..Page::default() });
            assert!(!page.contains("NaN") && !page.contains("\"inf"), "{page}");
        }
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("knee predict") || error.contains("schema"), "{error}");
        }
    }
}

/// `check.json` of a record of `knee commute check`, beside good tests.
pub fn check_json(dir: &Path, text: &[u8]) {
    fs::write(dir.join("check.json"), text).unwrap();
    fs::write(dir.join("tests.jsonl"), include_str!("../fixed/tests.jsonl")).unwrap();
    check(dir);
}

/// `tests.jsonl` of one, beside a good `check.json`.
pub fn check_tests(dir: &Path, text: &[u8]) {
    fs::write(dir.join("check.json"), include_str!("../fixed/check.json")).unwrap();
    fs::write(dir.join("tests.jsonl"), text).unwrap();
    check(dir);
}

fn check(dir: &Path) {
    let findings = match Findings::open(dir) {
        Ok(findings) => findings,
        Err(error) => {
            let (error, path) = (error.to_string(), dir.to_str().unwrap());
            assert!(error.contains(path), "{error:?} does not name {path}");
            return;
        }
    };
    let tests = &findings.tests;
    for test in tests {
        let line = test.to_line();
        assert_eq!(TestLine::parse(line.trim_end().as_bytes()).as_ref(), Ok(test));
    }
    assert!(findings.missing_shards().len() <= findings.check.tests.count);
    findings.check.expected();
    assert_eq!(Tally::of(tests).total().tests, tests.len());
    assert_eq!(Diff::of(tests, tests).worse, [""; 0]);
    let ranking = Ranking::of(tests, &findings.layouts, usize::MAX);
    let freed: usize = ranking.fixes.iter().map(|fix| fix.unlocks_tests).sum();
    assert_eq!(freed, ranking.fixes.first().map_or(0, |_| ranking.conflicting));
    let separations = Separations::of(tests, &findings.layouts);
    assert!(separations.structs.iter().all(|of| of.unlocks_tests <= of.tests));
}

/// CPUs as the kernel and `taskset -c` list them.
pub fn cpu_list(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    match text.parse::<CpuList>() {
        Ok(list) => assert_eq!(list.to_string().parse().as_ref(), Ok(&list)),
        Err(error) => {
            let error = error.to_string();
            let named = text.split(',').any(|piece| error.contains(piece.trim()));
            assert!(named, "{error:?} names no piece of {text:?}");
        }
    }
}

/// Descriptions of servers.
pub fn server_toml(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    match Server::parse(text) {
        Ok(server) => {
            let recorded = serde_json::to_string(&server).unwrap();
            assert_eq!(serde_json::from_str::<Server>(&recorded).unwrap(), server);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Saved traces of `knee predict`. Short ones are simulated.
pub fn prediction_trace(text: &[u8]) {
    const FEW_STEPS: usize = 1_000;
    let Ok(traces) = Traces::parse(text) else { return };
    let written = traces.to_json();
    assert_eq!(Traces::parse(&written).as_ref().ok(), Some(&traces));
    let machine = Machine::built_in("genoa-2x96").expect("it is built in");
    for trace in &traces.0 {
        let recorded = trace.workload.recorded.iter().flat_map(|cpu| &cpu.iterations);
        let steps: usize = recorded.map(|iteration| iteration.steps.len()).sum();
        if steps > FEW_STEPS {
            continue;
        }
        let plan = Plan { draws: 2, ..Plan::new(&trace.workload, &machine, 1000.0) };
        if let Ok(simulator) = Simulator::new(plan) {
            let point = simulator.point(4).expect("the machine has more CPUs");
            assert!(point.rate > 0.0 && point.rate.is_finite(), "{}", point.rate);
        }
    }
}

/// Captures of `knee profile`, in every view.
pub fn capture_json(text: &[u8]) {
    if let Ok(capture) = Capture::parse(text) {
        let written = serde_json::to_vec(&capture).unwrap();
        assert_eq!(Capture::parse(&written).as_ref(), Ok(&capture));
        views(&capture);
    }
}

/// A file of `perf record`.
pub fn perf_data(dir: &Path, bytes: &[u8]) {
    let path = dir.join("perf.data");
    fs::write(&path, bytes).unwrap();
    match knee_profile::import::perf_data(File::open(path).unwrap(), "perf.data") {
        Ok(capture) => imported(&capture),
        Err(error) => assert!(error.contains("perf"), "{error:?} does not say what it is about"),
    }
}

/// What `perf script` prints.
pub fn perf_script(text: &[u8]) {
    let script = knee_profile::import::script(text, "perf script").unwrap();
    imported(&script);
}

/// Folded stacks.
pub fn folded_stacks(text: &[u8]) {
    imported(&knee_profile::import::folded(text, "folded stacks").unwrap());
}

fn imported(capture: &Capture) {
    let written = serde_json::to_vec(capture).unwrap();
    Capture::parse(&written).expect("what is imported is a capture");
    views(capture);
}

fn views(capture: &Capture) {
    let all = capture.samples();
    let own: u64 = functions(capture).iter().map(|row| row.own.samples).sum();
    assert!(own <= all);
    assert_eq!(tree(capture, Root::All).map(|tree| tree.samples()), Some(all));
    for function in capture.functions.iter().take(3) {
        for root in [Root::Function(&function.name), Root::Callers(&function.name)] {
            assert!(tree(capture, root).is_none_or(|tree| tree.samples() <= all));
        }
    }
    let changed = diff(capture, capture).rows.iter().any(|row| row.total.is_real);
    assert!(!changed, "a capture differs from itself");
    table(&diff(capture, capture), 10).to_string();
    for graph in [flame(capture), difference(capture, capture, Widths::After)] {
        assert!(!graph.contains("NaN"), "{graph}");
    }
    let options = FoldedOptions { annotate: true, ..FoldedOptions::default() };
    folded(capture, options, &mut std::io::sink()).unwrap();
    let mut file = Vec::new();
    speedscope(capture, &mut file).unwrap();
    serde_json::from_slice::<serde_json::Value>(&file).unwrap();
    pprof(capture);
}
