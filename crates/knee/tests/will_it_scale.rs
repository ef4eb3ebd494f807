//! `knee will-it-scale` in the place of a binary of that suite.

mod support;

use support::{Scratch, finish};

#[test]
fn the_lines_are_those_of_the_original() {
    let scratch = Scratch::new();
    let mut command = scratch.knee(&["will-it-scale", "sched_yield_threads", "-t", "2", "-s", "2"]);
    let finished = finish(&mut command);
    finished.assert_code(0);
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert!(lines[0].starts_with("testcase:"), "{finished:#?}");
    assert_eq!(lines[1], "warmup");
    // Six samples are discarded, though the original calls them five.
    let sample = |line: &str| -> Vec<u64> {
        let fields: Vec<&str> = line.split(' ').collect();
        let names = ["min:", "max:", "total:"];
        assert_eq!(fields.len(), 3, "{line}");
        std::iter::zip(fields, names)
            .map(|(f, n)| f.strip_prefix(n).unwrap().parse().unwrap())
            .collect()
    };
    for line in lines[2..8].iter().chain(&lines[9..11]) {
        let values = sample(line);
        assert!(values[0] <= values[1] && values[1] <= values[2], "{line}");
    }
    assert_eq!(lines[8], "measurement");
    let average: u64 = lines[11].strip_prefix("average:").unwrap().parse().unwrap();
    let mean = lines[9..11].iter().map(|line| sample(line)[2]).sum::<u64>() / 2;
    assert!(average.abs_diff(mean) <= 1, "{average} {mean}");
    assert_eq!(lines.len(), 12);
    assert_eq!(scratch.leftovers(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn lines_that_cannot_be_written_are_an_error() {
    let scratch = Scratch::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = scratch.knee(&["will-it-scale", "getppid1_processes", "-s", "1"]);
    let output = command.stdout(full).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("cannot write to standard output"), "{stderr}");
    assert_eq!(scratch.leftovers(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_reader_that_leaves_ends_it_without_an_error() {
    let scratch = Scratch::new();
    let script = format!(
        "{} will-it-scale getppid1_processes | head -1 >/dev/null; echo ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_knee")
    );
    let mut command = std::process::Command::new("bash");
    let finished = finish(command.args(["-c", &script]).current_dir(scratch.path()));
    assert_eq!(finished.stdout, "0\n", "{finished:#?}");
}

#[test]
fn a_machine_that_lacks_something_is_not_a_testcase_that_died() {
    let scratch = Scratch::new();
    let mut command = scratch.knee(&["will-it-scale", "build1_processes", "-s", "1"]);
    let finished = finish(command.env("PATH", scratch.path()));
    finished.assert_code(3).assert_stderr_has("build1_processes: there is no C compiler");
}
