//! `knee commute cost`: operations in a guest. Tests are skipped, with a reason, if QEMU or the kernel is
//! missing.

mod support;

use serde_json::Value;
use support::{Finished, Scratch, finish, has_guests};

/// The Debian release whose kernel runs.
const RELEASE: &str = "bookworm";
/// Operations, and the tolerated difference between two guests in the fewest instructions of a round. The
/// contents of slabs and trees depend on the boot, and a churn allocates and frees most.
const TOLERANCES: [(&str, f64); 4] =
    [("open", 0.02), ("munmap", 0.05), ("page_fault1", 0.05), ("mmap_churn1", 0.2)];

fn cost(args: &[&str]) -> Option<Finished> {
    if !has_guests(RELEASE) {
        return None;
    }
    let scratch = Scratch::new();
    let args = [args, &["--rounds", "8", "--kernel", RELEASE]].concat();
    Some(finish(scratch.knee(&["commute", "cost"]).args(args)))
}

fn document(finished: &Finished) -> Value {
    serde_json::from_str(&finished.assert_code(0).stdout).unwrap()
}

#[test]
fn without_qemu_no_message_claims_that_a_guest_boots() {
    let scratch = Scratch::new();
    let mut knee = scratch.knee(&["commute", "cost", "open"]);
    let finished = finish(knee.env("PATH", scratch.path()).env_remove("KNEE_QEMU"));
    finished.assert_code(3).assert_stderr_has("qemu-system-x86_64 is not installed");
    assert!(!finished.stderr.contains("boot"), "{finished:#?}");
}

/// The figures of an operation at a CPU count.
fn measured<'a>(document: &'a Value, operation: &str, cpus: u32) -> &'a Value {
    let costs = document["kernels"][0]["costs"].as_array().unwrap();
    let is = |cost: &&Value| cost["operation"] == operation && cost["cpus"] == cpus;
    costs.iter().find(is).unwrap_or_else(|| panic!("no {operation} on {cpus}: {document:#}"))
}

fn median(cost: &Value, figure: &str) -> u64 {
    cost["figures"][figure]["median"].as_u64().unwrap()
}

/// The fewest instructions of any round; the other rounds also filled a slab or split a tree node.
fn least(cost: &Value) -> u64 {
    cost["figures"]["instructions"]["min"].as_u64().unwrap()
}

/// Functions that access the lines that move in every operation.
fn functions(cost: &Value) -> Vec<&str> {
    let hot = |line: &&Value| line["taken"].as_f64().unwrap() > 0.9;
    let lines = cost["lines"].as_array().unwrap().iter().filter(hot);
    lines.flat_map(|line| line["writers"].as_array().unwrap()).filter_map(Value::as_str).collect()
}

#[test]
fn a_shared_offset_moves_between_cpus_and_unshared_data_stay() {
    for mode in ["threads", "processes"] {
        let operations = ["lseek_shared", "lseek", "getppid1", "--json", "--cpus", "2,5"];
        let Some(run) = cost(&[&operations[..], &["--mode", mode]].concat()) else { return };
        let document = document(&run);
        for cpus in [2, 5] {
            let shared = measured(&document, "lseek_shared", cpus);
            assert!(shared["figures"]["taken"]["min"].as_u64() >= Some(1), "{mode}: {shared:#}");
            assert!(functions(shared).contains(&"mutex_lock"), "{mode}: {shared:#}");
            for own in ["lseek", "getppid1"] {
                let cost = measured(&document, own, cpus);
                assert_eq!(median(cost, "taken") + median(cost, "fetched"), 0, "{mode}: {cost:#}");
            }
        }
        for operation in ["lseek_shared", "lseek", "getppid1"] {
            let alone = measured(&document, operation, 1);
            assert_eq!(alone["figures"]["taken"]["max"], 0, "{mode}: {alone:#}");
            assert!(median(alone, "instructions") > 100 && median(alone, "read") > 10);
        }
    }
}

/// The kernel's data in the lines that move in every operation.
fn data(cost: &Value) -> Vec<&str> {
    let hot = |line: &&Value| line["taken"].as_f64().unwrap() > 0.9;
    let lines = cost["lines"].as_array().unwrap().iter().filter(hot);
    lines.map(|line| line["data"].as_str().expect("a name")).collect()
}

#[test]
fn shared_lines_are_named_inside_and_outside_an_address_space() {
    let of = |mode| {
        let run = cost(&["munmap", "open", "--json", "--cpus", "3", "--mode", mode])?;
        let document = document(&run);
        let data = |operation| -> Vec<String> {
            data(measured(&document, operation, 3)).into_iter().map(str::to_owned).collect()
        };
        Some([data("munmap"), data("open")])
    };
    let Some([unmapped, opened]) = of("threads") else { return };
    let has = |data: &[String], name: &str| data.iter().any(|data| data.contains(name));
    assert!(has(&unmapped, "mm_struct.mmap_lock"), "{unmapped:?}");
    assert!(has(&opened, "files_struct.file_lock") && has(&opened, "cred.usage"), "{opened:?}");
    let [unmapped, opened] = of("processes").unwrap();
    assert!(!has(&unmapped, "mm_struct"), "{unmapped:?}");
    assert!(!has(&opened, "files_struct") && has(&opened, "aa_profile.label"), "{opened:?}");
}

#[test]
fn two_guests_give_the_same_results() {
    let names = TOLERANCES.map(|(operation, _)| operation);
    let operations = [&names[..], &["--json", "--cpus", "4"]].concat();
    let Some(first) = cost(&operations) else { return };
    let Some(second) = cost(&operations) else { return };
    let (first, second) = (document(&first), document(&second));
    for (operation, tolerance) in TOLERANCES {
        for cpus in [1, 4] {
            let of = |document| least(measured(document, operation, cpus)) as f64;
            let off = (of(&first) / of(&second) - 1.0).abs();
            assert!(off < tolerance, "{operation} on {cpus}: {} and {}", of(&first), of(&second));
        }
    }
}

#[test]
fn a_table_names_the_lines_that_move_and_the_functions_that_touch_them() {
    let Some(run) = cost(&["lseek_shared", "--cpus", "3", "--top", "2"]) else { return };
    run.assert_code(0)
        .assert_stdout_has("threads, 8 rounds")
        .assert_stdout_has("3 CPUs")
        .assert_stdout_has("  1.00   0.00  file.f_pos_lock, file.f_pos  written by ")
        .assert_stdout_has("1 other line: file.f_version; most in");
}

#[test]
fn an_unknown_operation_is_reported_with_the_known_ones() {
    let scratch = Scratch::new();
    let knee = |args: &[&str]| finish(scratch.knee(&["commute", "cost"]).args(args));
    knee(&["munmp"])
        .assert_code(2)
        .assert_stderr_has("no operation is named \"munmp\"; the operations are open,");
    knee(&["--list"]).assert_code(0).assert_stdout_has("munmap");
}
