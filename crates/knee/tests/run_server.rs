//! Servers as testcases. The server is a small one that knee-load has as an example.

mod support;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use knee_host::process::Tied;
use knee_host::shell::word;
use rustix::process::{Signal, geteuid};
use support::{
    Finished, Scratch, describe, describe_commanded, example, finish, processes_in, signal, skip,
    start, wait_until,
};

/// `knee run` with few and short rounds.
fn run(scratch: &Scratch, args: &[&str]) -> Finished {
    let mut command =
        scratch.knee(&["run", "-q", "--patience", "1", "-r", "1", "-t", "1", "-o", "record"]);
    // On a busy machine, a shorter interval may contain no reply.
    finish(command.args(["--interval", "1", "--warmup", "0.05"]).args(args))
}

/// Measures a server with this behaviour, which fails for this reason.
fn fails(behaviour: &str, more: &str, args: &[&str], code: i32, reasons: &[&str]) {
    let scratch = Scratch::new();
    describe(&scratch, "bad", behaviour, more);
    describe(&scratch, "good", "", "");
    let failed = run(&scratch, &[&["bad.toml", "good.toml"], args].concat());
    failed.assert_code(code);
    for reason in reasons {
        failed.assert_stdout_has(reason);
    }
    let measured = scratch.measured();
    assert!(measured.iter().all(|line| line["testcase"] == "good"), "{measured:?}");
    assert_eq!(measured.len(), 1, "the other server is measured");
    wait_until("no process is left", || processes_in(scratch.path()).is_empty());
    assert!(scratch.leftovers().is_empty());
}

#[test]
fn a_server_is_measured_and_leaves_nothing() {
    let scratch = Scratch::new();
    describe(&scratch, "echo", "", "");
    run(&scratch, &["echo.toml"]).assert_code(0);
    let measured = scratch.measured();
    let [line] = &measured[..] else { panic!("one sample") };
    assert!(line["total"].as_f64().unwrap() > 0.0, "{line}");
    let server = &line["server"];
    assert!(server["server_cpu"].as_f64().unwrap() > 0.0, "{line}");
    assert!(server["load_cpu"].as_f64().unwrap() > 0.0, "{line}");
    assert!((0.0..=1.0).contains(&server["server_busy"].as_f64().unwrap()), "{line}");
    assert!(scratch.leftovers().is_empty());
    support::assert_schema("sample", line);
    support::assert_schema("run", &scratch.run_json());
    assert_eq!(scratch.run_json()["cases"][0]["family"], "server");
    let csv = finish(&mut scratch.knee(&["show", "record", "--format", "csv"]));
    csv.assert_code(0)
        .assert_stdout_has(",server_busy,load_busy,cpu_per_request,shared,latency_p50");
    finish(&mut scratch.knee(&["compare", "record", "record"])).assert_code(0);
    finish(&mut scratch.knee(&["report", "record", "-o", "page.html"])).assert_code(0);
}

#[test]
fn a_server_that_is_not_busy_serves_at_least_the_rate() {
    let scratch = Scratch::new();
    describe(&scratch, "idle", "idle", "");
    let idle = run(&scratch, &["idle.toml", "--detail"]);
    idle.assert_code(0).assert_stdout_has("≥");
    let json = finish(&mut scratch.knee(&["show", "record", "--format", "json"]));
    let json: serde_json::Value = serde_json::from_str(&json.assert_code(0).stdout).unwrap();
    let point = &json["curves"][0]["points"][0];
    assert_eq!(point["lower_bound"], true);
    assert!(point["efficiency"].is_null(), "{point}");
}

#[test]
fn a_command_can_generate_the_load() {
    let scratch = Scratch::new();
    let server = example("knee-load", "line_server");
    let text = format!(
        "name = 'commanded'\nunit = 'transactions'\nsetup = ['echo made > {{dir}}/file']\n\
         prepare = ['test -e {{dir}}/file -a -e {{dir}}/my.conf']\n\
         [files]\n'my.conf' = 'port {{port}}'\n\
         [server]\ncommand = '{} {{port}}'\n[ready]\noutput = 'ready'\n\
         [load]\ncommand = 'sleep {{seconds}}; echo tps = 1{{tasks}}.5 of {{connections}}'\nread = 'tps = #'\n",
        server.display()
    );
    fs::write(scratch.path().join("commanded.toml"), text).unwrap();
    run(&scratch, &["commanded.toml"]).assert_code(0);
    let measured = scratch.measured();
    let [line] = &measured[..] else { panic!("one sample") };
    assert_eq!(line["total"], 11.5);
}

#[test]
fn a_server_that_never_gets_ready_fails_its_point() {
    let ready = "[ready]\nseconds = 0.2\n";
    let reasons =
        ["was not ready within 0.2 s: it did not accept connections", "never-ready at port"];
    fails("never-ready", ready, &[], 4, &reasons);
    let output = "[ready]\noutput = 'listening'\nseconds = 0.2\n";
    fails("", output, &[], 4, &["it did not print \"listening\""]);
    let command = "[ready]\ncommand = 'false'\nseconds = 0.2\n";
    fails("", command, &[], 4, &["within 0.2 s: the ready command `false` exited with status 1"]);
}

#[test]
fn a_server_that_dies_fails_its_point_with_its_last_lines() {
    let reasons = ["exited with status 3 before it was ready", "line_server: no configuration"];
    fails("die-at-start", "", &[], 4, &reasons);
    let reasons = ["exited with status 4 after it was ready", "line_server: out of memory"];
    fails("die-under-load", "", &[], 4, &reasons);
}

#[test]
fn wrong_and_missing_replies_fail_the_point() {
    let printed = "the server printed: ready | line_server: garbage at port";
    fails("garbage", "", &[], 4, &["the server replied: \"sorry\\n\"", printed]);
    fails("silent", "", &[], 4, &["the server did not reply in time"]);
}

#[test]
fn a_port_in_use_is_reported() {
    let scratch = Scratch::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    describe(&scratch, "fixed", "", "");
    let file = scratch.path().join("fixed.toml");
    let text = fs::read_to_string(&file).unwrap().replace("{port}", &port.to_string());
    fs::write(&file, text).unwrap();
    let failed = run(&scratch, &["fixed.toml"]);
    failed.assert_code(3).assert_stdout_has(&format!("127.0.0.1:{port} is in use"));
    assert!(scratch.leftovers().is_empty());
}

/// A copy of the server that each user can run.
fn public_server(scratch: &Scratch) -> PathBuf {
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = scratch.path().join("public_server");
    fs::copy(example("knee-load", "line_server"), &copy).unwrap();
    copy
}

#[test]
fn a_server_of_another_user_is_not_measured() {
    if !geteuid().is_root() {
        return skip("root", "only root can run a server as another user");
    }
    let scratch = Scratch::new();
    let other = public_server(&scratch);
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = format!(
        "name = 'robbed'\n\
         setup = ['touch {{here}}/begun; until [ -e {{here}}/taken ]; do sleep 0.01; done']\n\
         [server]\ncommand = 'sleep 600'\n\
         [load]\naddress = '{address}'\n\
         request = [{{ send = 'hello\\n', expect = 'ok', reply_ends = '\\n' }}]\n"
    );
    fs::write(scratch.path().join("robbed.toml"), text).unwrap();
    let robbed = thread::scope(|scope| {
        let knee = scope.spawn(|| run(&scratch, &["robbed.toml"]));
        let exists = |name: &str| scratch.path().join(name).exists();
        wait_until("the port was free", || exists("begun"));
        let mut thief = Command::new(other);
        thief
            .arg(address.port().to_string())
            .uid(65534)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let _thief = Tied(thief.spawn().unwrap());
        wait_until("the port is taken", || TcpStream::connect(address).is_ok());
        fs::write(scratch.path().join("taken"), "").unwrap();
        knee.join().unwrap()
    });
    let reason =
        format!("a program of user 65534, not the server, accepts connections at {address}");
    robbed.assert_code(3).assert_stdout_has(&reason);
    assert!(scratch.leftovers().is_empty());
}

#[test]
fn a_server_that_changes_its_user_is_measured() {
    if !geteuid().is_root() {
        return skip("root", "only root can run a server as another user");
    }
    let scratch = Scratch::new();
    let server = public_server(&scratch);
    describe(&scratch, "changed", "", "");
    let file = scratch.path().join("changed.toml");
    let text = fs::read_to_string(&file).unwrap();
    let (_, arguments) = text.split_once("line_server ").unwrap();
    let command = format!("setpriv --reuid 65534 --clear-groups {}", server.display());
    fs::write(&file, format!("name = 'changed'\n[server]\ncommand = '{command} {arguments}"))
        .unwrap();
    run(&scratch, &["changed.toml"]).assert_code(0);
    assert_eq!(scratch.measured().len(), 1);
}

#[test]
fn no_server_has_a_terminal() {
    if Command::new("script").arg("--version").output().is_err() {
        return skip("script", "bsdutils is not installed");
    }
    let scratch = Scratch::new();
    let open = "(: </dev/tty) 2>/dev/null";
    let on_terminal = |line: &str| {
        let mut script = Command::new("script");
        script.args(["-qec", line, "/dev/null"]).current_dir(scratch.path()).stdin(Stdio::null());
        script
    };
    finish(&mut on_terminal(&format!("{open} && echo a terminal"))).assert_stdout_has("a terminal");
    // Without a terminal, opening it fails.
    let server = format!("{open} || echo ready; exec sleep 600");
    let users = [("own", ""), ("other", "user = 'nobody'")];
    for (name, user) in users.into_iter().take(if geteuid().is_root() { 2 } else { 1 }) {
        let text = format!(
            "name = '{name}'\n[server]\ncommand = '{server}'\n{user}\n\
             [ready]\noutput = 'ready'\nseconds = 5\n\
             [load]\ncommand = 'sleep 1; echo 5'\n"
        );
        let file = format!("{name}.toml");
        fs::write(scratch.path().join(&file), text).unwrap();
        let knee = scratch.knee(&["run", &file, "-t", "1", "-r", "1", "-q", "-o", name]);
        let words = [knee.get_program()].into_iter().chain(knee.get_args());
        let line: Vec<_> = words.map(word).collect();
        let mut terminal = on_terminal(&line.join(" "));
        for (name, value) in knee.get_envs() {
            terminal.env(name, value.unwrap_or_default());
        }
        finish(&mut terminal);
        let samples = fs::read_to_string(scratch.path().join(name).join("samples.jsonl"));
        assert!(!samples.unwrap_or_default().is_empty(), "{name}");
    }
}

#[test]
fn list_checks_descriptions_without_running_them() {
    let scratch = Scratch::new();
    describe(&scratch, "good", "", "");
    let file = scratch.path().join("good.toml");
    let text = format!("description = 'says hello'\n{}", fs::read_to_string(&file).unwrap());
    fs::write(&file, &text).unwrap();
    let list = |args: &[&str]| finish(scratch.knee(&["list"]).args(args));
    let shown = list(&["good.toml", "redis"]);
    shown.assert_code(0).assert_stdout_has("says hello").assert_stdout_has("redis-server");
    let json = list(&["good.toml", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.assert_code(0).stdout).unwrap();
    assert_eq!(json["testcases"].as_array().unwrap().len(), 1);
    assert_eq!(json["testcases"][0]["name"], "good");
    assert_eq!(list(&["good.toml", "--toml"]).assert_code(0).stdout, text);

    fs::write(&file, text.replace("connections", "conections")).unwrap();
    list(&["good.toml"]).assert_code(2).assert_stderr_has("good.toml: line ");
    list(&["none.toml"]).assert_code(3).assert_stderr_has("cannot read none.toml");
    assert!(scratch.leftovers().is_empty());
}

#[test]
fn too_few_descriptors_are_reported_with_the_limit() {
    let scratch = Scratch::new();
    describe(&scratch, "large", "", "");
    let file = scratch.path().join("large.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("connections = 4", "connections = 4000000000")).unwrap();
    let failed = run(&scratch, &["large.toml"]);
    failed
        .assert_code(3)
        .assert_stdout_has("connections need 4000000064 open files, but the limit is");
}

#[test]
fn a_pattern_that_never_matches_is_reported_with_the_last_line() {
    let scratch = Scratch::new();
    describe_commanded(&scratch, "silent", "sleep {seconds}; echo 7 done");
    let failed = run(&scratch, &["silent.toml"]);
    failed.assert_code(4).assert_stdout_has("printed no text that matches \"tps = #\"");
    failed.assert_stdout_has("its last line: \"7 done\"").assert_stdout_has("correct load.read");
}

#[test]
fn a_mistake_in_the_description_is_reported_before_the_run() {
    let scratch = Scratch::new();
    describe(&scratch, "typo", "", "[stopp]\nseconds = 1\n");
    let refused = run(&scratch, &["typo.toml"]);
    refused.assert_code(2).assert_stderr_has("typo.toml: line ");
    refused.assert_stderr_has("unknown key stopp (did you mean stop");
    run(&scratch, &["missing.toml"]).assert_stderr_has("missing.toml");
    run(&scratch, &["ngnix"]).assert_code(2).assert_stderr_has("nginx");
    describe(&scratch, "good", "", "");
    run(&scratch, &["good.toml", "getppid1"]).assert_code(2).assert_stderr_has("separate runs");
    run(&scratch, &["good.toml", "good.toml"])
        .assert_code(2)
        .assert_stderr_has("two servers are named good");
    run(&scratch, &["pgbench_select", "--interval", "0.4"])
        .assert_code(2)
        .assert_stderr_has("--interval 0.4: the load of pgbench_select takes only whole seconds");
    run(&scratch, &["good.toml", "-s", "7"]).assert_code(2).assert_stderr_has("-s 7");
    run(&scratch, &["good.toml", "-m", "threads"]).assert_code(2).assert_stderr_has("-m threads");
    assert!(!scratch.record().exists());
}

#[test]
fn a_missing_program_is_reported_with_its_package() {
    let needs = "[[needs]]\nprogram = 'no-such-program'\npackage = 'the-package'\n";
    let scratch = Scratch::new();
    describe(&scratch, "needy", "", needs);
    let failed = run(&scratch, &["needy.toml"]);
    failed.assert_code(3).assert_stdout_has("the program no-such-program is missing");
    failed.assert_stdout_has("apt-get install the-package");
    // The shell finds out, if the description does not say what it needs.
    let scratch = Scratch::new();
    let text = "name = 'absent'\n[server]\ncommand = 'no-such-program {port}'\n[ready]\noutput = 'up'\n\
                [load]\ncommand = 'true'\n";
    fs::write(scratch.path().join("absent.toml"), text).unwrap();
    let failed = run(&scratch, &["absent.toml"]);
    failed.assert_code(3).assert_stdout_has("install the program, or correct the command");
}

#[test]
fn a_server_that_ignores_its_stop_signal_is_killed() {
    let scratch = Scratch::new();
    describe(&scratch, "stubborn", "", "[stop]\nsignal = 'TERM'\nseconds = 0.1\n");
    let file = scratch.path().join("stubborn.toml");
    let text = fs::read_to_string(&file).unwrap();
    let (before, after) = text.split_once("command = '").unwrap();
    // An ignored signal stays ignored in the program that the shell executes.
    fs::write(&file, format!("{before}command = 'trap \"\" TERM; exec {after}")).unwrap();
    run(&scratch, &["stubborn.toml"]).assert_code(0).assert_stdout_has(
        "the server stubborn left 1 process running (line_server) 0.1 s after SIGTERM, so",
    );
    assert!(scratch.leftovers().is_empty());
    wait_until("no process is left", || lines_of("line_server", &scratch).is_empty());
}

/// The processes of `program` that this test has started.
fn lines_of(program: &str, scratch: &Scratch) -> Vec<String> {
    let work = scratch.work().canonicalize().unwrap();
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_in_work = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&work))
    };
    let lines = pids.filter(is_in_work).filter_map(|pid| {
        fs::read_to_string(format!("/proc/{pid}/cmdline")).ok().map(|line| line.replace('\0', " "))
    });
    lines.filter(|line| line.contains(program)).collect()
}

#[test]
fn a_killed_knee_leaves_no_server() {
    let scratch = Scratch::new();
    describe(&scratch, "echo", "", "");
    let args =
        ["run", "-q", "-r", "1", "-t", "1", "--interval", "600", "-o", "record", "echo.toml"];
    let mut knee = start(&mut scratch.knee(&args));
    wait_until("the server runs", || !lines_of("line_server", &scratch).is_empty());
    signal(&knee, Signal::KILL);
    knee.wait().unwrap();
    wait_until("no server is left", || lines_of("line_server", &scratch).is_empty());
    wait_until("no file is left", || scratch.leftovers().is_empty());
}

#[test]
fn an_interrupted_run_of_a_server_is_resumed() {
    let scratch = Scratch::new();
    describe(&scratch, "echo", "", "");
    let args = ["run", "-q", "-r", "2", "-t", "1", "--interval", "1", "-o", "record", "echo.toml"];
    let mut knee = start(&mut scratch.knee(&args));
    wait_until("the server runs", || !lines_of("line_server", &scratch).is_empty());
    signal(&knee, Signal::INT);
    assert_eq!(knee.wait().unwrap().code(), Some(130));
    assert!(lines_of("line_server", &scratch).is_empty() && scratch.leftovers().is_empty());
    let resumed = finish(&mut scratch.knee(&["run", "--resume", "record"]));
    resumed.assert_code(0).assert_stderr_has("resuming runs server.command of ");
    assert!(scratch.measured().len() >= 2);
}

#[test]
fn servers_are_listed_and_their_descriptions_printed() {
    let scratch = Scratch::new();
    let listed = finish(&mut scratch.knee(&["list"]));
    listed
        .assert_code(0)
        .assert_stdout_has("nginx_connections")
        .assert_stdout_has("needs nginx (nginx-light)");
    let toml = finish(&mut scratch.knee(&["list", "memcached", "--toml"]));
    toml.assert_code(0).assert_stdout_has("name = \"memcached\"");
    finish(&mut scratch.knee(&["list", "mmap1", "--toml"])).assert_code(2);
    let json = finish(&mut scratch.knee(&["list", "--json", "family:server"]));
    let json: serde_json::Value = serde_json::from_str(&json.assert_code(0).stdout).unwrap();
    assert_eq!(json["testcases"].as_array().unwrap().len(), 6);
    assert_eq!(json["testcases"][0]["family"], "server");
}

#[test]
fn the_built_in_servers_are_measured() {
    for name in
        ["nginx", "nginx_connections", "memcached", "redis", "pgbench_select", "pgbench_tpcb"]
    {
        let scratch = Scratch::new();
        // If root runs the test, another user runs the server, and must be able to enter the directory.
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let finished = run(&scratch, &[name]);
        if finished.code == Some(3) && finished.stdout.contains("is missing") {
            skip("servers", finished.stdout);
            continue;
        }
        finished.assert_code(0);
        assert_eq!(scratch.measured().len(), 1, "{name}");
        assert!(scratch.leftovers().is_empty(), "{name}");
    }
}
