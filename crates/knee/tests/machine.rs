//! `knee machine`, and machines in `knee report`.

mod support;

use std::fs;
use std::path::Path;

use knee_host::affinity::usable_cpus;
use serde_json::Value;
use support::{Finished, Scratch, assert_schema, finish};

/// The file of a machine of four CPUs.
fn example(scratch: &Scratch) -> String {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../explain/predict/tests/data/measured.toml");
    let text = fs::read_to_string(file).unwrap();
    fs::write(scratch.path().join("example.toml"), &text).unwrap();
    text
}

fn in_80_columns(finished: &Finished) {
    let is_short = |line: &str| line.chars().count() <= 80;
    assert!(finished.stdout.lines().all(is_short), "{finished:#?}");
}

#[test]
fn known_machines_are_listed_and_shown_with_their_sources() {
    let scratch = Scratch::new();
    let listed = finish(scratch.knee(&["machine", "list"]).env("COLUMNS", "80"));
    listed.assert_code(0).assert_stdout_has("genoa-2x96").assert_stdout_has("192 ns");
    in_80_columns(&listed);
    let json = finish(&mut scratch.knee(&["machine", "list", "--json"]));
    let json: Value = serde_json::from_str(&json.assert_code(0).stdout).unwrap();
    let machines = json["machines"].as_array().unwrap();
    assert!(machines.len() >= 10);
    machines.iter().for_each(|machine| assert_schema("machine", machine));

    let shown = finish(scratch.knee(&["machine", "show", "genoa-2x96"]).env("COLUMNS", "80"));
    shown.assert_code(0).assert_stdout_has("kcores: ").assert_stdout_has("384 CPUs");
    in_80_columns(&shown);
    let toml = finish(&mut scratch.knee(&["machine", "show", "genoa-2x96", "--toml"]));
    fs::write(scratch.path().join("mine.toml"), &toml.assert_code(0).stdout).unwrap();
    let own = finish(scratch.knee(&["machine", "show", "mine.toml"]).env("COLUMNS", "80"));
    assert_eq!(own.assert_code(0).stdout, shown.stdout);
}

#[test]
fn a_machine_that_knee_cannot_use_is_reported_with_what_is_wrong() {
    let scratch = Scratch::new();
    let show = |word: &str| finish(&mut scratch.knee(&["machine", "show", word]));
    show("genoa-2x69").assert_code(2).assert_stderr_has("did you mean genoa-2x96");
    show("zzz").assert_code(2).assert_stderr_has("knee machine list shows all");
    show("none.toml").assert_code(3).assert_stderr_has("cannot read none.toml");
    let text = example(&scratch);
    fs::write(scratch.path().join("bad.toml"), text.replace("[sources]", "[source]")).unwrap();
    show("bad.toml").assert_code(3).assert_stderr_has(
        "cannot use bad.toml: line 29: unknown key source (did you mean sources",
    );
}

#[test]
fn a_large_file_is_not_read_as_a_machine() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("large.toml"), "[[a]]\n".repeat(2 << 20)).unwrap();
    finish(&mut scratch.knee(&["machine", "show", "large.toml"]))
        .assert_code(3)
        .assert_stderr_has("cannot read large.toml: it is larger than 8 MiB");
}

#[test]
fn texts_of_a_machine_add_no_lines() {
    let scratch = Scratch::new();
    let text = example(&scratch);
    let spoilt = text
        .replace("\"A made-up", r#""\nFORGED"#)
        .replace("\"measured\"", r#""\nFORGED""#)
        .replace("\"knee 0.1.0", r#""\nFORGED"#);
    assert_eq!(spoilt.matches(r#""\nFORGED"#).count(), text.matches("\"measured\"").count() + 2);
    fs::write(scratch.path().join("example.toml"), &spoilt).unwrap();
    let shown = finish(&mut scratch.knee(&["machine", "show", "example.toml"]));
    shown.assert_code(0).assert_stdout_has(" FORGED");
    assert!(!shown.stdout.lines().any(|line| line.starts_with("FORGED")), "{shown:#?}");
    let toml = finish(&mut scratch.knee(&["machine", "show", "example.toml", "--toml"]));
    assert_eq!(toml.assert_code(0).stdout, spoilt);
}

#[test]
fn a_page_has_a_map_of_the_cpus_and_the_figures_with_their_sources() {
    let scratch = Scratch::new();
    example(&scratch);
    let page = finish(&mut scratch.knee(&["report", "example.toml", "-o", "page.html"]));
    let finding = "example: a cache line takes 10 to 101 ns from one CPU to another";
    page.assert_code(0).assert_stderr_has(finding);
    let html = fs::read_to_string(scratch.path().join("page.html")).unwrap();
    assert!(html.contains(&format!("<h1>{finding}</h1>")));
    assert_eq!(html.matches("title=\"CPU ").count(), 12);
    for text in [">97</span>", "× 1.60", "10.5 µs to 13.8 µs", "machine measure, 2026-11-27"] {
        assert!(html.contains(text), "{text}");
    }
}

#[test]
fn this_machine_is_measured_and_what_is_missing_is_named() {
    let scratch = Scratch::new();
    let measure = |more: &[&str]| {
        finish(scratch.knee(&["machine", "measure", "--seconds", "0.01"]).args(more))
    };
    let measured = measure(&["--name", "here"]);
    measured.assert_code(0).assert_stderr_has("knee report machine.toml");
    let json = finish(&mut scratch.knee(&["machine", "show", "machine.toml", "--json"]));
    let json: Value = serde_json::from_str(&json.assert_code(0).stdout).unwrap();
    assert_schema("machine", &json);
    assert_eq!(json["name"], "here");
    let points = json["contended_ns"]["points"].as_array().unwrap();
    let cpus = points.last().unwrap()[0].as_u64().unwrap();
    assert_eq!(json["matrix"]["cpus"].as_array().map_or(1, Vec::len) as u64, cpus);

    let first = usable_cpus().unwrap()[0].to_string();
    let one = measure(&["--cpus", &first, "-o", "-", "-q"]);
    one.assert_code(0).assert_stdout_has("points = [[1, ");
    assert!(!one.stdout.contains("[matrix]"), "{}", one.stdout);
    one.assert_stdout_has("# Not measured: transfers between sockets: there is only one socket.");
    one.assert_stdout_has("# Not measured: interrupts and wake-ups: there is only one CPU.");
    measure(&["-o", "none/machine.toml"]).assert_code(3).assert_stderr_has("none/machine.toml");
    measure(&["--name", "Not valid"]).assert_code(2).assert_stderr_has("use lower-case letters");
}
