//! Every testcase, in every variant, in both modes: it makes progress and leaves nothing behind.

mod support;

use support::{Scratch, finish, processes_in};

#[test]
fn every_testcase_runs_in_every_variant_in_both_modes_at_one_and_two_tasks() {
    let scratch = Scratch::new();
    let before = shm();
    let finished = finish(&mut scratch.run(&["-t", "1,2", "*", "*@*"]));
    let run = scratch.run_json();
    let failures = run["failures"].as_array().unwrap();
    for failure in failures {
        // What this machine lacks is not a fault of the testcase, and is said.
        assert_eq!(failure["kind"], "cannot-run", "{failure:#}\n{finished:#?}");
        println!("skipped: {failure}");
    }
    assert!(matches!(finished.code, Some(0 | 3)), "{finished:#?}");

    let cases = run["cases"].as_array().unwrap();
    assert!(cases.len() > 100, "{}", cases.len());
    let samples = scratch.samples();
    for case in cases {
        for mode in ["processes", "threads"] {
            for tasks in [1, 2] {
                let is_point = |v: &serde_json::Value| {
                    v["testcase"] == case["name"] && v["mode"] == mode && v["tasks"] == tasks
                };
                if failures.iter().any(is_point) {
                    continue;
                }
                // Threads that share an object; processes would have one each.
                let shares = case["family"] == "sync" || case["family"] == "vm";
                if shares && mode == "processes" {
                    assert!(!samples.iter().any(is_point), "{} {mode}", case["name"]);
                    continue;
                }
                let measured: Vec<_> = samples
                    .iter()
                    .filter(|line| is_point(line) && line["phase"] == "measure")
                    .collect();
                assert_eq!(measured.len(), 1, "{} {mode} {tasks}", case["name"]);
                // That each task got on is what the runner has checked: one that counts nothing
                // is a failure. An interval this short may be empty on a busy machine.
                let rates = measured[0]["rates"].as_array().unwrap();
                assert_eq!(rates.len(), tasks);
            }
        }
    }
    assert_eq!(scratch.leftovers(), Vec::<std::path::PathBuf>::new());
    assert_eq!(processes_in(scratch.path()), Vec::<String>::new());
    let left: Vec<_> = shm().into_iter().filter(|name| !before.contains(name)).collect();
    assert_eq!(left, Vec::<String>::new(), "in /dev/shm");
}

/// Names in /dev/shm that knee would use.
fn shm() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/dev/shm") else { return Vec::new() };
    let names = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("knee-work")).collect()
}
