//! The host that generates the load in place of this machine.
//!
//! A round opens one connection to the host. Its sessions run the load with a [script](SCRIPT) that ends the load when
//! the connection ends. So nothing remains there if knee is interrupted or killed.

use std::ffi::OsString;
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use knee_host::process::keeper::Program;
use knee_host::shell::word;
use knee_host::ssh::{ANSWER_PATIENCE, Answer, Host, LONGEST_SOCKET, MOST_BYTES};
use knee_host::{CpuList, Interrupt};

use super::generator::LoadJob;
use super::output::{BEGUN, quoted};
use super::process::{Process, watch};
use crate::job::{Failure, FailureKind};
use crate::stopped::Stopped;

/// Runs the load in its variable `line`.
const SCRIPT: &str = include_str!("load.sh");
/// The program on the host, unless the description names another one.
const KNEE: &str = "knee";
/// What `knee --version` prints.
const VERSION: &str = concat!("knee ", env!("CARGO_PKG_VERSION"));
/// How long the host may take to remove its temporary directory.
const REMOVE: Duration = Duration::from_secs(5);

/// A connection to the host. Dropping it ends what still runs there.
pub(super) struct LoadHost {
    host: Host,
    socket: PathBuf,
    answer: Answer,
    round: PathBuf,
    connection: Process,
}

impl LoadHost {
    /// Connects to `host` for the round in the directory `round`.
    pub(super) fn connect(
        host: &Host,
        round: &Path,
        interrupt: &Interrupt,
    ) -> Result<Self, Stopped> {
        // Beside the directory of the round, which may belong to the user of the server: this user could put another
        // socket there.
        let socket = round.with_extension("ssh");
        if socket.as_os_str().len() > LONGEST_SOCKET {
            let reason = format!("the path {} is too long for a socket", socket.display());
            let remedy = "choose a shorter --dir";
            return Err(Failure::new(FailureKind::CannotRun, reason, remedy).into());
        }
        let mut connection = ssh(host, round, "the load host", "", host.connection(&socket))?;
        let until = Instant::now() + ANSWER_PATIENCE;
        let remedy = format!("`ssh {} true` must succeed without a question", word(host.name()));
        let answer = loop {
            if let Some(answer) = Answer::find(&connection.stdout) {
                break answer;
            }
            if connection.end().is_some() {
                let what = "cannot be reached";
                return Err(connection.failure(FailureKind::CannotRun, what, &remedy).into());
            }
            let is_endless = connection.stdout.len() >= MOST_BYTES;
            if is_endless || Instant::now() >= until {
                let what = format!("did not answer within {} s", ANSWER_PATIENCE.as_secs());
                let what = if is_endless { "prints no answer, but other text" } else { &what };
                return Err(connection.failure(FailureKind::CannotRun, what, &remedy).into());
            }
            watch(&mut [&mut connection], until, interrupt)?;
        };
        Ok(Self { host: host.clone(), socket, answer, round: round.to_owned(), connection })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        self.host.name()
    }

    /// The CPUs that the load may use there.
    pub(super) fn cpus(&self) -> &CpuList {
        &self.answer.cpus
    }

    /// Its temporary directory.
    pub(super) fn dir(&self) -> &str {
        &self.answer.directory
    }

    /// The address of this machine, as the host sees it.
    pub(super) fn client(&self) -> Result<IpAddr, Failure> {
        let failed = |reason: String| {
            let remedy = "write an address of this machine that the load host can reach in place of {address} in \
                          the description";
            Failure::new(FailureKind::CannotRun, reason, remedy)
        };
        let name = self.name();
        let Some(client) = self.answer.client else {
            return Err(failed(format!("{name} does not know the address of this machine")));
        };
        let client = client.to_canonical();
        if client.is_unspecified() || client.is_multicast() {
            return Err(failed(format!(
                "{name} sees the address {client}, which is not that of a machine"
            )));
        }
        // A router or another host may lie between.
        TcpListener::bind((client, 0)).map_err(|_| {
            failed(format!("{name} sees the address {client}, which this machine does not have"))
        })?;
        Ok(client)
    }

    /// Fails if the host does not have this version of knee, as the program `knee`.
    pub(super) fn require_knee(
        &self,
        knee: Option<&str>,
        interrupt: &Interrupt,
    ) -> Result<(), Stopped> {
        let program = program(knee);
        let mut check = self.start("the load host", "", &format!("exec {program} --version\n"))?;
        let until = Instant::now() + ANSWER_PATIENCE;
        while check.end().is_none() && Instant::now() < until {
            watch(&mut [&mut check], until, interrupt)?;
        }
        let Some(end) = check.end() else {
            let what =
                format!("did not run `{program} --version` within {} s", ANSWER_PATIENCE.as_secs());
            return Err(check
                .failure(FailureKind::CannotRun, &what, "log in to it to see why")
                .into());
        };
        let printed = String::from_utf8_lossy(&check.stdout);
        let version = printed.lines().rev().find(|line| line.starts_with("knee "));
        if version == Some(VERSION) {
            return Ok(());
        }
        let what = match version {
            Some(other) => format!("has {}, and this is {VERSION}", quoted(other)),
            None if end.code() == Some(127) => format!("has no program {program}"),
            None => format!("cannot run {program}"),
        };
        let this = std::env::current_exe().unwrap_or_else(|_| KNEE.into());
        let remedy = format!(
            "copy this knee with `scp {} {}:knee`, and write knee = \"./knee\" below [load]",
            word(&this),
            self.name()
        );
        Err(check.failure(FailureKind::CannotRun, &what, &remedy).into())
    }

    /// Starts the command `line`, which puts load on the server, in the temporary directory.
    pub(super) fn start_command(&self, line: &str) -> Result<Process, Failure> {
        let dir = word(self.dir());
        let script = format!("cd {dir} || exit\necho '{BEGUN}'\n{line}");
        self.start("the load", line, &format!("line={}\n{SCRIPT}", word(&script)))
    }

    /// Starts knee there, as the program `knee`, with this job.
    pub(super) fn start_knee(&self, knee: Option<&str>, job: &LoadJob) -> Result<Process, Failure> {
        let json = serde_json::to_string(job);
        let json =
            json.map_err(|error| Failure::runner(format!("cannot describe the load: {error}")))?;
        let (file, program) = (format!("{}/load.json", self.dir()), program(knee));
        let file = word(&file);
        let line = format!("exec {program} load --job <{file}");
        // JSON in one line does not contain the last line.
        let script =
            format!("cat >{file} <<'knee-end'\n{json}\nknee-end\nline={}\n{SCRIPT}", word(&line));
        self.start("the load", &format!("{program} load"), &script)
    }

    /// Starts a session that runs `script`, for the purpose `role` and the command `line`. Its standard input stays
    /// open.
    fn start(&self, role: &'static str, line: &str, script: &str) -> Result<Process, Failure> {
        let words = self.host.session(&self.socket, "exec sh");
        let mut session = ssh(&self.host, &self.round, role, line, words)?;
        session.send(script.as_bytes()).map_err(|error| {
            let what = format!("did not take its script of {} bytes: {error}", script.len());
            let remedy = "use shorter requests or a shorter command";
            session.failure(FailureKind::CannotRun, &what, remedy)
        })?;
        Ok(session)
    }

    /// Closes the connection, after which the host removes its temporary directory.
    pub(super) fn close(self, interrupt: &Interrupt) -> Result<(), Stopped> {
        self.connection.stop(REMOVE, interrupt).map(drop)
    }
}

/// Starts ssh.
fn ssh(
    host: &Host,
    round: &Path,
    role: &'static str,
    line: &str,
    words: Vec<OsString>,
) -> Result<Process, Failure> {
    let program = Program::new(words).in_round(round);
    let program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Process::on_host(role, line.to_owned(), host.name(), program)
}

/// The program knee as a word of a script. The script runs in the home directory of the user.
fn program(knee: Option<&str>) -> String {
    let knee = knee.unwrap_or(KNEE);
    let at_home = knee.strip_prefix("~/").map(|rest| format!("./{rest}"));
    word(at_home.as_deref().unwrap_or(knee)).into_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Output};

    use super::super::output;
    use super::*;

    /// Runs a load as on a host.
    fn run(line: &str, ends: bool) -> Output {
        let mut shell = Command::new("sh");
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let script = format!("line={}\n{SCRIPT}", word(&format!("echo '{BEGUN}'\n{line}")));
        let mut stdin = shell.stdin.take().unwrap();
        stdin.write_all(script.as_bytes()).unwrap();
        let stdin = (!ends).then_some(stdin);
        let output = shell.wait_with_output().unwrap();
        drop(stdin);
        output
    }

    #[test]
    fn a_load_has_an_output_a_status_and_cpu_time() {
        let busy = "i=0; while [ $i -lt 1000000 ]; do i=$((i + 1)); done; echo 'tps = 5'; exit 7";
        let done = run(busy, false);
        assert_eq!(done.status.code(), Some(7), "{done:?}");
        assert_eq!(output::of_load(&done.stdout, false), Some(&b"tps = 5\n"[..]), "{done:?}");
        assert!(output::cpu_seconds(&done.stdout).unwrap() > 0.0, "{done:?}");
    }

    #[test]
    fn a_load_ends_with_the_connection() {
        // It would take longer than any test.
        let done = run("trap '' TERM; sleep 3600 & sleep 3600; sleep 3600", true);
        assert!(!done.status.success(), "{done:?}");
    }

    #[test]
    fn knee_is_looked_for_in_the_home_directory() {
        assert_eq!(program(None), "knee");
        assert_eq!(program(Some("~/bin/my knee")), "'./bin/my knee'");
    }
}
