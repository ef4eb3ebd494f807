//! `knee predict`. Tests in a guest are skipped, with a reason, if QEMU or the kernel is missing.

mod support;

use serde_json::Value;
use support::{Finished, Scratch, assert_schema, finish, has_guests};

/// A file of knee predict.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fixed/prediction.json");

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
    with(&["open1", "pipe1", "--at", "1M"]).assert_code(2).assert_stderr_has("--at open1=2.0M");
    with(&["open1", "--at", "pipe1=1M"]).assert_code(2).assert_stderr_has("pipe1 is not among");
    with(&["open1", "--at", "1M", "-o", "-"]).assert_code(2).assert_stderr_has("use --json");
    with(&["open1", "--at", "1M", "-o", "no/x.json"]).assert_code(3).assert_stderr_has("no/x.json");
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
    let scratch = Scratch::new();
    let run = finish(
        scratch
            .knee(&["predict", "--json", "-o", "open1.json"])
            .args([&open1[..], &machine].concat()),
    );
    let document: Value = serde_json::from_str(&run.assert_code(0).stdout).unwrap();
    assert_schema("prediction", &document);
    run.assert_stderr_has("knee report open1.json");
    let written = std::fs::read_to_string(scratch.path().join("open1.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), document);
    let shown = finish(&mut scratch.knee(&["show", "open1.json"]));
    shown.assert_code(0).assert_stdout_has("one task with Linux 6.1.");
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
    assert!(points(&document, 0)[1]["ratio"].is_null());

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

#[test]
fn a_prediction_is_shown_again_in_80_columns_and_as_json() {
    let show = |args: &[&str]| {
        let scratch = Scratch::new();
        finish(scratch.knee(&["show", FILE]).args(args).env("COLUMNS", "80"))
    };
    let table = show(&[]);
    for text in [
        "open1, processes, on 2 x Intel Xeon Gold 5418Y",
        "tasks   ratio      90% band\n",
        "without aa_profile.label.count.count: 70.2 M/s at 48 tasks",
        "at most about 96.1 k",
        "D  tasks that wait for a lock may sleep",
        "note  transfer_ns.core is missing",
    ] {
        table.assert_code(0).assert_stdout_has(text);
    }
    let is_short = |line: &str| line.chars().count() <= 80;
    assert!(table.stdout.lines().all(is_short), "{table:#?}");
    let json = show(&["--json"]);
    let document: Value = serde_json::from_str(&json.assert_code(0).stdout).unwrap();
    assert_schema("prediction", &document);
    let original = std::fs::read_to_string(FILE).unwrap();
    assert_eq!(document, serde_json::from_str::<Value>(&original).unwrap());
    show(&["--format", "csv"]).assert_code(2).assert_stderr_has("only as a table or as JSON");
}

#[test]
fn a_file_that_is_not_a_prediction_is_not_shown() {
    let scratch = Scratch::new();
    let good = std::fs::read_to_string(FILE).unwrap();
    let refuse = |text: &str, says: &str| {
        std::fs::write(scratch.path().join("p.json"), text).unwrap();
        for command in [["show", "p.json"].as_slice(), &["report", "p.json", "-o", "-"]] {
            finish(&mut scratch.knee(command)).assert_code(3).assert_stderr_has(says);
        }
    };
    refuse(&good.replace("\"schema\": 1", "\"schema\": 2"), "p.json: it has schema 2, but this");
    refuse(&good.replace("\"mode\"", "\"node\""), "missing field `mode`");
    refuse(&good.replace("\"tasks\": 8,", "\"tasks\": 1,"), "p.json: the point of 1 tasks comes");
    let large = good + &" ".repeat(65 << 20);
    refuse(&large, "p.json: it is larger than 64 MiB");
}
