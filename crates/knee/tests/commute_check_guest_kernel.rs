//! `knee commute check --guest-kernel` on knee's own kernel. Tests are skipped, with a reason, if QEMU or
//! Rust's target is missing.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use support::{Finished, Scratch, finish, guest_kernel, skip};

/// A command that checks knee's own kernel; `None`, with a printed reason, if the kernel cannot run here.
fn checking(scratch: &Scratch, args: &[&str]) -> Option<Command> {
    let emulator = knee_trace::Emulator::of_user().expect("the QEMU that KNEE_QEMU names");
    if let Err(error) = emulator.version() {
        skip("qemu", error);
        return None;
    }
    let mut knee = scratch.knee(&["commute", "check", "--guest-kernel"]);
    knee.arg(guest_kernel()?).args(args);
    Some(knee)
}

fn check(args: &[&str]) -> Option<Finished> {
    Some(finish(&mut checking(&Scratch::new(), args)?))
}

/// Whether both calls of a test use the same page of one process.
fn share_a_page(test: &Value) -> bool {
    let page = |nr: usize| {
        let call = &test["calls"][nr];
        (call["process"].clone(), call["arguments"]["va"].clone())
    };
    page(0) == page(1) && page(0).1.is_string()
}

#[test]
fn calls_on_different_pages_are_conflict_free() {
    let scratch = Scratch::new();
    let Some(mut knee) = checking(&scratch, &["--json"]) else { return };
    let run = finish(&mut knee);
    let results: BTreeMap<String, Value> = run
        .assert_code(0)
        .json_lines()
        .into_iter()
        .map(|result| (result["test"].as_str().unwrap().to_owned(), result))
        .collect();
    let tests = finish(&mut scratch.knee(&["commute", "tests"])).json_lines();
    let (mut of_pages, mut conflicts) = (0, 0);
    for test in &tests {
        let Some(result) = results.get(test["id"].as_str().unwrap()) else { continue };
        assert_eq!(result["unexpected"], Value::Null, "{result:#}");
        of_pages += usize::from(share_a_page(test));
        if result["verdict"] == "conflict" {
            conflicts += 1;
            assert!(share_a_page(test), "{test:#} {result:#}");
        }
    }
    assert!(results.len() > 6000, "{} tests", results.len());
    // Some calls on one page conflict, so the plugin sees the kernel's data.
    assert!(conflicts > 50 && conflicts < of_pages, "{conflicts} of {of_pages}");
}

#[test]
fn two_unmaps_of_one_page_write_its_table() {
    let Some(run) = check(&["munmap", "munmap", "--json"]) else { return };
    let results = run.assert_code(0).json_lines();
    let conflicts: Vec<&Value> =
        results.iter().filter(|result| result["verdict"] == "conflict").collect();
    assert!(!conflicts.is_empty() && conflicts.len() < results.len() / 4, "{results:#?}");
    for conflict in conflicts {
        let text = conflict.to_string();
        assert!(text.contains("heap") && text.contains("knee_vm::"), "{conflict:#}");
    }
}

#[test]
fn a_record_names_the_kernel_and_is_resumed() {
    let scratch = Scratch::new();
    let args = ["memread", "memread", "-o", "record"];
    let Some(mut knee) = checking(&scratch, &args) else { return };
    finish(&mut knee).assert_code(0).assert_stdout_has("knee-kernel: ");
    let again = finish(checking(&scratch, &args).unwrap().arg("--resume"));
    again.assert_code(0).assert_stderr_has("record has ").assert_stdout_has("knee-kernel: ");
    finish(&mut scratch.knee(&["commute", "explain", "record"])).assert_code(0);
}

#[test]
fn every_access_of_a_call_is_traced() {
    let Some(run) = check(&["munmap", "munmap", "--trace", "munmap,munmap/3.0"]) else { return };
    run.assert_code(0)
        .assert_stdout_has("a writes")
        .assert_stdout_has("b reads ")
        .assert_stdout_has("knee_vm::space::unmap");
}

#[test]
fn calls_that_the_kernel_does_not_have_are_reported() {
    let Some(run) = check(&["mmap", "open"]) else { return };
    run.assert_code(2).assert_stderr_has(
        "the kernel does not have the call open; it has mmap, munmap, mprotect, memread, memwrite",
    );
    let scratch = Scratch::new();
    let tests = finish(&mut scratch.knee(&["commute", "tests", "stat", "munmap", "-o", "tests"]));
    tests.assert_code(0);
    let run = finish(&mut checking(&scratch, &["--tests", "tests", "--json"]).unwrap());
    run.assert_code(1);
    let mut lines = run.stdout.lines().peekable();
    let why = r#""unexpected":{"not_run":"knee's kernel does not have the call stat"}"#;
    assert!(lines.peek().is_some() && lines.all(|line| line.contains(why)), "{run:?}");
}

/// Checks a test with this set-up and these calls. In each of `orders` orders, the test expects the same result of
/// every call.
fn check_one(
    setup: &Value,
    calls: &[(&str, Value)],
    result: &Value,
    orders: usize,
) -> Option<Finished> {
    let call = |(nr, (operation, arguments)): (usize, &(&str, Value))| {
        json!({ "label": format!("call{nr}"), "operation": operation, "process": 0, "thread": nr,
                "cpu": nr, "arguments": arguments })
    };
    let results = vec![json!({ "result": result }); calls.len()];
    let test = json!({
        "schema": 1, "id": "x/0.0", "interface": "posix", "commute": true, "condition": [],
        "pattern": [], "setup": setup,
        "calls": calls.iter().enumerate().map(call).collect::<Vec<Value>>(),
        "expect": vec![json!({ "order": "any", "results": results }); orders],
    });
    let scratch = Scratch::new();
    fs::write(scratch.path().join("tests"), test.to_string()).unwrap();
    Some(finish(&mut checking(&scratch, &["--tests", "tests", "--json"])?))
}

fn memread(page: usize) -> (&'static str, Value) {
    ("memread", json!({ "va": format!("va{page}") }))
}

#[test]
fn a_test_may_have_many_orders() {
    let calls = [0, 1, 2, 3].map(memread);
    let Some(run) = check_one(&json!([]), &calls, &json!("SIGSEGV"), 96) else { return };
    run.assert_code(0).assert_stdout_has(r#""verdict":"conflict-free""#);
}

#[test]
fn arguments_outside_the_kernels_tables_are_named() {
    let mmap = |fd: i64, off: i64| ("mmap", json!({ "anonymous": false, "fd": fd, "off": off }));
    let map = json!([
        { "do": "file", "inode": "inode0", "names": ["filename0"], "pages": [null], "links": 1 },
        { "do": "map", "process": 0, "va": "va0", "inode": "inode0", "off": -1, "writable": true },
    ]);
    for (setup, call, why) in [
        (&json!([]), mmap(63, 0), "the kernel has descriptors 0 to 62, not 63"),
        (&json!([]), mmap(-1, 0), "the kernel has descriptors 0 to 62, not -1"),
        (&json!([]), mmap(0, 256), "the kernel has offsets of 0 to 255 pages, not 256"),
        (&map, memread(0), "the kernel has offsets of 0 to 255 pages, not -1"),
    ] {
        let Some(run) = check_one(setup, &[memread(1), call], &json!("EBADF"), 1) else { return };
        run.assert_code(1).assert_stdout_has(why);
    }
}

#[test]
fn other_kernels_are_refused() {
    if check(&["munmap", "munmap"]).is_none() {
        return;
    }
    let scratch = Scratch::new();
    let knee =
        |args: &[&str]| finish(scratch.knee(&["commute", "check", "munmap", "munmap"]).args(args));
    let own = env!("CARGO_BIN_EXE_knee");
    knee(&["--guest-kernel", own]).assert_code(3).assert_stderr_has("has no PVH note");
    knee(&["--guest-kernel", own, "--kernel", "bookworm"]).assert_code(2);
    knee(&["--guest-kernel", own, "--fs", "xfs"]).assert_code(2);
}
