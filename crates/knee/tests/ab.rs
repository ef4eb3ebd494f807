//! `knee ab`: two sides measured in turns.

mod support;

use std::fs;

use rustix::process::Signal;
use snapbox::{assert_data_eq, str};
use support::{Finished, Scratch, compile_plugin, finish, processes_in, signal, start, wait_until};

fn ab(scratch: &Scratch, args: &[&str]) -> Finished {
    finish(scratch.knee(&["ab", "-q", "--patience", "1", "-o", "record"]).args(args))
}

/// Two commands whose rates leave nothing to chance: 100 and 150, 200 and 250.
const RATES: [&str; 7] =
    ["--rate", "-t", "1,2", "--before", "echo rate: {tasks}00", "--after", "echo {tasks}50 ops/s"];

fn sides(scratch: &Scratch) -> Vec<String> {
    let samples = scratch.measured();
    let name = |line: &serde_json::Value| line["testcase"].as_str().unwrap().to_owned();
    samples.iter().map(|line| name(line).split(':').next().unwrap().to_owned()).collect()
}

#[test]
fn what_commands_print_is_compared_at_each_number_of_tasks() {
    let scratch = Scratch::new();
    let finished = ab(&scratch, &RATES);
    let (_, table) = finished.assert_code(0).stdout.split_once("\n\n").unwrap();
    assert_data_eq!(
        table,
        str![[r#"
per second  before  after  change          interval       p  verdict
echo ×1        100    150  +50.0%  +50.0% to +50.0%  0.0020  ▲ faster
echo ×2        200    250  +25.0%  +25.0% to +25.0%  0.0020  ▲ faster

2 points: 2 faster.
medians over interleaved rounds (ABBA); Hodges–Lehmann changes within a round, with 95.0% intervals; p by Wilcoxon's signed ranks, corrected for 2 points (Benjamini–Hochberg); changes below 2.0% do not count

"#]]
    );
    finished.assert_stderr_has("knee ab --resume record");
}

/// Marks the samples of the first `rounds` rounds of the record, and no others.
fn disturb(scratch: &Scratch, rounds: u64) {
    let lines = scratch.samples().into_iter().map(|mut line| {
        let is_disturbed = line["round"].as_u64() < Some(rounds);
        line["marks"] = if is_disturbed { vec!["starved"] } else { vec![] }.into();
        format!("{line}\n")
    });
    fs::write(scratch.record().join("samples.jsonl"), lines.collect::<String>()).unwrap();
}

#[test]
fn commands_get_the_interval() {
    let scratch = Scratch::new();
    let options = ["--rate", "-r", "6", "--interval", "3"];
    let sides = ["--before", "echo {seconds}", "--after", "echo {seconds}"];
    ab(&scratch, &[&options[..], &sides].concat()).assert_code(0);
    assert!(scratch.measured().iter().all(|line| line["total"] == 3.0));
    let scratch = Scratch::new();
    ab(&scratch, &[&options[..3], &sides].concat()).assert_code(0);
    assert!(scratch.measured().iter().all(|line| line["total"] == 1.0));
}

#[test]
fn a_note_counts_the_rounds_that_are_left_out() {
    let scratch = Scratch::new();
    ab(&scratch, &["--rate", "-r", "6", "--before", "echo 1", "--after", "echo 2"]).assert_code(0);
    disturb(&scratch, 3);
    let finished = finish(&mut scratch.knee(&["ab", "--resume", "record"]));
    finished.assert_code(0).assert_stdout_has("~ too few rounds").assert_stdout_has(
        "echo: knee can use only 3 rounds of 6 (the others were disturbed), but 95% confidence \
         requires 6; reduce other load, or measure again with --wait-quiet",
    );
}

#[test]
fn a_disturbed_comparison_is_too_noisy_to_decide() {
    let scratch = Scratch::new();
    ab(&scratch, &["--rate", "-r", "6", "--before", "echo 1", "--after", "echo 2"]).assert_code(0);
    disturb(&scratch, 4);
    let again = |policy: &str| {
        finish(&mut scratch.knee(&["ab", "--resume", "record", "--fail-on", policy]))
    };
    let finished = again("slower");
    finished.assert_code(5).assert_stdout_has("~ too disturbed").assert_stdout_has(
        "other work disturbed most rounds of 1 point on at least one side, so knee concludes \
         nothing there; ",
    );
    assert!(!finished.stdout.contains("can use only"), "{finished:#?}");
    again("inconclusive").assert_code(1);
}

#[test]
fn the_advice_for_a_comparison_that_lacks_samples_is_to_continue_it() {
    let scratch = Scratch::new();
    ab(&scratch, &["--rate", "-r", "6", "--before", "echo 1", "--after", "echo 2"]).assert_code(0);
    fs::write(scratch.record().join("samples.jsonl"), "").unwrap();
    let finished = finish(&mut scratch.knee(&["compare", "record", "record"]));
    finished
        .assert_code(3)
        .assert_stderr_has("the commands in the record): knee ab --resume record");
}

#[test]
fn the_sides_take_turns_at_being_first() {
    let scratch = Scratch::new();
    ab(&scratch, &["--rate", "-r", "6", "--before", "echo 1", "--after", "echo 1"]).assert_code(0);
    let (ab, ba) = (["before", "after"], ["after", "before"]);
    assert_eq!(sides(&scratch), [ab, ba, ab, ba, ab, ba].concat());
}

#[test]
fn two_comparisons_of_commands_show_the_drift_between_them() {
    let scratch = Scratch::new();
    ab(&scratch, &["--rate", "-r", "6", "--before", "echo 1", "--after", "echo 2"]).assert_code(0);
    assert!(scratch.samples().iter().all(|line| line["reference"].as_f64() > Some(0.0)));
    let compare = ["compare", "record", "record", "--format", "json"];
    let json = finish(&mut scratch.knee(&compare)).assert_code(0).stdout.clone();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let machine = &json["comparisons"][0]["machine"];
    assert_eq!(machine, &serde_json::json!([{ "tasks": 1, "cpu": 1.0, "memory": null }]));
}

#[test]
fn a_run_until_decided_ends_at_the_first_look_if_the_rates_are_clear() {
    let scratch = Scratch::new();
    let sides = ["--before", "echo $((100 * {tasks}))", "--after", "echo $((100 + 50 * {tasks}))"];
    let options = ["--rate", "-t", "1,2", "--until-decided", "2%"];
    let finished = ab(&scratch, &[&options[..], &sides].concat());
    let (_, table) = finished.assert_code(0).stdout.split_once("\n\n").unwrap();
    assert_data_eq!(
        table,
        str![[r#"
per second  before  after  change          interval      p  verdict
echo ×1        100    150  +50.0%  +50.0% to +50.0%  0.031  ▲ faster
echo ×2        200    200  +0.00%  +0.00% to +0.00%  1.000  = same

2 points: 1 faster, 1 the same.
medians over interleaved rounds (ABBA); Hodges–Lehmann changes within a round; p by Wilcoxon's signed ranks; intervals and p are corrected for 2 points and 15 looks, the first after 9 rounds (alpha spending, Lan and DeMets 1983), so all verdicts hold together at 95.0% confidence; changes within 2.0% are the same

"#]]
    );
    // Less than at the second look, after eleven rounds. On a busy machine, knee repeats rounds.
    let measured = scratch.measured().len();
    assert!((2 * 2 * 9..2 * 2 * 11).contains(&measured), "{measured}");
    let asked = &scratch.run_json()["request"]["until_decided"];
    assert_eq!(asked, &serde_json::json!({ "within": 0.02, "confidence": 0.95 }));
}

/// A command that takes at least 2 ms and prints rates around 100 that vary by ±`spread`. Its
/// rounds are numbered in `file`.
fn noisy(file: &str, spread: u32) -> String {
    let rate = format!("100 - {spread} + n * 8 % {}", 2 * spread + 1);
    format!("n=$(cat {file} || echo 0); echo $((n + 1)) > {file}; sleep 0.002; echo $(({rate}))")
}

#[test]
fn noisy_rates_are_decided_at_a_later_look_with_wider_intervals() {
    let scratch = Scratch::new();
    let options = ["--rate", "--until-decided", "3%", "--json"];
    let finished = ab(
        &scratch,
        &[&options[..], &["--before", "echo 100", "--after", &noisy("n", 5)]].concat(),
    );
    let json: serde_json::Value = serde_json::from_str(&finished.assert_code(0).stdout).unwrap();
    let point = &json["comparisons"][0]["points"][0];
    assert_eq!((&point["verdict"], &point["after"]["rounds"]), (&"same".into(), &23.into()));
    assert_eq!(json["correction"], "alpha spending over points and looks");
    assert_eq!((&json["looks"], &json["threshold"]), (&15.into(), &0.03.into()));
    let adjusted = point["adjusted_p"].as_f64().unwrap() / point["p"].as_f64().unwrap();
    assert!(adjusted > 10.0 || point["adjusted_p"] == 1.0, "{point:#}");
    let again = finish(&mut scratch.knee(&["ab", "--resume", "record", "--markdown"]));
    again.assert_code(0).assert_stdout_has("= same").assert_stdout_has("changes within 3.0% are");
}

#[test]
fn a_run_that_is_undecided_at_the_end_of_its_time_exits_with_5() {
    let scratch = Scratch::new();
    let options = ["--rate", "--until-decided", "2%", "--max-time", "0.01"];
    let pair = ["--before", &noisy("b", 20), "--after", &noisy("a", 30)];
    let finished = ab(&scratch, &[&options[..], &pair].concat());
    finished.assert_code(5).assert_stdout_has("1 point: 1 inconclusive").assert_stdout_has(
        "8 rounds in 0.01 s of measurement of each side do not decide whether the sides are the \
         same within 2.0%; reduce other load, or use a longer --max-time",
    );
    assert_eq!(sides(&scratch).len(), 16);
    let again = |more: &[&str]| finish(scratch.knee(&["ab", "--resume", "record"]).args(more));
    again(&[]).assert_code(5);
    again(&["--fail-on", "inconclusive"]).assert_code(1);
    // A looser question, from the same rounds.
    again(&["--threshold", "60%"]).assert_code(0).assert_stdout_has("= same");
}

#[test]
fn testcases_meet_in_the_modes_that_both_have() {
    let scratch = Scratch::new();
    let quick = ["-r", "6", "-t", "1", "-s", "1", "--interval", "0.02", "--warmup", "0"];
    // The locks of knee-sync are for threads only.
    let sides = ["--before", "pthread_mutex1", "--after", "rmlock_read1"];
    ab(&scratch, &[&quick[..], &sides].concat()).assert_code(0);
    let samples = scratch.samples();
    assert!(samples.iter().all(|line| line["mode"] == "threads"));
    let measured = || samples.iter().filter(|line| line["phase"] == "measure");
    let counts = ["before:pthread_mutex1", "after:rmlock_read1"]
        .map(|side| measured().filter(|line| line["testcase"] == side).count());
    assert_eq!(counts, [6, 6]);
}

#[test]
fn the_time_counts_by_default() {
    let scratch = Scratch::new();
    // With so many rounds `true` may be held up in one of them.
    let commands = ["--before", "true", "--after", "sleep 0.2"];
    let rounds = ["-r", "12", "--fail-on", "slower", "--json"];
    let finished = ab(&scratch, &[&commands[..], &rounds].concat());
    let json: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    let point = &json["comparisons"][0]["points"][0];
    if point["disturbed"] == true {
        finished.assert_code(5);
        println!("skipped: other work disturbed most rounds, so nothing is claimed");
        return;
    }
    finished.assert_code(1);
    assert_eq!((&point["testcase"], &point["verdict"]), (&"true → sleep".into(), &"slower".into()));
    assert!(point["seconds"]["after"].as_f64().unwrap() >= 0.2, "{point:#}");
    assert_eq!(point["test"], "Wilcoxon signed-rank, exact");
    let text = finish(&mut scratch.knee(&["ab", "--resume", "record", "--markdown"]));
    text.assert_code(0).assert_stdout_has("| true → sleep |").assert_stdout_has("`sleep 0.2`, on ");
    assert_eq!(sides(&scratch).len(), 24, "a complete record is only shown");
}

#[test]
fn testcases_and_variants_are_sides_too() {
    let scratch = Scratch::new();
    let quick = ["-r", "6", "-s", "1", "--interval", "0.02", "--warmup", "0.01", "-t", "2"];
    let finished = finish(
        scratch
            .knee(&["ab", "-q", "-o", "record", "-m", "threads", "--before", "read1", "--after"])
            .arg("read1@file=same")
            .args(quick),
    );
    finished.assert_code(0).assert_stdout_has("read1 → read1@file=same threads ×2");
    finish(&mut scratch.knee(&["show", "record"])).assert_code(0).assert_stdout_has("after:read1@");
    assert_eq!(scratch.leftovers(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn two_builds_of_a_plugin_may_have_one_name() {
    let scratch = Scratch::new();
    let Some(plugin) = compile_plugin(&scratch, "counter1") else { return };
    let other = scratch.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::copy(&plugin, other.join("counter1.so")).unwrap();
    let finished = finish(
        scratch
            .knee(&["ab", "-q", "-o", "record", "-r", "6", "-t", "1", "-m", "processes"])
            .args(["-s", "1", "--interval", "0.02", "--before", &plugin, "--after"])
            .arg(other.join("counter1.so"))
            .env("CLEANUP_PROOF", scratch.path().join("proof")),
    );
    finished.assert_code(0).assert_stdout_has("counter1 processes ×1");
}

#[test]
fn a_side_that_fails_ends_the_comparison_with_its_words() {
    let scratch = Scratch::new();
    let failing = "sh -c 'sleep 1000 & echo what is wrong >&2; exit 3'";
    let finished = ab(&scratch, &["--before", "true", "--after", failing]);
    finished.assert_code(4).assert_stderr_has("exited with status 3: what is wrong");
    finished.assert_stdout_has(
        "no result before (not measured, because the other side failed), no result after",
    );
    assert!(sides(&scratch).len() < 3, "one side alone was measured on");
    assert_eq!(processes_in(scratch.path()), Vec::<String>::new());
    let _ = fs::remove_dir_all(scratch.record());
    let missing = ab(&scratch, &["--before", "no-such-program -x", "--after", "true"]);
    missing.assert_code(3).assert_stderr_has("no-such-program: not found");
    let _ = fs::remove_dir_all(scratch.record());
    let silent = ab(&scratch, &["--rate", "--before", "true", "--after", "echo 1"]);
    silent.assert_code(4).assert_stderr_has("true printed no number");
}

#[test]
fn an_interrupted_comparison_ends_its_commands_and_goes_on_later() {
    let scratch = Scratch::new();
    let gate = scratch.path().join("gate");
    let slow = format!("sh -c 'test -e {0} && echo 5 && exit; sleep 1000; true'", gate.display());
    let mut knee = start(
        scratch
            .knee(&["ab", "-o", "record", "-r", "6", "--rate"])
            .args(["--before", "echo 4", "--after", &slow]),
    );
    wait_until("the slow side runs", || {
        processes_in(scratch.path()).iter().any(|line| line.contains(": sleep 1000"))
    });
    signal(&knee, Signal::INT);
    assert_eq!(knee.wait().unwrap().code(), Some(130));
    assert_eq!(processes_in(scratch.path()), Vec::<String>::new());
    fs::write(&gate, "").unwrap();
    let finished = finish(&mut scratch.knee(&["ab", "-q", "--resume", "record"]));
    finished.assert_code(0).assert_stdout_has("▲ faster");
    assert_eq!(sides(&scratch).len(), 12);
}

#[test]
fn children_of_a_command_end_when_knee_is_killed() {
    let scratch = Scratch::new();
    let mut knee =
        start(scratch.knee(&["ab", "--before", "sleep 1001 | sleep 1002", "--after"]).arg("true"));
    let lives = || processes_in(scratch.path()).iter().any(|line| line.contains(": sleep 100"));
    wait_until("the pipeline runs", lives);
    signal(&knee, Signal::KILL);
    knee.wait().unwrap();
    wait_until("nothing of it is left", || !lives() && scratch.leftovers().is_empty());
}

#[test]
fn a_misspelt_testcase_is_not_taken_for_a_command() {
    let scratch = Scratch::new();
    let misspelt = ab(&scratch, &["--before", "getppid2", "--after", "getppid1"]);
    misspelt.assert_code(2).assert_stderr_has("did you mean getppid1");
    let refused = |args: &[&str], words: &str| {
        ab(&scratch, &[&["--before", "vm_mmap1", "--after"], args].concat())
            .assert_code(2)
            .assert_stderr_has(words);
    };
    refused(&["read1@nosuch"], "parameters are written KEY=VALUE, here file=own|same");
    refused(&["vm_mmap1@di=mutx"], "did you mean di=mutex?");
    refused(&["vm_mmpa1@di=mutex"], "did you mean vm_mmap1@di=mutex");
    refused(&["vm_page_fault4@shootdown=lazy,di=mutex"], "di=mutex requires map=tree or map=rcu");
    refused(&["vm_mmap2@di=mutex"], "vm_mmap2 has no parameter");
    refused(&["famly:vm"], "did you mean family:vm?");
    refused(&["family:vm"], "family:vm matches several testcases");
    refused(&["vm_mmap1@di=*"], "matches several testcases");
    refused(&["vm_mmap1@di=mutex", "--rate"], "--rate applies only to commands");
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_runs() {
    let scratch = Scratch::new();
    let refused = |args: &[&str], words: &str| {
        ab(&scratch, args).assert_code(2).assert_stderr_has(words);
        assert!(!scratch.record().exists());
    };
    let pair = ["--before", "true", "--after", "true"];
    refused(&["--before", "true"], "--after");
    refused(
        &["--before", "open1", "--after", "true"],
        "--before is a testcase, but --after is a command",
    );
    refused(&["--before", " ", "--after", "true"], "name a command");
    refused(&["--before", "echo {tasks}", "--after", "true"], "into both or into neither");
    ab(&scratch, &["--before", "none.so", "--after", "true"])
        .assert_code(3)
        .assert_stderr_has("none.so does not exist");
    refused(&[&pair[..], &["-r", "5"]].concat(), "use -r 6 or more");
    refused(&[&pair[..], &["-r", "-3"]].concat(), "must be a whole number from 1 to");
    refused(&[&pair[..], &["-t", "2"]].concat(), "{tasks}");
    refused(&[&pair[..], &["--until-decided", "2%", "-r", "9"]].concat(), "cannot be used with");
    refused(
        &[&pair[..], &["--until-decided", "2%", "--threshold", "1%"]].concat(),
        "cannot be used with",
    );
    refused(&[&pair[..], &["--max-time", "9"]].concat(), "--until-decided");
    refused(&[&pair[..], &["--interval", "1"]].concat(), "insert {seconds}");
    for (option, value) in [("--mode", "threads"), ("--samples", "2"), ("--warmup", "0")] {
        let words = format!("{option} applies only to testcases");
        refused(&[&pair[..], &[option, value]].concat(), &words);
    }
    fs::create_dir(scratch.path().join("run")).unwrap();
    finish(&mut scratch.run(&["getppid1", "-t", "1", "-m", "threads"])).assert_code(0);
    let other = finish(&mut scratch.knee(&["ab", "--resume", "record"]));
    other.assert_code(2).assert_stderr_has("not of knee ab");
}
