//! `knee jobs` on this machine: plans, repeated and resumed jobs, Ctrl-C, and shards of a check.

mod support;

use std::fs;
use std::process::{Child, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use support::jobs::{assert_shards_equal_the_whole, jobs, read};
use support::{
    Finished, Scratch, finish, mode, processes_in, signal, skip, start_telling, wait_until,
    without_umask,
};

/// Waits for a command whose messages are read, and returns how it ended.
fn ended(child: Child) -> Finished {
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    Finished { code: output.status.code(), stdout: String::new(), stderr }
}

#[test]
fn a_plan_has_a_command_for_each_combination_of_parameters() {
    let scratch = Scratch::new();
    let plan = |args: &[&str]| finish(scratch.knee(&["jobs", "plan"]).args(args));
    let planned = plan(&["check {kernel} {shard} >$KNEE_OUT/{job}", "kernel=a,b", "shard=1..2/2"]);
    assert_eq!(
        planned.assert_code(0).stdout,
        "check a 1/2 >$KNEE_OUT/1\ncheck a 2/2 >$KNEE_OUT/2\ncheck b 1/2 >$KNEE_OUT/3\n\
         check b 2/2 >$KNEE_OUT/4\n"
    );
    let misspelt = plan(&["check {kernal}", "kernel=a,b"]);
    misspelt.assert_code(2).assert_stderr_has("does not contain {kernel} (did you mean kernal?)");
    plan(&["check {n}", "n=3..1"]).assert_code(2).assert_stderr_has("3..1 is empty");
    plan(&["check {n}", "n"]).assert_code(2).assert_stderr_has("NAME=VALUE");
}

#[test]
fn jobs_run_in_the_current_directory_and_write_results_to_the_output_directory() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("input"), "here").unwrap();
    let lines = ["# a comment", "", "cat input >$KNEE_OUT/$KNEE_JOB", "echo 'two  words'"];
    let done = finish(&mut jobs(&scratch, &lines, &[]));
    done.assert_code(0).assert_stdout_has("2 of 2 jobs done");
    assert_eq!(read(&scratch, "results/1"), "here");
    assert_eq!(read(&scratch, "jobs/2.log"), "two  words\n");
    let again = finish(&mut scratch.knee(&["jobs", "run", "-o", "out", "--resume", "--json"]));
    again.assert_code(0).assert_stderr_has("2 of 2 jobs in out are done");
    let document: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((&document["done"], &document["failed"]), (&2.into(), &0.into()));
    let job = &document["jobs"][0];
    assert_eq!((&job["state"], &job["attempts"]), (&"done".into(), &0.into()));
    assert_eq!(job["command"], "cat input >$KNEE_OUT/$KNEE_JOB");
}

#[test]
fn a_list_can_come_from_standard_input() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("list"), "exit 1\n").unwrap();
    let run = |args: &[&str]| {
        let mut command = scratch.knee(&["jobs", "run", "-", "-o", "out", "--retries", "0"]);
        command.args(args).stdin(fs::File::open(scratch.path().join("list")).unwrap());
        finish(&mut command)
    };
    run(&[]).assert_code(4);
    // The same command with --resume does not need it again.
    fs::write(scratch.path().join("list"), "").unwrap();
    run(&["--resume"]).assert_code(4).assert_stdout_has("0 of 1 job done, 1 failed");
}

#[test]
fn a_failed_job_is_repeated_and_reported_if_it_keeps_failing() {
    let scratch = Scratch::new();
    let lines = ["test -e ran || { touch ran; exit 3; }", "echo broken; exit 7", "kill -9 $$"];
    let failed = finish(&mut jobs(&scratch, &lines, &["--retries", "1", "--json"]));
    failed.assert_code(4);
    let document: Value = serde_json::from_str(&failed.stdout).unwrap();
    let of = |nr: usize, member: &str| document["jobs"][nr][member].clone();
    assert_eq!((of(0, "state"), of(0, "attempts")), ("done".into(), 2.into()));
    assert_eq!((of(1, "state"), of(1, "attempts")), ("failed".into(), 2.into()));
    let again = ["--resume", "--retries", "0"];
    finish(&mut jobs(&scratch, &lines, &again))
        .assert_code(4)
        .assert_stdout_has("job 2 exited with status 7: broken (output: out/jobs/2.log)")
        .assert_stdout_has("job 3 was killed by SIGKILL (output: out/jobs/3.log)")
        .assert_stdout_has("1 of 3 jobs done, 2 failed");
}

#[test]
fn the_jobs_of_a_killed_knee_end_and_resume_runs_those_that_are_not_done() {
    let scratch = Scratch::new();
    let lines = [
        "echo 1 >>first",
        "trap '' TERM; echo $$ >second; test -e go || sleep 300; test -e go",
        "touch third; test -e go || { sleep 300 & sleep 300; }; test -e go",
    ];
    let mut knee = start_telling(&mut jobs(&scratch, &lines, &["-j", "3"]), Stdio::null());
    let file = |name: &str| scratch.path().join(name);
    let under_way = || file("out/jobs/1.status").exists() && file("third").exists();
    wait_until("all jobs have begun", || under_way() && file("second").exists());
    let lines_of_other = jobs(&scratch, &lines, &["--resume"]).output().unwrap();
    assert_eq!(lines_of_other.status.code(), Some(2), "{lines_of_other:?}");
    signal(&knee, Signal::KILL);
    knee.wait().unwrap();
    wait_until("no job is left", || processes_in(scratch.path()).is_empty());
    fs::write(file("go"), "").unwrap();
    finish(&mut jobs(&scratch, &lines, &[])).assert_code(2).assert_stderr_has("with --resume");
    let resumed = finish(&mut jobs(&scratch, &lines, &["--resume"]));
    resumed.assert_code(0).assert_stderr_has("1 of 3 jobs in out are done");
    assert_eq!(fs::read_to_string(file("first")).unwrap(), "1\n");
}

/// A host removes the directory of its jobs as soon as the connection ends, at the same time as the jobs.
#[test]
fn a_job_ends_with_knee_even_if_its_directory_is_gone() {
    let scratch = Scratch::new();
    let lines = ["touch begun; sleep 300"];
    let mut knee = start_telling(&mut jobs(&scratch, &lines, &[]), Stdio::null());
    wait_until("the job runs", || scratch.path().join("begun").exists());
    fs::remove_dir_all(scratch.path().join("out")).unwrap();
    signal(&knee, Signal::KILL);
    knee.wait().unwrap();
    wait_until("no job is left", || processes_in(scratch.path()).is_empty());
}

#[test]
fn a_job_that_knee_ended_is_not_done_even_if_it_ends_well() {
    let scratch = Scratch::new();
    let lines = ["trap 'exit 0' TERM; touch begun; test -e go || while :; do sleep 0.1; done"];
    let knee = start_telling(&mut jobs(&scratch, &lines, &[]), Stdio::piped());
    wait_until("the job runs", || scratch.path().join("begun").exists());
    signal(&knee, Signal::INT);
    ended(knee).assert_code(130).assert_stderr_has("interrupted after 0 of 1 job");
    wait_until("no job is left", || processes_in(scratch.path()).is_empty());
    fs::write(scratch.path().join("go"), "").unwrap();
    let resumed = finish(&mut jobs(&scratch, &lines, &["--resume"]));
    resumed.assert_code(0).assert_stderr_has("0 of 1 job in out are done");
    assert_eq!(fs::read_dir(scratch.path().join("out/jobs")).unwrap().count(), 2);
}

#[test]
fn no_signal_is_blocked_in_a_job() {
    let scratch = Scratch::new();
    let lines = ["grep -Eq '^SigBlk:.0+$' /proc/self/status"];
    finish(&mut jobs(&scratch, &lines, &["--retries", "0"])).assert_code(0);
}

#[test]
fn a_default_acl_does_not_let_others_write_to_the_status_of_a_job() {
    let scratch = Scratch::new();
    // See linux/posix_acl_xattr.h. The owner and a user may write by default.
    let entry = |tag: u16, permissions: u16, id: u32| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let nobody = u32::MAX;
    let acl = [
        2_u32.to_le_bytes().to_vec(),
        entry(0x01, 7, nobody),
        entry(0x02, 7, 1234),
        entry(0x04, 5, nobody),
        entry(0x10, 7, nobody),
        entry(0x20, 5, nobody),
    ];
    let (name, flags) = ("system.posix_acl_default", rustix::fs::XattrFlags::empty());
    if let Err(error) = rustix::fs::setxattr(scratch.path(), name, &acl.concat(), flags) {
        return skip("acl", format!("the file system has no access control lists: {error}"));
    }
    finish(&mut jobs(&scratch, &["true"], &[])).assert_code(0);
    // The group bits of a file with such a list are the most that it permits to the user.
    for file in ["", "1.status", "1.log"] {
        let file = scratch.path().join("out/jobs").join(file);
        assert_eq!(mode(&file) & 0o022, 0, "{}", file.display());
    }
}

#[test]
fn nobody_else_can_write_to_the_status_of_a_job_whatever_the_umask() {
    let scratch = Scratch::new();
    let command = jobs(&scratch, &["umask"], &[]);
    finish(&mut without_umask(&command)).assert_code(0);
    for file in ["1.status", "1.log"] {
        let file = scratch.path().join("out/jobs").join(file);
        assert_eq!(mode(&file) & 0o022, 0, "{}", file.display());
    }
    assert_eq!(read(&scratch, "jobs/1.log"), "0000\n", "the job keeps the umask");
}

#[test]
fn ctrl_c_ends_all_jobs_and_prints_the_command_that_continues() {
    let scratch = Scratch::new();
    let lines = ["true", "touch begun; test -e go || sleep 300; test -e go", "test -e go"];
    let mut command = jobs(&scratch, &lines, &["-j", "1"]);
    let knee = start_telling(&mut command, Stdio::piped());
    wait_until("a job runs", || scratch.path().join("begun").exists());
    signal(&knee, Signal::INT);
    let interrupted = ended(knee);
    interrupted.assert_code(130).assert_stderr_has(
        "interrupted after 1 of 3 jobs; to continue: knee jobs run list -o out -j 1 --resume",
    );
    assert!(processes_in(scratch.path()).is_empty());
    fs::write(scratch.path().join("go"), "").unwrap();
    let resumed = finish(&mut jobs(&scratch, &lines, &["--resume"]));
    resumed.assert_code(0).assert_stdout_has("3 of 3 jobs done");
}

#[test]
fn exclusive_jobs_run_one_at_a_time() {
    let scratch = Scratch::new();
    let lines = ["mkdir busy && sleep 0.1 && rmdir busy"; 4];
    let args = ["--exclusive", "--retries", "0"];
    finish(&mut jobs(&scratch, &lines, &args)).assert_code(0);
    let both = finish(&mut jobs(&scratch, &lines, &["--exclusive", "-j", "2", "--resume"]));
    both.assert_code(2).assert_stderr_has("leave out --jobs");
}

#[test]
fn a_list_or_directory_that_cannot_be_used_is_reported() {
    let scratch = Scratch::new();
    finish(&mut jobs(&scratch, &["true"], &[])).assert_code(0);
    finish(&mut jobs(&scratch, &["false"], &["--resume"]))
        .assert_code(2)
        .assert_stderr_has("out contains other jobs: job 1 is `true`, not `false`");
    fs::write(scratch.path().join("work/mine"), "").unwrap();
    let run = |args: &str| {
        let mut command = scratch.knee(&["jobs", "run"]);
        finish(command.args(args.split(' ')))
    };
    run("list -o work").assert_code(2).assert_stderr_has("not empty and contains no jobs");
    run("list").assert_code(2).assert_stderr_has("--output DIR is required");
    run("missing -o new").assert_code(3).assert_stderr_has("cannot read missing");
    run("-o new --resume").assert_code(3).assert_stderr_has("new contains no jobs");
    run("list -o new --on nosuch").assert_code(2).assert_stderr_has("must be local, ssh:HOST");
    fs::write(scratch.path().join("list"), "# none\n").unwrap();
    run("list -o new").assert_code(3).assert_stderr_has("list contains no jobs");
    fs::write(scratch.path().join("list"), b"echo \xff\n").unwrap();
    run("list -o new").assert_code(3).assert_stderr_has("it is not UTF-8 text");
}

#[test]
fn shards_of_a_check_as_jobs_equal_the_check() {
    let scratch = Scratch::new();
    assert_shards_equal_the_whole(&scratch, |list| {
        finish(&mut scratch.knee(&["jobs", "run", list, "-o", "out"]))
    });
}

/// The types of the fields that the API of Kubernetes requires of an indexed job and of a ConfigMap, or that
/// this job relies on (batch/v1 JobSpec and v1 PodSpec, 1.29).
const REQUIRED: [(&str, &str); 19] = [
    ("/apiVersion", "\"v1\""),
    ("/kind", "\"List\""),
    ("/items/0/apiVersion", "\"v1\""),
    ("/items/0/kind", "\"ConfigMap\""),
    ("/items/0/data/list", "\"exit 3\\nexit 4\\n\""),
    ("/items/1/apiVersion", "\"batch/v1\""),
    ("/items/1/kind", "\"Job\""),
    ("/items/1/spec/completionMode", "\"Indexed\""),
    ("/items/1/spec/completions", "2"),
    ("/items/1/spec/parallelism", "1"),
    ("/items/1/spec/backoffLimitPerIndex", "5"),
    ("/items/1/spec/template/spec/restartPolicy", "\"Never\""),
    ("/items/1/spec/template/spec/containers/0/name", "\"job\""),
    ("/items/1/spec/template/spec/containers/0/image", "\"my/knee\""),
    ("/items/1/spec/template/spec/containers/0/command/0", "\"sh\""),
    ("/items/1/spec/template/spec/containers/0/volumeMounts/0/name", "\"jobs\""),
    ("/items/1/spec/template/spec/containers/0/volumeMounts/1/name", "\"out\""),
    ("/items/1/spec/template/spec/volumes/0/name", "\"jobs\""),
    ("/items/1/spec/template/spec/volumes/1/persistentVolumeClaim/claimName", "\"claim\""),
];

#[test]
fn the_manifest_for_kubernetes_is_an_indexed_job_that_runs_the_list() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("list"), "exit 3\nexit 4\n").unwrap();
    let run =
        |args: &[&str]| finish(scratch.knee(&["jobs", "run", "list", "--on", "k8s"]).args(args));
    run(&[]).assert_code(2).assert_stderr_has("--on k8s needs a LIST, --image");
    let options = ["--image", "my/knee", "--claim", "claim", "-j", "1", "--retries", "5"];
    let printed = run(&[&options[..], &["--exclusive"]].concat());
    let manifest: Value = serde_json::from_str(&printed.assert_code(0).stdout).unwrap();
    for (field, value) in REQUIRED {
        assert_eq!(manifest.pointer(field).unwrap().to_string(), value, "{field}");
    }
    let [config, job] = ["0", "1"].map(|nr| &manifest["items"][nr.parse::<usize>().unwrap()]);
    let name = config["metadata"]["name"].as_str().unwrap();
    let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(name.len() <= 63 && name.chars().all(is_of_name), "an RFC 1123 label: {name}");
    let spec = &job["spec"]["template"]["spec"];
    assert_eq!(spec["volumes"][0]["configMap"]["name"], name);
    let apart = &spec["affinity"]["podAntiAffinity"];
    let apart = &apart["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(apart["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(
        apart["labelSelector"]["matchLabels"],
        job["spec"]["template"]["metadata"]["labels"]
    );

    // The command of the pod, with directories in the place of its volumes.
    let [mounted, volume] = ["mounted", "volume"].map(|name| scratch.path().join(name));
    fs::create_dir(&mounted).unwrap();
    for file in ["list", "job"] {
        fs::write(mounted.join(file), config["data"][file].as_str().unwrap()).unwrap();
    }
    let command = spec["containers"][0]["command"][2].as_str().unwrap();
    let command = command
        .replace("/knee-jobs/", &format!("{}/", mounted.display()))
        .replace("/knee-out/", &format!("{}/", volume.display()));
    let pod = |index: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &command]).env("JOB_COMPLETION_INDEX", index).status().unwrap().code()
    };
    assert_eq!((pod("0"), pod("1")), (Some(3), Some(4)));
    let status = volume.join(name).join("jobs/2.status");
    assert!(fs::read_to_string(&status).unwrap().starts_with("4 "));
    fs::write(&status, "0 1 2 node\n").unwrap();
    assert_eq!(pod("1"), Some(0), "a job that is done is not run again");
}
