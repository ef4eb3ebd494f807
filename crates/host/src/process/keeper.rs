//! Keepers: each program that knee starts for the user runs under a keeper, which ends the program with all of
//! its descendants, even if knee is killed. It cannot end those that have changed their user, unless knee runs as root.
//!
//! ```text
//! knee ── release, end ──▶ keeper ── fork ──▶ program ── fork ──▶ descendants
//!      ◀── process ID, status, names of the programs that were left ──
//! ```
//!
//! A process group loses a program that calls `setsid(2)`, as daemons do, and after `kill -9` nobody is left to
//! kill the group. A keeper is this same program, started again. It is a subreaper
//! (`PR_SET_CHILD_SUBREAPER`): each descendant of the program whose parent ends becomes a child of the keeper,
//! whatever its session. The keeper has a process group of its own and blocks the signals of a terminal. When
//! knee tells it to end, or dies, the keeper kills and reaps its children until none is left. If knee has died, it
//! first asks the program to end, if that [has a signal for it](Program::asked_to_end_by), and waits.
//!
//! A program is first *held*: its process exists and waits for one byte before it executes the program. A
//! caller can thus open accounts and attach samplers before the program runs, and neither the start of the
//! keeper nor a fork is in the measured time. knee watches the end of the program through a pidfd, so the end
//! is not delayed by the keeper either.
//!
//! ```no_run
//! use std::process::Stdio;
//! use std::time::Duration;
//!
//! use knee_host::process::keeper::{self, Program};
//! use rustix::process::Signal;
//!
//! keeper::enable(); // first in `main`
//! let server = Program::new(["memcached", "-p", "11300"])
//!     .cpus(&[0, 1])
//!     .user(65534, 65534)
//!     .stderr(Stdio::piped())
//!     .start()?;
//! while server.is_running() {
//!     // … connect, or read `server.stderr`, which never blocks
//! }
//! let ended = server.stop(Signal::TERM, Duration::from_secs(5))?;
//! println!("{} left {:?}", ended.status, ended.left);
//! # Ok::<(), std::io::Error>(())
//! ```

mod message;
mod process;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Rlimit, Signal, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal,
};

pub use self::message::KEEPER;

use self::message::{END, Message, RELEASE};
use super::output::read_tail;
use super::start::{Ties, spawn};
use super::{readable, wait_readable};

/// A keeper that reports nothing for so long may be stopped. This is shorter than the second within which knee must end
/// after Ctrl-C.
const STOPPED: Duration = Duration::from_millis(200);

/// Whether [`enable`] was called. Otherwise, another instance of this program would not become a keeper.
static IS_ENABLED: AtomicBool = AtomicBool::new(false);

/// Lets this program start keepers. Call it first in `main`: in a process that is a keeper, it does not
/// return. Without this call, no keeper starts.
pub fn enable() {
    // The parent may ignore SIGCHLD, and exec keeps that. The kernel would then reap children itself, and nobody
    // would learn how they ended.
    // SAFETY: a default disposition runs none of our code.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    // A file that would exceed the limit (`ulimit -f`) is then an error, which has a message.
    // SAFETY: to ignore a signal runs none of our code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    if std::env::args_os().nth(1).is_some_and(|word| word == process::SUBCOMMAND) {
        std::process::exit(process::main());
    }
    IS_ENABLED.store(true, Ordering::Relaxed);
}

/// A program to start under a keeper. By default it has knee's environment and working directory, may use the
/// CPUs of the calling thread, and reads from and writes to `/dev/null`.
#[derive(Debug)]
pub struct Program {
    words: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    dir: Option<PathBuf>,
    cpus: Vec<u32>,
    open_files: Option<Rlimit>,
    user: Option<(u32, u32)>,
    round: Option<PathBuf>,
    farewell: Option<(Signal, Duration)>,
    stdin: Option<Stdio>,
    stdout: Option<Stdio>,
    stderr: Option<Stdio>,
    is_on_terminal: bool,
}

impl Program {
    /// The program `words[0]`, a path or a name to look up in `PATH`, with the other words as arguments.
    ///
    /// # Panics
    /// There are no words.
    pub fn new<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Self {
        let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
        assert!(!words.is_empty(), "a program has a name");
        Self {
            words,
            environment: Vec::new(),
            dir: None,
            cpus: Vec::new(),
            open_files: None,
            user: None,
            round: None,
            farewell: None,
            stdin: None,
            stdout: None,
            stderr: None,
            is_on_terminal: false,
        }
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets its working directory.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Sets the CPUs that it and its keeper may use. The program starts even if some of them are offline.
    #[must_use]
    pub fn cpus(mut self, cpus: &[u32]) -> Self {
        self.cpus = cpus.to_vec();
        self
    }

    /// Sets its limit of open files.
    #[must_use]
    pub fn open_files(mut self, limit: Rlimit) -> Self {
        self.open_files = Some(limit);
        self
    }

    /// Runs it as another user and group, without supplementary groups, without knee's open files, and with no
    /// variables of knee's environment but `PATH`, `TMPDIR`, `TZ`, `LANG` and `LC_*`, as sudo(8) does. Requires root.
    /// The keeper keeps knee's user, so it can kill the program.
    #[must_use]
    pub fn user(mut self, uid: u32, gid: u32) -> Self {
        self.user = Some((uid, gid));
        self
    }

    /// Names the directory of the round, from [`WorkDir::begin_round`](crate::workdir::WorkDir::begin_round).
    /// If knee is killed, this directory is removed only after the last descendant has ended.
    #[must_use]
    pub fn in_round(mut self, dir: &Path) -> Self {
        self.round = Some(dir.to_owned());
        self
    }

    /// If knee is killed, asks the program and its process group to end with this signal, and kills it only after
    /// `patience`. A server may have resources that only itself can remove, such as shared memory.
    #[must_use]
    pub fn asked_to_end_by(mut self, signal: Signal, patience: Duration) -> Self {
        self.farewell = Some((signal, patience));
        self
    }

    /// Sets its standard input: `Stdio::piped()` for [`Kept::stdin`], or a file.
    #[must_use]
    pub fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.stdin = Some(stdin.into());
        self
    }

    /// Sets its standard output: `Stdio::piped()` for [`Kept::stdout`], or a file.
    #[must_use]
    pub fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.stdout = Some(stdout.into());
        self
    }

    /// Sets its error output, like [`Program::stdout`].
    #[must_use]
    pub fn stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.stderr = Some(stderr.into());
        self
    }

    /// Gives it knee's own standard input, output and error output, and knee's process group, so that it can
    /// read from the terminal and gets its signals.
    #[must_use]
    pub fn on_terminal(mut self) -> Self {
        self.stdin = Some(Stdio::inherit());
        self.stdout = Some(Stdio::inherit());
        self.stderr = Some(Stdio::inherit());
        self.is_on_terminal = true;
        self
    }

    /// Starts the program. [`Kept::exit_status`] reports if it cannot be executed.
    ///
    /// # Errors
    /// No process can be started.
    pub fn start(self) -> io::Result<Kept> {
        let kept = self.prepare()?.held()?;
        kept.release()?;
        Ok(kept)
    }

    /// Starts the keeper, and does not wait until the program is held.
    ///
    /// # Errors
    /// No process can be started.
    pub fn prepare(self) -> io::Result<Prepared> {
        // The group is 0 if its leader is outside the PID namespace of knee, and no Pid is 0.
        // SAFETY: getpgrp only returns a number.
        let group = if self.is_on_terminal { unsafe { libc::getpgrp() } } else { 0 };
        let (uid, gid) = self.user.unzip();
        let id = |id: Option<u32>| id.map_or(process::NONE.to_owned(), |id| id.to_string());
        let round = self.round.map(std::path::absolute).transpose()?;
        let mut words: Vec<OsString> =
            vec![group.to_string().into(), id(uid).into(), id(gid).into()];
        words.push(round.map_or(process::NONE.into(), PathBuf::into_os_string));
        let (signal, patience) = self.farewell.unzip();
        words.push(id(signal.map(|signal| signal.as_raw().cast_unsigned())).into());
        words.push(id(patience.map(|patience| patience.as_millis() as u32)).into());
        words.extend(self.words);
        let ties = Ties { cpus: self.cpus, open_files: self.open_files, ..Ties::default() };
        let null = Stdio::null;
        let keeper = Keeper::start(process::PROGRAM, &words, ties, |keeper| {
            if self.user.is_some() {
                keeper.env_clear().envs(std::env::vars_os().filter(|(name, _)| is_public(name)));
            }
            keeper.envs(self.environment).stdin(self.stdin.unwrap_or_else(null));
            keeper.stdout(self.stdout.unwrap_or_else(null));
            keeper.stderr(self.stderr.unwrap_or_else(null));
            if let Some(dir) = self.dir {
                keeper.current_dir(dir);
            }
        })?;
        Ok(Prepared { keeper, leads_group: group == 0 })
    }
}

/// The process of a keeper. Dropping it makes the keeper end what it keeps, and waits for that.
#[derive(Debug)]
pub(crate) struct Keeper {
    process: Child,
    /// The keeper ends what it keeps when knee no longer writes to it.
    control: UnixStream,
}

impl Keeper {
    /// A keeper of a directory of [`WorkDir`](crate::workdir::WorkDir). It removes the directory after the
    /// last process that uses it has ended.
    pub(crate) fn of_directory(dir: &Path) -> io::Result<Self> {
        let dir = std::path::absolute(dir)?.into_os_string();
        Self::start(process::DIRECTORY, &[dir], Ties::default(), |keeper| {
            keeper.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            keeper.current_dir("/");
        })
    }

    /// Starts this program again as a keeper of this `kind`. `set` sets its environment, input and output.
    fn start(
        kind: &str,
        words: &[OsString],
        ties: Ties,
        set: impl FnOnce(&mut Command),
    ) -> io::Result<Self> {
        if !IS_ENABLED.load(Ordering::Relaxed) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this program runs no keepers"));
        }
        let (control, theirs) = UnixStream::pair()?;
        let number = theirs.as_raw_fd();
        // Not the path by which this program was started, because that file may be replaced meanwhile.
        let mut keeper = Command::new("/proc/self/exe");
        keeper.arg0("knee").arg(process::SUBCOMMAND).arg(number.to_string()).arg(kind).args(words);
        set(&mut keeper);
        // The terminal signals the group of knee, and a program may signal its own group.
        keeper.process_group(0);
        let process = spawn(&mut keeper, Ties { inherited: vec![number], ..ties })?;
        Ok(Self { process, control })
    }
}

impl Keeper {
    /// Waits for the next message.
    fn message(&mut self) -> io::Result<Message> {
        self.wait_for(&self.control);
        Message::read(&mut self.control)
    }

    /// Waits until `event` is readable. Programs can stop their keeper again and again, so that it gets only few
    /// instructions ahead each time.
    fn wait_for(&self, event: impl AsFd) {
        let mut patience = STOPPED;
        while !wait_readable(&event, patience) {
            let _ = kill_process(Pid::from_child(&self.process), Signal::CONT);
            patience = Duration::from_millis(1);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.control.shutdown(Shutdown::Both);
        if let Ok(exit) = pidfd_open(Pid::from_child(&self.process), PidfdFlags::empty()) {
            self.wait_for(exit);
        }
        let _ = self.process.wait();
    }
}

/// A program whose keeper has started. The program may not be held yet.
#[derive(Debug)]
pub struct Prepared {
    keeper: Keeper,
    leads_group: bool,
}

impl Prepared {
    /// Waits until the program is held.
    ///
    /// # Errors
    /// The keeper cannot start a process.
    pub fn held(self) -> io::Result<Kept> {
        let Self { mut keeper, leads_group } = self;
        let pid = match Message::read(&mut keeper.control)? {
            Message::Held(pid) => pid,
            Message::Failed(errno) => return Err(errno.into()),
            other => return Err(unexpected(&other)),
        };
        let stdin = keeper.process.stdin.take();
        let (stdout, stderr) = (keeper.process.stdout.take(), keeper.process.stderr.take());
        // The keeper reaps the program only after knee asked it to end, so the number is still that of the
        // program.
        let exit = pidfd_open(pid, PidfdFlags::empty())?;
        let kept = Kept { stdin, stdout, stderr, keeper, pid, exit, leads_group, ended: None };
        for pipe in kept.pipes().into_iter().flatten() {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(kept)
    }
}

/// Whether a program of another user may see this variable. Others may contain passwords.
fn is_public(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    matches!(name, b"PATH" | b"TMPDIR" | b"TZ" | b"LANG") || name.starts_with(b"LC_")
}

fn unexpected(message: &Message) -> io::Error {
    io::Error::other(format!("the keeper sent {message:?}"))
}

/// A program under a keeper: held, running, or ended. Dropping it kills the program and all of its
/// descendants, and waits until they have ended.
#[derive(Debug)]
pub struct Kept {
    /// Its standard input, if that is `Stdio::piped()`. Dropping it closes the input.
    pub stdin: Option<ChildStdin>,
    /// Its standard output, if that is `Stdio::piped()`. Reads do not block.
    pub stdout: Option<ChildStdout>,
    /// Its error output, if that is `Stdio::piped()`. Reads do not block.
    pub stderr: Option<ChildStderr>,
    keeper: Keeper,
    pid: Pid,
    exit: OwnedFd,
    leads_group: bool,
    /// How and when it has ended, once its keeper has reported.
    ended: Option<(ExitStatus, f64)>,
}

/// How a program and its descendants ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// How the program ended: by itself, or by a signal of knee.
    pub status: ExitStatus,
    /// The names of the descendants that still ran when the program had ended. The keeper killed them.
    pub left: Vec<String>,
}

impl Kept {
    /// Lets a held program run.
    ///
    /// # Errors
    /// The process has been killed.
    pub fn release(&self) -> io::Result<()> {
        (&self.keeper.control).write_all(&[RELEASE])
    }

    /// The process ID of the program. No other process gets this number before this value is dropped.
    pub fn id(&self) -> Pid {
        self.pid
    }

    /// The processes of the program and of its keeper. When this value is dropped, their CPU time is added to
    /// that of the children that knee has waited for.
    pub fn processes(&self) -> [Pid; 2] {
        [self.pid, Pid::from_child(&self.keeper.process)]
    }

    /// The process ID of the keeper, which is the parent of the program.
    pub fn keeper(&self) -> i32 {
        self.keeper.process.id().cast_signed()
    }

    /// The standard output and the error output, as far as they are open pipes.
    pub fn pipes(&self) -> [Option<BorrowedFd<'_>>; 2] {
        [self.stdout.as_ref().map(AsFd::as_fd), self.stderr.as_ref().map(AsFd::as_fd)]
    }

    /// Appends what can be read from the pipes to `stdout` and `stderr`, and keeps the last `kept` bytes of each. Closes
    /// a pipe at its end, because it would be readable forever.
    pub fn read_tails(&mut self, stdout: &mut Vec<u8>, stderr: &mut Vec<u8>, kept: usize) {
        self.stdout.take_if(|pipe| read_tail(pipe, stdout, kept));
        self.stderr.take_if(|pipe| read_tail(pipe, stderr, kept));
    }

    /// Readable as soon as the program has ended.
    pub fn exit(&self) -> BorrowedFd<'_> {
        self.exit.as_fd()
    }

    /// Readable as soon as [`Kept::exit_status`] would not block, which is a moment after the end of the program.
    pub fn report(&self) -> BorrowedFd<'_> {
        self.keeper.control.as_fd()
    }

    /// Whether the program has not ended yet.
    pub fn is_running(&self) -> bool {
        !wait_readable(&self.exit, Duration::ZERO)
    }

    /// How the program has ended. Waits for its end.
    ///
    /// # Errors
    /// The program could not be executed, or the keeper was killed.
    pub fn exit_status(&mut self) -> io::Result<ExitStatus> {
        Ok(self.ended()?.0)
    }

    /// How the program has ended, and at most how many seconds CLOCK_MONOTONIC_RAW then showed. knee may have been stopped
    /// meanwhile, but not the keeper. Waits for the end.
    ///
    /// # Errors
    /// The program could not be executed, or the keeper was killed.
    pub fn ended(&mut self) -> io::Result<(ExitStatus, f64)> {
        if let Some(ended) = self.ended {
            return Ok(ended);
        }
        // The keeper says nothing before one of these: the program has ended, or the keeper has.
        readable([Some(self.exit()), Some(self.report())], None)?;
        let message = self.keeper.message();
        if !matches!(message, Ok(Message::Ended(_))) {
            // The program has been reaped, so its number may be that of another process.
            self.leads_group = false;
        }
        match message? {
            Message::Ended(status) => {
                let mut at = [0; 8];
                self.keeper.control.read_exact(&mut at)?;
                let ended = (status, f64::from_ne_bytes(at));
                self.ended = Some(ended);
                Ok(ended)
            }
            Message::Failed(errno) => Err(errno.into()),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a signal to the program, and to the processes in its process group.
    ///
    /// # Errors
    /// See `kill(2)` and `pidfd_send_signal(2)`.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        // A program may leave the group that was created for it.
        if self.leads_group && kill_process_group(self.pid, signal).is_ok() {
            return Ok(());
        }
        Ok(pidfd_send_signal(&self.exit, signal)?)
    }

    /// Asks the program to end with a signal, waits for `patience`, and kills what still runs then.
    ///
    /// # Errors
    /// The program could not be executed, or the keeper was killed.
    pub fn stop(self, signal: Signal, patience: Duration) -> io::Result<End> {
        // It may have ended already.
        let _ = self.signal(signal);
        wait_readable(&self.exit, patience);
        self.end()
    }

    /// Kills the program, if it still runs, and all of its descendants, and waits until they have ended.
    ///
    /// # Errors
    /// The program could not be executed, or the keeper was killed.
    pub fn end(mut self) -> io::Result<End> {
        self.kill()?;
        let status = self.exit_status()?;
        let left = match self.keeper.message()? {
            Message::Left(length) => {
                let mut names = vec![0; length];
                self.keeper.control.read_exact(&mut names)?;
                serde_json::from_slice(&names)?
            }
            other => return Err(unexpected(&other)),
        };
        Ok(End { status, left })
    }

    /// Has the keeper kill the program, and kills it from here if the keeper cannot, for example because the program
    /// stops it.
    fn kill(&self) -> io::Result<()> {
        // A keeper that has ended reads nothing.
        let _ = (&self.keeper.control).write_all(&[END]);
        self.keeper.control.shutdown(Shutdown::Write)?;
        if !wait_readable(&self.exit, STOPPED) {
            let _ = pidfd_send_signal(&self.exit, Signal::KILL);
        }
        Ok(())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
