//! `knee commute check` on a Debian kernel in a guest. Tests are skipped, with a reason, if QEMU or the
//! kernel is missing.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use knee_trace::{Archive, Kernel};
use rustix::process::Signal;
use support::{
    Finished, Scratch, finish, has_guests, processes_in, signal, skip, start, wait_until,
};

/// The Debian release whose kernel is checked.
const RELEASE: &str = "bookworm";
/// Operations with a few dozen tests.
const PAIR: [&str; 2] = ["stat", "rename"];

/// A directory for a check; `None`, with a printed reason, if guests cannot run here.
fn guests() -> Option<Scratch> {
    has_guests(RELEASE).then(Scratch::new)
}

fn check(args: &[&str]) -> Option<Finished> {
    Some(finish(&mut checking(&guests()?, args)))
}

/// `knee commute check` in a directory.
fn checking(scratch: &Scratch, args: &[&str]) -> Command {
    let mut command = scratch.knee(&["commute", "check", "--kernel", RELEASE]);
    command.args(args);
    command
}

#[test]
fn failed_lookups_share_nothing_and_renames_share_the_directory() {
    let Some(stats) = check(&["stat", "stat", "--json"]) else { return };
    let stats = stats.json_lines();
    assert_eq!(stats.len(), 7);
    for test in &stats {
        assert_eq!(test["unexpected"], serde_json::Value::Null, "{test}");
        assert!(test["verdict"] == "conflict-free" || !test["conflicts"].is_null(), "{test}");
    }
    let free = stats.iter().filter(|test| test["verdict"] == "conflict-free").count();
    assert!(free > 0, "{stats:?}");
    // Linux locks the directory for every rename in it.
    let Some(renames) = check(&["rename", "rename"]) else { return };
    renames
        .assert_code(0)
        .assert_stdout_has("tests are conflict-free")
        .assert_stdout_has("Data shared in every run")
        .assert_stdout_has("inode.i_rwsem (directory)");
}

/// Ids and verdicts of the record in a directory.
fn verdicts(scratch: &Scratch, dir: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(scratch.path().join(dir).join("tests.jsonl")).unwrap();
    let word = |line: &serde_json::Value, field: &str| line[field].as_str().unwrap().to_owned();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.map(|line| (word(&line, "test"), word(&line, "verdict"))).collect()
}

fn is_complete(scratch: &Scratch, dir: &str) -> bool {
    let text = fs::read_to_string(scratch.path().join(dir).join("check.json")).unwrap();
    let check: serde_json::Value = serde_json::from_str(&text).unwrap();
    check["complete"].as_bool().unwrap()
}

/// Asserts that two records have the same tests, and the same verdicts except for a few. The contents of
/// caches and the neighbours of an object depend on earlier tests.
#[track_caller]
fn assert_same(scratch: &Scratch, one: &str, other: &str) {
    let diff = finish(&mut scratch.knee(&["commute", "diff", "--json", one, other]));
    let document: serde_json::Value = serde_json::from_str(&diff.stdout).unwrap();
    assert_eq!((&document["only_before"], &document["only_after"]), (&0.into(), &0.into()));
    let changed = ["worse", "better"].map(|list| document[list].as_array().unwrap().len());
    let compared = document["compared"].as_u64().unwrap() as usize;
    assert!(4 * (changed[0] + changed[1]) <= compared, "{document:#}");
}

#[test]
fn a_killed_check_is_resumed_and_shards_add_up_to_the_whole() {
    let Some(scratch) = guests() else { return };
    let with = |args: &[&str]| checking(&scratch, &[PAIR.as_slice(), args].concat());
    let run = |args: &[&str]| finish(&mut with(args));
    let whole = run(&["-o", "whole"]);
    whole.assert_code(0).assert_stdout_has("are conflict-free");
    let tests = verdicts(&scratch, "whole");
    assert!(tests.len() > 10 && is_complete(&scratch, "whole"), "{tests:?}");

    // Killed after the first test, with a torn line, as after a crash of the machine.
    let one = ["-o", "one", "--shard", "1/2"];
    let mut killed = start(&mut with(&one));
    let lines = scratch.path().join("one/tests.jsonl");
    // There is no time limit here: knee gives up on a guest that stays silent, and exits.
    let has_test = || fs::read_to_string(&lines).is_ok_and(|text| text.contains('\n'));
    while !has_test() && killed.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    signal(&killed, Signal::KILL);
    killed.wait().unwrap();
    wait_until("no guest is left", || processes_in(scratch.path()).is_empty());
    let text = fs::read_to_string(&lines).unwrap();
    let few = text.split_inclusive('\n').take(5).collect::<String>();
    fs::write(&lines, &few[..few.len() - 7]).unwrap();
    run(&one).assert_code(2).assert_stderr_has("continue it with --resume");
    let other = run(&["-o", "one", "--resume", "--shard", "2/2"]);
    other.assert_code(2).assert_stderr_has("it is shard 1/2, not 2/2");
    let resume = [one.as_slice(), &["--resume"]].concat();
    let resumed = run(&resume);
    resumed.assert_code(0).assert_stderr_has("knee: one has ");
    assert!(is_complete(&scratch, "one"));
    // No test remains, and knee prints the results of all.
    let again = run(&resume);
    assert_eq!(again.assert_code(0).stdout, resumed.stdout);

    run(&["-o", "two", "--shard", "2/2", "--resume"]).assert_code(0);
    assert_same(&scratch, "whole", "one,two");
    let of_shards = ["one", "two"].map(|dir| verdicts(&scratch, dir).len());
    assert_eq!(of_shards, [tests.len().div_ceil(2), tests.len() / 2]);
}

#[test]
fn an_invalid_shard_or_test_is_reported() {
    let scratch = Scratch::new();
    let told = |args: &[&str]| {
        let mut command = scratch.knee(&["commute", "check", "--kernel", "/bin/true"]);
        finish(command.args(args))
    };
    told(&["stat", "stat", "--shard", "3/2"]).assert_code(2).assert_stderr_has("I from 1 to N");
    told(&["stat", "stat", "--resume"]).assert_code(2).assert_stderr_has("--output");
    fs::write(scratch.path().join("tests"), "{\"id\":\"a,b/0\"}\n{\"id\":\"a,b/0\"}\n").unwrap();
    told(&["--tests", "tests"]).assert_code(2).assert_stderr_has("a,b/0 occurs twice");
    fs::write(scratch.path().join("tests"), "{\"id\":\"a,b/0\"}\nhello\n").unwrap();
    told(&["--tests", "tests"])
        .assert_code(3)
        .assert_stderr_has("line 2 of the input is not a test: it is not JSON (column 1)");
    let alone_and_not_commuting =
        "{\"id\":\"a/0\",\"calls\":[{}]}\n{\"id\":\"a,b/0\",\"commute\":false,\"calls\":[{},{}]}\n";
    fs::write(scratch.path().join("tests"), alone_and_not_commuting).unwrap();
    told(&["--tests", "tests"])
        .assert_code(2)
        .assert_stderr_has("left out 2 tests with a single call")
        .assert_stderr_has("there are no tests to run");
}

#[test]
fn a_test_that_cannot_run_and_an_empty_shard_are_reported() {
    let Some(scratch) = guests() else { return };
    let tests = finish(&mut scratch.knee(&["commute", "tests", "stat", "stat"]));
    let odd = tests.stdout.replace("filename0", "filename77");
    let line = odd.lines().find(|line| line.contains("filename77")).expect("a test with a name");
    fs::write(scratch.path().join("tests"), line).unwrap();
    let test: serde_json::Value = serde_json::from_str(line).unwrap();
    let why = "not run: filename77: more than 8 objects of one kind";
    let run = |args: &[&str]| finish(checking(&scratch, &["--tests", "tests"]).args(args));
    run(&[]).assert_code(1).assert_stdout_has(why);
    run(&["--trace", test["id"].as_str().unwrap()]).assert_code(1).assert_stderr_has(why);
    run(&["--shard", "2/2"]).assert_code(0).assert_stderr_has("shard 2/2 of 1 test is empty");
}

#[test]
fn a_reader_that_exits_early_is_not_an_error() {
    let Some(scratch) = guests() else { return };
    let run = |args: &[&str]| {
        let mut command = checking(&scratch, &["stat", "stat", "--json"]);
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut knee = command.spawn().unwrap();
        drop(knee.stdout.take());
        let said = knee.wait_with_output().unwrap();
        let said = (said.status.code(), String::from_utf8(said.stderr).unwrap());
        assert!(said.0 == Some(0) && !said.1.contains("standard output"), "{said:?}");
    };
    run(&[]);
    run(&["--trace", "stat,stat/0.0"]);
    run(&["-o", "record"]);
    assert!(is_complete(&scratch, "record"));
}

/// A module may be at different addresses in two guests that run at the same time.
#[test]
fn module_functions_have_the_addresses_of_the_guest_that_ran_the_test() {
    let mkfs = "/usr/sbin/mkfs.ext4";
    if !Path::new(mkfs).exists() {
        return skip("mkfs", format_args!("{mkfs} is not installed"));
    }
    let Some(scratch) = guests() else { return };
    let args = ["pwrite", "pwrite", "--fs", "ext4", "--json"];
    let checked = finish(&mut checking(&scratch, &args));
    let tests = checked.json_lines();
    assert!(tests.len() > 300, "{} tests are not worth a second guest", tests.len());
    let mut dirtied = BTreeSet::new();
    for test in &tests {
        for conflict in test["conflicts"].as_array().unwrap() {
            for (_, side) in conflict["sides"].as_object().unwrap() {
                for (function, chains) in side["callers"].as_object().unwrap() {
                    for chain in chains.as_array().unwrap() {
                        let names = chain.as_array().unwrap().iter();
                        let names = names.map(|name| name.as_str().unwrap().to_owned());
                        let way: Vec<String> =
                            [function.clone()].into_iter().chain(names).collect();
                        let callee = way.windows(2).find(|pair| pair[1] == "__mark_inode_dirty");
                        dirtied.extend(callee.map(|pair| pair[0].clone()));
                    }
                }
            }
        }
    }
    // There, the kernel image calls one function of ext4, which ends in a jump to another.
    assert!(dirtied.contains("ext4_dirty_inode"), "{dirtied:?}");
    let of_ext4 = dirtied.iter().filter(|name| name.contains("ext4") || name.contains("jbd2"));
    let odd = of_ext4
        .filter(|name| !["ext4_dirty_inode", "__ext4_journal_stop"].contains(&name.as_str()));
    assert_eq!(odd.count(), 0, "{dirtied:?}");
}

#[test]
fn calls_on_a_disk_return_the_same_and_show_the_file_system() {
    let mkfs = "/usr/sbin/mkfs.ext4";
    if !Path::new(mkfs).exists() {
        return skip("mkfs", format_args!("{mkfs} is not installed"));
    }
    let Some(scratch) = guests() else { return };
    let args = ["link", "link", "--fs", "ext4", "-o", "record", "--json"];
    let links = finish(&mut checking(&scratch, &args));
    let links = links.json_lines();
    assert!(links.len() > 20, "{} tests", links.len());
    for test in &links {
        assert_eq!(test["unexpected"], serde_json::Value::Null, "{test}");
    }
    // Two links into one directory write its blocks.
    let of_ext4 = |test: &&serde_json::Value| test.to_string().contains("\"ext4_");
    assert!(links.iter().filter(of_ext4).count() > 0, "{links:?}");
    let record = fs::read_to_string(scratch.path().join("record/check.json")).unwrap();
    assert!(record.contains(r#""file_system": "ext4""#), "{record}");
}

#[test]
fn a_kernel_without_disk_modules_reports_where_they_should_be() {
    let Some(scratch) = guests() else { return };
    let kernel = Kernel::open(&Archive::of_user().unwrap().fetch(RELEASE).unwrap()).unwrap();
    // The modules of an image are unknown unless the kernel is installed.
    let modules = format!("/lib/modules/{}", kernel.release());
    if Path::new(&modules).exists() {
        eprintln!("skipped: there is {modules}");
        return;
    }
    fs::write(scratch.path().join("vmlinuz"), kernel.image()).unwrap();
    let told =
        format!("this kernel has no RAM disk (brd), neither built in nor as a module in {modules}");
    let args = ["commute", "check", "stat", "stat", "--fs", "ext4", "--kernel", "./vmlinuz"];
    finish(&mut scratch.knee(&args)).assert_code(3).assert_stderr_has(&told);
}

#[test]
fn an_unknown_file_system_is_reported_with_the_supported_ones() {
    let scratch = Scratch::new();
    let args = ["commute", "check", "stat", "stat", "--fs", "zfs"];
    finish(&mut scratch.knee(&args))
        .assert_code(2)
        .assert_stderr_has("[possible values: tmpfs, ext2, ext4, xfs, btrfs]");
}

#[test]
fn every_access_of_one_test_is_printed_on_demand() {
    let one = "lseek,lseek/1.0";
    let Some(traced) = check(&["lseek", "lseek", "--trace", one, "--json"]) else { return };
    let accesses = traced.json_lines();
    for call in [0, 1] {
        let of_call = accesses.iter().filter(|access| access["call"] == call);
        let mut functions = of_call.map(|access| access["function"].as_str().unwrap_or_default());
        assert!(functions.any(|name| name.contains("sys_lseek")), "call {call}: {accesses:?}");
    }
    let Some(none) = check(&["lseek", "lseek", "--trace", "lseek,lseek/x"]) else { return };
    none.assert_code(2).assert_stderr_has("none of 1734 tests has the id lseek,lseek/x");
}

#[test]
fn callers_of_the_sharing_functions_are_printed() {
    let Some(scratch) = guests() else { return };
    let way = "down_write ← do_unlinkat ← __x64_sys_unlink";
    let checked = finish(&mut checking(&scratch, &["unlink", "unlink", "-o", "record", "--json"]));
    let conflicts = checked
        .json_lines()
        .into_iter()
        .flat_map(|test| test["conflicts"].as_array().unwrap_or_else(|| panic!("{test}")).clone());
    let mut ways = BTreeSet::new();
    for side in conflicts.flat_map(|conflict| conflict["sides"].as_object().unwrap().clone()) {
        let (_, touched) = side;
        let functions = ["writers", "readers"].map(|who| touched[who].as_array().unwrap().clone());
        for function in functions.concat() {
            // All accesses are part of the call, so every function has a caller.
            let chains = touched["callers"][function.as_str().unwrap()].as_array();
            for chain in chains.unwrap_or_else(|| panic!("{function}: {touched:#}")) {
                let names = chain.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                let names: Vec<&str> = function.as_str().into_iter().chain(names).collect();
                ways.insert(names.join(" ← "));
            }
        }
    }
    assert!(ways.contains(way), "{ways:#?}");
    let alone = |way: &String| !way.ends_with("__x64_sys_unlink") && way.split(" ← ").count() < 7;
    let exits = |way: &String| way.ends_with("syscall_exit_to_user_mode");
    let odd: Vec<&String> = ways.iter().filter(|way| alone(way) && !exits(way)).collect();
    assert!(odd.is_empty(), "{odd:#?} come from no system call");

    let explained = finish(&mut scratch.knee(&["commute", "explain", "record"]));
    explained
        .assert_code(0)
        .assert_stdout_has("down_write ← do_unlinkat (unlink)")
        .assert_stdout_has("inode.i_rwsem (directory)  lock\n")
        .assert_stdout_has("dentry.d_lockref (directory)  reference count\n");
    let layouts = finish(&mut scratch.knee(&["commute", "explain", "record", "--layout"]));
    layouts.assert_code(0).assert_stdout_has("falsely shared in ");
    let all = checked.json_lines();
    let test = all.iter().find(|test| test.to_string().contains("\"down_write\"")).unwrap();
    let id = test["test"].as_str().unwrap();
    let shown = finish(&mut scratch.knee(&["commute", "explain", "record", "--test", id]));
    shown.assert_code(0).assert_stdout_has(&format!("written by {way}\n"));
    finish(&mut scratch.knee(&["commute", "matrix", "record", "-o", "page.html"])).assert_code(0);
}

#[test]
fn kernels_are_listed_and_fetched_by_name() {
    if let Err(error) = Archive::of_user().unwrap().fetch(RELEASE) {
        return skip("qemu", format_args!("there is no kernel of {RELEASE}: {error}"));
    }
    let scratch = Scratch::new();
    let kernel = |args: &[&str]| finish(scratch.knee(&["kernel"]).args(args));
    let listed = kernel(&["list", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&listed.assert_code(0).stdout).unwrap();
    let kernels = document["kernels"].as_array().unwrap();
    assert!(kernels.iter().any(|kernel| kernel["release"] == RELEASE), "{document:#}");
    kernel(&["list"]).assert_code(0).assert_stdout_has(RELEASE);
    let fetched = kernel(&["fetch", RELEASE]);
    assert!(std::path::Path::new(fetched.assert_code(0).stdout.trim()).is_file());
    kernel(&["fetch", "0.99"]).assert_code(2).assert_stderr_has(
        "no kernel is named 0.99; name a release (bullseye, bookworm, trixie, sid)",
    );
    kernel(&["fetch", "bokworm"]).assert_code(2).assert_stderr_has("(did you mean bookworm?)");
}

#[test]
fn a_file_that_is_not_a_kernel_is_reported() {
    let scratch = Scratch::new();
    let told = |kernel: &str| {
        finish(&mut scratch.knee(&["commute", "check", "stat", "stat", "--kernel", kernel]))
    };
    told("/nowhere/vmlinuz").assert_code(3).assert_stderr_has("/nowhere/vmlinuz does not exist");
    fs::write(scratch.path().join("0.99"), "").unwrap();
    told("./0.99").assert_code(3).assert_stderr_has("./0.99 is not an x86 kernel image");
    told("0.99").assert_stderr_has("for the file in this directory, use --kernel ./0.99");
    told("/proc").assert_code(3).assert_stderr_has("/proc is a directory");
    told("/bin/true").assert_code(3).assert_stderr_has("is not an x86 kernel image");
}

#[test]
fn shards_of_sets_of_three_calls_are_checked_on_three_cpus_and_read_as_one_record() {
    let Some(scratch) = guests() else { return };
    let sets = ["pipe", "close", "--calls", "3", "--patterns", "1"];
    // 18 sets contain both calls.
    for shard in ["1/9", "9/9"] {
        let dir = shard.replace('/', "-of-");
        let options = ["--shard", shard, "-o", &dir];
        let checked = finish(checking(&scratch, &sets).args(options));
        checked.assert_code(0).assert_stdout_has("tests are conflict-free");
        assert!(is_complete(&scratch, &dir));
        let tests = verdicts(&scratch, &dir);
        let calls = |id: &str| id.split('/').next().map(|names| names.split(',').count());
        assert!(!tests.is_empty() && tests.iter().all(|(id, _)| calls(id) == Some(3)), "{tests:?}");
    }
    let both = finish(&mut scratch.knee(&["commute", "matrix", "1-of-9", "9-of-9"]));
    both.assert_code(0).assert_stdout_has("conflict-free with each other");
    both.assert_stderr_has("shards");
}
