//! Nothing is silently dropped: each command that reads records names the file and the place of
//! what is wrong, or shows the gap.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use support::{Finished, Scratch, finish};

/// A record of two points, threads ×1 and ×2, with two rounds each.
const SMALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fixed");

/// As many as `knee history` requires, with the `bad` one.
const GOOD: [&str; 9] =
    ["good", "good2", "good3", "good4", "good5", "good6", "good7", "good8", "good9"];

/// Beside good records a `bad` one that is complete and the same, until a test spoils it.
struct Records {
    scratch: Scratch,
}

impl Records {
    fn new() -> Self {
        let records = Self { scratch: Scratch::new() };
        for (nr, name) in GOOD.into_iter().chain(["bad"]).enumerate() {
            fs::create_dir(records.scratch.path().join(name)).unwrap();
            for file in ["run.json", "samples.jsonl"] {
                let text = fs::read_to_string(Path::new(SMALL).join(file)).unwrap();
                let complete = text.replace("\"complete\": false", "\"complete\": true");
                // knee history refuses the same run twice.
                let complete = complete.replace("\"seed\": ", &format!("\"seed\": {}", nr + 1));
                fs::write(records.scratch.path().join(name).join(file), complete).unwrap();
            }
        }
        records
    }

    fn bad(&self, file: &str) -> PathBuf {
        self.scratch.path().join("bad").join(file)
    }

    /// Changes the text of a file of the bad record.
    fn spoil(self, file: &str, change: impl Fn(&str) -> String) -> Self {
        let text = fs::read_to_string(self.bad(file)).unwrap();
        let changed = change(&text);
        assert_ne!(changed, text, "nothing was spoilt");
        fs::write(self.bad(file), changed).unwrap();
        self
    }

    /// What each command that reads records says.
    fn of_each_command(&self) -> [(&'static str, Finished); 5] {
        [
            ["compare", "good", "bad"].as_slice(),
            &["fit", "bad"],
            &[&["history"], &GOOD[..], &["bad"]].concat(),
            &["report", "bad", "-o", "-"],
            &["show", "bad"],
        ]
        .map(|args| (args[0], finish(&mut self.scratch.knee(args))))
    }

    #[track_caller]
    fn all_refuse(&self, says: &str) {
        for (command, finished) in self.of_each_command() {
            assert_eq!(finished.code, Some(3), "{command}: {finished:#?}");
            assert!(finished.stderr.contains(says), "{command}: no {says:?} in {finished:#?}");
        }
    }
}

#[test]
fn the_record_that_is_spoilt_here_is_good_until_then() {
    for (command, finished) in Records::new().of_each_command() {
        assert_eq!(finished.code, Some(0), "{command}: {finished:#?}");
    }
}

#[test]
fn an_invalid_description_is_reported_with_its_line() {
    let spoilt = |change: &dyn Fn(&str) -> String| Records::new().spoil("run.json", change);
    spoilt(&|_| String::new()).all_refuse("bad/run.json:1: the file is cut off; restore it");
    spoilt(&|text| text.lines().take(9).collect::<Vec<_>>().join("\n"))
        .all_refuse("bad/run.json:9: the file is cut off; restore it");
    spoilt(&|_| "{\n\"a\": 1}".to_owned()).all_refuse("bad/run.json:1: this is not a record");
    spoilt(&|_| "1\n2\n3\n".to_owned()).all_refuse("bad/run.json:2: the file is not JSON");
    spoilt(&|text| text.replacen("\"interval\": 0.2", "\"interval\": NaN", 1))
        .all_refuse("bad/run.json:15: the file is not JSON");
    spoilt(&|text| text.replacen("\"interval\": 0.2", "\"interval\": 1e999", 1))
        .all_refuse("bad/run.json:15: number out of range");
    spoilt(&|text| text.replacen("\"interval\": 0.2", "\"interval\": -0.2", 1))
        .all_refuse("bad/run.json: request.interval: -0.2 is not in");
}

#[test]
fn a_description_that_is_not_text_is_reported_with_its_line() {
    let records = Records::new();
    fs::write(records.bad("run.json"), b"\"\n\xff\xfe\"").unwrap();
    records.all_refuse("bad/run.json:2: the file is not JSON");
}

#[test]
fn a_newer_schema_is_refused_with_both_versions() {
    Records::new()
        .spoil("run.json", |text| text.replacen("\"schema\": 1", "\"schema\": 99", 1))
        .all_refuse("bad/run.json has schema 99, but this version of knee reads 1");
}

#[test]
fn an_invalid_sample_is_reported_with_its_line() {
    let third = |change: &dyn Fn(&str) -> String| {
        Records::new().spoil("samples.jsonl", |text| {
            let spoil =
                |(nr, line): (usize, &str)| if nr == 2 { change(line) } else { line.into() };
            text.lines().enumerate().map(spoil).map(|line: String| line + "\n").collect()
        })
    };
    let number = |name: &str, value: &str| {
        let (name, value) = (format!("\"{name}\":"), value.to_owned());
        move |line: &str| {
            let (before, after) = line.split_once(&name).unwrap();
            let (_, after) = after.split_once(',').unwrap();
            format!("{before}{name}{value},{after}")
        }
    };
    let advice = "delete the line, then measure its round again: knee run --resume bad";
    third(&|_| String::new()).all_refuse(advice);
    third(&|line| line[..40].to_owned()).all_refuse("bad/samples.jsonl:3: the line is cut off");
    third(&|_| "\0\0\0\0".to_owned()).all_refuse("bad/samples.jsonl:3: the line is not JSON");
    third(&|line| line.replace("\"total\"", "\"sum\""))
        .all_refuse("bad/samples.jsonl:3: missing field `total`");
    third(&number("total", "NaN")).all_refuse("bad/samples.jsonl:3: the line is not JSON");
    third(&number("total", "1e999")).all_refuse("bad/samples.jsonl:3: number out of range");
    third(&number("total", "1e300")).all_refuse("bad/samples.jsonl:3: total: 1e300 is not in");
    third(&number("total", "-1")).all_refuse("bad/samples.jsonl:3: total: -1.0 is not in");
    third(&number("seconds", "0")).all_refuse("bad/samples.jsonl:3: seconds: 0.0 is not in");
    third(&|line| line.replace("getppid1", "mmap1"))
        .all_refuse("bad/samples.jsonl:3: run.json has no point mmap1 threads");
}

#[test]
fn a_complete_run_that_lacks_samples_says_how_many_rounds_and_what_to_do() {
    let lines = |n: usize| {
        Records::new().spoil("samples.jsonl", |text| {
            text.lines().take(n).map(|line| line.to_owned() + "\n").collect()
        })
    };
    lines(0).all_refuse(
        "bad/samples.jsonl lacks 4 of the 4 rounds that run.json lists as measured (the first \
         missing one is a round of getppid1 threads ×1); to measure the missing rounds again: \
         knee run --resume bad",
    );
    lines(6).all_refuse("bad/samples.jsonl lacks 1 of the 4 rounds");
    Records::new()
        .spoil("samples.jsonl", |text| text[..text.len() - 2].to_owned())
        .all_refuse("bad/samples.jsonl lacks 1 of the 4 rounds");

    let records = Records::new();
    fs::remove_file(records.bad("samples.jsonl")).unwrap();
    records.all_refuse("cannot read bad/samples.jsonl: No such file");
}

#[test]
fn the_remaining_rounds_are_shown_before_the_missing_ones_are_reported() {
    let records = Records::new().spoil("samples.jsonl", |text| {
        text.lines().take(6).map(|line| line.to_owned() + "\n").collect()
    });
    for args in [["show", "bad"].as_slice(), &["show", "bad", "--format", "will-it-scale-csv"]] {
        finish(&mut records.scratch.knee(args))
            .assert_code(3)
            .assert_stdout_has("\n1")
            .assert_stderr_has("lacks 1 of the 4 rounds");
    }
}

#[test]
fn missing_rounds_of_a_record_are_measured_again_by_the_printed_command() {
    let scratch = Scratch::new();
    finish(&mut scratch.run(&["getppid1", "-t", "1", "-r", "2"])).assert_code(0);
    let samples = scratch.record().join("samples.jsonl");
    let whole = fs::read_to_string(&samples).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    // The last sample, and the line of its round.
    fs::write(&samples, lines[..lines.len() - 2].join("\n") + "\n").unwrap();
    let lost = finish(&mut scratch.knee(&["show", "record"]));
    let advice = "to measure the missing rounds again: knee run --resume record";
    lost.assert_code(3).assert_stderr_has(advice);
    let resume = || {
        finish(&mut scratch.knee(&["run", "-q", "--resume", "record"]))
            .assert_code(0)
            .assert_stderr_has("is complete; knee measures only missing rounds");
        finish(&mut scratch.knee(&["show", "record"])).assert_code(0);
        assert_eq!(scratch.samples().len(), lines.len());
    };
    resume();
    fs::remove_file(&samples).unwrap();
    resume();
}

#[test]
fn a_fit_says_of_which_rounds_it_is_not() {
    let records = Records::new()
        .spoil("run.json", |text| text.replacen("\"complete\": true", "\"complete\": false", 1))
        .spoil("samples.jsonl", |text| {
            text.lines().take(6).map(|line| line.to_owned() + "\n").collect()
        });
    finish(&mut records.scratch.knee(&["fit", "bad"]))
        .assert_code(0)
        .assert_stdout_has("(only 1 of 2 rounds finished)");
}

#[test]
fn points_that_a_killed_run_has_not_reached_are_gaps() {
    let records = Records::new()
        .spoil("run.json", |text| text.replacen("\"complete\": true", "\"complete\": false", 1))
        .spoil("samples.jsonl", |text| {
            let first = text.lines().filter(|line| line.contains("\"tasks\":1,"));
            first.map(|line| line.to_owned() + "\n").collect()
        });
    let gap = "no round finished";
    for (command, finished) in records.of_each_command() {
        let says = match command {
            "compare" => format!("getppid1 (threads ×2): no result after ({gap})"),
            "fit" => format!("no result for getppid1 threads ×2 ({gap})"),
            "history" => format!("bad has no result for getppid1 threads ×2 ({gap})"),
            "report" => "not measured".to_owned(),
            _ => "note  the run was killed".to_owned(),
        };
        finished.assert_code(0).assert_stdout_has(&says);
    }
}

#[test]
fn a_file_that_is_not_a_record_is_reported() {
    let records = Records::new();
    fs::remove_file(records.bad("run.json")).unwrap();
    for (command, finished) in records.of_each_command() {
        let (code, says) = match command {
            "compare" | "fit" | "history" | "report" => (3, "bad contains no results"),
            _ => (3, "bad contains no run.json"),
        };
        assert!(finished.code == Some(code) && finished.stderr.contains(says), "{finished:#?}");
    }
}

#[test]
fn a_table_without_a_line_among_others_is_a_gap() {
    let scratch = Scratch::new();
    for dir in ["old", "new"] {
        let dir = scratch.path().join(dir);
        fs::create_dir(&dir).unwrap();
        let head = "tasks,processes,processes_idle,threads,threads_idle,linear\n";
        fs::write(dir.join("mmap1.csv"), format!("{head}1,100,50,100,50,100\n")).unwrap();
        fs::write(dir.join("read1.csv"), head).unwrap();
    }
    finish(&mut scratch.knee(&["compare", "old", "new"]))
        .assert_code(0)
        .assert_stdout_has("read1")
        .assert_stdout_has("its table is empty");
}

#[test]
fn an_unreadable_noise_floor_is_reported_and_not_overwritten() {
    let records = Records::new();
    let state = records.scratch.path().join("state/knee");
    fs::create_dir_all(&state).unwrap();
    for (text, says) in [
        ("{\"schema\": 2, \"hostname\":", "noise.json: line 1: the file is cut off"),
        ("{\"schema\": 99}", "noise.json has schema 99, but this version of knee reads 2"),
    ] {
        fs::write(state.join("noise.json"), text).unwrap();
        finish(&mut records.scratch.knee(&["show", "good"]))
            .assert_code(0)
            .assert_stdout_has("getppid1")
            .assert_stderr_has(says);
    }
    let mut run = records.scratch.run(&["getppid1", "-t", "1", "-m", "threads", "--aa"]);
    finish(run.args(["-r", "4"])).assert_code(3).assert_stderr_has("cannot save the noise floor");
    assert_eq!(fs::read_to_string(state.join("noise.json")).unwrap(), "{\"schema\": 99}");
}

/// What knee prints for a file, with at most 1 GiB of address space.
fn in_one_gib(records: &Records, args: &[&str]) -> Finished {
    let knee = records.scratch.knee(args);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", r#"ulimit -v 1048576; exec "$@""#, "sh"]).arg(knee.get_program());
    finish(shell.args(knee.get_args()).current_dir(records.scratch.path()))
}

#[test]
fn unknown_fields_of_a_document_take_no_memory() {
    let records = Records::new();
    // As a tree of values, this takes 1.5 GB.
    let dense = format!("\"x\": [{}0]", "{\"\":0},".repeat(2 << 20));
    fs::write(records.scratch.path().join("m.json"), format!("{{{dense}}}")).unwrap();
    in_one_gib(&records, &["report", "m.json"])
        .assert_code(3)
        .assert_stderr_has("it is JSON, but not a matrix of commuting operations");
    let run = records.bad("run.json");
    let text = fs::read_to_string(&run).unwrap().replacen('{', &format!("{{{dense},"), 1);
    fs::write(&run, text).unwrap();
    in_one_gib(&records, &["show", "bad"]).assert_code(0).assert_stdout_has("getppid1");
}

#[test]
fn a_capture_with_more_programs_than_knee_writes_is_refused() {
    let scratch = Scratch::new();
    let many = "\"\",".repeat(6 << 20);
    let text = format!("{{\"schema\":1,\"programs\":[{many}\"\"]}}");
    fs::write(scratch.path().join("c.json"), text).unwrap();
    finish(&mut scratch.knee(&["profile", "show", "c.json"]))
        .assert_code(3)
        .assert_stderr_has("expected a list of at most");
}
