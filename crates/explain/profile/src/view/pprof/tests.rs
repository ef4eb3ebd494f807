use std::process::Command;

use knee_host::skip::skip;
use snapbox::{assert_data_eq, str};

use super::*;
use crate::capture::{Function, Kind, Stacks};
use crate::view::fixture::{captured, example};

/// The output of `go tool pprof` for the example; `None` with a message if Go is not installed.
fn go(arguments: &[&str]) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("profile.pb.gz");
    std::fs::write(&file, pprof(&example())).unwrap();
    let mut command = Command::new("go");
    command.args(["tool", "pprof"]).args(arguments).arg(&file).env("PPROF_TMPDIR", dir.path());
    match command.output() {
        Ok(output) if output.status.success() => {
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => {
            let reason = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(reason.contains("no such tool"), "{reason}");
            skip("go", reason);
            None
        }
        Err(error) => {
            skip("go", format_args!("go cannot be run: {error}"));
            None
        }
    }
}

#[test]
fn go_reads_the_samples() {
    if let Some(text) = go(&["-top", "-sample_index=samples"]) {
        assert_data_eq!(
            text,
            str![[r#"
File: prog
prog <1>
Type: samples
Duration: 1.25s, Total samples = 1000 
Showing nodes accounting for 999, 99.90% of 1000 total
      flat  flat%   sum%        cum   cum%
       500 50.00% 50.00%        500 50.00%  mix
       296 29.60% 79.60%        296 29.60%  copy_page
       200 20.00% 99.60%        200 20.00%  fib(int)
         3   0.3% 99.90%        853 85.30%  main
         0     0% 99.90%        250 25.00%  [libc.so.6]
         0     0% 99.90%        296 29.60%  entry_SYSCALL_64
         0     0% 99.90%        750 75.00%  work

"#]]
        );
    }
}

#[test]
fn go_reads_the_time_and_the_programs() {
    if let Some(text) = go(&["-traces", "-sample_index=cpu", "-focus=mix"]) {
        assert_data_eq!(
            text,
            str![[r#"
File: prog
prog <1>
Type: cpu
Duration: 1.25s, Total samples = 1s (80.00%)
-----------+-------------------------------------------------------
      comm:  prog
     400ms   mix (inline)
             work
             main
-----------+-------------------------------------------------------
      comm:  two words
     100ms   mix
             work
-----------+-------------------------------------------------------

"#]]
        );
    }
}

#[test]
fn equal_captures_make_equal_files() {
    assert_eq!(pprof(&example()), pprof(&example()));
}

#[test]
fn every_index_is_valid() {
    let bytes = profile(&example()).encode_to_vec();
    let profile = Profile::decode(bytes.as_slice()).unwrap();
    let strings = profile.string_table.len() as i64;
    let is_string = |number: i64| (0..strings).contains(&number);
    assert_eq!(profile.string_table[0], "");
    let (functions, mappings) = (profile.function.len() as u64, profile.mapping.len() as u64);
    assert!(profile.function.iter().all(|one| is_string(one.name) && is_string(one.filename)));
    for (id, location) in (1..).zip(&profile.location) {
        assert_eq!(location.id, id);
        assert!(location.mapping_id <= mappings);
        assert!(location.line.iter().all(|line| (1..=functions).contains(&line.function_id)));
    }
    let locations = profile.location.len() as u64;
    for sample in &profile.sample {
        assert!(sample.location_id.iter().all(|id| (1..=locations).contains(id)));
        assert_eq!(sample.value.len(), profile.sample_type.len());
    }
    let sum: i64 = profile.sample.iter().map(|sample| sample.value[0]).sum();
    assert_eq!(sum as u64, example().samples());
}

#[test]
fn strings_contain_no_control_characters() {
    let mut stacks = Stacks::default();
    let name = "f\u{1b}[31m\u{202e}";
    stacks.add(
        name,
        [&Function { module: Some(name.into()), ..Function::new(name, Kind::User) }],
        1,
        1,
    );
    let profile = profile(&captured(stacks));
    assert!(profile.string_table.iter().any(|text| text.contains("[31m")));
    assert!(profile.string_table.iter().all(|text| plain(text) == *text), "{profile:?}");
}
