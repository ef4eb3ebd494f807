//! What the tests of `knee jobs` share: lists, and shards of a check that is cheap.

use std::fs;
use std::process::Command;

use super::{Finished, Scratch, example, finish, skip};

/// How many shards a check is divided into.
pub(crate) const SHARDS: usize = 8;

/// Operations of the library `planted` whose tests have certain results.
const OPERATIONS: [&str; 4] = ["count", "neighbour", "null", "own"];

/// `knee jobs run list -o out`, for a list with these lines.
pub(crate) fn jobs(scratch: &Scratch, lines: &[&str], args: &[&str]) -> Command {
    fs::write(scratch.path().join("list"), lines.join("\n")).unwrap();
    let mut command = scratch.knee(&["jobs", "run", "list", "-o", "out"]);
    command.args(args);
    command
}

/// The content of a file in the directory of the jobs.
pub(crate) fn read(scratch: &Scratch, file: &str) -> String {
    fs::read_to_string(scratch.path().join("out").join(file)).unwrap()
}

/// The verdict of each test of a record, or of all records in a directory, ordered by test.
fn verdicts(scratch: &Scratch, dir: &str) -> Vec<(String, String)> {
    let dir = scratch.path().join(dir);
    let shards = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let files = shards.chain([dir.clone()]).map(|dir| dir.join("tests.jsonl"));
    let lines: String = files.filter_map(|file| fs::read_to_string(file).ok()).collect();
    super::verdicts(&lines)
}

/// Checks a library alone, and in shards as jobs. Asserts that the results are the same, test by test. The
/// check is skipped, with a reason, if `qemu-x86_64` is missing.
pub(crate) fn assert_shards_equal_the_whole(scratch: &Scratch, run: impl FnOnce(&str) -> Finished) {
    if let Err(error) = knee_trace::user_mode() {
        skip("qemu", error);
        return;
    }
    let program = example("knee-bind", "planted");
    let knee = env!("CARGO_BIN_EXE_knee");
    let program = program.display();
    let mut tests = String::new();
    for (nr, one) in OPERATIONS.iter().enumerate() {
        for other in &OPERATIONS[nr..] {
            let generate = format!("commute tests {one} {other} --model {program}");
            let generate = scratch.knee(&generate.split(' ').collect::<Vec<_>>()).output().unwrap();
            tests += std::str::from_utf8(&generate.stdout).unwrap();
        }
    }
    let file = scratch.path().join("tests");
    fs::write(&file, tests).unwrap();
    let check = format!("commute check --program {program} --tests {}", file.display());
    let mut whole = scratch.knee(&check.split(' ').collect::<Vec<_>>());
    finish(whole.args(["-o", "whole"])).assert_code(0);
    let command = format!("{knee} {check} --shard {{shard}} -o $KNEE_OUT/planted/{{job}} --resume");
    let shards = format!("shard=1..{SHARDS}/{SHARDS}");
    let plan = finish(&mut scratch.knee(&["jobs", "plan", &command, &shards]));
    fs::write(scratch.path().join("list"), &plan.assert_code(0).stdout).unwrap();
    run("list").assert_code(0).assert_stdout_has(&format!("{SHARDS} of {SHARDS} jobs done"));
    let of_whole = verdicts(scratch, "whole");
    assert!(of_whole.len() > SHARDS, "{of_whole:?}");
    let has = |verdict: &str| of_whole.iter().any(|(_, other)| other == verdict);
    assert!(has("conflict-free") && has("conflict"), "{of_whole:?}");
    assert_eq!(verdicts(scratch, "out/results/planted"), of_whole);
    // `knee commute` reads the shards as one check. The names of shared data may differ from run to run.
    let matrix = |dir: &str| {
        let read = finish(&mut scratch.knee(&["commute", "matrix", dir]));
        assert!(!read.assert_code(0).stderr.contains("missing"), "{read:?}");
        read.stdout.split("Data shared").next().unwrap().to_owned()
    };
    assert_eq!(matrix("out/results/planted"), matrix("whole"));
}
