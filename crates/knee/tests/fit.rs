//! Fits of the Universal Scalability Law to what was measured, here and elsewhere.

mod support;

use serde_json::Value;
use snapbox::{assert_data_eq, file};
use support::{Scratch, copy, finish};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

/// SPEC SDM91 (N. J. Gunther, "Guerrilla Capacity Planning", table 5.2; `specsdm91` of R's usl).
const SPECSDM91: [(u32, f64); 7] = [
    (1, 64.9),
    (18, 995.9),
    (36, 1652.4),
    (72, 1853.2),
    (108, 1828.9),
    (144, 1775.0),
    (216, 1702.2),
];

fn fit(scratch: &Scratch, args: &[&str]) -> support::Finished {
    finish(scratch.knee(&["fit"]).args(args))
}

#[test]
fn a_line_per_curve_says_what_limits_it() {
    let finished = finish(Scratch::new().knee(&["fit", "record"]).current_dir(DATA));
    finished.assert_code(0);
    assert_data_eq!(finished.stdout, file!["data/fit.txt"].raw());
}

#[test]
fn a_published_curve_has_its_published_coefficients() {
    let scratch = Scratch::new();
    let mut csv = "tasks,processes,processes_idle,threads,threads_idle,linear\n".to_owned();
    for (tasks, rate) in SPECSDM91 {
        csv += &format!("{tasks},{rate},0,-1,0,0\n");
    }
    std::fs::write(scratch.path().join("specsdm91.csv"), csv).unwrap();
    let finished = fit(&scratch, &["specsdm91.csv", "--json"]);
    let document: Value = serde_json::from_str(&finished.stdout).unwrap();
    let [curve] = document["curves"].as_array().unwrap().as_slice() else { panic!("{document:#}") };
    let fit = &curve["fit"];
    // R's usl prints σ = 0.02773 and κ = 0.0001044 for it, and a peak at 96.52.
    let near = |name: &str, value: f64, digits: f64| {
        let fitted = fit[name]["value"].as_f64().unwrap();
        assert!((fitted - value).abs() <= digits, "{name}: {fitted}");
    };
    near("sigma", 0.02773, 0.00001);
    near("kappa", 0.000_104_4, 0.000_000_1);
    near("peak", 96.52, 0.01);
    assert_eq!(fit["is_prediction"], true);
}

#[test]
fn a_fit_uses_sound_points_and_repeats_the_caveats() {
    let scratch = Scratch::new();
    let of = |sample: &Value, mode: &str, tasks: &[u64]| {
        let has_tasks = tasks.iter().any(|&n| sample["tasks"] == n);
        sample["testcase"] == "mmap1" && sample["mode"] == mode && has_tasks
    };
    let disturb = |sample: &mut Value| {
        if of(sample, "processes", &[2, 4]) || of(sample, "threads", &[8]) {
            sample["marks"] = serde_json::json!(["starved"]);
        }
    };
    copy(&scratch, "disturbed", |_| {}, disturb);
    fit(&scratch, &["disturbed"])
        .assert_code(0)
        .assert_stdout_has(
            "no fit  mmap1 processes: without 2 disturbed points, the curve has only 2 of the three \
             task counts that the law requires; ",
        )
        .assert_stdout_has(
            "the fits leave out 3 disturbed points and 2 points with more tasks than CPUs; reduce",
        );
    let json = fit(&scratch, &["disturbed", "--json"]).stdout;
    let document: Value = serde_json::from_str(&json).unwrap();
    let tasks = |curve: &Value| {
        let points = curve["fit"]["points"].as_array().unwrap().iter();
        Value::from_iter(points.map(|point| point["tasks"].clone()))
    };
    let find = |name: &str, mode: &str| {
        let mut curves = document["curves"].as_array().unwrap().iter();
        curves.find(|curve| curve["testcase"] == name && curve["mode"] == mode).unwrap()
    };
    let [mmap, tcp] = ["mmap1", "tcp_loopback1"].map(|name| find(name, "threads"));
    assert_eq!(
        (tasks(mmap), &mmap["disturbed"]),
        (serde_json::json!([1, 2, 4]), &serde_json::json!([8]))
    );
    assert_eq!(
        (tasks(tcp), &tcp["oversubscribed"]),
        (serde_json::json!([1, 2, 4]), &serde_json::json!([8]))
    );

    copy(&scratch, "two-cpus", |run| run["request"]["cpus"] = serde_json::json!([0, 1]), |_| {});
    let two_cpus = fit(&scratch, &["two-cpus"]);
    two_cpus.assert_code(0).assert_stdout_has("law requires; more task counts require more CPUs");
    assert!(!two_cpus.stdout.contains("(-t)"), "{two_cpus:#?}");

    let one_round = |sample: &mut Value| sample["round"] = 0.into();
    copy(&scratch, "once", |run| run["request"]["rounds"] = 1.into(), one_round);
    fit(&scratch, &["once"]).assert_code(0).assert_stdout_has(
        "some points have fewer than three rounds, so the fits cannot show how much results vary",
    );
    let slow_alone = |sample: &mut Value| {
        let is_alone = of(sample, "processes", &[1]);
        let by = if is_alone { 0.5 } else { 1.0 };
        sample["total"] = (sample["total"].as_f64().unwrap() * by).into();
    };
    copy(&scratch, "slow", |_| {}, slow_alone);
    fit(&scratch, &["slow"])
        .assert_code(0)
        .assert_stdout_has("the efficiency of mmap1 processes ×2 (200%), ")
        .assert_stdout_has("may have slowed the point at 1 task");
}

#[test]
fn two_points_are_no_fit_and_four_no_prediction() {
    let scratch = Scratch::new();
    finish(&mut scratch.run(&["getppid1", "-t", "1,2", "-m", "threads"])).assert_code(0);
    fit(&scratch, &["record"]).assert_code(0).assert_stdout_has("no fit  getppid1 threads: ");
    let finished = finish(scratch.knee(&["fit", "record", "--json"]).current_dir(DATA));
    let document: Value = serde_json::from_str(&finished.stdout).unwrap();
    for curve in document["curves"].as_array().unwrap() {
        assert_eq!(curve["fit"]["is_prediction"], false);
    }
    fit(&scratch, &["record", "open*"])
        .assert_code(2)
        .assert_stderr_has("no curve with this name; measured: ");
    fit(&scratch, &["nowhere"]).assert_code(3).assert_stderr_has("nowhere");
    fit(&scratch, &["record", "["]).assert_code(2);
}
