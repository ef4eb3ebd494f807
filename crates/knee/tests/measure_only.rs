//! A knee that was built to measure only, as `./run` builds it.
#![cfg(not(any(feature = "explain", feature = "prove")))]

mod support;

use std::fs;

use support::{Scratch, finish};

const MISSING: [&str; 4] = ["profile", "commute", "kernel", "qemu"];
const INSTALL: &str = "cargo install --path crates/knee";

#[test]
fn a_missing_command_says_how_to_build_it() {
    let scratch = Scratch::new();
    for command in MISSING {
        for args in [&[command][..], &[command, "--help"], &["help", command]] {
            let finished = finish(&mut scratch.knee(args));
            finished.assert_code(3).assert_stderr_has(&format!("lacks the command {command}"));
            finished.assert_stderr_has(INSTALL);
        }
    }
    // A typing error is still a usage error.
    finish(&mut scratch.knee(&["profil"])).assert_code(2).assert_stderr_has("unrecognized");
}

#[test]
fn help_and_the_start_page_show_only_what_is_there() {
    let scratch = Scratch::new();
    let pages: [&[&str]; 4] =
        [&[], &["--help"], &["report", "--help"], &["jobs", "plan", "--help"]];
    for args in pages {
        let page = finish(&mut scratch.knee(args)).assert_code(0).stdout.clone();
        for command in MISSING {
            assert!(!page.contains(&format!("knee {command}")), "{args:?}: {page}");
            assert!(!page.contains(&format!("\n  {command} ")), "{args:?}: {page}");
        }
    }
    for args in [&[][..], &["--help"]] {
        finish(&mut scratch.knee(args)).assert_stdout_has(INSTALL).assert_stdout_has("knee run");
    }
}

#[test]
fn doctor_and_schemas_are_about_measuring_only() {
    let scratch = Scratch::new();
    let doctor = finish(&mut scratch.knee(&["doctor"])).assert_code(0).stdout.clone();
    assert!(doctor.contains("C compiler"), "{doctor}");
    // The verdict takes nine columns.
    let checks = || doctor.lines().filter_map(|line| line.get(9..));
    for check in ["QEMU", "sampling", "calibration"] {
        assert!(!checks().any(|line| line.starts_with(check)), "{doctor}");
    }
    finish(&mut scratch.knee(&["generate", "schema", "run"])).assert_code(0);
    finish(&mut scratch.knee(&["generate", "schema", "capture"])).assert_code(2);
    finish(&mut scratch.knee(&["generate", "schema", "check"])).assert_code(2);
}

#[test]
fn a_report_refuses_profiles_and_checks_by_name() {
    let scratch = Scratch::new();
    let write = |name: &str, text: &str| fs::write(scratch.path().join(name), text).unwrap();
    write("capture.json", r#"{"schema": 1, "stacks": [], "functions": []}"#);
    write("waits.json", r#"{"schema": 1, "sites": [], "losses": {}}"#);
    fs::create_dir(scratch.path().join("6.1")).unwrap();
    write("6.1/check.json", "{}");
    for (input, command) in
        [("capture.json", "profile"), ("waits.json", "profile"), ("6.1", "commute")]
    {
        let finished = finish(&mut scratch.knee(&["report", input]));
        finished.assert_code(3).assert_stderr_has(input);
        finished.assert_stderr_has(&format!("lacks the command {command}"));
    }
}

#[test]
fn a_run_is_measured_and_reported() {
    let scratch = Scratch::new();
    finish(&mut scratch.run(&["getppid1", "-t", "1,2", "-m", "processes"])).assert_code(0);
    finish(&mut scratch.knee(&["show", "record"])).assert_code(0).assert_stdout_has("getppid1");
    finish(&mut scratch.knee(&["report", "record"])).assert_code(0);
    assert!(scratch.path().join("report.html").exists());
}
