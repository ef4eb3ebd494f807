//! The process of a keeper. It has one thread.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, kill_process_group, pidfd_open,
    set_child_subreaper, waitpid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::time::ClockId;

use super::message::{END, KEEPER, Message, RELEASE};
use crate::clock::seconds;
use crate::process::descendants::{end_descendants, running_descendants};
use crate::process::fork::die_with;
use crate::process::{ended_with, readable, wait_readable};
use crate::signal::{SignalFd, reset_signals};
use crate::workdir::lock;

/// The hidden subcommand of knee that runs a keeper.
pub(super) const SUBCOMMAND: &str = "keeper";
/// The word for a keeper of a program. The process group, user, group and directory of the round of the program
/// follow, the signal that asks it to end and the milliseconds that it may take, and its words.
pub(super) const PROGRAM: &str = "program";
/// The word for a keeper of a directory, which follows.
pub(super) const DIRECTORY: &str = "directory";
/// The word for what the program does not have.
pub(super) const NONE: &str = "-";

/// What a keeper keeps.
enum Charge {
    Program(Program),
    Directory(PathBuf),
}

/// A program, as the words of the command line describe it.
struct Program {
    group: i32,
    user: Option<(u32, u32)>,
    round: Option<PathBuf>,
    /// What to do if knee is killed: the signal that asks it to end, and how long it may take.
    farewell: Option<(Signal, Duration)>,
    words: Vec<OsString>,
}

/// The main function of a keeper. Returns the exit status.
pub(super) fn main() -> i32 {
    // It was started as /proc/self/exe, so tools would show it as `exe`.
    let _ = rustix::thread::set_name(KEEPER);
    let words = std::env::args_os().skip(2).collect();
    let Some((control, charge)) = parse(words) else {
        eprintln!("knee {SUBCOMMAND} is internal to knee; do not start it by hand");
        return 2;
    };
    let kept = match charge {
        Charge::Program(program) => keep_program(program, control),
        Charge::Directory(dir) => keep_directory(&dir, control),
    };
    i32::from(kept.is_err())
}

/// The socket to knee, and what to keep.
fn parse(words: Vec<OsString>) -> Option<(UnixStream, Charge)> {
    let mut words = words.into_iter();
    let fd = words.next()?.to_str()?.parse().ok().filter(|fd| *fd > 2)?;
    let kind = words.next()?;
    let charge = if kind == DIRECTORY {
        Charge::Directory(words.next()?.into())
    } else {
        let group = words.next()?.to_str()?.parse().ok()?;
        let number = |word: OsString| -> Option<u32> { word.to_str()?.parse().ok() };
        let [uid, gid] = [words.next()?, words.next()?].map(number);
        let round = words.next().filter(|round| round != NONE).map(PathBuf::from);
        let [signal, millis] = [words.next()?, words.next()?].map(number);
        let signal = signal.and_then(|signal| Signal::from_named_raw(signal.cast_signed()));
        let farewell = signal.zip(millis.map(|millis| Duration::from_millis(millis.into())));
        let words: Vec<OsString> = words.collect();
        words.first()?;
        Charge::Program(Program { group, user: uid.zip(gid), round, farewell, words })
    };
    // SAFETY: knee left the descriptor open for this process, and nothing else here uses it.
    let control = UnixStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
    fcntl_setfd(&control, FdFlags::CLOEXEC).ok()?;
    Some((control, charge))
}

fn keep_program(program: Program, mut control: UnixStream) -> io::Result<()> {
    let start = || {
        let signals = ignore_requests_to_end()?;
        set_child_subreaper(Some(getpid()))?;
        // If the directory is being removed, knee has died.
        let in_use = program.round.as_deref().map(lock::share).transpose()?;
        Ok::<_, io::Error>((signals, in_use, program.spawn(&control)?))
    };
    let (signals, _in_use, child) = start().inspect_err(|error| {
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
        let _ = (&control).write_all(&Message::Failed(errno).to_bytes());
    })?;
    // Otherwise a reader of the program's output would wait for the end of the keeper as well.
    leave_files()?;
    let exit = pidfd_open(child, PidfdFlags::empty())?;
    let mut status = None;
    loop {
        let watched = [Some(signals.as_fd()), Some(control.as_fd())];
        let [_, is_over] = readable(watched, None)?;
        while signals.take().is_some() {}
        if status.is_none() && has_ended(child) {
            let at = seconds(ClockId::MonotonicRaw);
            let ended = ended_with(&exit)?;
            let _ = report_end(&mut control, ended, at);
            status = Some(ended);
        }
        if is_over {
            break;
        }
    }
    let is_asked = matches!(control.read(&mut [0]), Ok(1..));
    if let (None, false, Some((signal, patience))) = (status, is_asked, program.farewell) {
        // It leads its group, unless it has left that.
        let _ = kill_process_group(child, signal).or_else(|_| kill_process(child, signal));
        wait_readable(&exit, patience);
    }
    let left = match status {
        Some(_) => {
            waitpid(Some(child), WaitOptions::empty())?;
            running_descendants()
        }
        None => {
            let _ = match kill(child) {
                Ok(ended) => report_end(&mut control, ended, seconds(ClockId::MonotonicRaw)),
                Err(errno) => control.write_all(&Message::Failed(errno).to_bytes()),
            };
            Vec::new()
        }
    };
    end_descendants();
    let names = serde_json::to_vec(&left)?;
    control.write_all(&Message::Left(names.len()).to_bytes())?;
    control.write_all(&names)
}

fn report_end(control: &mut UnixStream, status: ExitStatus, at: f64) -> io::Result<()> {
    control.write_all(&Message::Ended(status).to_bytes())?;
    control.write_all(&at.to_ne_bytes())
}

fn keep_directory(dir: &Path, mut control: UnixStream) -> io::Result<()> {
    let _signals = ignore_requests_to_end()?;
    leave_files()?;
    // knee writes nothing, so this returns when knee has ended.
    let _ = control.read(&mut [0]);
    lock::remove_after_use(dir);
    Ok(())
}

/// Blocks the signals that ask processes to end, because knee decides when a keeper ends. The descriptor
/// reports them and the ends of children.
fn ignore_requests_to_end() -> io::Result<SignalFd> {
    SignalFd::block([libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGCHLD])
}

/// Keeps no file, pipe or file system in use.
fn leave_files() -> io::Result<()> {
    std::env::set_current_dir("/")?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    Ok(dup2_stderr(&null)?)
}

impl Program {
    /// Starts the program as soon as knee releases it, and returns then.
    fn spawn(&self, control: &UnixStream) -> io::Result<Pid> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).process_group(self.group);
        let (keeper, mut control) = (getpid(), control.try_clone()?);
        let (user, group) = (self.user, self.group);
        let hold = move || {
            die_with(keeper)?;
            reset_signals();
            if group == 0 {
                // It has a process group of its own. In the background of a terminal, the kernel would stop it if it
                // read from there, and it would never end. Without a terminal, it gets an error.
                let _ = leave_terminal();
            }
            control.write_all(&Message::Held(getpid()).to_bytes())?;
            // If knee has died, there is nothing to read.
            let mut byte = [END];
            if control.read(&mut byte)? == 0 || byte != [RELEASE] {
                return Err(Errno::CANCELED.into());
            }
            // Not earlier: that user could stop this process before knee knows its ID, and knee would wait forever.
            match user {
                Some((uid, gid)) => become_user(uid, gid, keeper),
                None => Ok(()),
            }
        };
        // SAFETY: between fork and exec the closure only makes system calls. It allocates nothing: its errors
        // are numbers of the kernel.
        unsafe { command.pre_exec(hold) };
        Ok(Pid::from_child(&command.spawn()?))
    }
}

/// Makes this process one of another user, without supplementary groups. It still ends with the keeper.
fn become_user(uid: u32, gid: u32, keeper: Pid) -> io::Result<()> {
    leave_terminal()?;
    leave_keyring()?;
    // SAFETY: the calls change only this process. It has one thread, and nothing in it relies on its user.
    let has_changed = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setgid(gid) == 0
            && libc::setuid(uid) == 0
    };
    if !has_changed {
        return Err(io::Error::last_os_error());
    }
    close_files_at_exec();
    // Changing the user clears the signal.
    die_with(keeper)
}

/// Gives up the terminal of this process, in which another user could read what is typed, and insert more. Only the
/// leader of a session could get another one. A new session would do the same, but Linux may schedule each session as
/// a group (`CONFIG_SCHED_AUTOGROUP`), and the program would no longer share CPUs with its load as it does otherwise.
fn leave_terminal() -> io::Result<()> {
    let terminal = match open(c"/dev/tty", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        Ok(terminal) => terminal,
        // There is no terminal, nor its file.
        Err(Errno::NXIO | Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    // SAFETY: the call takes no memory, and the descriptor is open.
    match unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCNOTTY) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives this process a session keyring of its own. Otherwise it would keep that of the user who runs knee. Comes
/// before the change of user, whose quota any process of that user can use up.
fn leave_keyring() -> io::Result<()> {
    // SAFETY: the call takes no memory: a null pointer stands for a keyring without a name.
    let joined = unsafe {
        libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<u8>())
    };
    if joined != -1 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // A kernel without keyrings, or the filter of a container, which usually blocks reading keys, too.
        Some(libc::ENOSYS | libc::EPERM) => Ok(()),
        _ => Err(error),
    }
}

/// Has the kernel close all files except standard input, output and error output when this process executes a program.
/// Those that knee has inherited may be files of its user. Before Linux 5.11, they stay open.
fn close_files_at_exec() {
    // SAFETY: the call changes only flags of descriptors.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}

/// Whether the program has ended. Reaps other children that have ended, but not the program, so that its
/// number is not reused.
fn has_ended(program: Pid) -> bool {
    while let Some(child) = ended_child() {
        if child == program {
            return true;
        }
        let _ = waitpid(Some(child), WaitOptions::NOHANG);
    }
    false
}

/// A child that has ended and that has not been reaped.
fn ended_child() -> Option<Pid> {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: zero bytes are a valid `siginfo_t`, and the call only writes to it. If it reports a child, it
    // has set the field of the process ID.
    let pid = unsafe {
        let mut info = std::mem::zeroed::<libc::siginfo_t>();
        if libc::waitid(libc::P_ALL, 0, &raw mut info, options) != 0 {
            return None;
        }
        info.si_pid()
    };
    Pid::from_raw(pid)
}

/// Kills and reaps the program.
///
/// # Errors
/// It has set its user ID, as `sudo` does.
fn kill(program: Pid) -> Result<ExitStatus, Errno> {
    kill_process(program, Signal::KILL)?;
    let (_, status) = waitpid(Some(program), WaitOptions::empty())?.ok_or(Errno::CHILD)?;
    Ok(ExitStatus::from_raw(status.as_raw()))
}
