//! `knee predict --program`: libraries under QEMU's user mode and in guests. Tests are skipped, with a reason, if neither
//! can run.

mod support;

use serde_json::Value;
use support::{Finished, Scratch, example, finish, has_guests};

/// The Debian release whose kernel runs in guests.
const RELEASE: &str = "bookworm";

fn can_trace() -> bool {
    knee_trace::user_mode().is_ok() || has_guests(RELEASE)
}

/// Predicts for 1 and 24 tasks on a machine in whose sockets a transfer takes 55 ns.
fn predict(scratch: &Scratch, name: &str, args: &[&str]) -> Finished {
    let mut knee = scratch.knee(&["predict", "--machine", "sapphire-rapids-2x24", "-t", "1,24"]);
    finish(knee.arg("--program").arg(example("knee-bind", name)).args(args))
}

/// The point of 24 tasks of each prediction.
fn points(name: &str, args: &[&str]) -> Vec<Value> {
    let run = predict(&Scratch::new(), name, &[args, &["--json", "-r", "64"]].concat());
    let document: Value = serde_json::from_str(&run.assert_code(0).stdout).unwrap();
    let predictions = document["predictions"].as_array().unwrap().iter();
    predictions.map(|prediction| prediction["curves"][0]["points"][1].clone()).collect()
}

fn point(name: &str, args: &[&str]) -> Value {
    let [point] = &points(name, args)[..] else { panic!("one prediction") };
    point.clone()
}

fn assert_visits(point: &Value, name: &str, visits: f64) {
    let station = &point["stations"][0];
    assert!(station["name"].as_str().unwrap().contains(name), "{point:#}");
    let found = station["visits"].as_f64().unwrap();
    assert!((found - visits).abs() < 0.05 * visits, "{found} visits in {point:#}");
}

#[test]
fn operations_that_share_nothing_scale_and_one_line_limits_others() {
    if !can_trace() {
        return;
    }
    let own = point("planted", &["own", "--at", "1M"]);
    assert_eq!(own["class"], "A", "{own:#}");
    for (operation, line) in [("count", "COUNTER"), ("own+add", "Tally")] {
        assert_visits(&point("planted", &[operation, "--at", "2M"]), line, 1.0);
    }
    // Stores do not wait for their line, so one transfer may serve several of them.
    let neighbour = point("planted", &["neighbour", "--at", "2M"]);
    let name = neighbour["stations"][0]["name"].as_str().unwrap();
    assert!(name.contains("NEIGHBOURS"), "{neighbour:#}");
    // At 18 M/s, there is a visit every 55 ns, the time of a transfer.
    let count = point("planted", &["count", "--at", "2M"]);
    let rate = count["rate"].as_f64().unwrap();
    assert!((17e6..19.5e6).contains(&rate) && count["class"] == "B", "{count:#}");
}

#[test]
fn short_operations_are_repeated_before_the_line_is_gone() {
    if !can_trace() {
        return;
    }
    // Six iterations of 10 ns in the 60 ns for which a CPU keeps a line.
    assert_visits(&point("planted", &["count", "--at", "100M"]), "COUNTER", 1.0 / 6.0);
}

#[test]
fn readers_of_a_lock_change_a_count_and_writers_wait_for_it() {
    if !can_trace() {
        return;
    }
    // In a program that is not optimised, the count is far from the lookup, and needs two visits.
    let get = point("rwlock_hashmap", &["get", "--at", "10M", "--keys", "64"]);
    assert_visits(&get, "RwLock", 2.0);
    assert_eq!(get["stations"][0]["kind"], "line", "{get:#}");
    let put = point("rwlock_hashmap", &["put", "--at", "10M", "--keys", "64"]);
    assert_visits(&put, "RwLock", 1.0);
    assert_eq!((&put["class"], &put["stations"][0]["kind"]), (&"D".into(), &"lock".into()));
    // One thread makes 10 M/s, nearly all of their time in the lock.
    let bound = put["bound"].as_f64().unwrap();
    assert!(put["rate"].is_null() && (10e6..20e6).contains(&bound), "{put:#}");
}

#[test]
fn the_rate_of_one_thread_is_measured_and_saved() {
    if !can_trace() {
        return;
    }
    let scratch = Scratch::new();
    let saved = ["--save-trace", "trace.json"];
    let first = predict(&scratch, "planted", &[&["count", "own"][..], &saved].concat());
    first.assert_code(0).assert_stdout_has("/s (measured on ");
    let again = finish(&mut scratch.knee(&[
        "predict",
        "--trace",
        "trace.json",
        "--machine",
        "sapphire-rapids-2x24",
        "-t",
        "1,24",
    ]));
    assert_eq!(again.assert_code(0).stdout, first.stdout);
}

#[test]
fn a_program_is_the_same_in_a_guest() {
    if !has_guests(RELEASE) {
        return;
    }
    let count = point("planted", &["count", "--at", "2M", "--kernel", RELEASE]);
    assert_visits(&count, "COUNTER", 1.0);
}

#[test]
fn operations_that_cannot_be_repeated_are_refused() {
    if !can_trace() {
        return;
    }
    let scratch = Scratch::new();
    let refused = |operation: &str| predict(&scratch, "planted", &[operation]);
    refused("cuont").assert_code(2).assert_stderr_has("did you mean count?");
    refused("own+cuont").assert_code(2).assert_stderr_has("cuont");
    refused("count/9.9").assert_code(2).assert_stderr_has("count/0.0");
    refused("panics").assert_code(4).assert_stderr_has("as it should");
    refused("aborts").assert_code(4).assert_stderr_has("signal 6");
    refused("missing").assert_code(4).assert_stderr_has("no operation missing");
    let mut other = scratch.knee(&["predict", "count", "--machine", "genoa-2x96", "--program"]);
    finish(other.arg("/bin/true")).assert_code(4).assert_stderr_has("not a model");
}
