//! What a recorded run looks like, to the byte. `SNAPSHOTS=overwrite cargo test` accepts changes.

mod support;

use std::collections::BTreeMap;

use serde_json::Value;
use snapbox::{assert_data_eq, file};
use support::{Scratch, finish, skip};

/// Where the golden files are; the recorded run is `record` there.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

fn show(args: &[&str]) -> String {
    let scratch = Scratch::new();
    let finished = finish(scratch.knee(&["show", "record"]).args(args).current_dir(DATA));
    // The record holds a failure for want of a compiler.
    finished.assert_code(3);
    finished.stdout
}

#[test]
fn a_table_with_a_line_per_curve() {
    assert_data_eq!(show(&[]), file!["data/table.txt"].raw());
}

#[test]
fn a_table_with_a_line_per_point() {
    assert_data_eq!(show(&["--detail"]), file!["data/detail.txt"].raw());
}

#[test]
fn the_csv_of_will_it_scale() {
    assert_data_eq!(show(&["--format", "will-it-scale-csv"]), file!["data/curves.csv"].raw());
}

#[test]
fn a_flat_csv_with_a_row_per_point() {
    assert_data_eq!(show(&["--format", "csv"]), file!["data/points.csv"].raw());
}

#[test]
fn tsv_has_the_cells_of_csv_and_json() {
    let [csv, tsv] = ["csv", "tsv"].map(|format| show(&["--format", format]));
    // No name in this record contains a comma.
    assert_eq!(tsv.replace('\t', ","), csv);
    let document: Value = serde_json::from_str(&show(&["--format", "json"])).unwrap();
    let curves = document["curves"].as_array().unwrap();
    let points = curves.iter().flat_map(|curve| curve["points"].as_array().unwrap());
    let mut rows = csv.lines();
    let names: Vec<&str> = rows.next().unwrap().split(',').collect();
    for (row, point) in rows.zip(points) {
        for (name, cell) in names.iter().zip(row.split(',')) {
            if let Some(number) = point[*name].as_f64() {
                let difference = (cell.parse::<f64>().unwrap() - number).abs();
                // The reader of JSON rounds.
                assert!(difference <= 1e-12 * number, "{name} in {row}");
            }
        }
    }
}

#[test]
fn csv_in_detail_has_a_row_per_round() {
    let csv = show(&["--format", "csv", "--detail"]);
    let mut rows = csv.lines();
    assert!(rows.next().unwrap().starts_with("testcase,mode,tasks,round,rate,disturbed,"));
    // Three testcases, two modes and four task counts, of which one point failed; six rounds.
    assert_eq!(rows.clone().count(), (3 * 2 * 4 - 1) * 6);
    assert_eq!(rows.filter(|row| row.contains(",1,starved=1,")).count(), 2);
}

#[test]
fn the_lines_of_will_it_scale() {
    assert_data_eq!(show(&["--format", "will-it-scale"]), file!["data/will-it-scale.txt"].raw());
}

#[test]
fn the_json_document_holds_run_curves_and_samples() {
    let document: Value = serde_json::from_str(&show(&["--format", "json"])).unwrap();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["run"]["request"]["seed"], 7);
    assert_eq!(document["samples"].as_array().unwrap().len(), (3 * 2 * 4 - 1) * 6 * 3);
    let threads = &document["curves"][1];
    assert_eq!((&threads["testcase"], &threads["knee"]), (&"mmap1".into(), &2.into()));
    assert_eq!(threads["points"][3]["marks"]["starved"], 1);
    // Each task has a helper, so eight tasks occupy 16 CPUs.
    let shared = &document["curves"][2]["points"][3];
    assert_eq!((&shared["oversubscribed"], &shared["efficiency"]), (&true.into(), &Value::Null));
}

#[test]
fn the_knee_moves_with_its_threshold() {
    let curves = |knee: &str| -> Value {
        serde_json::from_str(&show(&["--format", "json", "--knee", knee])).unwrap()
    };
    assert_eq!(curves("80%")["curves"][2]["knee"], 4);
    assert_eq!(curves("96")["curves"][2]["knee"], 2);
    assert_eq!(curves("10%")["curves"][2]["knee"], Value::Null);
}

#[test]
fn a_reader_that_exits_early_is_not_an_error() {
    let scratch = Scratch::new();
    let script = format!("{} list | head -1; echo ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_knee"));
    let mut command = std::process::Command::new("bash");
    let finished = finish(command.args(["-c", &script]).current_dir(scratch.path()));
    assert_eq!(finished.stdout, "memory\n0\n", "{finished:#?}");
}

#[test]
fn the_list_names_every_family_and_what_a_testcase_needs() {
    let scratch = Scratch::new();
    let text = finish(&mut scratch.knee(&["list"]));
    text.assert_code(0).assert_stdout_has("needs");
    let json = finish(&mut scratch.knee(&["list", "--json"])).stdout;
    let list: Value = serde_json::from_str(&json).unwrap();
    let testcases = list["testcases"].as_array().unwrap();
    let families =
        ["memory", "file", "directory", "lock", "ipc", "network", "process", "sync", "vm"];
    for family in families {
        assert!(testcases.iter().any(|t| t["family"] == family), "{family}");
    }
    for testcase in testcases {
        let name = testcase["name"].as_str().unwrap();
        assert!(text.stdout.contains(name), "{name}");
    }
}

#[test]
fn the_list_explains_the_parameters_that_it_shows() {
    let scratch = Scratch::new();
    let list = |name: &str| finish(&mut scratch.knee(&["list", name])).stdout;
    let read1 = list("read1");
    assert!(read1.contains("NAME@KEY=VALUE") && read1.contains("one file for all"), "{read1}");
    assert!(!read1.contains("next-cpu"), "{read1}");
    assert!(!list("getuid1").contains("KEY=VALUE"));
}

#[test]
fn shells_complete_testcases_parameters_families_interfaces_and_operations() {
    let scratch = Scratch::new();
    for (words, expected) in [
        (&["run", "mmap"][..], "mmap1"),
        (&["run", "read1"], "read1@file=same"),
        (&["list", "family:l"], "family:lock"),
        (&["profile", "growth", "page_f"], "page_fault1"),
        (&["profile", "growth", "pgb"], "pgbench_select"),
        (&["ab", "--before", "getp"], "getppid1"),
        (&["commute", "matrix", "--interface", "que"], "queue"),
        (&["commute", "check", "ren"], "rename"),
        (&["commute", "cost", "mun"], "munmap"),
    ] {
        let mut command = scratch.knee(&["--", "knee"]);
        let finished = finish(command.args(words).env("KNEE_COMPLETE", "fish"));
        finished.assert_code(0);
        let has = finished.stdout.lines().any(|line| line.split('\t').next() == Some(expected));
        assert!(has, "{words:?}: {finished:#?}");
    }
}

#[test]
fn a_path_that_a_shell_would_expand_is_not_completed() {
    let scratch = Scratch::new();
    for name in ["run$(id)", "runs.json"] {
        std::fs::write(scratch.path().join(name), "").unwrap();
    }
    let mut command = scratch.knee(&["--", "knee", "show", "run"]);
    command.envs([("KNEE_COMPLETE", "bash"), ("_CLAP_IFS", "\n"), ("_CLAP_COMPLETE_INDEX", "2")]);
    assert_eq!(finish(&mut command).stdout, "runs.json");
}

#[test]
fn completions_and_schemas_are_generated() {
    let scratch = Scratch::new();
    let generate = |args: &[&str]| {
        let mut command = scratch.knee(&["generate"]);
        let finished = finish(command.args(args));
        finished.assert_code(0);
        finished.stdout
    };
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        assert!(generate(&["completions", shell]).contains("KNEE_COMPLETE"), "{shell}");
    }
    assert!(generate(&["schema", "sample"]).contains("fairness"));
    assert!(generate(&["schema", "check"]).contains("file_system"));
    assert!(generate(&["schema", "check-test"]).contains("same_bytes"));
}

/// The man pages, by file name.
fn man_pages() -> BTreeMap<String, String> {
    let scratch = Scratch::new();
    finish(&mut scratch.knee(&["generate", "man", "new/man1"])).assert_code(0);
    let files = std::fs::read_dir(scratch.path().join("new/man1")).unwrap();
    let page = |file: std::fs::DirEntry| {
        (file.file_name().into_string().unwrap(), std::fs::read_to_string(file.path()).unwrap())
    };
    files.map(|file| page(file.unwrap())).collect()
}

#[test]
fn every_command_has_a_man_page_with_the_usual_sections() {
    let pages = man_pages();
    for name in ["knee.1", "knee-run.1", "knee-commute-check.1", "knee-generate-schema.1"] {
        assert!(pages.contains_key(name), "{name} is missing in {:?}", pages.keys());
    }
    assert!(!pages.keys().any(|name| name.contains("help")), "{:?}", pages.keys());
    for (name, page) in &pages {
        let title = name.strip_suffix(".1").unwrap().replace('-', "\\-");
        assert!(page.contains(&format!(".SH NAME\n{title} \\- ")), "{name}: {page}");
        for section in ["SYNOPSIS", "DESCRIPTION", "OPTIONS"] {
            assert!(page.contains(&format!("\n.SH {section}\n")), "{section} of {name}: {page}");
        }
        for section in ["EXIT STATUS", "ENVIRONMENT", "FILES"] {
            let heading = format!("\n.SH \"{section}\"\n.nf\n  ");
            assert_eq!(page.matches(&heading).count(), 1, "{section} of {name}: {page}");
        }
        let words = page.split([' ', '\n', ',']).filter_map(|word| word.strip_suffix("(1)"));
        for other in words.map(|word| word.replace('\\', "")).filter(|w| w.starts_with("knee")) {
            assert!(pages.contains_key(&format!("{other}.1")), "{other} in {name}");
        }
    }
    assert!(pages["knee.1"].contains("XDG_CACHE_HOME"));
    assert!(pages["knee-run.1"].contains("\\-\\-placement"));
    assert!(pages["knee-run.1"].contains("5  too noisy for \\-\\-precision"));
    assert!(pages["knee-commute-check.1"].ends_with("knee(1), knee\\-commute(1)\n"));
}

#[test]
fn a_man_page_shows_examples_as_typed() {
    let pages = man_pages();
    for (page, example) in [
        ("knee.1", r"  knee run mmap1 \(aqpage_fault*\(aq"),
        ("knee-run.1", r"  knee run \-\-plugin ./mine.so"),
        ("knee-list.1", r"  knee list \(aqmmap*\(aq"),
    ] {
        let examples = pages[page].split(".SH \"EXAMPLES\"\n.nf\n").nth(1).unwrap();
        let examples = examples.split(".fi\n").next().unwrap();
        let is_there = examples.lines().any(|line| line.starts_with(example));
        assert!(is_there, "{example:?} is missing in {examples}");
    }
}

#[test]
fn an_aa_run_keeps_the_noise_floor_for_later_runs() {
    let scratch = Scratch::new();
    let mut aa = scratch.run(&["--aa", "-r", "4", "-t", "1", "getppid1"]);
    let finished = finish(&mut aa);
    if finished.assert_code(0).stderr.contains("no noise floor for") {
        return skip("noise floor", &finished.stderr);
    }
    finished.assert_stderr_has("noise floor of this machine: typically");
    let kept = std::fs::read(scratch.path().join("state/knee/noise.json")).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(kept["points"].as_array().unwrap().len(), 2);
    assert_eq!(kept["points"][0]["rounds"], 4);
    let later = finish(&mut scratch.knee(&["show", "record", "--detail"]));
    assert!(!later.stdout.contains("noise floor of this machine is unknown"), "{later:#?}");
}

#[test]
fn a_cpu_that_the_machine_does_not_have_is_a_mistake_of_usage() {
    let scratch = Scratch::new();
    for args in [["topology", "--cpus", "99999"], ["topology", "--cpus", "x"]] {
        finish(&mut scratch.knee(&args)).assert_code(2).assert_stderr_has("cpu");
    }
}

#[test]
fn doctor_and_topology_speak_to_people_and_to_programs() {
    let scratch = Scratch::new();
    for command in ["doctor", "topology"] {
        finish(&mut scratch.knee(&[command])).assert_code(0);
        let json = finish(&mut scratch.knee(&[command, "--json"])).stdout;
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["schema"], 1, "{command}");
    }
}

#[test]
fn doctor_checks_what_guests_lock_waits_and_the_noise_floor_need() {
    let scratch = Scratch::new();
    // Without a QEMU, doctor does not calibrate one.
    let doctor = finish(scratch.knee(&["doctor", "--json"]).env("KNEE_QEMU", "/nowhere/qemu"));
    let document: Value = serde_json::from_str(&doctor.assert_code(0).stdout).unwrap();
    let checks = document["checks"].as_array().unwrap();
    let find = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap();
    for name in ["QEMU", "QEMU user mode", "kernels", "file systems", "lock waits", "loopback"] {
        assert!(find(name)["status"].is_string());
    }
    let floor = find("noise floor");
    assert_eq!(floor["remedy"], serde_json::json!({ "command": "knee run --aa" }), "{floor:#}");
    assert!(floor["detail"].as_str().unwrap().ends_with("state/knee/noise.json"), "{floor:#}");
}

/// Commands that print text for people about the recorded run and the models.
const TEXTS: [&[&str]; 10] = [
    &["show", "record"],
    &["show", "record", "--detail"],
    &["compare", "record", "record", "--detail"],
    &["compare", "ministat/iguana", "ministat/chameleon"],
    &["fit", "record"],
    &["list"],
    &["doctor"],
    &["topology"],
    &["commute", "matrix", "--interface", "signals"],
    &["commute", "conditions", "open", "close"],
];

#[test]
fn text_for_people_fits_the_terminal() {
    let scratch = Scratch::new();
    for columns in ["80", "100", "120"] {
        for text in TEXTS {
            let mut knee = scratch.knee(text);
            let finished = finish(knee.env("COLUMNS", columns).current_dir(DATA));
            let width: usize = columns.parse().unwrap();
            for line in finished.stdout.lines() {
                // A word that is longer than a line stays whole.
                let is_word = !line.trim().contains(' ');
                assert!(line.chars().count() <= width || is_word, "{columns}, {text:?}: {line}");
            }
        }
    }
}

#[test]
fn a_c_locale_gets_ascii() {
    let scratch = Scratch::new();
    let helps: [&[&str]; 4] = [&[], &["--help"], &["help", "run"], &["help", "commute", "check"]];
    for text in TEXTS.into_iter().chain(helps) {
        let finished = finish(scratch.knee(text).env("LC_ALL", "C").current_dir(DATA));
        let line = finished.stdout.lines().find(|line| !line.is_ascii());
        assert_eq!(line, None, "{text:?}");
    }
}

#[test]
fn documents_for_programs_depend_neither_on_the_locale_nor_on_the_terminal() {
    let scratch = Scratch::new();
    let documents: [&[&str]; 3] =
        [&["show", "record", "--json"], &["list", "--json"], &["commute", "list", "--json"]];
    for document in documents {
        let knee = || scratch.knee(document);
        let like = finish(knee().current_dir(DATA));
        let unlike = finish(knee().env("LC_ALL", "C").env("COLUMNS", "40").current_dir(DATA));
        assert!(like.stdout.starts_with('{'), "{document:?}");
        assert_eq!(unlike.stdout, like.stdout, "{document:?}");
    }
}

#[test]
fn a_comparison_on_a_terminal_says_that_it_waits_for_numbers() {
    let scratch = Scratch::new();
    // `script` provides the terminal, and ends the input.
    let mut script = std::process::Command::new("script");
    let command = format!("{} compare", env!("CARGO_BIN_EXE_knee"));
    script.args(["-qec", &command, "/dev/null"]).current_dir(scratch.path());
    match script.stdin(std::process::Stdio::null()).output() {
        Err(error) => support::skip("script", error),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("reading numbers from the terminal"), "{text}");
        }
    }
}

#[test]
fn a_record_is_also_named_by_the_file_in_it() {
    let scratch = Scratch::new();
    support::copy(&scratch, "record", |_| {}, |_| {});
    let of = |path: &str| finish(&mut scratch.knee(&["show", path]));
    let by_file = of("record/run.json");
    // The record holds a failure.
    assert_eq!(by_file.assert_code(3).stdout, of("record").stdout);
}
