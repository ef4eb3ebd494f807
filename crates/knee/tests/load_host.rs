//! Servers whose load another host generates, here a private sshd. The tests are skipped, with a reason, if OpenSSH's
//! server or client is missing.

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use knee_host::{Topology, auto_tasks, cgroup};
use rustix::process::Signal;
use support::sshd::Server;
use support::{
    Finished, Scratch, example, finish, processes_in, signal, start, start_telling, wait_until,
};

/// Writes the description NAME.toml of a `line_server` with this behaviour, and these lines below [load].
fn describe(scratch: &Scratch, name: &str, behaviour: &str, load: &str) {
    let program = example("knee-load", "line_server");
    let text = format!(
        "name = '{name}'\ndescription = 'says hello'\n\
         [server]\ncommand = '{} {{port}} {behaviour}'\n[ready]\noutput = 'ready'\n\
         [load]\n{load}\n",
        program.display()
    );
    fs::write(scratch.path().join(format!("{name}.toml")), text).unwrap();
}

/// Lines below [load] for requests of this program knee on a host.
fn requests(host: &str, knee: &str) -> String {
    format!(
        "host = 'ssh:{host}'\nknee = '{knee}'\naddress = '{{address}}:{{port}}'\nconnections = 4\n\
         request = [{{ send = 'hello {{random:9}}\\n', expect = 'ok', reply_ends = '\\n' }}]"
    )
}

/// Lines below [load] for a command on a host.
fn command(line: &str) -> String {
    format!("host = 'ssh:alpha'\nread = 'tps = #'\ncommand = '''{line}'''")
}

const KNEE: &str = env!("CARGO_BIN_EXE_knee");

/// `knee run` with few and short rounds.
fn run(server: &Server, args: &[&str]) -> Finished {
    let mut command =
        server.scratch.knee(&["run", "-q", "--patience", "1", "-r", "1", "-o", "record"]);
    // On a busy machine, a shorter interval may contain no reply.
    server.use_in(command.args(["--interval", "1", "--warmup", "0.05"]).args(args));
    finish(&mut command)
}

/// Measures a server with this load, which fails for these reasons and leaves nothing.
fn fails(server: &Server, behaviour: &str, load: &str, code: i32, reasons: &[&str]) {
    describe(&server.scratch, "bad", behaviour, load);
    let _ = fs::remove_dir_all(server.scratch.record());
    let failed = run(server, &["-t", "1", "bad.toml"]);
    failed.assert_code(code);
    for reason in reasons {
        failed.assert_stdout_has(reason);
    }
    assert_nothing_is_left(server);
}

fn assert_nothing_is_left(server: &Server) {
    wait_until("no process is left", || processes_in(server.scratch.path()).is_empty());
    wait_until("no directory is left", || server.directories().is_empty());
}

/// A program in the scratch directory that passes for knee, and does this for `knee load`.
fn impostor(server: &Server, load: &str) -> PathBuf {
    let file = server.scratch.path().join("impostor");
    let script = format!("#!/bin/sh\n[ \"$1\" = load ] || exec {KNEE} \"$@\"\n{load}\n");
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
    file
}

#[test]
fn a_server_can_use_all_cpus_if_another_host_generates_the_load() {
    let Some(server) = Server::start() else { return };
    describe(&server.scratch, "echo", "", &requests("alpha", KNEE));
    run(&server, &["echo.toml"]).assert_code(0);
    let run = server.scratch.run_json();
    let most = auto_tasks(&Topology::read().unwrap(), cgroup::cpu_quota()).pop().unwrap();
    let tasks = run["request"]["tasks"].as_array().unwrap();
    assert_eq!(tasks.last().unwrap().as_u64(), Some(most.into()));
    assert_eq!(run["cases"][0]["server"]["load"]["host"], "ssh:alpha");
    support::assert_schema("run", &run);
    let measured = server.scratch.measured();
    assert_eq!(measured.len(), tasks.len());
    for line in measured {
        support::assert_schema("sample", &line);
        assert_eq!(line["server"]["shared"], false, "{line}");
        assert!(line["total"].as_f64().unwrap() > 0.0, "{line}");
        assert!(line["server"]["load_cpu"].as_f64().unwrap() > 0.0, "{line}");
        assert!((0.0..=1.0).contains(&line["server"]["load_busy"].as_f64().unwrap()), "{line}");
        assert!(line["latency"]["times"]["longest"].as_u64().unwrap() > 0, "{line}");
    }
    let json = finish(&mut server.scratch.knee(&["show", "record", "--format", "json"]));
    json.assert_code(0).assert_stdout_has("says hello; load from alpha");
    assert_nothing_is_left(&server);
}

#[test]
fn a_command_generates_the_load_in_a_directory_of_the_host() {
    let Some(server) = Server::start() else { return };
    let place = server.scratch.path().join("place");
    let line = format!(
        "printf \"%s\\n\" '{{dir}}' \"$PWD\" \"$SSH_CONNECTION\" it\\'s {{address}} >{}\n\
         sleep {{seconds}}; echo \"tps = 1{{tasks}}.5 with {{load_tasks}} CPUs\"",
        place.display()
    );
    describe(&server.scratch, "commanded", "", &command(&line));
    run(&server, &["-t", "1", "commanded.toml"]).assert_code(0);
    let measured = server.scratch.measured();
    let [line] = &measured[..] else { panic!("one sample") };
    assert_eq!(line["total"], 11.5);
    assert!((0.0..=1.0).contains(&line["server"]["load_busy"].as_f64().unwrap()), "{line}");
    let place = fs::read_to_string(place).unwrap();
    let lines: Vec<&str> = place.lines().collect();
    let [dir, here, connection, quoted, address] = lines[..] else { panic!("{place}") };
    assert!(dir.contains("/knee-host.") && dir == here, "{place}");
    assert!(connection.starts_with("127.0.0.1 "), "{place}");
    assert_eq!((quoted, address), ("it's", "127.0.0.1"));
    assert_nothing_is_left(&server);
}

#[test]
fn a_failed_load_is_reported_with_its_host_and_its_last_lines() {
    let Some(server) = Server::start() else { return };
    let dies = command("echo first; echo no memory >&2; exit 7");
    let reasons = [
        "no memory >&2; exit 7` on alpha exited with status 7; the load printed: \"first | no memory\"",
    ];
    fails(&server, "", &dies, 4, &reasons);
    let silent = command("sleep {seconds}; echo 7 done");
    let reasons =
        ["` on alpha printed no text that matches \"tps = #\"; its last line: \"7 done\""];
    fails(&server, "", &silent, 4, &reasons);
    let quiet = command("echo 7 done; exit 3");
    let reasons = ["exit 3` on alpha exited with status 3; the load printed: \"7 done\";"];
    fails(&server, "", &quiet, 4, &reasons);
    fails(&server, "", &command("no-such-load"), 3, &["on alpha exited with status 127"]);
    fails(
        &server,
        "garbage",
        &requests("alpha", KNEE),
        4,
        &["the server replied: \\\"sorry\\\\n\\\""],
    );
    let unreachable = requests("alpha", KNEE).replace("{port}", "1");
    let reasons = ["alpha reports \"cannot connect: Connection refused", "no firewall may block"];
    fails(&server, "", &unreachable, 4, &reasons);
}

#[test]
fn a_host_that_breaks_the_connection_fails_the_point() {
    let Some(server) = Server::start() else { return };
    // The shell of the script that runs the load is a child of sshd.
    let line = format!(
        "cd {}; touch begun; read -r _ _ _ sshd _ </proc/$PPID/stat; kill -9 $sshd; sleep 600",
        server.scratch.path().display()
    );
    fails(
        &server,
        "",
        &command(&line),
        4,
        &["sleep 600` on alpha exited with status 255 (as ssh does"],
    );
    assert!(server.scratch.path().join("begun").exists());
}

#[test]
fn a_host_that_cannot_generate_the_load_is_reported_with_a_remedy() {
    let Some(server) = Server::start() else { return };
    let gone = [
        "the load host gone cannot be reached; the load host printed: \"ssh: connect to host",
        "ssh gone true",
    ];
    fails(&server, "", &requests("gone", KNEE), 3, &gone);
    let missing = ["the load host alpha has no program no-such-knee", "scp ", " alpha:knee`"];
    fails(&server, "", &requests("alpha", "no-such-knee"), 3, &missing);
    let other = server.scratch.path().join("other");
    fs::write(&other, "#!/bin/sh\necho knee 0.0.0\n").unwrap();
    fs::set_permissions(&other, Permissions::from_mode(0o755)).unwrap();
    let version = ["the load host alpha has \"knee 0.0.0\", and this is knee "];
    fails(&server, "", &requests("alpha", other.to_str().unwrap()), 3, &version);
}

#[test]
fn what_a_host_prints_in_place_of_a_result_is_refused() {
    let Some(server) = Server::start() else { return };
    let begun = "echo 'knee-load begun'";
    for garbage in ["echo hello", "echo '{}'", "head -c 3000000 /dev/zero | tr '\\0' x"] {
        let knee = impostor(&server, &format!("{begun}; {garbage}"));
        let load = requests("alpha", knee.to_str().unwrap());
        fails(&server, "", &load, 4, &["load` on alpha printed no valid result"]);
    }
    let number = "echo '{\"done\":{\"seconds\":1,\"replies\":5,\"failures\":{\"errors\":0,\
                  \"wrong\":0,\"unanswered\":0,\"first\":null},\"latency\":null,\
                  \"lateness\":null,\"cpu\":1e300,\"workers\":1}}'";
    let knee = impostor(&server, &format!("{begun}; sleep 1; {number}"));
    let load = requests("alpha", knee.to_str().unwrap());
    fails(&server, "", &load, 4, &["load` on alpha printed no valid result"]);
}

/// A program `ssh` in a directory of the scratch directory.
fn false_ssh(scratch: &Scratch, script: &str) -> PathBuf {
    let bin = scratch.path().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("ssh"), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(bin.join("ssh"), Permissions::from_mode(0o755)).unwrap();
    bin
}

#[test]
fn ctrl_c_ends_the_wait_for_a_host_that_does_not_answer() {
    let scratch = Scratch::new();
    describe(&scratch, "echo", "", &requests("alpha", KNEE));
    let bin = false_ssh(&scratch, "cd \"${0%/bin/ssh}\"; touch asked; exec sleep 600");
    let mut command =
        scratch.knee(&["run", "-q", "-r", "1", "-t", "1", "-o", "record", "echo.toml"]);
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let mut knee = start(&mut command);
    wait_until("ssh runs", || scratch.path().join("asked").exists());
    signal(&knee, Signal::INT);
    assert_eq!(knee.wait().unwrap().code(), Some(130));
    assert!(processes_in(scratch.path()).is_empty() && scratch.leftovers().is_empty());
}

#[test]
fn a_missing_ssh_is_reported() {
    let scratch = Scratch::new();
    describe(&scratch, "echo", "", &requests("alpha", KNEE));
    let mut command =
        scratch.knee(&["run", "-q", "-r", "1", "-t", "1", "-o", "record", "echo.toml"]);
    let finished = finish(command.env("PATH", scratch.path()));
    finished.assert_code(3).assert_stdout_has("cannot start ssh: No such file");
    finished.assert_stdout_has("apt-get install openssh-client");
    assert!(scratch.leftovers().is_empty());
}

#[test]
fn a_host_chooses_no_address_that_this_machine_does_not_have() {
    let scratch = Scratch::new();
    describe(&scratch, "echo", "", &requests("alpha", KNEE));
    for (client, reason) in [
        ("192.0.2.1", "alpha sees the address 192.0.2.1, which this machine does not have"),
        ("0.0.0.0", "alpha sees the address 0.0.0.0, which is not that of a machine"),
        ("224.0.0.1", "alpha sees the address 224.0.0.1, which is not that of a machine"),
        ("$(reboot)", "alpha does not know the address of this machine"),
    ] {
        let script = format!(
            "for command; do :; done; case $command in *mktemp*) \
             echo 'knee-host 0-1 {client} /tmp/x'; exec cat;; *) exec {KNEE} --version;; esac"
        );
        let bin = false_ssh(&scratch, &script);
        let _ = fs::remove_dir_all(scratch.record());
        let mut command =
            scratch.knee(&["run", "-q", "-r", "1", "-t", "1", "-o", "record", "echo.toml"]);
        command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
        finish(&mut command).assert_code(3).assert_stdout_has(reason);
        fs::remove_dir_all(bin).unwrap();
    }
    assert!(scratch.leftovers().is_empty());
}

/// Lines for a load that runs until it is ended, and says that it runs.
fn endless(server: &Server) -> String {
    let line = "touch begun; trap \"\" TERM; sleep 300; sleep 300";
    command(&format!("cd {}; {line}", server.scratch.path().display()))
}

/// Starts a command of knee, and waits until the endless load runs.
fn start_endless(server: &Server, args: &[&str]) -> Child {
    let begun = server.scratch.path().join("begun");
    let _ = fs::remove_file(&begun);
    let mut command = server.scratch.knee(args);
    let knee = start_telling(server.use_in(&mut command), Stdio::piped());
    wait_until("the load runs", || begun.exists());
    knee
}

const ENDLESS: [&str; 9] = ["run", "-q", "-r", "1", "-t", "1", "-o", "record", "endless.toml"];

#[test]
fn ctrl_c_ends_the_load_on_its_host() {
    let Some(server) = Server::start() else { return };
    describe(&server.scratch, "endless", "", &endless(&server));
    // A record is code.
    for args in [&ENDLESS[..], &["run", "-q", "--resume", "record"]] {
        let knee = start_endless(&server, args);
        signal(&knee, Signal::INT);
        let ended = knee.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(130));
        assert_nothing_is_left(&server);
        let warning = "resuming runs the load of endless on alpha";
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(stderr.contains(warning), args.contains(&"--resume"), "{stderr}");
    }
}

#[test]
fn the_load_on_its_host_ends_if_knee_is_killed() {
    let Some(server) = Server::start() else { return };
    describe(&server.scratch, "endless", "", &endless(&server));
    let mut knee = start_endless(&server, &ENDLESS);
    signal(&knee, Signal::KILL);
    knee.wait().unwrap();
    assert_nothing_is_left(&server);
}

#[test]
fn a_comparison_names_loads_from_different_hosts() {
    let Some(server) = Server::start() else { return };
    let load = command("sleep {seconds}; echo tps = 5");
    let local = load.replace("host = 'ssh:alpha'\n", "");
    for (name, load) in [("here", local), ("there", load)] {
        describe(&server.scratch, "same", "", &load);
        run(&server, &["-t", "1", "same.toml"]).assert_code(0);
        fs::rename(server.scratch.record(), server.scratch.path().join(name)).unwrap();
    }
    let compared = finish(&mut server.scratch.knee(&["compare", "here", "there", "--detail"]));
    compared
        .assert_code(0)
        .assert_stdout_has("host of the load on same (this machine before, alpha after)");
}

#[test]
fn the_internal_option_of_a_load_host_refuses_other_input() {
    let refused = finish(&mut Scratch::new().knee(&["load", "--job"]));
    refused.assert_code(2).assert_stderr_has("--job is internal to `knee run` with load.host");
}

#[test]
fn a_profile_samples_a_server_under_the_load_of_another_host() {
    let Some(server) = Server::start() else { return };
    describe(&server.scratch, "echo", "", &requests("alpha", KNEE));
    let args = ["profile", "echo.toml", "-d", "1", "-q", "-o", "capture"];
    let mut command = server.scratch.knee(&args);
    let finished = finish(server.use_in(&mut command));
    if finished.stderr.contains("perf_event") {
        return support::skip("perf", finished.stderr);
    }
    finished.assert_code(0);
    assert_nothing_is_left(&server);
}
