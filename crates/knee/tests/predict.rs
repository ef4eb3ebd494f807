//! `knee predict`. Tests in a guest are skipped, with a reason, if QEMU or the kernel is missing.

mod support;

use serde_json::Value;
use support::{Finished, Scratch, finish, has_guests};

fn predict(args: &[&str]) -> Finished {
    let scratch = Scratch::new();
    finish(scratch.knee(&["predict"]).args(args).env("COLUMNS", "80"))
}

/// The points of the curve with this number.
fn points(document: &Value, curve: usize) -> &Vec<Value> {
    document["predictions"][0]["curves"][curve]["points"].as_array().unwrap()
}

#[test]
fn what_knee_cannot_predict_is_refused_before_a_guest_boots() {
    let machine = ["--machine", "genoa-2x96"];
    let with = |args: &[&str]| predict(&[args, &machine].concat());
    with(&["opne1"]).assert_code(2).assert_stderr_has("open1");
    with(&["open1", "pipe1", "--at", "1M"]).assert_code(2).assert_stderr_has("one at a time");
    with(&["open1", "-t", "385"]).assert_code(2).assert_stderr_has("only 384 CPUs");
    with(&["open1", "--at", "fast"]).assert_code(2).assert_stderr_has("such as 2.0M");
    with(&["open1", "--batch", "x"]).assert_code(2).assert_stderr_has("zone.lock=63");
    let scratch = Scratch::new();
    let genoa = finish(&mut scratch.knee(&["machine", "show", "genoa-2x96", "--toml"]));
    let lacking =
        genoa.stdout.lines().filter(|line| !line.starts_with("socket = ")).collect::<Vec<_>>();
    std::fs::write(scratch.path().join("lacking.toml"), lacking.join("\n")).unwrap();
    finish(&mut scratch.knee(&["predict", "open1", "--machine", "lacking.toml"]))
        .assert_stderr_has("has no transfer_ns.socket");
    predict(&["open1"]).assert_code(2).assert_stderr_has("--machine");
    predict(&["open1", "--machine", "genoa"]).assert_code(2).assert_stderr_has("genoa-2x96");
    let listed = predict(&["--list"]);
    assert!(listed.assert_code(0).stdout.contains("\nopen1 "), "{listed:#?}");
}

/// Reference counts limit open1 in processes. Linux 6.11 halved them: commit f4fee216df.
#[test]
fn fewer_visits_of_a_line_raise_the_plateau() {
    if !has_guests("bookworm") || !has_guests("trixie") {
        return;
    }
    let machine =
        ["--machine", "sapphire-rapids-2x24", "--at", "2M", "-t", "1,24", "--rounds", "40"];
    let open1 = ["open1", "--kernel", "bookworm", "--kernel", "trixie"];
    let run = predict(&[&open1[..], &machine, &["--json"]].concat());
    let document: Value = serde_json::from_str(&run.assert_code(0).stdout).unwrap();
    for (curve, visits) in [(0, 4.0), (1, 2.0)] {
        let [alone, many] = &points(&document, curve)[..] else { panic!("{document:#}") };
        assert_eq!((&alone["class"], &many["class"]), (&"A".into(), &"B".into()));
        let binding = &many["stations"][0];
        assert!(binding["name"].as_str().unwrap().contains("label.count"), "{binding:#}");
        let found = binding["visits"].as_f64().unwrap();
        assert!((found - visits).abs() < 0.1, "{found} visits in {binding:#}");
    }
    let ratio = points(&document, 1)[1]["ratio"]["value"].as_f64().unwrap();
    assert!((1.8..2.1).contains(&ratio), "{ratio}");

    let one = ["open1", "--kernel", "bookworm", "--without", "label.count"];
    let run = predict(&[&one[..], &machine, &["--json"]].concat());
    let document: Value = serde_json::from_str(&run.assert_code(0).stdout).unwrap();
    let stations = points(&document, 0)[1]["stations"].as_array().unwrap();
    let names = stations.iter().filter_map(|station| station["name"].as_str());
    assert!(names.clone().all(|name| !name.contains("label.count")), "{stations:#?}");
    let unknown = predict(
        &["getppid1", "--kernel", "bookworm", "--without", "zzz"]
            .iter()
            .chain(&machine)
            .copied()
            .collect::<Vec<_>>(),
    );
    unknown.assert_code(2).assert_stderr_has("\"zzz\"");
}
