//! `knee profile`: the real binary samples this machine.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use support::{
    Finished, Scratch, assert_schema, describe, finish, mode, signal, skip, start_telling,
    wait_until, without_umask,
};

/// Runs knee; `None` if the kernel does not permit sampling.
fn profile(scratch: &Scratch, args: &[&str]) -> Option<Finished> {
    let finished = finish(scratch.knee(&["profile"]).args(args));
    if finished.stderr.contains("not permitted") {
        skip("sampling", &finished.stderr);
        return None;
    }
    Some(finished)
}

fn capture(scratch: &Scratch, file: &str) -> serde_json::Value {
    serde_json::from_slice(&fs::read(scratch.path().join(file)).unwrap()).unwrap()
}

fn samples(capture: &serde_json::Value) -> u64 {
    capture["counts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|count| count["samples"].as_u64().unwrap())
        .sum()
}

#[test]
fn a_testcase_is_sampled_down_to_the_leaves_of_the_kernel() {
    let scratch = Scratch::new();
    let args = ["mmap_churn1", "-t", "2", "-d", "1", "-o", "churn.json"];
    let Some(sampled) = profile(&scratch, &args) else { return };
    sampled.assert_code(0).assert_stderr_has("knee profile show churn.json");
    let sees_kernel = !sampled.stderr.contains("user code only");
    // Without kernel samples, the cost of an iteration is unknown.
    assert_eq!(sampled.stdout.contains("per iteration"), sees_kernel, "{sampled:#?}");
    let capture = capture(&scratch, "churn.json");
    assert_schema("capture", &capture);
    assert_eq!(capture["work"]["tasks"], 2);
    assert!(capture["work"]["iterations"].as_u64().unwrap() > 0);
    // Buffers hold the samples of a second without a CPU for knee. Losses after that are reported.
    let has_lost = capture["losses"]["lost"].as_u64().unwrap() > 0;
    assert_eq!(sampled.stderr.contains("samples were lost"), has_lost, "{sampled:#?}");
    assert!(scratch.leftovers().is_empty());
    if sees_kernel && !sampled.stderr.contains("no names") {
        let tree =
            profile(&scratch, &["show", "churn.json", "--root", "__x64_sys_munmap"]).unwrap();
        tree.assert_code(0).assert_stdout_has("__x64_sys_munmap(100.000% ");
        // Their names depend on the kernel, but they are several levels further down.
        let deepest = tree.stdout.lines().map(|line| line.len() - line.trim_start().len()).max();
        assert!(deepest >= Some(10), "{}", tree.stdout);
    }
}

#[test]
fn every_format_shows_the_same_samples() {
    let scratch = Scratch::new();
    // These rounds take some tenths of a second of CPU time, whatever the load.
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let Some(sampled) = profile(&scratch, &["-o", "c.json", "--", "sh", "-c", script]) else {
        return;
    };
    sampled.assert_code(0);
    let all = samples(&capture(&scratch, "c.json"));
    let show = |args: &[&str]| {
        let shown = profile(&scratch, &[&["show", "c.json"], args].concat()).unwrap();
        shown.assert_code(0);
        shown.stdout
    };
    assert!(show(&[]).starts_with(&format!("all(100.000% {all}/{all})")));
    let folded = show(&["--format", "folded"]);
    let counts =
        folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
    assert_eq!(counts.sum::<u64>(), all);
    let weights = show(&["--format", "folded", "--weight"]);
    let weights =
        weights.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
    assert!(weights.sum::<u64>() > all, "nanoseconds or cycles");
    assert!(show(&["--format", "folded", "--annotate"]).lines().count() >= folded.lines().count());
    assert!(show(&["--format", "flame"]).contains(&format!("{all} samples of ")));
    assert!(show(&["--format", "functions"]).contains(&format!("{all} samples in ")));
    let speedscope: serde_json::Value =
        serde_json::from_str(&show(&["--format", "speedscope"])).unwrap();
    assert!(speedscope["$schema"].as_str().unwrap().contains("speedscope"));
    let packed =
        profile(&scratch, &["show", "c.json", "--format", "pprof", "-o", "c.pb.gz"]).unwrap();
    packed.assert_code(0);
    assert!(fs::read(scratch.path().join("c.pb.gz")).unwrap().starts_with(&[0x1f, 0x8b]));
    fs::write(scratch.path().join("c.folded"), &folded).unwrap();
    let again = profile(&scratch, &["show", "c.folded", "--format", "folded"]).unwrap();
    assert_eq!(again.stdout, folded, "what is written is read");
}

#[test]
fn only_the_owner_can_replace_captures_whatever_the_umask() {
    let scratch = Scratch::new();
    let finished = finish(&mut without_umask(&scratch.knee(&["profile", "--", "true"])));
    if finished.stderr.contains("not permitted") {
        return skip("sampling", &finished.stderr);
    }
    let profiles = scratch.path().join("profiles");
    assert_eq!(mode(&profiles), 0o755);
    for file in fs::read_dir(profiles).unwrap() {
        assert_eq!(mode(file.unwrap().path()), 0o644);
    }
}

#[test]
fn growth_names_the_functions_whose_cost_grows() {
    let scratch = Scratch::new();
    // Each iteration of a task takes and releases a lock that all tasks share.
    let args = ["growth", "pthread_mutex1", "-t", "1,2", "-d", "1", "-o", "kept"];
    let Some(grown) = profile(&scratch, &args) else { return };
    grown.assert_code(0).assert_stdout_has("cost of an iteration");
    let kept = ["growth", "--from", "kept/1.json", "kept/2.json"];
    assert_eq!(profile(&scratch, &kept).unwrap().stdout, grown.stdout);
    let json = profile(&scratch, &[&kept[..], &["--json"]].concat()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let tasks: Vec<_> =
        json["points"].as_array().unwrap().iter().map(|p| p["tasks"].as_u64()).collect();
    assert_eq!(tasks, [Some(1), Some(2)]);
    let same = profile(&scratch, &["growth", "--from", "kept/1.json", "kept/1.json"]).unwrap();
    same.assert_code(2).assert_stderr_has("the same task count, 1");
    finish(&mut scratch.run(&["pthread_mutex1", "-t", "1,2", "-m", "processes"])).assert_code(0);
    let mode = capture(&scratch, "kept/1.json")["work"]["mode"].as_str().unwrap().to_owned();
    grown.assert_stdout_has(&format!("pthread_mutex1 {mode} "));
    let report = ["report", "record", "kept/1.json", "kept/2.json", "-o", "report.html"];
    finish(&mut scratch.knee(&report)).assert_code(0);
    let page = fs::read_to_string(scratch.path().join("report.html")).unwrap();
    for tasks in ["1", "2"] {
        let id = format!("flame=pthread_mutex1&amp;mode={mode}&amp;tasks={tasks}");
        assert!(page.contains(&format!("id=\"{id}\"")), "the graph of {tasks}");
        assert!(page.contains(&format!("href=\"#{id}\"")), "the link to it");
    }
    assert!(page.contains("cost of an iteration"));
    // Beside other work, nothing grows.
    let file = scratch.path().join("kept/2.json");
    let mut disturbed = capture(&scratch, "kept/2.json");
    disturbed["work"]["disturbed"] = true.into();
    fs::write(&file, disturbed.to_string()).unwrap();
    let inconclusive = profile(&scratch, &kept).unwrap();
    inconclusive.assert_code(0).assert_stdout_has("Inconclusive: other work disturbed ");
    let diff = ["diff", "kept/1.json", "kept/2.json", "--flame", "diff.svg"];
    profile(&scratch, &diff)
        .unwrap()
        .assert_code(0)
        .assert_stdout_has("Cost of an iteration: ")
        .assert_stdout_has("Inconclusive: other work disturbed ");
    let graph = fs::read_to_string(scratch.path().join("diff.svg")).unwrap();
    assert!(graph.contains("Inconclusive: other work disturbed ") && graph.contains("</svg>"));
}

#[test]
fn growth_of_a_server_is_that_of_a_request() {
    let scratch = Scratch::new();
    describe(&scratch, "echo", "", "");
    let args = ["growth", "echo.toml", "-t", "1,2", "-d", "1", "-o", "kept"];
    let Some(grown) = profile(&scratch, &args) else { return };
    grown
        .assert_code(0)
        .assert_stdout_has("requests per second")
        .assert_stdout_has("cost of a request")
        .assert_stdout_has("server busy")
        .assert_stderr_has("echo on 1 CPU");
    let kept = ["growth", "--from", "kept/1.json", "kept/2.json"];
    assert_eq!(profile(&scratch, &kept).unwrap().stdout, grown.stdout);
    let json = profile(&scratch, &[&kept[..], &["--json"]].concat()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["unit"], "requests");
    let points = json["points"].as_array().unwrap();
    let is_shared = |point: &serde_json::Value| point["server"]["shared"] == true;
    assert_eq!(
        grown.stdout.contains("shares the server's CPUs"),
        points.iter().any(is_shared),
        "{json}"
    );
    for file in ["kept/1.json", "kept/2.json"] {
        let capture = capture(&scratch, file);
        assert_schema("capture", &capture);
        assert_eq!(capture["work"]["unit"], "requests");
        // Only the server is sampled, not the load or knee.
        let programs = capture["programs"].as_array().unwrap();
        assert!(programs.iter().any(|program| program == "line_server"), "{programs:?}");
        let of_load = capture["functions"].as_array().unwrap().iter();
        let of_load = of_load.filter(|f| f["name"].as_str().unwrap().contains("knee_load::worker"));
        assert_eq!(of_load.count(), 0, "{file}");
    }
    assert!(scratch.leftovers().is_empty());
    let run = ["-t", "1,2", "-r", "1", "--interval", "1", "-o", "record", "echo.toml"];
    finish(scratch.knee(&["run", "-q"]).args(run)).assert_code(0);
    let report = ["report", "record", "kept/1.json", "kept/2.json", "-o", "report.html"];
    finish(&mut scratch.knee(&report)).assert_code(0);
    let page = fs::read_to_string(scratch.path().join("report.html")).unwrap();
    assert!(page.contains("cost of a request"));
    let sampled = profile(&scratch, &["echo.toml", "-t", "1", "-d", "1", "-o", "c.json"]).unwrap();
    sampled.assert_code(0);
    assert_eq!(capture(&scratch, "c.json")["work"]["tasks"], 1);
}

#[test]
fn growth_of_a_command_is_that_of_a_run() {
    let scratch = Scratch::new();
    // Each run leaves a line.
    let script = "echo >> runs-{tasks}; i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done";
    let args = ["growth", "-t", "1,2", "-d", "0.5", "-o", "kept", "--", "sh", "-c", script];
    let Some(grown) = profile(&scratch, &args) else { return };
    grown
        .assert_code(0)
        .assert_stdout_has("runs per second")
        .assert_stdout_has("cost of a run")
        .assert_stderr_has("sh 2 tasks for at least 0.5 s");
    profile(&scratch, &args).unwrap().assert_code(2).assert_stderr_has("is not empty");
    let run = ["run", "-t", "1", "-r", "1", "-o", "run", "--", "sh", "-c", "echo {taks} {tasks}"];
    let run = finish(&mut scratch.knee(&run));
    run.assert_code(0).assert_stderr_has("the command contains {taks}; if it should be {tasks}");
    finish(&mut scratch.knee(&["report", "run", "kept/1.json", "-o", "page.html"]))
        .assert_code(2)
        .assert_stderr_has("this profile is of another command than the run");
    let kept = ["growth", "--from", "kept/1.json", "kept/2.json"];
    assert_eq!(profile(&scratch, &kept).unwrap().stdout, grown.stdout);
    let json = profile(&scratch, &[&kept[..], &["--json"]].concat()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["unit"], "runs");
    for tasks in ["1", "2"] {
        let capture = capture(&scratch, &format!("kept/{tasks}.json"));
        assert_schema("capture", &capture);
        let programs = capture["programs"].as_array().unwrap();
        assert!(programs.iter().any(|program| program == "sh"), "{programs:?}");
        let runs = fs::read_to_string(scratch.path().join(format!("runs-{tasks}"))).unwrap();
        // knee samples a disturbed task count again.
        let runs = runs.lines().count() as u64;
        let sampled = capture["work"]["iterations"].as_u64().unwrap();
        assert!((1..=runs).contains(&sampled), "{sampled} of {runs} runs");
        let is_repeated = grown.stderr.contains("samples it again");
        assert!(sampled == runs || is_repeated, "{sampled} of {runs} runs");
    }
    assert!(scratch.leftovers().is_empty());
}

#[test]
fn growth_of_copies_and_of_a_printed_rate_is_that_of_their_work() {
    let scratch = Scratch::new();
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; echo 1000 ops";
    let args = ["growth", "-t", "1,2", "-d", "0.3", "--json", "--read", "# ops", "--", "sh", "-c"];
    let Some(grown) = profile(&scratch, &[&args[..], &[script]].concat()) else { return };
    grown.assert_code(0);
    let json: serde_json::Value = serde_json::from_str(&grown.stdout).unwrap();
    assert_eq!(json["unit"], "units");
    let rates: Vec<_> =
        json["points"].as_array().unwrap().iter().map(|point| point["rate"].as_f64()).collect();
    assert!(rates.len() == 2 && rates.iter().all(|rate| *rate > Some(0.0)), "{json}");
    let failing = ["growth", "-t", "1,2", "--", "sh", "-c", "echo no luck >&2; exit 3"];
    profile(&scratch, &failing)
        .unwrap()
        .assert_stderr_has("sh -c 'echo no luck >&2; exit 3' exited with status 3: no luck");
    assert!(scratch.leftovers().is_empty());
}

#[test]
fn an_interrupted_sampling_of_a_server_leaves_nothing() {
    let scratch = Scratch::new();
    let Some(_) = profile(&scratch, &["-d", "0.1", "-o", "all.json", "--", "true"]) else { return };
    describe(&scratch, "echo", "", "");
    let args = ["profile", "growth", "echo.toml", "-t", "1,2", "-d", "600"];
    let mut knee = start_telling(&mut scratch.knee(&args), Stdio::piped());
    let mut said = BufReader::new(knee.stderr.take().unwrap()).lines();
    // knee prints the frequency when the server is ready.
    assert!(said.any(|line| line.unwrap().contains(" Hz")));
    signal(&knee, Signal::INT);
    assert_eq!(knee.wait().unwrap().code(), Some(130));
    assert!(scratch.leftovers().is_empty());
}

/// Asserts that `part.json` has the samples of an interrupted sampling, whose work is unknown.
fn assert_part_is_kept(scratch: &Scratch) {
    let capture = capture(scratch, "part.json");
    assert_schema("capture", &capture);
    assert!(samples(&capture) > 0);
    assert_eq!(capture["work"], serde_json::Value::Null);
    assert!(scratch.leftovers().is_empty());
}

#[test]
fn ctrl_c_keeps_the_samples_of_a_server() {
    let scratch = Scratch::new();
    let Some(_) = profile(&scratch, &["-d", "0.1", "-o", "all.json", "--", "true"]) else { return };
    let text = "name = 'busy'\n[server]\ncommand = \"sh -c 'echo up; while :; do :; done'\"\n\
                [ready]\noutput = 'up'\n[load]\ncommand = 'sleep 600'\n";
    fs::write(scratch.path().join("busy.toml"), text).unwrap();
    let args = ["profile", "busy.toml", "-t", "1", "-d", "600", "-o", "part.json"];
    let mut knee = start_telling(&mut scratch.knee(&args), Stdio::piped());
    let mut said = BufReader::new(knee.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains(" samples so far")));
    signal(&knee, Signal::INT);
    // So that knee never waits for a reader.
    said.for_each(drop);
    assert_eq!(knee.wait().unwrap().code(), Some(130));
    assert_part_is_kept(&scratch);
}

#[test]
fn a_process_is_sampled_with_its_descendants() {
    let scratch = Scratch::new();
    symlink("/bin/sh", scratch.path().join("spinner")).unwrap();
    // The shell waits; only its child runs.
    let script = "./spinner -c 'while :; do :; done' & echo $!; wait";
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(scratch.path()).stdout(Stdio::piped());
    let mut tree = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(tree.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid = tree.id().to_string();
    let whole = profile(&scratch, &["-p", &pid, "-d", "2", "-o", "whole.json"]);
    let only = profile(&scratch, &["-p", &pid, "--only", "-d", "0.5", "-o", "only.json"]);
    let spinner = rustix::process::Pid::from_raw(line.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(spinner, Signal::KILL).unwrap();
    tree.wait().unwrap();
    let (Some(whole), Some(only)) = (whole, only) else { return };
    let title = format!("process {pid} with 1 descendant");
    whole.assert_code(0).assert_stderr_has(&format!("sampling {title}"));
    let (whole, only_capture) = (capture(&scratch, "whole.json"), capture(&scratch, "only.json"));
    assert_eq!(whole["title"], title);
    let has_spinner = |capture: &serde_json::Value| {
        capture["programs"].as_array().unwrap().iter().any(|program| program == "spinner")
    };
    assert!(has_spinner(&whole) && samples(&whole) > 0, "{whole}");
    only.assert_code(0).assert_stderr_has(&format!("sampling process {pid}, "));
    assert!(!has_spinner(&only_capture), "{only_capture}");
}

#[test]
fn off_cpu_sampling_shows_a_sleeping_command() {
    let scratch = Scratch::new();
    let args = ["--event", "off-cpu", "-o", "c.json", "--", "sh", "-c", "sleep 0.5; :"];
    let Some(sampled) = profile(&scratch, &args) else { return };
    sampled.assert_code(0).assert_stderr_has("by off-cpu");
    let capture = capture(&scratch, "c.json");
    assert_schema("capture", &capture);
    assert_eq!(capture["cpu_seconds"], serde_json::Value::Null);
    let programs = capture["programs"].as_array().unwrap();
    let of_sleep = capture["counts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|count| programs[count["program"].as_u64().unwrap() as usize] == "sleep");
    let nanoseconds: u64 = of_sleep.map(|count| count["weight"].as_u64().unwrap()).sum();
    // It sleeps for at least this time, except for the last sampling period.
    assert!(nanoseconds >= 498_000_000, "{nanoseconds} ns");
    if !sampled.stderr.contains("no names") {
        let folded = profile(&scratch, &["show", "c.json", "--format", "folded"]).unwrap();
        folded.assert_code(0).assert_stdout_has("nanosleep");
    }
}

/// Runs `knee profile --locks`; `None` if the kernel does not report lock waits here.
fn locks(scratch: &Scratch, args: &[&str]) -> Option<Finished> {
    let finished = profile(scratch, &[&["--locks"], args].concat())?;
    if finished.stderr.contains("this kernel has no") {
        skip("sampling", &finished.stderr);
        return None;
    }
    Some(finished)
}

#[test]
fn the_functions_that_wait_for_an_address_space_lock_are_listed() {
    let scratch = Scratch::new();
    // Threads map and unmap in one address space, which has one lock.
    let args = ["mmap1", "-m", "threads", "-t", "4", "--placement", "none", "-d", "1"];
    let Some(watched) = locks(&scratch, &[&args[..], &["-o", "l.json"]].concat()) else { return };
    watched.assert_code(0).assert_stdout_has("waiting function").assert_stdout_has("per iteration");
    let waits = capture(&scratch, "l.json");
    assert_schema("lock-waits", &waits);
    assert!(waits["work"]["iterations"].as_u64().unwrap() > 0);
    let is_of_mmap = |site: &&serde_json::Value| {
        let by_names = watched.stderr.contains("no names")
            || ["mmap", "munmap"].iter().any(|n| site["function"].as_str().unwrap().contains(n));
        site["lock"] == "rwsem:W" && by_names
    };
    let site = waits["sites"].as_array().unwrap().iter().find(is_of_mmap);
    let site = site.unwrap_or_else(|| panic!("{}", watched.stdout));
    let number = |key: &str| site[key].as_u64().unwrap();
    assert!(number("acquisitions") > 0, "{site}");
    assert!(number("longest_ns") <= number("total_ns"), "{site}");
    // At most, all four threads wait for the whole recording.
    assert!(number("total_ns") as f64 <= 4e9 * waits["seconds"].as_f64().unwrap(), "{site}");
    assert!(scratch.leftovers().is_empty());

    let shown = finish(&mut scratch.knee(&["profile", "show", "l.json"]));
    shown.assert_code(0);
    let begins = |text: &str| text.lines().take(4).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(begins(&shown.stdout), begins(&watched.stdout));
    let flame = ["profile", "show", "l.json", "--format", "flame"];
    finish(&mut scratch.knee(&flame)).assert_code(2).assert_stderr_has("table");
    finish(&mut scratch.run(&["mmap1", "-m", "threads", "-t", "4"])).assert_code(0);
    finish(&mut scratch.knee(&["report", "record", "l.json", "-o", "r.html"])).assert_code(0);
    let page = fs::read_to_string(scratch.path().join("r.html")).unwrap();
    assert!(page.contains("Waits for kernel locks, 4 tasks") && page.contains("rwsem:W"));
    fs::remove_dir_all(scratch.record()).unwrap();
    finish(&mut scratch.run(&["getppid1", "-t", "1"])).assert_code(0);
    finish(&mut scratch.knee(&["report", "record", "l.json"]))
        .assert_code(2)
        .assert_stderr_has("no run on the page measured this curve");
}

#[test]
fn lock_waits_of_a_command_print_as_json() {
    let scratch = Scratch::new();
    let Some(watched) = locks(&scratch, &["--json", "-q", "--", "sh", "-c", "exit 7"]) else {
        return;
    };
    let waits = serde_json::from_str(&watched.assert_code(7).stdout).unwrap();
    assert_schema("lock-waits", &waits);
    assert_eq!(waits["work"], serde_json::Value::Null);
}

#[test]
fn a_command_keeps_its_output_and_its_status() {
    let scratch = Scratch::new();
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo said; exit 7";
    let args = ["-q", "-o", "c.json", "--", "sh", "-c", script];
    let Some(sampled) = profile(&scratch, &args) else { return };
    assert_eq!((sampled.code, sampled.stdout.as_str()), (Some(7), "said\n"));
    let piped = profile(&scratch, &["-o", "d.json", "--", "echo", "said"]).unwrap();
    assert_eq!(piped.stdout, "said\n", "the table is not among what the command prints");
    piped.assert_stderr_has(" sample");
    let capture = capture(&scratch, "c.json");
    assert_eq!(capture["title"], format!("sh -c {script}"));
    assert_eq!(capture["programs"].as_array().unwrap().last().unwrap(), "sh");
    let missing = profile(&scratch, &["--", "no-such-program"]).unwrap();
    missing
        .assert_code(3)
        .assert_stderr_has("cannot start no-such-program: no program has this name");
    let kept = scratch.path().join("profiles");
    assert!(!kept.exists(), "there is no capture of a command that was not started");
}

#[test]
fn without_root_a_command_is_sampled_with_all_processes_it_starts() {
    /// The user `nobody`, who owns no file.
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: all other tests are without root here");
    }
    let scratch = Scratch::new();
    // A directory in which `nobody` may read and write.
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let knee = scratch.path().join("knee");
    fs::copy(env!("CARGO_BIN_EXE_knee"), &knee).unwrap();
    symlink("/bin/sh", scratch.path().join("child")).unwrap();
    let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let script = format!("./child -c '{work}'; {work}");
    let mut command = Command::new(&knee);
    command.args(["profile", "-o", "c.json", "--", "sh", "-c", &script]);
    command.current_dir(scratch.path()).stdin(Stdio::null()).uid(NOBODY).gid(NOBODY);
    let sampled = finish(&mut command);
    if sampled.stderr.contains("not permitted") {
        return skip("sampling", &sampled.stderr);
    }
    sampled.assert_code(0);
    let capture = capture(&scratch, "c.json");
    assert_schema("capture", &capture);
    let programs = capture["programs"].as_array().unwrap();
    for program in ["sh", "child"] {
        let is_its = |count: &&serde_json::Value| {
            programs[count["program"].as_u64().unwrap() as usize] == program
        };
        let counts = capture["counts"].as_array().unwrap().iter().filter(is_its);
        let samples: u64 = counts.map(|count| count["samples"].as_u64().unwrap()).sum();
        assert!(samples > 10, "{samples} of {program}");
    }
}

#[test]
fn ctrl_c_keeps_the_samples() {
    let scratch = Scratch::new();
    let Some(_) = profile(&scratch, &["-d", "0.1", "-o", "all.json", "--", "true"]) else { return };
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let pid = busy.id().to_string();
    let args = ["profile", "-o", "p.json", "-p", &pid];
    let mut knee = start_telling(&mut scratch.knee(&args), Stdio::piped());
    // knee prints a message when sampling begins.
    let mut said = BufReader::new(knee.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("sampling")));
    // Ticks are hundredths of a second; a sample is due every millisecond.
    let used = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let after_name = stat.rsplit_once(')').unwrap().1;
        after_name.split_whitespace().nth(11).unwrap().parse::<u64>().unwrap()
    };
    let before = used();
    wait_until("the process has run", || used() >= before + 20);
    signal(&knee, Signal::INT);
    assert_eq!(knee.wait().unwrap().code(), Some(130));
    busy.kill().and_then(|()| busy.wait()).unwrap();
    assert!(samples(&capture(&scratch, "p.json")) > 0);
}

#[test]
fn ctrl_c_keeps_the_samples_of_a_testcase() {
    let scratch = Scratch::new();
    let Some(_) = profile(&scratch, &["-d", "0.1", "-o", "all.json", "--", "true"]) else { return };
    let args = ["profile", "getppid1", "-t", "1", "-d", "600", "-o", "part.json"];
    let mut knee = start_telling(&mut scratch.knee(&args), Stdio::piped());
    let mut said = BufReader::new(knee.stderr.take().unwrap()).lines();
    // knee prints a message when sampling begins, and its progress seconds later.
    let mut until = |words: &str| {
        let has_words = |line: &std::io::Result<String>| line.as_ref().unwrap().contains(words);
        assert!(said.any(|line| has_words(&line)), "{words}");
    };
    until("sampling");
    until("samples so far");
    signal(&knee, Signal::INT);
    until("interrupted");
    assert_eq!(knee.wait().unwrap().code(), Some(130));
    assert_part_is_kept(&scratch);
}

#[test]
fn a_testcase_on_a_terminal_is_sampled_with_a_progress_bar() {
    let scratch = Scratch::new();
    // `script` provides the terminal.
    let mut script = Command::new("script");
    let command = format!("{} profile getppid1 -t 1 -d 2", env!("CARGO_BIN_EXE_knee"));
    script.args(["-qec", &command, "/dev/null"]).current_dir(scratch.path());
    script.env("TERM", "xterm").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    match script.output() {
        Err(error) => skip("script", error),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            match text.contains("not permitted") {
                true => skip("sampling", text),
                false => assert!(text.contains("·"), "{text}"),
            }
        }
    }
}

#[test]
fn invalid_arguments_are_refused_with_a_reason() {
    let scratch = Scratch::new();
    let refused = |args: &[&str], code: i32, words: &str| {
        finish(scratch.knee(&["profile"]).args(args)).assert_code(code).assert_stderr_has(words);
    };
    refused(&[], 2, "no target to sample");
    refused(&["getpid1"], 2, "did you mean getppid1");
    refused(&["ls"], 2, "knee profile -- ls");
    refused(&["growth", "--", ""], 2, "the command after -- is empty");
    refused(&["growth", "mmap1", "--", "make"], 2, "cannot be used with");
    refused(&["growth", "-m", "threads", "--", "make"], 2, "leave out -m for a command");
    refused(&["growth", "mmap1", "--rate"], 2, "--rate applies only to commands");
    refused(&["growht"], 2, "no command growht (did you mean growth?)");
    refused(&["growht", "mmap1"], 2, "no command growht (did you mean growth?)");
    refused(&["mmap1", "mmap2"], 2, "unexpected argument mmap2: name one testcase");
    refused(
        &["mmap1", "-t", "2-4"],
        2,
        "one task count; for several, use knee profile growth -t 2-4",
    );
    refused(&["mmap1", "-t", "two"], 2, "must be a task count from 1 to");
    refused(&["mmap1", "-t", "0"], 2, "must be a task count from 1 to");
    refused(&["growth", "ngnix"], 2, "did you mean nginx");
    refused(&["growth", "nginx", "-m", "threads"], 2, "-m threads applies only to testcases");
    refused(&["nginx*"], 2, "matches 2 servers; give the name of one");
    refused(&["missing.toml"], 3, "missing.toml");
    refused(&["--only"], 2, "--pid");
    refused(&["getppid1", "--only"], 2, "cannot be used with");
    refused(&["getppid1", "-p", "1"], 2, "cannot be used with");
    refused(&["growth", "getppid1", "-t", "2"], 2, "-t 1,2");
    refused(&["getppid1", "--json"], 2, "--locks");
    refused(&["getppid1", "--locks", "-F", "100"], 2, "cannot be used with");
    refused(&["show", "nosuch"], 3, "nosuch: No such file");
    refused(&["show", "nosuch", "--format", "folded", "--root", "f"], 2, "--format tree");
    refused(&["show", "nosuch", "--annotate"], 2, "--format folded");
    fs::write(scratch.path().join("text"), "a text\nof nothing\n").unwrap();
    refused(&["show", "text"], 3, "it contains no samples");
    fs::write(scratch.path().join("cut"), "{\"schema\": 1, \"tit").unwrap();
    refused(&["show", "cut"], 3, "it is truncated");
    fs::write(scratch.path().join("one"), "a;b 3\n").unwrap();
    refused(&["show", "one", "--root", "c"], 3, "no sample contains the function \"c\"");
    refused(&["growth", "--from", "one", "one"], 3, "this is not a capture of knee profile");
    fs::create_dir(scratch.path().join("run")).unwrap();
    fs::write(scratch.path().join("run/run.json"), "{}").unwrap();
    refused(
        &["growth", "--from", "run", "one"],
        2,
        "contains rates, but no samples; take captures with knee profile growth",
    );
    refused(&["getppid1", "-o", "no/c.json"], 3, "its directory does not exist");
    refused(&["getppid1", "-o", "work"], 3, "is a directory");
    refused(&["-p", "5000000"], 3, "process 5000000 does not exist");
}
