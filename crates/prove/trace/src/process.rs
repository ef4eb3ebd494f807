//! Runs QEMU as a process: starts it with its input, reads its output, and never leaves it running.
//!
//! QEMU inherits its input in memfds, so there are no temporary files to remove. Its output comes over three
//! pipes: standard output, the plugin's results, and standard error. The thread that starts QEMU also reads
//! its output, with [`Qemu::next`]. When that thread ends, the kernel kills QEMU.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use knee_host::clock::timespec;
use knee_host::process::{Ties, spawn};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::error::GuestError;
use crate::line_buffer::LineBuffer;
use crate::memfd;
use crate::plugin_api;
use crate::record::Record;

/// Maximum number of bytes read from a pipe at once: the capacity of a pipe.
const READ_BYTES: usize = 1 << 16;
/// Maximum number of bytes of standard error that are kept; earlier bytes are dropped.
pub(crate) const MAX_STDERR: usize = 4 << 10;

/// A step of a guest or a program may take this many times as long as the patience. A test takes less than a
/// second on an idle machine, but a hostile guest could keep printing forever and never complete its test.
const STEP: u32 = 10;

/// Settings of the plugin; see the knee-plugin crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracing {
    /// Whether user mode is traced too.
    pub user: bool,
    /// Whether only a program in the guest is traced, not the guest's kernel. If so, cache lines are
    /// identified by their virtual addresses.
    pub program: bool,
    /// If set, every access of the test with this number is reported.
    pub trace: Option<u64>,
    /// Whether the guest pauses after each test that has conflicts or was disturbed, until
    /// [`Guest::resume`](crate::Guest::resume) is called. During the pause, everything that the test has
    /// created and not freed can be read in the guest's memory.
    pub pause: bool,
    /// Whether the plugin reports the cache lines that move from one CPU to another. With this setting, a
    /// guest may have at most 64 CPUs.
    pub moves: bool,
    /// Whether the plugin also reports, in order, each access to the lines that move. Implies `moves`.
    pub accesses: bool,
    /// Whether the kernel's stack accesses are left out: pushes, pops and accesses relative to the stack
    /// pointer. Stack accesses are a third of all accesses, and cause no conflicts, because each task has its
    /// own stack.
    pub without_stack: bool,
}

/// A QEMU that has not been started yet.
pub(crate) struct Launch {
    command: Command,
    /// The command that starts QEMU, without the arguments that configure the run.
    words: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    /// Arguments for a run that only loads the plugin.
    idle: &'static [&'static str],
    inherited: Vec<OwnedFd>,
    results: Option<OwnedFd>,
    resume: Option<OwnedFd>,
}

impl Launch {
    /// A QEMU that emulates a machine.
    pub(crate) fn machine(command: Command) -> Launch {
        Launch::new(command, &["-machine", "none", "-nodefaults", "-display", "none"])
    }

    /// A QEMU that runs a program in user mode.
    pub(crate) fn program(command: Command) -> Launch {
        Launch::new(command, &["/bin/true"])
    }

    fn new(mut command: Command, idle: &'static [&'static str]) -> Launch {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words = words.map(OsStr::to_owned).collect();
        let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let environment = set.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        command.env_remove(plugin_api::VARIABLE);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (inherited, results, resume) = (Vec::new(), None, None);
        Launch { command, words, environment, idle, inherited, results, resume }
    }

    /// The command, to which arguments can be added.
    pub(crate) fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Lets QEMU inherit a file. Returns the path by which QEMU opens the file.
    pub(crate) fn inherit(&mut self, file: OwnedFd) -> String {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        self.inherited.push(file);
        path
    }

    /// Lets QEMU load the plugin.
    pub(crate) fn trace(&mut self, tracing: Tracing) -> Result<(), GuestError> {
        let (results, writer) =
            pipe_with(PipeFlags::CLOEXEC).map_err(GuestError::errno("create a pipe"))?;
        let file = self.inherit(memory_file("knee-plugin", knee_artefacts::PLUGIN)?);
        let out = self.inherit(writer);
        let user = if tracing.user { "on" } else { "off" };
        let trace = tracing.trace.map_or(String::new(), |index| format!(",trace={index}"));
        let moves = if tracing.moves || tracing.accesses { "on" } else { "off" };
        let accesses = if tracing.accesses { ",accesses=on" } else { "" };
        let stack = if tracing.without_stack { "off" } else { "on" };
        let scope = if tracing.program { "program" } else { "machine" };
        let mut arguments = format!(
            "file={file},out={out},user={user},moves={moves}{accesses},stack={stack},scope={scope}{trace}"
        );
        if tracing.pause {
            let (paused, resume) =
                pipe_with(PipeFlags::CLOEXEC).map_err(GuestError::errno("create a pipe"))?;
            arguments.push_str(&format!(",resume={}", self.inherit(paused)));
            self.resume = Some(resume);
        }
        self.command.arg("-plugin").arg(arguments);
        if let Some(version) = plugin_api(&self.words, &self.environment, self.idle)? {
            self.command.env(plugin_api::VARIABLE, version.to_string());
        }
        self.results = Some(results);
        Ok(())
    }

    /// Starts QEMU, bound to the calling thread: the kernel kills QEMU when that thread ends.
    pub(crate) fn start(self, patience: Duration) -> Result<Qemu, GuestError> {
        let Launch { mut command, inherited, results, resume, .. } = self;
        // Ctrl-C must not reach QEMU, because knee itself ends QEMU.
        command.process_group(0);
        let child = spawn(&mut command, ties(&inherited));
        let mut child = child.map_err(|source| not_started(&command, source))?;
        // QEMU has its own copies of these descriptors. If this process kept the write end of a pipe, readers
        // would never see the end of the pipe.
        drop(inherited);
        let mut streams = Vec::new();
        let mut listen = |source, pipe: Option<OwnedFd>| {
            streams.extend(pipe.map(|pipe| Stream { source, pipe, rest: LineBuffer::default() }));
        };
        listen(Source::Output, child.stdout.take().map(OwnedFd::from));
        listen(Source::Stderr, child.stderr.take().map(OwnedFd::from));
        listen(Source::Results, results);
        Ok(Qemu {
            child,
            resume,
            streams,
            buffer: vec![0; READ_BYTES],
            events: VecDeque::new(),
            stderr: Vec::new(),
            patience,
            last_output: Instant::now(),
            step: None,
            ended: false,
        })
    }
}

/// The version of the plugin API that the plugin must claim; `None` if the plugin's default works. To find
/// the version, the first call for a QEMU runs the command `words` with the arguments `idle`. Later calls
/// return the cached answer.
fn plugin_api(
    words: &[OsString],
    environment: &[(OsString, OsString)],
    idle: &[&str],
) -> Result<Option<u32>, GuestError> {
    static KNOWN: Mutex<BTreeMap<Vec<OsString>, Option<u32>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(version) = known.get(words) {
        return Ok(*version);
    }
    let file = memory_file("knee-plugin", knee_artefacts::PLUGIN)?;
    let plugin = format!("file=/proc/self/fd/{},{}", file.as_raw_fd(), plugin_api::PROBE);
    let mut command = Command::new(&words[0]);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.env_remove(plugin_api::VARIABLE);
    command.args(&words[1..]).arg("-plugin").arg(plugin).args(idle).stdin(Stdio::null());
    let inherited = [file];
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let probe = spawn(&mut command, ties(&inherited)).and_then(Child::wait_with_output);
    let output = probe.map_err(|error| not_started(&command, error))?;
    let version = plugin_api::to_claim(&String::from_utf8_lossy(&output.stderr))?;
    known.insert(words.to_vec(), version);
    Ok(version)
}

/// Something that QEMU printed, or the end of QEMU.
#[derive(Debug)]
pub(crate) enum QemuEvent {
    /// A line on standard output, without its newline.
    Line(String),
    /// A result from the plugin.
    Result(Record),
    /// QEMU has ended, with its exit status and the end of its standard error. This is the last
    /// event.
    Ended(ExitStatus, String),
    /// QEMU printed nothing for this long, and was killed. This is the last event.
    Silent(Duration),
    /// A step took longer than this, and QEMU was killed. This is the last event.
    Endless(Duration),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Output,
    Results,
    Stderr,
}

struct Stream {
    source: Source,
    pipe: OwnedFd,
    rest: LineBuffer,
}

/// A running QEMU. Dropping this kills QEMU.
pub(crate) struct Qemu {
    child: Child,
    resume: Option<OwnedFd>,
    streams: Vec<Stream>,
    /// The buffer for reads from the pipes.
    buffer: Vec<u8>,
    events: VecDeque<QemuEvent>,
    stderr: Vec<u8>,
    patience: Duration,
    /// The time of the last output.
    last_output: Instant,
    /// The beginning of the current step; `None` if steps have no limit.
    step: Option<Instant>,
    ended: bool,
}

impl Qemu {
    /// QEMU's process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resumes QEMU after a pause ([`Tracing::pause`]). Does nothing if QEMU has ended; an event
    /// reports the end.
    pub(crate) fn resume(&self) -> Result<(), GuestError> {
        let Some(resume) = &self.resume else { return Ok(()) };
        match rustix::io::write(resume, &[0]) {
            Ok(_) | Err(Errno::PIPE) => Ok(()),
            Err(errno) => Err(GuestError::errno("resume a guest")(errno)),
        }
    }

    /// Sets how long QEMU may print nothing before it counts as hung.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Restarts the timeout after which QEMU counts as hung. Call this when something other than output shows
    /// that QEMU has not hung.
    pub(crate) fn reset_patience(&mut self) {
        self.last_output = Instant::now();
    }

    /// Starts a step. QEMU is killed if the next step does not start within [`STEP`] times the patience.
    pub(crate) fn begin_step(&mut self) {
        self.step = Some(Instant::now());
    }

    /// Waits for the next event; `None` after the end.
    pub(crate) fn next(&mut self) -> Result<Option<QemuEvent>, GuestError> {
        loop {
            if let Poll::Ready(event) = self.poll(Duration::MAX)? {
                return Ok(event);
            }
        }
    }

    /// Waits at most `at_most` for the next event.
    pub(crate) fn poll(
        &mut self,
        at_most: Duration,
    ) -> Result<Poll<Option<QemuEvent>>, GuestError> {
        let began = Instant::now();
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Poll::Ready(Some(event)));
            }
            if self.ended {
                return Ok(Poll::Ready(None));
            }
            if self.streams.is_empty() {
                self.ended = true;
                let status = self.child.wait().map_err(GuestError::system("wait for QEMU"))?;
                let stderr = String::from_utf8_lossy(&self.stderr).trim().to_owned();
                return Ok(Poll::Ready(Some(QemuEvent::Ended(status, stderr))));
            }
            let limit = self.patience.saturating_mul(STEP);
            if self.step.is_some_and(|step| step.elapsed() >= limit) {
                self.kill();
                self.ended = true;
                return Ok(Poll::Ready(Some(QemuEvent::Endless(limit))));
            }
            let patience = self.patience.saturating_sub(self.last_output.elapsed());
            let left = at_most.saturating_sub(began.elapsed());
            if self.listen(patience.min(left))? {
                continue;
            }
            if self.last_output.elapsed() >= self.patience {
                self.kill();
                self.ended = true;
                return Ok(Poll::Ready(Some(QemuEvent::Silent(self.patience))));
            }
            if began.elapsed() >= at_most {
                return Ok(Poll::Pending);
            }
        }
    }

    /// Waits at most `at_most` for output, and reads it. Returns whether a pipe was ready.
    fn listen(&mut self, at_most: Duration) -> Result<bool, GuestError> {
        let pipes = self.streams.iter().map(|stream| &stream.pipe);
        let mut polled: Vec<_> = pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        match rustix::event::poll(&mut polled, Some(&timespec(at_most))) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(errno) => return Err(GuestError::errno("wait for QEMU")(errno)),
        }
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        self.last_output = Instant::now();
        let mut open = Vec::new();
        for (mut stream, ready) in std::mem::take(&mut self.streams).into_iter().zip(ready) {
            if !ready || self.read(&mut stream)? {
                open.push(stream);
            }
        }
        self.streams = open;
        Ok(true)
    }

    /// Reads once. Returns false at the end of the stream.
    fn read(&mut self, stream: &mut Stream) -> Result<bool, GuestError> {
        let count = match rustix::io::read(&stream.pipe, &mut self.buffer[..]) {
            Ok(count) => count,
            Err(Errno::INTR) => return Ok(true),
            Err(errno) => return Err(GuestError::errno("read the output of QEMU")(errno)),
        };
        let new = &self.buffer[..count];
        if stream.source == Source::Stderr {
            self.stderr.extend(new);
            let excess = self.stderr.len().saturating_sub(MAX_STDERR);
            self.stderr.drain(..excess);
            return Ok(count > 0);
        }
        let (source, events) = (stream.source, &mut self.events);
        stream.rest.add(new, |line| add(events, source, line))?;
        // If QEMU died while it printed a line, that line is incomplete. Keep an incomplete line of output,
        // but drop an incomplete result.
        if count == 0 && source == Source::Output {
            let rest = stream.rest.end();
            if !rest.is_empty() {
                add(events, source, &rest)?;
            }
        }
        Ok(count > 0)
    }

    fn kill(&mut self) {
        // QEMU may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.streams.clear();
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.kill();
    }
}

fn add(events: &mut VecDeque<QemuEvent>, source: Source, line: &[u8]) -> Result<(), GuestError> {
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end_matches('\r');
    events.push_back(match source {
        Source::Results => QemuEvent::Result(Record::parse(line)?),
        Source::Output | Source::Stderr => QemuEvent::Line(line.to_owned()),
    });
    Ok(())
}

/// A memfd with this content, for QEMU to read.
pub(crate) fn memory_file(name: &str, content: &[u8]) -> Result<OwnedFd, GuestError> {
    let file =
        memfd::holding(name, content).map_err(GuestError::system("create a file in memory"))?;
    Ok(file.into())
}

/// Ties QEMU to the thread that starts it, and disables core files.
fn ties(inherited: &[OwnedFd]) -> Ties {
    let inherited = inherited.iter().map(AsRawFd::as_raw_fd).collect();
    Ties { no_core: true, inherited, ..Ties::bound() }
}

/// The error for a QEMU that could not be started.
pub(crate) fn not_started(command: &Command, source: io::Error) -> GuestError {
    let program = Path::new(command.get_program());
    match source.kind() {
        // The program's name has no directory, so it was looked up in PATH.
        io::ErrorKind::NotFound if program.components().count() == 1 => {
            GuestError::NoQemu(program.display().to_string())
        }
        io::ErrorKind::NotFound => GuestError::NoEmulator(program.to_owned()),
        _ => GuestError::System { what: "start QEMU", source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_prints_forever_ends_with_its_step() {
        let patience = Duration::from_secs(5);
        let mut endless = Launch::program(Command::new("yes")).start(patience).unwrap();
        assert!(matches!(endless.next(), Ok(Some(QemuEvent::Line(_)))));
        endless.begin_step();
        // Pretend that the step began so long ago that it has used up its time.
        endless.step = endless.step.and_then(|step| step.checked_sub(patience * STEP));
        let last = loop {
            match endless.next().unwrap() {
                Some(QemuEvent::Line(_)) => {}
                other => break other,
            }
        };
        assert!(matches!(last, Some(QemuEvent::Endless(limit)) if limit == patience * STEP));
        assert!(matches!(endless.next(), Ok(None)));
    }
}
