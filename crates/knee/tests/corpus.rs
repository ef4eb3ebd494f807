//! Every text that the fuzzer has kept (fuzz/corpus) again, without a fuzzer: through the readers,
//! and through the real binary, which neither dies nor leaves anybody guessing which file it means.

#[allow(unreachable_pub, reason = "a library of its own where there is a fuzzer")]
#[path = "../../../fuzz/src/readers.rs"]
mod readers;
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Finished, Scratch};

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");

/// The texts of a target, by name.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(Path::new(FUZZ).join("corpus").join(target)).unwrap();
    let mut texts: Vec<(String, Vec<u8>)> = files
        .map(|file| file.unwrap())
        .map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()))
        .collect();
    texts.sort();
    assert!(!texts.is_empty(), "no corpus of {target}");
    texts
}

fn fixed(file: &str) -> PathBuf {
    Path::new(FUZZ).join("fixed").join(file)
}

/// Runs `command` on the corpus text called `text`: it ends by itself, and an error is told with
/// `place` and, where the place is a line, its number.
#[track_caller]
fn survives(text: &str, mut command: Command, place: &str) -> Finished {
    let output = command.output().unwrap();
    let finished = Finished {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    let at = format!("{text}: {command:?}: {finished:#?}");
    match finished.code {
        Some(0) => assert!(!finished.stdout.contains("NaN"), "{at}"),
        Some(2 | 3) => assert!(finished.stderr.contains(place), "{at}"),
        // What a record with failed points ends with.
        Some(4) => assert!(finished.stderr.is_empty(), "{at}"),
        _ => panic!("{at}"),
    }
    finished
}

/// Each command that reads records, on the one in `record`.
fn survives_as_record(scratch: &Scratch, text: &str) {
    for args in [
        ["show", "record"].as_slice(),
        &["show", "record", "--format", "csv", "--detail"],
        &["show", "record", "--format", "will-it-scale-csv"],
        &["compare", "record", "record"],
        &["fit", "record", "--resamples", "100"],
        &["report", "record", "-o", "-"],
        &[&["history"][..], &["record"; 10]].concat(),
    ] {
        survives(text, scratch.knee(args), "record");
    }
}

#[test]
fn descriptions_of_runs() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.record()).unwrap();
    for (name, text) in corpus("run_json") {
        readers::run_json(&scratch.record(), &text);
        survives_as_record(&scratch, &name);
    }
}

#[test]
fn samples() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.record()).unwrap();
    for (name, text) in corpus("samples_jsonl") {
        readers::samples_jsonl(&scratch.record(), &text);
        survives_as_record(&scratch, &name);
        let shown = survives(&name, scratch.knee(&["show", "record"]), "record");
        if shown.code == Some(3) {
            assert!(has_line(&shown.stderr, "record/samples.jsonl:"), "{name}: {shown:#?}");
        }
    }
}

/// Whether a line number follows `place`.
fn has_line(text: &str, place: &str) -> bool {
    text.split_once(place).is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[test]
fn tables_of_will_it_scale() {
    let scratch = Scratch::new();
    for (name, text) in corpus("csv") {
        readers::csv(scratch.path(), &text);
        survives_as_results(&scratch, &name, "mmap1.csv");
    }
}

#[test]
fn output_of_will_it_scale() {
    let scratch = Scratch::new();
    for (name, text) in corpus("will_it_scale") {
        readers::will_it_scale(scratch.path(), &text);
        survives_as_results(&scratch, &name, "mmap1_threads-2.txt");
    }
}

fn survives_as_results(scratch: &Scratch, text: &str, file: &str) {
    for args in [
        ["compare", file, file].as_slice(),
        &["fit", file, "--resamples", "100"],
        &[&["history"][..], &[file; 10]].concat(),
    ] {
        let finished = survives(text, scratch.knee(args), file);
        // A file that is not even text has no lines.
        let is_text = !finished.stderr.contains("UTF-8");
        if finished.code == Some(3) && is_text && !finished.stderr.contains("contains no results") {
            let places = [format!("{file}:"), format!("{file}: line ")];
            let has_place = places.iter().any(|place| has_line(&finished.stderr, place));
            assert!(has_place, "{text}: {finished:#?}");
        }
    }
}

#[test]
fn files_of_numbers() {
    let scratch = Scratch::new();
    for (name, text) in corpus("numbers") {
        readers::numbers(&text);
        fs::write(scratch.path().join("numbers"), text).unwrap();
        survives(&name, scratch.knee(&["compare", "numbers", "numbers"]), "numbers: ");
        let ministat = ["compare", "--format", "ministat", "-A", "numbers"];
        let finished = survives(&name, scratch.knee(&ministat), "numbers: ");
        if finished.stderr.contains("is not a number") {
            assert!(has_line(&finished.stderr, "numbers: line "), "{name}: {finished:#?}");
        }
    }
}

#[test]
fn noise_floors() {
    let scratch = Scratch::new();
    let state = scratch.path().join("state/knee");
    fs::create_dir_all(&state).unwrap();
    fs::create_dir(scratch.record()).unwrap();
    for file in ["run.json", "samples.jsonl"] {
        fs::copy(fixed(file), scratch.record().join(file)).unwrap();
    }
    for (name, text) in corpus("noise_json") {
        readers::noise_json(&text);
        fs::write(state.join("noise.json"), text).unwrap();
        let finished = survives(&name, scratch.knee(&["show", "record"]), "");
        // The results are shown all the same.
        finished.assert_code(0).assert_stdout_has("getppid1");
        if !finished.stderr.is_empty() {
            finished.assert_stderr_has("state/knee/noise.json");
        }
    }
}

#[test]
fn matrices() {
    let scratch = Scratch::new();
    for (name, text) in corpus("matrix_json") {
        readers::matrix_json(&text);
        fs::write(scratch.path().join("matrix.json"), text).unwrap();
        survives(&name, scratch.knee(&["report", "matrix.json", "-o", "-"]), "matrix.json");
    }
}

#[test]
fn predictions() {
    let scratch = Scratch::new();
    for (name, text) in corpus("prediction_json") {
        readers::prediction_json(&text);
        fs::write(scratch.path().join("prediction.json"), text).unwrap();
        survives(&name, scratch.knee(&["show", "prediction.json"]), "prediction.json");
        survives(&name, scratch.knee(&["report", "prediction.json", "-o", "-"]), "prediction.json");
    }
}

#[test]
fn descriptions_of_checks() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.record()).unwrap();
    for (name, text) in corpus("check_json") {
        readers::check_json(&scratch.record(), &text);
        survives_as_check(&scratch, &name);
    }
}

#[test]
fn tests_of_checks() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.record()).unwrap();
    for (name, text) in corpus("check_tests") {
        readers::check_tests(&scratch.record(), &text);
        let finished = survives_as_check(&scratch, &name);
        if finished.code == Some(3) {
            assert!(has_line(&finished.stderr, "record/tests.jsonl:"), "{name}: {finished:#?}");
        }
    }
}

fn survives_as_check(scratch: &Scratch, text: &str) -> Finished {
    for args in [
        ["commute", "matrix", "record"].as_slice(),
        &["commute", "matrix", "record", "-o", "-"],
        &["commute", "explain", "record"],
        &["commute", "explain", "record", "--test", "open,close/0.0"],
        &["report", "record", "-o", "-"],
    ] {
        survives(text, scratch.knee(args), "record");
    }
    survives(text, scratch.knee(&["commute", "diff", "record", "record"]), "record")
}

#[test]
fn lists_of_cpus() {
    let scratch = Scratch::new();
    for (name, text) in corpus("cpu_list") {
        readers::cpu_list(&text);
        let Ok(text) = String::from_utf8(text) else { continue };
        // No argument has a NUL in it.
        if !text.contains('\0') {
            let option = format!("--cpus={text}");
            survives(&name, scratch.knee(&["topology", &option]), "CPU");
        }
    }
}

#[test]
fn descriptions_of_servers() {
    let scratch = Scratch::new();
    for (name, text) in corpus("server_toml") {
        readers::server_toml(&text);
        fs::write(scratch.path().join("server.toml"), text).unwrap();
        survives(&name, scratch.knee(&["list", "./server.toml"]), "server.toml");
    }
}

#[test]
fn traces_of_predictions() {
    let scratch = Scratch::new();
    for (name, text) in corpus("prediction_trace") {
        readers::prediction_trace(&text);
        fs::write(scratch.path().join("trace.json"), text).unwrap();
        let predict = ["predict", "--trace", "trace.json", "--machine", "genoa-2x96", "-t", "1,2"];
        survives(&name, scratch.knee(&predict), "trace.json");
    }
}

#[test]
fn captures() {
    for (_, text) in corpus("capture_json") {
        readers::capture_json(&text);
    }
}

#[test]
fn files_of_perf_record() {
    let scratch = Scratch::new();
    for (name, bytes) in corpus("perf_data") {
        readers::perf_data(scratch.path(), &bytes);
        survives(&name, scratch.knee(&["profile", "show", "perf.data"]), "perf.data");
    }
}

#[test]
fn text_of_perf_script() {
    for (_, text) in corpus("perf_script") {
        readers::perf_script(&text);
    }
}

#[test]
fn folded_stacks() {
    for (_, text) in corpus("folded_stacks") {
        readers::folded_stacks(&text);
    }
}
