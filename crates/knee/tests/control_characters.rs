//! Names and messages from files cannot control a terminal: no control character and no control of the
//! direction of text reaches standard output, standard error or a text file. knee's own colours do.

mod support;

use std::fs;

use serde_json::{Value, json};
use support::{Scratch, copy, finish};

/// What a name contains in each file: a colour that knee itself uses, a window title with its bell, a C1
/// control, controls of direction, NUL, carriage return and DEL, and a line with a tab.
const HOSTILE: &str = "x\u{1b}[32mFORGED\u{1b}]0;title\u{7}\u{9b}2J\u{202e}\u{2066}\u{200f}\u{61c}\0\r\u{7f}y\n\
    LINE\tTAB";
/// The escape sequences of knee's own styles.
const STYLES: [&str; 6] =
    ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"];

/// The same without NUL, for arguments.
fn path() -> String {
    HOSTILE.replace('\0', "")
}

/// The same on one line, for formats of lines.
fn on_one_line() -> String {
    HOSTILE.replace('\n', "")
}

/// A control character in a text, if there is one.
fn control(text: &str) -> Option<char> {
    text.chars().find(|&c| {
        let is_layout = c == '\n' || c == '\t';
        let is_direction = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}');
        (c.is_control() && !is_layout) || is_direction
    })
}

#[track_caller]
fn assert_harmless(what: &dyn std::fmt::Debug, text: &str) {
    assert!(!text.contains("\u{1b}[32mFORGED"), "{what:?}: {text:?}");
    let plain = STYLES.iter().fold(text.to_owned(), |text, style| text.replace(style, ""));
    assert_eq!(control(&plain), None, "{what:?}: {text:?}");
    assert!(!plain.contains("\nLINE") && !plain.contains("\tTAB"), "{what:?}: {text:?}");
}

/// Adds the hostile name to texts of a record. Other strings select what knee does.
fn spoil(value: &mut Value) {
    const TEXTS: [&str; 7] = [
        "mmap1",
        "golden",
        "Linux 6.12.0",
        "Example CPU",
        "mmap and munmap 128 MB",
        "there is no C compiler named cc",
        "apt-get install gcc libc6-dev",
    ];
    match value {
        Value::String(text) if TEXTS.contains(&text.as_str()) => text.push_str(HOSTILE),
        Value::Array(values) => values.iter_mut().for_each(spoil),
        Value::Object(fields) => fields.values_mut().for_each(spoil),
        _ => {}
    }
}

/// Adds the hostile name to all texts but those of fields with these names.
fn spoil_all(value: &mut Value, except: &[&str]) {
    match value {
        Value::String(text) => text.push_str(HOSTILE),
        Value::Array(values) => values.iter_mut().for_each(|value| spoil_all(value, except)),
        Value::Object(fields) => fields
            .iter_mut()
            .filter(|(name, _)| !except.contains(&name.as_str()))
            .for_each(|(_, value)| spoil_all(value, except)),
        _ => {}
    }
}

/// A scratch directory with hostile files of each kind, whose own names are hostile too.
fn files() -> Scratch {
    let scratch = Scratch::new();
    let path = path();
    let write = |name: String, content: String| {
        fs::write(scratch.path().join(name), content).unwrap();
    };
    for (name, seed) in [("run", 1), ("other", 2)] {
        let change = |run: &mut Value| {
            spoil(run);
            run["request"]["seed"] = seed.into();
        };
        copy(&scratch, &format!("{name}{path}"), change, spoil);
    }
    for nr in 0..10 {
        let header = "tasks,processes,processes_idle,threads,threads_idle,linear";
        write(
            format!("{nr}{path}.csv"),
            format!("# mmap1{}\n{header}\n1,{},0,100,0,100\n", on_one_line(), 100 + nr),
        );
    }
    write(format!("bad{path}.csv"), format!("{},1,0,1,0,1\n", on_one_line()));
    for (name, numbers) in [("small", "1\n2\n3\n"), ("large", "7\n8\n9\n")] {
        write(format!("{name}{path}"), numbers.to_owned());
    }
    write(format!("not{path}"), format!("1\n{}\n", on_one_line()));
    let program = on_one_line().replace(';', "");
    write(format!("folded{path}"), format!("{program};main;f{program} 12\n{program};main 3\n"));
    let machine = json!({ "kernel": HOSTILE, "cpus": 1, "started_at": HOSTILE });
    let capture = json!({
        "schema": 1, "title": HOSTILE, "machine": machine, "seconds": 1.0, "cpu_seconds": null,
        "clock": { "event": HOSTILE, "unit": "events", "frequency": null }, "work": null,
        "losses": { "lost": 1, "throttled": 0, "cut": 0, "unreadable": 0 },
        "programs": [HOSTILE],
        "functions": [{ "name": HOSTILE, "module": HOSTILE, "kind": "user" }],
        "stacks": [{ "parent": null, "function": 0 }],
        "counts": [{ "program": 0, "stack": 0, "samples": 5, "weight": 5 }],
    });
    write(format!("capture{path}"), capture.to_string());
    let stack = json!({
        "functions": [HOSTILE, HOSTILE], "acquisitions": 1, "total_ns": 5, "longest_ns": 5,
        "still_waiting": 0,
    });
    let waits = json!({
        "schema": 1, "title": HOSTILE, "machine": machine, "seconds": 1.0, "work": null,
        "losses": { "lost": 1, "unmatched": 0, "unreadable": 0 },
        "sites": [{
            "lock": HOSTILE, "function": HOSTILE, "acquisitions": 1, "total_ns": 5,
            "longest_ns": 5, "still_waiting": 0, "stacks": [stack],
        }],
    });
    write(format!("waits{path}"), waits.to_string());
    let prediction =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fixed/prediction.json"));
    let mut prediction: Value = serde_json::from_str(prediction).unwrap();
    spoil_all(&mut prediction, &["kind", "mode", "class"]);
    write(format!("prediction{path}"), prediction.to_string());
    for name in ["check", "later"] {
        let dir = scratch.path().join(format!("{name}{path}"));
        fs::create_dir(&dir).unwrap();
        let check = json!({
            "schema": 1, "kind": "commute check", "complete": true,
            "began": "2026-11-21T09:00:00Z", "ended": "2026-11-21T09:01:00Z",
            "knee_version": HOSTILE, "qemu": format!("{name}{HOSTILE}"), "file_system": "tmpfs",
            "kernel": { "release": HOSTILE, "image": HOSTILE },
            "tests": { "count": 2, "digest": HOSTILE }, "shard": { "index": 1, "of": 1 },
        });
        fs::write(dir.join("check.json"), check.to_string()).unwrap();
        let side = |wrote: bool| {
            let [mut writers, mut readers] = [vec![HOSTILE], Vec::new()];
            if !wrote {
                std::mem::swap(&mut writers, &mut readers);
            }
            json!({ "bytes": [24, 31], "wrote": wrote, "writers": writers, "readers": readers })
        };
        let conflict = json!({
            "data": [format!("struct {HOSTILE}")], "line": "0x3a4b040", "same_bytes": true,
            "sides": { "0": side(true), "1": side(false) },
        });
        let [of, within] = ["type", "s"].map(|name| format!("{name}{HOSTILE}"));
        let access = |call: u64, wrote: bool, offset: u64| {
            json!({ "call": call, "wrote": wrote, "name": format!("f{offset}{HOSTILE}"), "type": of,
                    "offset": offset, "bytes": 8 })
        };
        let object = json!({ "struct": within, "offset": 0,
                             "fields": [access(0, true, 0), access(1, false, 8)] });
        let apart = json!({
            "data": [format!("s.a{HOSTILE} / s.b{HOSTILE}")], "line": "0x3a4b080", "same_bytes": false,
            "object": object, "sides": { "0": side(true), "1": side(false) },
        });
        let field = json!({ "type": of, "struct": within });
        let member = json!({ "name": HOSTILE, "type": of, "offset": 16, "bytes": 8 });
        let layouts = json!({
            "fields": { format!("s.a{HOSTILE}"): field },
            "structs": { within.clone(): { "bytes": 24, "members": [member] } },
        });
        let conflicts = if name == "check" { vec![conflict, apart] } else { Vec::new() };
        let verdict = if name == "check" { "conflict" } else { "conflict-free" };
        let line = |test: String, verdict: &str, died: Option<&str>, conflicts: &[Value]| {
            let line = json!({
                "schema": 1, "test": test, "verdict": verdict, "unexpected": null, "died": died,
                "conflicts": conflicts, "layouts": layouts,
            });
            format!("{line}\n")
        };
        let lines = line(format!("open{HOSTILE},close/0.0"), verdict, None, &conflicts)
            + &line("close,close/0.0".to_owned(), "died", Some(HOSTILE), &[]);
        fs::write(dir.join("tests.jsonl"), lines).unwrap();
    }
    scratch
}

/// Commands that print hostile text. `*` stands for the hostile part of a file name.
const COMMANDS: &[&str] = &[
    "show run*",
    "show run* --detail",
    "show run* --format csv",
    "show run* --format tsv --detail",
    "show run* --format will-it-scale-csv",
    "show run* --format will-it-scale",
    "show run* --json",
    "fit run*",
    "fit run* --json",
    "compare run* other*",
    "compare run* other* --detail",
    "compare run* other* --markdown",
    "compare run* other* --json",
    "compare run* other* --format benchstat",
    "report run* -o page*.html",
    "report run* -o -",
    "history 0*.csv 1*.csv 2*.csv 3*.csv 4*.csv 5*.csv 6*.csv 7*.csv 8*.csv 9*.csv",
    "history 0*.csv 1*.csv 2*.csv 3*.csv 4*.csv 5*.csv 6*.csv 7*.csv 8*.csv 9*.csv --detail",
    "history 0*.csv 1*.csv 2*.csv 3*.csv 4*.csv 5*.csv 6*.csv 7*.csv 8*.csv 9*.csv --json",
    "compare small* large*",
    "compare small* large* --format ministat",
    "profile show folded*",
    "profile show folded* -o tree.txt",
    "profile show folded* --format functions",
    "profile show folded* --format folded",
    "profile show folded* --format folded -o folded.txt",
    "profile show folded* --format flame",
    "profile show folded* --format speedscope",
    "profile show folded* --format speedscope -o speedscope.json",
    "profile show folded* --root nosuch",
    "profile show capture*",
    "profile show capture* --format functions",
    "profile show capture* --format flame -o flame.svg",
    "profile show waits*",
    "profile diff folded* capture* --flame diff.svg",
    "report capture* waits* run* -o -",
    "show prediction*",
    "show prediction* --json",
    "report prediction* run* -o -",
    "commute matrix check*",
    "commute matrix check* --json",
    "commute matrix check* -o matrix*.svg",
    "commute matrix check* -o matrix*.html",
    "commute explain check*",
    "commute explain check* --json",
    "commute explain check* --layout",
    "commute explain check* --layout=nosuch*",
    "commute explain check* --layout --json",
    "commute diff check* later*",
    "commute diff check* later* --json",
    // Errors.
    "show *",
    "show small*",
    "compare bad*.csv bad*.csv",
    "compare not* not*",
    "profile show small*",
    "commute explain run*",
    "commute explain *",
    "commute conditions * *",
    "run *",
    "show run* --format *",
    "*",
];

#[test]
fn no_output_contains_a_control_character_of_a_name() {
    let scratch = files();
    let hostile = path();
    for colours in [false, true] {
        for line in COMMANDS {
            let args: Vec<String> =
                line.split(' ').map(|word| word.replace('*', &hostile)).collect();
            let mut knee = scratch.knee(&args.iter().map(String::as_str).collect::<Vec<_>>());
            if colours {
                knee.env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1");
            }
            let finished = finish(&mut knee);
            assert!(matches!(finished.code, Some(0..=5)), "{line}: {finished:#?}");
            let shown = [&finished.stdout, &finished.stderr];
            shown.iter().for_each(|text| assert_harmless(line, text));
            let written = line.contains(" -o ") && !line.ends_with(" -");
            let has_name = shown.iter().any(|text| text.contains("FORGED"));
            assert!(has_name || written, "{line} does not print the name: {finished:#?}");
        }
    }
    for file in ["tree.txt", "folded.txt", "speedscope.json", "flame.svg", "diff.svg"]
        .map(str::to_owned)
        .into_iter()
        .chain(["page", "matrix"].map(|name| format!("{name}{hostile}.html")))
        .chain([format!("matrix{hostile}.svg")])
    {
        let text = fs::read_to_string(scratch.path().join(&file)).unwrap();
        assert_harmless(&file, &text);
        assert!(text.contains("FORGED"), "{file}: {text}");
    }
}

#[test]
fn colours_are_printed_although_names_cannot_contain_them() {
    let scratch = files();
    let mut knee = scratch.knee(&["show", &format!("run{}", path())]);
    let finished = finish(knee.env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1"));
    finished.assert_stdout_has("\u{1b}[1m").assert_stdout_has("\u{fffd}[32mFORGED");
}

#[test]
fn programs_read_the_original_names_from_json() {
    let scratch = files();
    let finished = finish(&mut scratch.knee(&["show", &format!("run{}", path()), "--json"]));
    let document: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(document["run"]["cases"][0]["name"], format!("mmap1{HOSTILE}"));
    assert_eq!(document["samples"].as_array().unwrap().len(), (3 * 2 * 4 - 1) * 6 * 3);
}

#[test]
fn a_long_cell_is_cut_in_an_error() {
    let scratch = Scratch::new();
    let cell = "9".repeat(3_000_000);
    let header = "tasks,processes,processes_idle,threads,threads_idle";
    fs::write(scratch.path().join("long.csv"), format!("{header}\n1,{cell}x,0,1,0\n")).unwrap();
    let finished = finish(&mut scratch.knee(&["compare", "long.csv", "long.csv"]));
    finished.assert_code(3).assert_stderr_has(&format!("\"{}…\" is not a rate", "9".repeat(80)));
    assert!(finished.stderr.len() < 200, "{}", finished.stderr.len());
}
