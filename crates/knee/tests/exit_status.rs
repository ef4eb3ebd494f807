//! Each class of error has one exit status, in every command. docs/exit-status.md lists them.

mod support;

use std::fs;
use std::path::Path;

use support::{Scratch, finish};

const USAGE: i32 = 2;
const ENVIRONMENT: i32 = 3;
const FAILED: i32 = 4;

/// Commands that read a file or a record; `F` stands for it.
const READERS: [&str; 19] = [
    "run --resume F",
    "run --plugin F",
    "show F",
    "compare F",
    "ab --resume F",
    "ab --before F.so --after F.so",
    "fit F",
    "report F",
    "profile show F",
    "profile diff F F",
    "profile growth --from F F",
    "commute matrix F",
    "commute explain F",
    "commute diff F F",
    "commute verify --tests F",
    "commute check --tests F",
    "commute check --kernel F",
    "commute check --guest-kernel F",
    "commute cost --guest-kernel F",
];

fn status(scratch: &Scratch, command: &str) -> Option<i32> {
    let args: Vec<&str> = command.split(' ').collect();
    let finished = finish(&mut scratch.knee(&args));
    assert!(!finished.stderr.is_empty(), "{command} prints no reason");
    finished.code
}

#[test]
fn a_missing_file_is_status_3_in_every_command() {
    let scratch = Scratch::new();
    let others = ["run --dir ./F", "commute check --program ./F", "commute list --model ./F"];
    for command in READERS.into_iter().chain(others) {
        let command = command.replace('F', "./missing/file");
        assert_eq!(status(&scratch, &command), Some(ENVIRONMENT), "{command}");
    }
}

#[test]
fn a_file_of_another_kind_is_status_3_in_every_command() {
    let scratch = Scratch::new();
    for name in ["other", "other.so"] {
        fs::write(scratch.path().join(name), "neither numbers nor JSON\n").unwrap();
    }
    for command in READERS {
        let command = command.replace('F', "./other");
        assert_eq!(status(&scratch, &command), Some(ENVIRONMENT), "{command}");
    }
}

#[test]
fn a_record_that_is_cut_off_is_status_3_in_every_command() {
    let scratch = Scratch::new();
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/record/run.json");
    let text = fs::read_to_string(record).unwrap();
    fs::create_dir(scratch.record()).unwrap();
    fs::write(scratch.record().join("run.json"), &text[..text.len() / 2]).unwrap();
    for command in ["run --resume F", "show F", "fit F", "report F", "ab --resume F", "compare F F"]
    {
        let command = command.replace('F', "record");
        assert_eq!(status(&scratch, &command), Some(ENVIRONMENT), "{command}");
    }
}

#[test]
fn a_name_that_knee_does_not_know_is_status_2_in_every_command() {
    let scratch = Scratch::new();
    let commands = [
        "nosuch",
        "run nosuch",
        "run --nosuch",
        "list nosuch",
        "ab --before nosuch --after getppid1",
        "profile nosuch",
        "profile growth nosuch",
        "will-it-scale nosuch_threads",
        "commute conditions nosuch open",
        "commute matrix --interface nosuch",
        "commute tests nosuch",
        "commute verify nosuch",
        "commute check nosuch",
        "commute check --fs nosuch",
        "commute cost nosuch",
        "topology --placement nosuch",
        "generate schema nosuch",
    ];
    for command in commands {
        assert_eq!(status(&scratch, command), Some(USAGE), "{command}");
    }
}

#[test]
fn a_value_out_of_range_is_status_2_in_every_command() {
    let scratch = Scratch::new();
    let commands = [
        "run getppid1 -t -1",
        "run getppid1 -r 0",
        "run getppid1 --warmup -1",
        "show x --knee -1",
        "compare -C -1 x",
        "compare x y --threshold -1",
        "ab --before true --after true -r -1",
        "history x --significance 0",
        "fit x --resamples -1",
        "report x --knee 200%",
        "profile getppid1 -t 0",
        "profile growth getppid1 -d -1",
        "will-it-scale getppid1_threads -s -1",
        "commute tests --patterns -1",
        "commute conditions open open --limit -1",
        "commute check --shard 3/2",
        "commute cost --rounds -1",
        "commute explain x --top -1",
    ];
    for command in commands {
        assert_eq!(status(&scratch, command), Some(USAGE), "{command}");
    }
}

#[test]
fn an_output_directory_that_is_in_use_is_status_2_in_every_command() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("work/mine"), "").unwrap();
    fs::write(scratch.path().join("tests"), "{\"id\":\"a,b/0\",\"calls\":[1,2]}\n").unwrap();
    let commands = ["run getppid1 -o work", "ab --before true --after true -o work"];
    for command in commands {
        assert_eq!(status(&scratch, command), Some(USAGE), "{command}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_status_3_in_every_command() {
    let scratch = Scratch::new();
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/record");
    fs::create_dir(scratch.path().join("directory")).unwrap();
    let report = format!("report {} -o F", record.display());
    for command in
        ["profile -o F -- true", "profile --locks -o F -- true", &report, "commute tests -o F"]
    {
        for output in ["./missing/file", "./directory"] {
            let command = command.replace('F', output);
            assert_eq!(status(&scratch, &command), Some(ENVIRONMENT), "{command}");
        }
    }
    assert!(!scratch.path().join("profiles").exists());
}

#[test]
fn a_list_without_tests_is_status_2_in_every_command() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("empty"), "").unwrap();
    for command in ["commute verify --tests empty", "commute check --tests empty"] {
        assert_eq!(status(&scratch, command), Some(USAGE), "{command}");
    }
}

#[test]
fn what_fails_under_test_is_status_4_in_every_command() {
    let scratch = Scratch::new();
    for command in [
        "ab -r 6 --before false --after true",
        "commute matrix --model /bin/true",
        "commute check --program /bin/true",
    ] {
        assert_eq!(status(&scratch, command), Some(FAILED), "{command}");
    }
}
