//! A series of runs: a change is found where it happened.

mod support;

use std::fs;

use serde_json::Value;
use support::{Scratch, copy, finish};

/// Flow of the Nile at Aswan in 10⁸ m³, 1871 to 1970 (G. W. Cobb, Biometrika 65, 1978): the series
/// that every method has to find the change of 1899 in.
const NILE: [u32; 100] = [
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180,
    799, 958, 1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833,
    701, 916, 692, 1020, 1050, 969, 831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845,
    864, 862, 698, 845, 744, 796, 1040, 759, 781, 865, 845, 944, 984, 897, 822, 1010, 771, 676,
    649, 846, 812, 742, 801, 1040, 860, 874, 848, 890, 744, 749, 838, 1050, 918, 986, 797, 923,
    975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
];

#[test]
fn a_published_change_is_found_and_a_steady_point_is_not_called_changed() {
    let scratch = Scratch::new();
    let files: Vec<String> = (1871..).zip(NILE).map(|(year, flow)| {
        let name = format!("{year}.csv");
        let steady = 1000 + year % 7;
        let csv = format!(
            "# nile\ntasks,processes,processes_idle,threads,threads_idle,linear\n1,{flow},0,{steady},0,0\n"
        );
        fs::write(scratch.path().join(&name), csv).unwrap();
        name
    }).collect();
    let finished = finish(scratch.knee(&["history"]).args(&files));
    finished
        .assert_code(0)
        .assert_stdout_has("1 of 2 points changed")
        .assert_stdout_has("at 1899.csv");
    let finished = finish(scratch.knee(&["history", "--json"]).args(&files));
    let document: Value = serde_json::from_str(&finished.stdout).unwrap();
    let changes = document["series"][0]["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(
        document["runs"][changes[0]["run"].as_u64().unwrap() as usize]["source"],
        "1899.csv"
    );
    assert_eq!(document["series"][1]["changes"], serde_json::json!([]));
}

#[test]
fn too_few_runs_are_refused_with_the_command_for_two() {
    let scratch = Scratch::new();
    finish(&mut scratch.knee(&["history", "a", "b"]))
        .assert_code(2)
        .assert_stderr_has("knee compare");
    finish(scratch.knee(&["history"]).args(["a"; 9])).assert_code(2).assert_stderr_has(
        "requires at least 10 runs to find a change at 1% significance, but got 9",
    );
    finish(scratch.knee(&["history", "--significance", "5%"]).args(["a"; 7]))
        .assert_code(2)
        .assert_stderr_has("requires at least 8 runs");
    finish(scratch.knee(&["history", "--significance", "0.05%"]).args(["a"; 40]))
        .assert_code(2)
        .assert_stderr_has("use 0.1% or more");
    let missing = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    finish(scratch.knee(&["history"]).args(missing))
        .assert_code(3)
        .assert_stderr_has("a: no such file");
    finish(scratch.knee(&["history", "a"]).args(missing))
        .assert_code(2)
        .assert_stderr_has("a appears twice");
}

/// Copies of the committed record, each of a run of its own. Other work disturbed mmap1 with threads
/// in the runs `disturbed`.
fn runs(scratch: &Scratch, count: u64, disturbed: std::ops::Range<u64>) -> Vec<String> {
    let copy = |nr: u64| {
        let name = format!("run{nr}");
        let describe = |run: &mut Value| {
            run["environment"]["started_at"] = format!("2026-11-{:02}T09:00:00Z", nr + 1).into();
        };
        let disturb = |sample: &mut Value| {
            let is_mmap1 = sample["testcase"] == "mmap1" && sample["mode"] == "threads";
            if is_mmap1 && disturbed.contains(&nr) {
                sample["marks"] = serde_json::json!(["starved"]);
                sample["total"] = (sample["total"].as_f64().unwrap() / 2.0).into();
            }
        };
        copy(scratch, &name, describe, disturb);
        name
    };
    (0..count).map(copy).collect()
}

#[test]
fn disturbed_results_do_not_count_and_points_with_few_others_are_not_tested() {
    let scratch = Scratch::new();
    let runs = runs(&scratch, 12, 7..12);
    let finished = finish(scratch.knee(&["history", "--detail"]).args(&runs));
    finished
        .assert_code(0)
        .assert_stdout_has("run7 has no result for build1 threads ×8 (there is no C compiler")
        .assert_stdout_has(
            "0 of 19 points changed; 5 others have usable results in fewer than 10 runs.\n",
        );
    let json = finish(scratch.knee(&["history", "--json"]).args(&runs)).stdout;
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&document["tested"], &document["fewest_runs"]), (&19.into(), &10.into()));
    let gaps = document["gaps"].as_array().unwrap().iter();
    let disturbed = gaps.filter(|gap| gap["reason"] == "too disturbed").count();
    assert_eq!(disturbed, 5 * 4, "four task counts in five runs");
    let series = document["series"].as_array().unwrap();
    let untested = series.iter().filter(|series| series["tested"] == false);
    let values = untested.map(|series| series["values"].as_array().unwrap().len());
    assert_eq!(values.collect::<Vec<_>>(), [0, 7, 7, 7, 7], "build1 ×8 and mmap1");
}

#[test]
fn nothing_is_claimed_if_no_point_is_in_enough_runs() {
    let scratch = Scratch::new();
    let csv = |testcase: &str| {
        format!(
            "# {testcase}\ntasks,processes,processes_idle,threads,threads_idle,linear\n1,5,0,6,0,0\n"
        )
    };
    let files: Vec<String> = (0..10).map(|nr| format!("{nr}.csv")).collect();
    for (nr, file) in files.iter().enumerate() {
        let testcase = if nr < 5 { "open1" } else { "read1" };
        fs::write(scratch.path().join(file), csv(testcase)).unwrap();
    }
    finish(scratch.knee(&["history"]).args(&files))
        .assert_code(0)
        .assert_stdout_has("Nothing could be tested: no point has usable results in 10 runs.\n");
}

#[test]
fn a_run_under_two_names_is_refused() {
    let scratch = Scratch::new();
    let runs = runs(&scratch, 10, 0..0);
    std::os::unix::fs::symlink("run3", scratch.path().join("link")).unwrap();
    finish(scratch.knee(&["history", "link"]).args(&runs))
        .assert_code(2)
        .assert_stderr_has("link and run3 are the same input");
    fs::create_dir(scratch.path().join("copy")).unwrap();
    for file in ["run.json", "samples.jsonl"] {
        let from = scratch.path().join("run3").join(file);
        fs::copy(from, scratch.path().join("copy").join(file)).unwrap();
    }
    finish(scratch.knee(&["history"]).args(&runs).arg("copy"))
        .assert_code(2)
        .assert_stderr_has("run3 and copy are copies of the same run");
}
