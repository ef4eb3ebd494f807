//! `knee run -- CMD`: the user's own program as a testcase.

mod support;

use std::fs;

use rustix::process::Signal;
use serde_json::Value;
use snapbox::{assert_data_eq, str};
use support::{Finished, Scratch, finish, processes_in, signal, start, wait_until};

fn run(scratch: &Scratch, args: &[&str]) -> Finished {
    let options = ["run", "-q", "--patience", "1", "-r", "1", "-o", "record"];
    finish(scratch.knee(&options).args(args))
}

/// The rates of each task in each sample, in the order of the task count.
fn rates(scratch: &Scratch) -> Vec<Value> {
    let mut samples = scratch.measured();
    samples.sort_by_key(|sample| sample["tasks"].as_u64());
    samples.into_iter().map(|mut sample| sample["rates"].take()).collect()
}

#[test]
fn a_command_with_a_task_count_runs_once_per_point() {
    let scratch = Scratch::new();
    let bench = "echo start 7; echo \"rate:   {tasks}00 op/s\"; echo end 3";
    let args = ["-t", "1,2", "--cpus", "0", "--read", "rate: # op/s", "--", "sh", "-c", bench];
    let finished = run(&scratch, &args);
    let (_, table) = finished.assert_code(0).stdout.split_once("\n\n").unwrap();
    let (table, _) = table.split_once("note").unwrap();
    assert_data_eq!(
        table,
        str![[r#"
sh processes  prints its own rate: sh -c 'echo start 7; echo "rate:   {tasks}00 op/s"; echo end 3'
tasks  units/s  interval  speed-up  effic.  fairness  user  sys  idle
    1      100         -     1.00×    100%     1.000     -    -     -  ■■■■■■■■■■■■■■■■■■■■
only one usable task count, so there is no knee or peak
more tasks than CPUs: tasks share CPUs, so there is no efficiency
    2      200         -         -       -     1.000     -    -     -


"#]]
    );
    assert_eq!(rates(&scratch), [serde_json::json!([100.0]), serde_json::json!([200.0])]);
}

/// The kernel stops a command that reads a terminal in the background. Such a command never ends.
#[test]
fn a_command_that_reads_the_terminal_gets_an_error() {
    let scratch = Scratch::new();
    let knee = env!("CARGO_BIN_EXE_knee");
    let run = format!("{knee} run -t 1 -r 1 -q -o record -- sh -c 'read x </dev/tty'");
    // script(1), which is on every Debian, runs a command in a terminal of its own.
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &run, "/dev/null"]).current_dir(scratch.path());
    finish(&mut script).assert_stdout_has("a measured command has no terminal to read from");
}

#[test]
fn a_command_without_a_task_count_runs_a_copy_per_task_on_a_cpu_of_its_own() {
    let scratch = Scratch::new();
    let cpus = knee_host::affinity::usable_cpus().unwrap();
    let shown = "sed -n 's/Cpus_allowed_list:/cpu/p' /proc/self/status >> seen; echo 7";
    run(&scratch, &["-t", "3", "--rate", "--", shown]).assert_code(0);
    assert_eq!(rates(&scratch), [serde_json::json!([7.0, 7.0, 7.0])]);
    let seen = fs::read_to_string(scratch.path().join("seen")).unwrap();
    let mut seen: Vec<u32> =
        seen.lines().map(|line| line.trim_start_matches("cpu").trim().parse().unwrap()).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), cpus.len().min(3), "{seen:?}");
}

#[test]
fn copies_are_scored_by_the_time_until_the_last_one_ends() {
    let scratch = Scratch::new();
    // The first copy finds nothing, and the second one waits.
    let line = "mkdir first 2>/dev/null || sleep 0.3";
    run(&scratch, &["-t", "2", "--", line]).assert_code(0);
    let [sample] = &scratch.measured()[..] else { panic!("one sample") };
    let seconds = sample["seconds"].as_f64().unwrap();
    assert!(seconds >= 0.3, "{sample}");
    let rates = sample["rates"].as_array().unwrap();
    assert_eq!(rates.len(), 2);
    // The last digit of a number in JSON is rounded.
    let is_of_all =
        |rate: &serde_json::Value| (rate.as_f64().unwrap() * seconds - 1.0).abs() < 1e-9;
    assert!(rates.iter().all(is_of_all), "{sample}");
}

#[test]
fn placeholders_stand_for_what_a_command_needs_to_know() {
    let scratch = Scratch::new();
    let line = "test {cpus} = 0 && test {seconds} = 2.5 && test {port} -gt 0 && \
                test -z \"$(ls {dir})\" && touch {dir}/file && echo {tasks}";
    let args = ["-t", "1", "--cpus", "0", "--interval", "2.5", "--rate", "-r", "2", "--", line];
    run(&scratch, &args).assert_code(0);
    assert_eq!(scratch.leftovers(), [] as [std::path::PathBuf; 0]);
}

#[test]
fn a_command_that_fails_is_named_with_what_it_said_and_costs_no_other_point() {
    let scratch = Scratch::new();
    let line = "test {tasks} = 1 || { echo no licence >&2; exit 3; }; echo 5";
    let finished = run(&scratch, &["-t", "1,2", "--rate", "--", line]);
    finished.assert_code(4).assert_stdout_has("not measured");
    finished.assert_stdout_has("exited with status 3: no licence");
    assert_eq!(rates(&scratch), [serde_json::json!([5.0])]);

    let finished = run(&Scratch::new(), &["-t", "1", "--", "./nosuch"]);
    finished
        .assert_code(3)
        .assert_stdout_has("nosuch")
        .assert_stdout_has("correct the name of the program");
    let read = ["-t", "1", "--read", "tps = #", "--", "echo", "ready", "now"];
    let finished = run(&Scratch::new(), &read);
    finished.assert_code(4).assert_stdout_has("its last line: \"ready now\"");
}

#[test]
fn a_copy_that_fails_ends_the_others() {
    let scratch = Scratch::new();
    let line = "mkdir first 2>/dev/null && sleep 600; exit 9";
    run(&scratch, &["-t", "2", "--", line]).assert_code(4).assert_stdout_has("status 9");
    wait_until("no process is left", || processes_in(scratch.path()).is_empty());
}

#[test]
fn what_a_command_leaves_in_the_background_is_ended() {
    let scratch = Scratch::new();
    run(&scratch, &["-t", "2", "--", "sleep 600 & true"]).assert_code(0);
    wait_until("no process is left", || processes_in(scratch.path()).is_empty());
}

#[test]
fn many_copies_need_no_higher_limit_of_open_files() {
    let scratch = Scratch::new();
    let knee = scratch.knee(&[]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", r#"ulimit -Sn 64; exec "$@""#, "sh"]).arg(knee.get_program());
    shell.args(["run", "-q", "--patience", "1", "-r", "1", "-t", "30", "-o", "record", "--rate"]);
    shell.args(["--", "ulimit -Sn"]).current_dir(scratch.path());
    for (name, value) in knee.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    finish(&mut shell).assert_code(0);
    // The copies have the limit of the shell.
    assert_eq!(rates(&scratch), [serde_json::json!(vec![64.0; 30])]);
}

#[test]
fn copies_that_create_process_groups_of_their_own_are_ended() {
    let scratch = Scratch::new();
    // timeout(1) creates a group, and starts its program in this group.
    let args =
        ["run", "-q", "-r", "1", "-t", "2", "-o", "record", "--", "timeout", "600", "sleep", "600"];
    let mut knee = start(&mut scratch.knee(&args));
    let is_program = |process: &&String| process.contains(": sleep 600");
    wait_until("both copies run", || {
        processes_in(scratch.path()).iter().filter(is_program).count() == 2
    });
    signal(&knee, Signal::INT);
    assert_eq!(knee.wait().unwrap().code(), Some(130));
    wait_until("no process is left", || processes_in(scratch.path()).is_empty());
}

#[test]
fn copies_that_leave_their_group_end_even_if_knee_is_killed() {
    let scratch = Scratch::new();
    let args =
        ["run", "-q", "-r", "1", "-t", "2", "-o", "record", "--", "timeout", "600", "sleep", "600"];
    let mut knee = start(&mut scratch.knee(&args));
    let is_sleep = |process: &&String| process.contains(": sleep 600");
    wait_until("both copies run", || {
        processes_in(scratch.path()).iter().filter(is_sleep).count() == 2
    });
    signal(&knee, Signal::KILL);
    knee.wait().unwrap();
    wait_until("no process is left", || processes_in(scratch.path()).is_empty());
    wait_until("no file is left", || scratch.leftovers().is_empty());
}

#[test]
fn an_interrupted_run_of_a_command_continues_with_the_same_command() {
    let scratch = Scratch::new();
    let line = "test -e go || sleep 600";
    let args = ["run", "-q", "-r", "2", "-t", "1", "-o", "record", "--", line];
    let mut knee = start(&mut scratch.knee(&args));
    wait_until("the command runs", || processes_in(scratch.path()).len() > 2);
    signal(&knee, Signal::INT);
    assert_eq!(knee.wait().unwrap().code(), Some(130));
    wait_until("no process is left", || processes_in(scratch.path()).is_empty());
    fs::write(scratch.path().join("go"), "").unwrap();
    let resumed = finish(&mut scratch.knee(&["run", "--resume", "record"]));
    resumed.assert_code(0).assert_stderr_has("resuming runs the command test -e go || sleep 600");
    assert_eq!(scratch.measured().len(), 2);
}

/// As after a hang-up, when there is no terminal to print to.
#[test]
fn the_status_after_a_signal_is_that_of_the_signal_even_if_nothing_can_be_printed() {
    let scratch = Scratch::new();
    let line = "test ! -e second || exec sleep 600; touch second";
    let args = ["run", "-q", "-r", "2", "-t", "1", "--patience", "1", "--", line];
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut knee =
        scratch.knee(&args).stdout(full).stderr(std::process::Stdio::null()).spawn().unwrap();
    wait_until("the second round runs", || {
        processes_in(scratch.path()).iter().any(|process| process.contains(": sleep"))
    });
    // Under nohup, knee ignores SIGHUP.
    signal(&knee, Signal::TERM);
    assert_eq!(knee.wait().unwrap().code(), Some(143));
}

#[test]
fn options_of_testcases_are_refused_for_commands_and_the_reverse() {
    let scratch = Scratch::new();
    for args in [
        &["getppid1", "--", "true"][..],
        &["-m", "threads", "--", "true"],
        &["-s", "3", "--", "true"],
        &["--warmup", "1", "--", "true"],
        &["--aa", "--", "true"],
        &["--rate", "--read", "#", "--", "true"],
    ] {
        run(&scratch, args).assert_code(2).assert_stderr_has("cannot be used with");
    }
    let refused = |args: &[&str], why: &str| {
        run(&scratch, args).assert_code(2).assert_stderr_has(why);
    };
    refused(&["--rate", "getppid1"], "--rate applies only to commands");
    refused(&["--read", "tps = #", "getppid1"], "--read applies only to commands");
    refused(&["--read", "tps", "--", "true"], "must contain one #");
    refused(&["--interval", "1", "--", "true"], "insert {seconds}");
    refused(&["--", " "], "name a program");
    assert!(!scratch.record().exists());
}

#[test]
fn a_directory_that_a_shell_would_split_cannot_replace_a_placeholder() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path().join("a b")).unwrap();
    let args = ["--dir", "a b", "-t", "1", "--"];
    let refused = run(&scratch, &[&args[..], &["touch {dir}/file"]].concat());
    refused.assert_code(2).assert_stderr_has("a shell would not read this path as one word");
    run(&scratch, &[&args[..], &["true"]].concat()).assert_code(0);
}

#[test]
fn records_of_a_command_are_compared() {
    let scratch = Scratch::new();
    for (record, rate) in [("before", "100"), ("after", "120")] {
        let args = ["run", "-q", "--patience", "1", "-r", "6", "-t", "1", "-o", record, "--rate"];
        finish(scratch.knee(&args).args(["--", "sh", "-c", &format!("echo {rate}")]))
            .assert_code(0);
    }
    let compared = finish(&mut scratch.knee(&["compare", "before", "after"]));
    compared.assert_code(0).assert_stdout_has("+20.0%");
    let timed = ["run", "-q", "--patience", "1", "-r", "6", "-t", "1", "-o", "timed", "--"];
    finish(scratch.knee(&timed).args(["sh", "-c", "echo 100"])).assert_code(0);
    let compared = finish(&mut scratch.knee(&["compare", "timed", "after"]));
    compared.assert_code(0).assert_stdout_has("it counts units, and the run before counts runs");
}

#[test]
fn a_page_says_that_two_runs_measured_different_commands_with_one_name() {
    let scratch = Scratch::new();
    let run = |record: &str, options: &[&str], words: &[&str]| {
        let args = ["run", "-q", "-t", "1", "-r", "1", "-o", record];
        finish(&mut scratch.knee(&[&args[..], options, &["--"], words].concat())).assert_code(0);
    };
    run("one", &[], &["sh", "-c", "true"]);
    run("other", &[], &["sh", "-c", "true; true"]);
    run("units", &["--rate"], &["sh", "-c", "echo 5"]);
    run("sleep", &[], &["sleep", "0.01"]);
    let report = |runs: [&str; 2]| {
        finish(&mut scratch.knee(&["report", runs[0], runs[1], "-o", "page.html"]))
    };
    report(["one", "other"]).assert_code(0);
    let page = fs::read_to_string(scratch.path().join("page.html")).unwrap();
    let says = "differs from one in the command of sh: sh -c 'true; true', not sh -c true";
    assert!(page.contains(says), "{says}");
    report(["one", "units"])
        .assert_code(2)
        .assert_stderr_has("units: sh counts units, but an earlier run counts runs");
    let compare = |after: &str| finish(&mut scratch.knee(&["compare", "one", after]));
    compare("sleep")
        .assert_code(2)
        .assert_stderr_has("knee ab --before 'sh -c true' --after 'sleep 0.01'");
    finish(&mut scratch.knee(&["run", "--"]))
        .assert_code(2)
        .assert_stderr_has("the command after -- is empty");
}
