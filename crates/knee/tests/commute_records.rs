//! The output for records of `knee commute check`, which are written by hand, so that every word can be
//! compared. The tests in commute_check.rs run a real kernel.

mod support;

use std::fs;

use serde_json::{Value, json};
use snapbox::{assert_data_eq, str};
use support::{Finished, Scratch, assert_schema, finish};

/// A test: its id, its verdict, and the data that it shares.
type Test<'t> = (&'t str, &'t str, &'t [&'t str]);

const BEFORE: [Test<'_>; 6] = [
    ("open,close/0.0", "conflict", &["struct file.f_count"]),
    ("open,close/0.1", "conflict", &["struct file.f_count", "struct files_struct.file_lock"]),
    ("open,close/0.2", "conflict-free", &[]),
    ("open,open/0.0", "conflict-free", &[]),
    ("open,open/0.1", "sometimes", &["struct files_struct.file_lock"]),
    ("close,close/0.0", "conflict-free", &[]),
];
const AFTER: [Test<'_>; 6] = [
    ("open,close/0.0", "conflict-free", &[]),
    ("open,close/0.1", "conflict", &["struct files_struct.file_lock"]),
    ("open,close/0.2", "conflict", &["struct cred.usage"]),
    ("open,open/0.0", "sometimes", &["struct cred.usage"]),
    ("open,open/0.1", "conflict-free", &[]),
    ("close,close/0.0", "conflict-free", &[]),
];

/// Writes a record of some of `tests`: those of a shard.
fn record(
    scratch: &Scratch,
    name: &str,
    release: &str,
    tests: &[Test<'_>],
    [index, of]: [usize; 2],
) {
    let dir = scratch.path().join(name);
    fs::create_dir(&dir).unwrap();
    let ids: Vec<&str> = tests.iter().map(|(id, ..)| *id).collect();
    let check = json!({
        "schema": 1, "kind": "commute check", "complete": true,
        "began": "2026-11-21T09:00:00Z", "ended": "2026-11-21T09:01:00Z",
        "knee_version": "0.1.0", "qemu": "7.2.22", "file_system": "tmpfs",
        "kernel": { "release": release, "image": format!("image of {release}") },
        "tests": { "count": tests.len(), "digest": ids.join(" ") },
        "shard": { "index": index, "of": of },
    });
    fs::write(dir.join("check.json"), check.to_string()).unwrap();
    let of_shard = tests.iter().enumerate().filter(|(nr, _)| nr % of == index - 1);
    let lines: Vec<String> = of_shard.map(|(_, test)| line(test).to_string() + "\n").collect();
    fs::write(dir.join("tests.jsonl"), lines.concat()).unwrap();
}

fn line((id, verdict, data): &Test<'_>) -> Value {
    let side = |wrote: bool, functions: &[&str]| {
        let nobody: &[&str] = &[];
        let (writers, readers) = if wrote { (functions, nobody) } else { (nobody, functions) };
        json!({ "bytes": [24, 31], "wrote": wrote, "writers": writers, "readers": readers })
    };
    // `fput` has no caller, as in old records, which do not contain callers.
    let mut writer = side(true, &["fget", "fput"]);
    writer["callers"] = json!({ "fget": [["fdget", "ksys_dup"], ["fdget", "ksys_lseek"]] });
    let access = |call: u64, wrote: bool, name: &str, of: &str, offset: u64| json!({ "call": call, "wrote": wrote, "name": name, "type": of, "offset": offset, "bytes": 8 });
    let shared = |datum: &&str| {
        let mut line = json!({
            "data": [datum], "line": "0x3a4b040", "same_bytes": !datum.contains(" / "),
            "sides": { "0": writer, "1": side(false, &["filp_close"]) },
        });
        if datum.contains(" / ") {
            line["object"] = json!({ "struct": "cred", "offset": 0, "fields": [
                access(0, true, "usage", "atomic_long_t", 0),
                access(1, false, "security", "void *", 56),
            ] });
        }
        line
    };
    let conflicts: Vec<Value> = data.iter().map(shared).collect();
    json!({
        "schema": 1, "test": id, "verdict": verdict, "unexpected": null, "died": null,
        "conflicts": conflicts,
    })
}

/// Adds the types of `cred` to the first test of a record.
fn describe_cred(scratch: &Scratch, name: &str) {
    let path = scratch.path().join(name).join("tests.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let mut first: Value = serde_json::from_str(first).unwrap();
    let field = |of: &str| json!({ "type": of, "struct": "cred" });
    let member = |name: &str, of: &str, offset: u64| json!({ "name": name, "type": of, "offset": offset, "bytes": 8 });
    first["layouts"] = json!({
        "fields": { "cred.usage": field("atomic_long_t"), "cred.security": field("void *") },
        "structs": { "cred": { "bytes": 72, "members": [
            member("usage", "atomic_long_t", 0),
            member("uid", "kuid_t", 8),
            member("security", "void *", 56),
            member("user", "user_struct *", 64),
        ] } },
    });
    fs::write(&path, format!("{first}\n{rest}")).unwrap();
}

#[test]
fn fields_that_calls_share_falsely_are_shown_with_those_to_move_apart() {
    let scratch = Scratch::new();
    let apart: &[&str] = &["cred.usage / cred.security"];
    let both: &[&str] = &["cred.usage / cred.security", "file.f_count"];
    let tests = [("open,close/0.0", "conflict", apart), ("open,close/0.1", "conflict", both)];
    record(&scratch, "record", "6.1.0", &tests, [1, 1]);
    commute(&scratch, &["explain", "record", "--layout"])
        .assert_code(2)
        .assert_stderr_has("record contains no layouts of structs: the kernel does not describe");
    describe_cred(&scratch, "record");
    let shown = commute(&scratch, &["explain", "record", "--layout"]);
    assert_data_eq!(
        shown.assert_code(0).stdout.as_str(),
        str![[r#"
Linux 6.1.0, tmpfs

struct cred, 72 bytes
falsely shared in 2 tests; moving the fields apart would make 1 of them conflict-free

  offset  bytes
       0      8  usage  atomic_long_t
                   written by open (2)
      56      8  security  void *
                   read by close (2)

Move usage to a cache line of its own.
The struct then has at most 192 bytes.

"#]]
    );
    let shown = commute(&scratch, &["explain", "record", "--layout=cred"]);
    assert_data_eq!(
        shown.assert_code(0).stdout.as_str(),
        str![[r#"
Linux 6.1.0, tmpfs

struct cred, 72 bytes
falsely shared in 2 tests; moving the fields apart would make 1 of them conflict-free

  offset  bytes *falsely shared
                 -- line 0 --
       0      8 *usage  atomic_long_t
                   written by open (2)
       8      8  uid  kuid_t
      56      8 *security  void *
                   read by close (2)
                 -- line 1 --
      64      8  user  user_struct *

Line numbers assume that the struct starts on a cache-line boundary.

Move usage to a cache line of its own.
The struct then has at most 192 bytes.

"#]]
    );
    commute(&scratch, &["explain", "record", "--layout=file"]).assert_code(2).assert_stderr_has(
        "in record, no test shares fields of a struct file falsely; --layout lists all structs",
    );
    commute(&scratch, &["explain", "record", "--layout=struct crad", "--set", "open,close"])
        .assert_code(2)
        .assert_stderr_has(
            "no test of open and close shares fields of a struct crad falsely (did you mean cred?)",
        );
    commute(&scratch, &["explain", "record", "--layout", "--test", "open,close/0.0"])
        .assert_code(2);
    commute(&scratch, &["explain", "record"])
        .assert_code(0)
        .assert_stdout_has("cred.usage / cred.security  layout of a struct\n")
        .assert_stdout_has("      1       2     1  layout of a struct\n");
    let document = json_of(&commute(&scratch, &["explain", "record", "--layout", "--json"]));
    assert_schema("check-layout", &document);
    assert_eq!(document["structs"][0]["move"], json!([["usage"]]));
}

#[test]
fn tests_that_share_lines_but_no_byte_are_counted_apart() {
    let scratch = Scratch::new();
    let apart: &[&str] = &["cred.usage / cred.security"];
    let both: &[&str] = &["cred.usage / cred.security", "file.f_count"];
    let free = ("open,close/0.0", "conflict-free", &[][..]);
    let (two, open) = (("open,close/0.2", "conflict", both), ("open,open/0.0", "conflict", apart));
    let before = [free, ("open,close/0.1", "conflict", apart), two, open];
    let after = [free, ("open,close/0.1", "conflict-free", &[]), two, open];
    record(&scratch, "before", "6.1.0", &before, [1, 1]);
    record(&scratch, "after", "6.12.0", &after, [1, 1]);
    let in_bytes = "In bytes, 3 of 4 tests are conflict-free (75.0%): 2 tests share lines, but no byte \
                    (false sharing).";
    let matrix = commute(&scratch, &["matrix", "before"]);
    matrix
        .assert_code(0)
        .assert_stdout_has("1 of 4 tests are conflict-free")
        .assert_stdout_has(in_bytes);
    commute(&scratch, &["explain", "before"]).assert_code(0).assert_stdout_has(in_bytes);
    commute(&scratch, &["diff", "before", "after"]).assert_code(0).assert_stdout_has(
        "In bytes, without false sharing, 3 were conflict-free (75.0%), and 3 are now (75.0%).",
    );
    let json = json_of(commute(&scratch, &["matrix", "before", "--json"]).assert_code(0));
    assert_eq!(
        (&json["total"]["conflict"], &json["total"]["false_sharing"]),
        (&3.into(), &2.into())
    );
    let pair = &json["pairs"][0];
    assert_eq!(pair["operations"], json!(["close", "open"]));
    assert_eq!((&pair["conflict"], &pair["false_sharing"]), (&2.into(), &1.into()));
    let page = commute(&scratch, &["matrix", "before", "-o", "-"]);
    page.assert_code(0).assert_stdout_has("; 2 others share lines, but no byte (false sharing)");
}

/// Records of two kernels, and of the first in two shards.
fn records() -> Scratch {
    let scratch = Scratch::new();
    record(&scratch, "before", "6.1.0", &BEFORE, [1, 1]);
    record(&scratch, "after", "6.12.0", &AFTER, [1, 1]);
    record(&scratch, "one", "6.1.0", &BEFORE, [1, 2]);
    record(&scratch, "two", "6.1.0", &BEFORE, [2, 2]);
    scratch
}

fn commute(scratch: &Scratch, args: &[&str]) -> Finished {
    finish(scratch.knee(&["commute"]).args(args))
}

fn json_of(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:#?}"))
}

#[test]
fn the_matrix_of_a_record_equals_the_output_of_check_and_merges_shards() {
    let scratch = records();
    let whole = commute(&scratch, &["matrix", "before"]);
    assert_data_eq!(
        whole.assert_code(0).stdout.as_str(),
        str![[r#"
open   50%
close  33%  100%
      open close

Linux 6.1.0, tmpfs: 3 of 6 tests are conflict-free (50.0%).
1 conflict only in some runs, such as those that refill a cache.

Data shared in every run, with the number of tests:
       2  struct file.f_count
       1  struct files_struct.file_lock

"#]]
    );
    for shards in [["one", "two"].as_slice(), &["two", "one"], &["one,two"]] {
        let merged = commute(&scratch, &[&["matrix"], shards].concat());
        assert_eq!(merged.assert_code(0).stdout, whole.stdout);
        assert_eq!(merged.stderr, "");
    }
    let document = json_of(&commute(&scratch, &["matrix", "before", "--json"]));
    assert_eq!(document["total"]["free"], 3, "{document:#}");
    assert_eq!(document["sets"].as_array().unwrap().len(), 3);
    assert_eq!(document["check"]["kernel"]["release"], "6.1.0");
}

#[test]
fn missing_shards_are_reported_and_different_checks_are_not_merged() {
    let scratch = records();
    commute(&scratch, &["matrix", "two"])
        .assert_code(0)
        .assert_stderr_has("two: 3 of 6 tests have no result: shard 1/2 is missing");
    commute(&scratch, &["matrix", "one", "one"])
        .assert_code(2)
        .assert_stderr_has("are the same shard, 1/2");
    commute(&scratch, &["explain", "before", "after"])
        .assert_code(2)
        .assert_stderr_has("the kernel is 6.1.0, not 6.12.0")
        .assert_stderr_has("knee commute diff");
    commute(&scratch, &["explain", "nowhere"])
        .assert_code(3)
        .assert_stderr_has("nowhere is not a record of knee commute check");
    let lines = scratch.path().join("one/tests.jsonl");
    let text = fs::read_to_string(&lines).unwrap();
    fs::write(&lines, text.replace("\"schema\":1", "\"schema\":9")).unwrap();
    commute(&scratch, &["matrix", "one"])
        .assert_code(3)
        .assert_stderr_has("one/tests.jsonl:1: it has schema 9, but this version of knee reads 1");
}

#[test]
fn the_matrix_is_drawn_and_a_page_has_its_tests() {
    let scratch = records();
    let draw = |args: &[&str]| {
        commute(&scratch, args).assert_code(0);
        fs::read_to_string(scratch.path().join(args.last().unwrap())).unwrap()
    };
    let svg = draw(&["matrix", "before", "-o", "matrix.svg"]);
    assert!(svg.starts_with("<svg xmlns=") && svg.contains("Linux 6.1.0, tmpfs"), "{svg}");
    assert!(svg.contains("open and close: 1 of 3 tests are conflict-free (33.3%)"), "{svg}");
    let html = draw(&["matrix", "one", "two", "-o", "matrix.html"]);
    assert!(html.contains("<h1>Linux 6.1.0, tmpfs: 3 of 6 tests are conflict-free (50.0%)</h1>"));
    assert!(html.contains("fixing `struct file.f_count` would make 1 more test conflict-free"));
    assert!(html.contains("href=\"#shared=1.open.close\""));
    let both = finish(&mut scratch.knee(&["report", "before", "after", "-o", "-"]));
    assert!(both.assert_code(0).stdout.contains("href=\"#shared=2.open.close\""));
    commute(&scratch, &["matrix", "-o", "model.svg"])
        .assert_code(2)
        .assert_stderr_has("name the DIR");
    commute(&scratch, &["matrix", "before", "--interface", "map"]).assert_code(2);
}

#[test]
fn a_record_without_pairs_has_no_matrix_to_draw() {
    let scratch = Scratch::new();
    record(&scratch, "three", "6.1.0", &[("open,open,close/0.0", "conflict-free", &[])], [1, 1]);
    commute(&scratch, &["matrix", "three", "-o", "matrix.svg"])
        .assert_code(2)
        .assert_stderr_has("three has no results for pairs of operations")
        .assert_stderr_has("knee commute explain three");
    assert!(!scratch.path().join("matrix.svg").exists());
}

#[test]
fn a_matrix_of_more_than_a_thousand_operations_is_not_drawn() {
    let scratch = Scratch::new();
    let ids: Vec<String> = (0..501).map(|nr| format!("a{nr},b{nr}/0.0")).collect();
    let tests: Vec<Test<'_>> =
        ids.iter().map(|id| (id.as_str(), "conflict-free", &[][..])).collect();
    record(&scratch, "many", "6.1.0", &tests, [1, 1]);
    record(&scratch, "most", "6.1.0", &tests[1..], [1, 1]);
    let too_many =
        "the tests have 1002 operations, and a matrix has at most 1000; generate tests of";
    for format in ["matrix.svg", "matrix.html"] {
        commute(&scratch, &["matrix", "many", "-o", format])
            .assert_code(3)
            .assert_stderr_has(too_many)
            .assert_stderr_has("knee commute tests OP OP");
        assert!(!scratch.path().join(format).exists());
    }
    finish(&mut scratch.knee(&["report", "many", "-o", "-"]))
        .assert_code(3)
        .assert_stderr_has(too_many);
    // The other results do not need a matrix.
    let text = commute(&scratch, &["matrix", "many"]).assert_code(0).stdout.clone();
    assert!(text.contains("no matrix: the tests have 1002 operations"), "{text}");
    assert!(text.contains("501 of 501 tests are conflict-free (100%)"), "{text}");
    let document = json_of(&commute(&scratch, &["matrix", "many", "--json"]));
    assert_eq!(document["sets"].as_array().unwrap().len(), 501);
    commute(&scratch, &["matrix", "most", "-o", "matrix.svg"]).assert_code(0);
}

#[test]
fn a_report_and_a_directory_of_shards_show_one_check() {
    let scratch = records();
    let page = |args: &[&str]| {
        let made = finish(scratch.knee(&["report", "-o", "-"]).args(args));
        assert_eq!(made.stderr, "");
        made.assert_code(0).stdout.clone()
    };
    let shards = page(&["one", "after", "two"]);
    let both = "Linux 6.1.0, tmpfs: 3 of 6 tests are conflict-free (50.0%); Linux 6.12.0, tmpfs: 3";
    assert!(shards.contains(both), "{shards}");
    assert!(!shards.contains("href=\"#shared=3."), "{shards}");
    assert!(page(&["one,two", "after"]) == shards);
    fs::create_dir(scratch.path().join("shards")).unwrap();
    for shard in ["one", "two"] {
        let [from, to] = ["", "shards"].map(|dir| scratch.path().join(dir).join(shard));
        fs::rename(from, to).unwrap();
    }
    assert!(page(&["shards", "after"]) == shards);
    let matrix = |dir| commute(&scratch, &["matrix", dir]).assert_code(0).stdout.clone();
    assert_eq!(matrix("shards"), matrix("before"));
    // Records of one check that each contain all tests are separate.
    record(&scratch, "again", "6.1.0", &BEFORE, [1, 1]);
    assert!(page(&["before", "again"]).contains("href=\"#shared=2.open.close\""));
}

#[test]
fn a_test_that_is_no_longer_conflict_free_is_worse_and_an_inconclusive_one_is_separate() {
    let scratch = records();
    let diff = commute(&scratch, &["diff", "before", "after"]);
    assert_data_eq!(
        diff.assert_code(1).stdout.as_str(),
        str![[r#"
before: Linux 6.1.0, tmpfs
after:  Linux 6.12.0, tmpfs

3 of 6 tests were conflict-free (50.0%), and 3 are now (50.0%).

1 test is no longer conflict-free:
  open,close/0.2

1 test that conflicted is now conflict-free:
  open,close/0.0

1 test conflict-free before, inconclusive now: conflict only in some runs, such as those that refill a cache
  open,open/0.0

Sets of operations whose number of conflict-free tests changed:
  open close      1 →     1 of 3 tests     +0

Newly shared data, with the number of tests:
       1  struct cred.usage

No longer shared data, with the number of tests:
       2  struct file.f_count

"#]]
    );
    let document = json_of(&commute(&scratch, &["diff", "one,two", "after", "--json"]));
    assert_eq!(document["worse"], json!(["open,close/0.2"]));
    assert_eq!(document["unclear"], json!({ "sometimes": ["open,open/0.0"] }));
    assert_eq!(document["after"]["kernel"]["release"], "6.12.0");
    let back = commute(&scratch, &["diff", "after", "before", "--top", "0"]);
    back.assert_code(1).assert_stdout_has("1 test is no longer conflict-free:\n  open,close/0.0");
    commute(&scratch, &["diff", "before", "one,two"])
        .assert_code(0)
        .assert_stdout_has("3 of 6 tests were conflict-free (50.0%), and 3 are now");
    // One shard contains no results of the other.
    commute(&scratch, &["diff", "before", "one"])
        .assert_code(3)
        .assert_stderr_has("have no result: shard 2/2 is missing");
}

#[test]
fn comparing_records_of_different_qemus_or_plugins_prints_a_note() {
    let scratch = records();
    let set = |name: &str, member: &str, value: &str| {
        let path = scratch.path().join(name).join("check.json");
        let mut check: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        check[member] = json!(value);
        fs::write(&path, check.to_string()).unwrap();
    };
    let tools = || {
        let document = json_of(&commute(&scratch, &["diff", "before", "after", "--json"]));
        assert_schema("check-diff", &document);
        document["tools"].clone()
    };
    assert_eq!(tools(), json!([]));
    set("before", "plugin", "0123456789abcdef");
    // The other record does not name its plugin.
    assert_eq!(tools(), json!([]));
    set("after", "plugin", "fedcba9876543210");
    set("after", "qemu", "10.0.13");
    let qemu = json!({ "tool": "qemu", "before": "7.2.22", "after": "10.0.13" });
    let plugin =
        json!({ "tool": "plugin", "before": "0123456789abcdef", "after": "fedcba9876543210" });
    assert_eq!(tools(), json!([qemu, plugin]));
    let differ = "verdicts may differ for that reason alone";
    commute(&scratch, &["diff", "before", "after"])
        .assert_stdout_has(&format!("\nnote:   QEMU differs (7.2.22, then 10.0.13), so {differ}\n"))
        .assert_stdout_has(
            "\nnote:   knee's plugin for QEMU differs (0123456789abcdef, then fedcba",
        );
}

#[test]
fn an_unconfirmed_conflict_is_not_worse() {
    let scratch = records();
    let mut again = AFTER;
    again[2] = BEFORE[2];
    record(&scratch, "again", "6.12.0", &again, [1, 1]);
    let diff = commute(&scratch, &["diff", "before", "after", "--again", "again", "--json"]);
    let document = json_of(diff.assert_code(0));
    assert_eq!(document["worse"], json!([]));
    assert_eq!(document["unclear"], json!({ "sometimes": ["open,close/0.2", "open,open/0.0"] }));
    commute(&scratch, &["diff", "before", "after", "--again", "before"])
        .assert_code(2)
        .assert_stderr_has("before is not a repetition of after: the kernel is 6.12.0, not 6.1.0");
}

#[test]
fn data_are_ranked_by_the_tests_that_fixing_them_frees() {
    let scratch = records();
    let explained = commute(&scratch, &["explain", "before"]);
    assert_data_eq!(
        explained.assert_code(0).stdout.as_str(),
        str![[r#"
Linux 6.1.0, tmpfs: 3 of 6 tests are conflict-free (50.0%).

Data shared in 2 tests, ranked by how many tests would be conflict-free if only that datum were fixed:

  frees   tests
      1       2  struct file.f_count
                 written by fget ← fdget (open), fput (open)
                 read by filp_close (close)
      0       1  struct files_struct.file_lock
                 written by fget ← fdget (open), fput (open)
                 read by filp_close (close)

The record has no types of data, so knee cannot group them by kind.

Suggested order of fixes:

  1. fixing `struct file.f_count` would make 1 more test conflict-free: 4 in all (66.7%)
  2. after that, fixing `struct files_struct.file_lock` would make 1 more test conflict-free: 5 in all (83.3%)

"#]]
    );
    let document = json_of(&commute(&scratch, &["explain", "before", "--json"]));
    assert_eq!(document["data"][0]["datum"], "struct file.f_count");
    assert_eq!(document["data"][0]["writers"], json!({ "open": { "fget": 2, "fput": 2 } }));
    assert_eq!(document["data"][0]["callers"]["open"], json!({ "fget": ["fdget", "ksys_dup"] }));
    assert_eq!(document["fixes"][1]["frees"], 1);
    let pair = commute(&scratch, &["explain", "before", "--set", "close,close"]);
    pair.assert_code(0).assert_stdout_has("close and close: 1 of 1 test is conflict-free (100%).");
    commute(&scratch, &["explain", "before", "--set", "open,dup"])
        .assert_code(2)
        .assert_stderr_has("there are no tests of open and dup in before");
    commute(&scratch, &["explain", "before", "--set", "open"])
        .assert_code(2)
        .assert_stderr_has("--set open: name several operations, such as --set open,open");
}

#[test]
fn explaining_a_test_shows_what_each_call_does() {
    let scratch = records();
    let shown = commute(&scratch, &["explain", "before", "--test", "open,close/0.0"]);
    assert_data_eq!(
        shown.assert_code(0).stdout.as_str(),
        str![[r#"
open,close/0.0: conflicts in every run

struct file.f_count
  line 0x3a4b040
  call 0 (open) writes bytes 24 to 31
      written by fget ← fdget ← ksys_dup
                 fget ← fdget ← ksys_lseek
                 fput
  call 1 (close) reads bytes 24 to 31
      read by filp_close

"#]]
    );
    let line_of =
        json_of(&commute(&scratch, &["explain", "before", "--test", "open,close/0.0", "--json"]));
    assert_eq!(line_of, line(&BEFORE[0]));
    commute(&scratch, &["explain", "before", "--test", "open,close/9.9"])
        .assert_code(2)
        .assert_stderr_has("there is no test open,close/9.9 in before");
}

#[test]
fn json_output_conforms_to_the_schemas() {
    let scratch = records();
    let printed = |args: &[&str]| json_of(&commute(&scratch, &[args, &["--json"]].concat()));
    assert_schema("check-matrix", &printed(&["matrix", "before"]));
    assert_schema("check-diff", &printed(&["diff", "before", "after"]));
    assert_schema("check-explain", &printed(&["explain", "before"]));
    let one = ["explain", "before", "--test", "open,close/0.0"];
    assert_schema("check-test", &printed(&one));
}

#[test]
#[should_panic(expected = "/sets/0/free: is missing")]
fn a_document_without_a_member_violates_the_schema() {
    let scratch = records();
    let mut document = json_of(&commute(&scratch, &["matrix", "before", "--json"]));
    document["sets"][0].as_object_mut().unwrap().remove("free");
    assert_schema("check-matrix", &document);
}

#[test]
#[should_panic(expected = "/check/more: no schema has it")]
fn a_document_with_an_unknown_member_violates_the_schema() {
    let scratch = records();
    let mut document = json_of(&commute(&scratch, &["matrix", "before", "--json"]));
    document["check"]["more"] = json!(1);
    assert_schema("check-matrix", &document);
}

#[test]
#[should_panic(expected = "/fixes/0/frees: \"one\" is not of type")]
fn a_document_with_a_member_of_another_type_violates_the_schema() {
    let scratch = records();
    let mut document = json_of(&commute(&scratch, &["explain", "before", "--json"]));
    document["fixes"][0]["frees"] = json!("one");
    assert_schema("check-explain", &document);
}

#[test]
fn the_matrix_of_three_calls_counts_what_each_two_of_them_share() {
    let scratch = Scratch::new();
    // In each line of a conflict, call 0 writes and call 1 reads.
    let tests = [
        ("close,close,close/0.0", "conflict-free", &[][..]),
        ("open,open,close/0.0", "conflict-free", &[]),
        ("open,open,close/0.1", "conflict", &["x"]),
    ];
    record(&scratch, "three", "6.1.0", &tests, [1, 1]);
    let matrix = commute(&scratch, &["matrix", "three"]);
    assert_data_eq!(
        matrix.assert_code(0).stdout.as_str(),
        str![[r#"
How often two calls of a test are conflict-free with each other:

open   50%
close 100%  100%
      open close

Linux 6.1.0, tmpfs: 2 of 3 tests are conflict-free (66.7%).

Data shared in every run, with the number of tests:
       1  x

"#]]
    );
    commute(&scratch, &["explain", "three", "--set", "close,open,open"])
        .assert_code(0)
        .assert_stdout_has("close and open and open: 1 of 2 tests are conflict-free");
}
