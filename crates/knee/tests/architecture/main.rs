//! The rules of ARCHITECTURE.md that a compiler does not check.

mod circles;
mod floors;
mod imports;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What each crate may depend on, of ours. A floor depends on no floor above it, and `prove` and
/// `explain` not on how `measure` runs things.
const ALLOWED: [(&str, &[&str]); 18] = [
    ("knee-host", &[]),
    ("knee-stats", &[]),
    ("knee-commute", &[]),
    ("knee-sync", &[]),
    ("knee-vm", &["knee-sync"]),
    // It is also a guest of `knee commute cost` and `knee commute check`.
    ("knee-kernel", &["knee-marks", "knee-operations", "knee-plan", "knee-sync", "knee-vm"]),
    ("knee-models", &["knee-vm"]),
    ("knee-baselines", &["knee-sync", "knee-vm"]),
    ("knee-load", &["knee-host", "knee-stats"]),
    ("knee-reference", &["knee-host"]),
    ("knee-results", &["knee-host", "knee-stats"]),
    ("knee-run", &["knee-host", "knee-load", "knee-reference", "knee-results", "knee-stats"]),
    ("knee-report", &["knee-host", "knee-results", "knee-stats"]),
    ("knee-predict", &["knee-host", "knee-reference", "knee-results", "knee-stats"]),
    ("knee-profile", &["knee-host", "knee-results", "knee-stats"]),
    (
        "knee-testcases",
        &[
            "knee-baselines",
            "knee-host",
            "knee-results",
            "knee-run",
            "knee-stats",
            "knee-sync",
            "knee-vm",
        ],
    ),
    (
        "knee-trace",
        &[
            "knee-host",
            "knee-commute",
            "knee-agent",
            "knee-artefacts",
            "knee-bind",
            "knee-marks",
            "knee-operations",
            "knee-plan",
        ],
    ),
    (
        "knee",
        &[
            "knee-host",
            "knee-agent",
            "knee-commute",
            "knee-load",
            "knee-predict",
            "knee-profile",
            "knee-report",
            "knee-results",
            "knee-run",
            "knee-stats",
            "knee-testcases",
            "knee-trace",
        ],
    ),
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The crates of the workspace, and what each depends on outside its tests.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1", "--manifest-path"])
        .arg(workspace().join("Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let of = |package: &Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        all.filter(|one| one["kind"].as_str() != Some("dev")).map(name).collect()
    };
    let packages = metadata["packages"].as_array().unwrap();
    packages.iter().map(|package| (name(package), of(package))).collect()
}

/// Calls `check` with each product source under a folder: no tests, no build scripts.
fn each_source(folder: &str, check: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(workspace().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !["tests", "examples", "target"].contains(&name) {
                each_source(path.to_str().unwrap(), check);
            }
        } else if name.ends_with(".rs") && !["tests.rs", "build.rs"].contains(&name) {
            let text = std::fs::read_to_string(&path).unwrap();
            let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            check(&path, product);
        }
    }
}

#[test]
fn a_crate_depends_on_what_its_floor_allows_only() {
    let crates = dependencies();
    let unlisted = crates.keys().filter(|name| name.starts_with("knee"));
    let part_of_trace =
        ["agent", "artefacts", "bind", "harness", "marks", "operations", "plan", "plugin", "probe"];
    for name in unlisted {
        let part = name.strip_prefix("knee-").unwrap_or(name);
        let is_listed = ALLOWED.iter().any(|(listed, _)| listed == name);
        assert!(is_listed || part_of_trace.contains(&part), "{name} is on no floor: add it here");
    }
    for (name, allowed) in ALLOWED {
        for dependency in crates[name].iter().filter(|one| crates.contains_key(*one)) {
            assert!(allowed.contains(&dependency.as_str()), "{name} depends on {dependency}");
        }
    }
}

#[test]
fn only_host_starts_processes() {
    each_source("crates", &mut |path, text| {
        let place = path.strip_prefix(workspace()).unwrap().to_str().unwrap();
        // The agent is the init of a guest and has none of our other crates; the libraries of
        // `fix` are for programs other than knee.
        let is_exempt = ["crates/host/", "crates/prove/trace/agent/", "crates/fix/"]
            .iter()
            .any(|exempt| place.starts_with(exempt));
        if is_exempt {
            return;
        }
        for call in [".spawn()", ".output()", ".status()", ".exec()"] {
            assert!(!text.contains(call), "{place} calls {call}: use knee_host::process");
        }
    });
}

#[test]
fn the_runner_names_neither_testcases_nor_the_crates_that_they_measure() {
    let mut files = 0;
    each_source("crates/measure/run/src", &mut |path, text| {
        files += 1;
        for word in ["knee-vm", "knee_vm", "knee-sync", "knee_sync"] {
            assert!(!text.contains(word), "{} mentions {word}", path.display());
        }
    });
    assert!(files > 20, "{files} files");
}

/// The roots of crates of several files, which form no circle.
const WITHOUT_CIRCLES: [&str; 21] = [
    "host/src/lib.rs",
    "measure/stats/src/lib.rs",
    "measure/results/src/lib.rs",
    "measure/run/src/lib.rs",
    "measure/testcases/src/lib.rs",
    "measure/report/src/lib.rs",
    "explain/predict/src/lib.rs",
    "explain/profile/src/lib.rs",
    "prove/commute/src/lib.rs",
    "prove/trace/src/lib.rs",
    "prove/trace/agent/src/lib.rs",
    "prove/trace/bind/src/lib.rs",
    "prove/trace/harness/src/lib.rs",
    "prove/trace/marks/src/lib.rs",
    "prove/trace/operations/src/lib.rs",
    "prove/trace/plugin/src/lib.rs",
    "fix/baselines/src/lib.rs",
    "fix/models/src/lib.rs",
    "fix/sync/src/lib.rs",
    "fix/vm/src/lib.rs",
    "knee/src/lib.rs",
];

/// The imports between the files of a crate, by the path of its root under `crates`.
fn imports_of(root: &str) -> imports::Graph {
    let root = workspace().join("crates").join(root);
    let folder = root.parent().unwrap();
    let read = |path: &Path| std::fs::read_to_string(folder.join(path)).ok();
    imports::imports(root.file_name().unwrap().to_str().unwrap(), read)
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut found = String::new();
    for root in WITHOUT_CIRCLES {
        let graph = imports_of(root);
        assert!(graph.len() > 1, "{root}: {} files", graph.len());
        for circle in circles::circles(&graph) {
            found += &format!("\n{root}: {}", circles::shown(&circle));
        }
    }
    assert!(found.is_empty(), "move what both files need into one of its own:{found}");
}

#[test]
fn the_command_imports_downwards_only() {
    let found = floors::upward(&imports_of("knee/src/lib.rs"));
    assert!(found.is_empty(), "imports that run upwards:\n{}", found.join("\n"));
}

#[test]
fn no_command_imports_from_another() {
    let found = floors::between_commands(&imports_of("knee/src/lib.rs"));
    assert!(found.is_empty(), "move what both commands need below them:\n{}", found.join("\n"));
}
