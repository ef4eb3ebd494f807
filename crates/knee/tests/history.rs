//! A series of runs: a change is found where it happened.

mod support;

use std::fs;

use serde_json::Value;
use support::{Scratch, finish};

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
    let missing = ["a", "b", "c", "d", "e", "f"];
    finish(scratch.knee(&["history"]).args(missing))
        .assert_code(3)
        .assert_stderr_has("a: no such file");
    finish(scratch.knee(&["history", "a"]).args(missing))
        .assert_code(2)
        .assert_stderr_has("a appears twice");
}
