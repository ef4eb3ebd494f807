//! Jobs on hosts that ssh(1) reaches. The results of a job are copied back when the job ends.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use knee_host::process::{Tied, Ties, last_line, read_tail, readable, spawn, wait_readable};
use knee_host::shell::is_one_word;
use knee_host::ssh::{ANSWER_PATIENCE, Answer, Host, MOST_BYTES};

use super::directory::Directory;
use super::machine::{Machine, ends_before, ends_within, run_tied};
use super::received::Received;
use crate::stderr::tell;

/// Jobs at a time on one connection. By default, sshd allows ten sessions per connection (`MaxSessions`), and
/// one of them holds the temporary directory.
const MAX_SEATS: usize = 8;
/// How long the temporary directory of a host may take to disappear.
const REMOVE: Duration = Duration::from_secs(5);
/// How much of the end of its error output to keep.
const TAIL_BYTES: usize = 64 << 10;
/// The most memory that tar may map. It needs a few megabytes.
const TAR_MEMORY: u64 = 1 << 30;
/// More CPUs than any machine has.
const MOST_CPUS: usize = 10_000;
/// The most connections to a host without `-j`. Each takes megabytes here, and the host says how many it needs.
const MOST_CONNECTIONS: usize = 64;
/// A connection to a host.
pub(super) struct Connected<'a> {
    host: Host,
    /// The socket of the connection, which the sessions share.
    socket: PathBuf,
    /// The temporary directory on the host.
    remote: String,
    seats: usize,
    directory: &'a Directory,
    connection: Connection,
}

/// Connects to hosts, all at the same time, and prints which of them do not answer. `seats` is the number of
/// jobs at a time on each host; by default, the number of its CPUs, but at most the number of jobs, `most`. The
/// sockets are created in `sockets`.
///
/// # Errors
/// No host answers.
pub(super) fn connect<'a>(
    hosts: &[Host],
    seats: Option<usize>,
    most: usize,
    directory: &'a Directory,
    sockets: &Path,
) -> anyhow::Result<Vec<Connected<'a>>> {
    let connected: Vec<anyhow::Result<Vec<Connected<'a>>>> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (nr, host) in hosts.iter().enumerate() {
            let socket = sockets.join(format!("{nr}"));
            threads.push(scope.spawn(move || connections(host, seats, most, directory, &socket)));
        }
        let results = threads.into_iter().map(|thread| thread.join());
        results.map(|result| result.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let mut usable = Vec::new();
    for (host, connections) in hosts.iter().zip(connected) {
        match connections {
            Ok(connections) => usable.extend(connections),
            Err(error) => tell!("knee: {} runs no jobs: {error:#}", host.name()),
        }
    }
    ensure!(
        !usable.is_empty(),
        "none of the hosts can run jobs; repair the hosts, then continue with --resume"
    );
    Ok(usable)
}

/// As many connections to a host as its jobs need, which are at most `most`.
fn connections<'a>(
    host: &Host,
    seats: Option<usize>,
    most: usize,
    directory: &'a Directory,
    socket: &Path,
) -> anyhow::Result<Vec<Connected<'a>>> {
    let mut all = Vec::new();
    let mut left = seats.map(|seats| seats.min(most));
    let until = Instant::now() + ANSWER_PATIENCE;
    loop {
        let socket = socket.with_extension(all.len().to_string());
        let (mut connected, cpus) = Connected::connect(host, directory, socket, until)?;
        let seats = left.unwrap_or(cpus.min(most).min(MOST_CONNECTIONS * MAX_SEATS));
        connected.seats = seats.min(MAX_SEATS);
        left = Some(seats - connected.seats);
        all.push(connected);
        if left == Some(0) {
            return Ok(all);
        }
    }
}

impl<'a> Connected<'a> {
    /// Connects to a host, and copies the list and the script to it. Also returns the number of its CPUs.
    fn connect(
        host: &Host,
        directory: &'a Directory,
        socket: PathBuf,
        until: Instant,
    ) -> anyhow::Result<(Self, usize)> {
        let mut ssh = command(&host.connection(&socket));
        ssh.process_group(0);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = spawn(&mut ssh, Ties::default());
        let mut connection =
            Connection { ssh: child.context("cannot start ssh (openssh-client)")?, left: None };
        let Answer { cpus, directory: remote, .. } = connection.answer(until)?;
        ensure!(
            is_one_word(&remote),
            "its temporary directory {remote} contains characters that are special to a shell; set TMPDIR there"
        );
        let cpus = if cpus.len() <= MOST_CPUS { cpus.len() } else { 1 };
        let host = host.clone();
        let connected = Self { host, socket, remote, seats: 1, directory, connection };
        connected.copy(&directory.list(), "list", until)?;
        connected.copy(&directory.script(), "job", until)?;
        Ok((connected, cpus))
    }

    /// A session that runs a command.
    fn session(&self, line: &str) -> Command {
        command(&self.host.session(&self.socket, line))
    }

    /// Copies a file to the host.
    fn copy(&self, file: &Path, name: &str, until: Instant) -> anyhow::Result<()> {
        let content =
            File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut session = self.session(&format!("cat >{}/{name}", self.remote));
        session.stdin(content).stdout(Stdio::null()).stderr(Stdio::piped());
        let session = spawn(&mut session, Ties::bound()).context("cannot start ssh")?;
        let mut session = Tied(session);
        let left = until.saturating_duration_since(Instant::now());
        ensure!(ends_within(&session.0, left)?, "{}", no_answer());
        let message = session.0.stderr.take().and_then(last_message);
        let is_copied = session.0.wait()?.success();
        ensure!(is_copied, "cannot copy the list of jobs: {}", message.unwrap_or_default());
        Ok(())
    }

    /// Copies the results of a job, its output and, after these, its status into the local directory. Ends early if
    /// `stop` is closed, because a host can send a part of an archive, and no end.
    fn copy_back(&self, job: usize, stop: BorrowedFd<'_>) -> anyhow::Result<()> {
        let here = format!("{}/{job}", self.remote);
        let paths = Directory::written_by(job);
        let written = paths.each_ref().map(|path| path.to_string_lossy()).join(" ");
        let mut session = self.session(&format!("tar -C {here} -cf - {written} && rm -rf {here}"));
        session.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let pack = spawn(&mut session, Ties::bound()).context("cannot start ssh")?;
        let mut pack = Tied(pack);
        let packed = pack.0.stdout.take().context("ssh has no standard output")?;
        let received = Received::create(self.directory.path())
            .with_context(|| format!("cannot write to {}", self.directory.path().display()))?;
        // Nothing else, such as another list.
        let mut unpack = Command::new("tar");
        unpack.args(["-xf", "-", "--no-same-owner", "--no-same-permissions", "-C"]);
        unpack.arg(received.path()).args(&paths);
        unpack.stdin(packed).stdout(Stdio::null()).stderr(Stdio::piped());
        // tar reads names of any length into memory.
        let ties = Ties { memory: Some(TAR_MEMORY), ..Ties::bound() };
        let unpack = spawn(&mut unpack, ties).context("cannot start tar")?;
        let mut both = [pack, Tied(unpack)];
        // A program with a warning for each file would wait for a reader.
        let pipes = both.each_mut().map(|program| program.0.stderr.take());
        let messages = pipes.map(|pipe| thread::spawn(move || last_message(pipe?)));
        for program in &both {
            if !ends_before(&program.0, stop)? {
                return Ok(());
            }
        }
        let mut have_succeeded = true;
        for Tied(program) in &mut both {
            have_succeeded &= program.wait()?.success();
        }
        let mut messages = messages.into_iter().map(|message| message.join().ok().flatten());
        ensure!(have_succeeded, "{}", messages.find_map(|message| message).unwrap_or_default());
        received.accept(&paths, self.directory.path())
    }
}

impl Machine for Connected<'_> {
    fn name(&self) -> &str {
        self.host.name()
    }

    fn seats(&self) -> usize {
        self.seats
    }

    fn leave(&mut self) {
        self.connection.leave();
    }

    fn run(&self, job: usize, stop: BorrowedFd<'_>) -> anyhow::Result<String> {
        let remote = &self.remote;
        let mut session = self.session(&format!("sh {remote}/job {job} {remote}/{job} tied"));
        let message = run_tied(&mut session, stop).context("cannot start ssh")?;
        let [is_stopped] = readable([Some(stop)], Some(Instant::now()))?;
        if !is_stopped {
            self.copy_back(job, stop)
                .with_context(|| format!("cannot copy the results of job {job} ({message})"))?;
        }
        Ok(message)
    }
}

/// The last line of the error output of a program.
fn last_message(mut pipe: impl Read) -> Option<String> {
    let mut tail = Vec::new();
    while !read_tail(&mut pipe, &mut tail, TAIL_BYTES) {}
    last_line(&tail)
}

/// The command of this line. Its first word is the program.
fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

fn no_answer() -> String {
    format!("it did not answer within {} s", ANSWER_PATIENCE.as_secs())
}

/// The process that holds a connection. The connection ends when this value is dropped.
struct Connection {
    ssh: Child,
    /// When it began to end.
    left: Option<Instant>,
}

impl Connection {
    /// Begins to end, and returns when.
    fn leave(&mut self) -> Instant {
        drop(self.ssh.stdin.take());
        *self.left.get_or_insert_with(Instant::now)
    }

    /// What the host answers.
    ///
    /// # Errors
    /// There is no answer until then.
    fn answer(&mut self, until: Instant) -> anyhow::Result<Answer> {
        let mut stdout = self.ssh.stdout.take().context("ssh has no standard output")?;
        let mut printed = Vec::new();
        while printed.len() < MOST_BYTES {
            let left = until.saturating_duration_since(Instant::now());
            let mut part = [0; 4096];
            ensure!(wait_readable(&stdout, left), "{}", no_answer());
            match stdout.read(&mut part)? {
                0 => bail!("{}", self.failure()),
                length => printed.extend(&part[..length]),
            }
            if let Some(answer) = Answer::find(&printed) {
                return Ok(answer);
            }
        }
        bail!("{}", no_answer())
    }

    /// Why the host has printed nothing.
    fn failure(&mut self) -> String {
        self.leave();
        if !ends_within(&self.ssh, REMOVE).unwrap_or(false) {
            let _ = self.ssh.kill();
        }
        let message = self.ssh.stderr.take().and_then(last_message);
        message.unwrap_or_else(|| "ssh cannot run a command there".to_owned())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let patience = REMOVE.saturating_sub(self.leave().elapsed());
        let _ = ends_within(&self.ssh, patience);
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}
