//! QEMU as a process: started with what it reads, listened to, and ended whatever happens.
//!
//! All that QEMU reads is handed to it as memory files that it inherits, so there is nothing to clean
//! up. Its output comes over three pipes: standard output, the plugin's results, and standard error.
//! The thread that starts it also reads it, with [`Qemu::next`]; when that thread ends, the kernel
//! kills QEMU.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
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

/// Bytes read from a pipe at once: as much as one holds.
const READ_BYTES: usize = 1 << 16;
/// How much of QEMU's complaints is kept.
pub(crate) const MAX_COMPLAINTS: usize = 4 << 10;

/// Settings of the plugin; see crate knee-plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracing {
    /// What happens in user mode counts too.
    pub user: bool,
    /// Only a program in the guest is traced: what happens in user mode counts, what happens in the
    /// kernel does not, and a line is known by its virtual address.
    pub program: bool,
    /// The test whose every access is reported.
    pub trace: Option<u64>,
    /// After a test with conflicts the guest pauses, with all that the test has made, until
    /// [`Guest::resume`](crate::Guest::resume) is called: its memory can be read.
    pub pause: bool,
    /// Lines that sides get from other CPUs are reported, of which there are at most 64.
    pub moves: bool,
    /// What kernel code pushes to its stack, pops off it and accesses relative to the stack pointer
    /// is left out. It is a third of all accesses, and shares nothing: each task has a stack of its own.
    pub without_stack: bool,
}

/// A QEMU to be started.
pub(crate) struct Launch {
    command: Command,
    /// The words that start QEMU, without those that configure it.
    words: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    /// … and those with which it does nothing.
    idle: &'static [&'static str],
    inherited: Vec<OwnedFd>,
    results: Option<OwnedFd>,
    resume: Option<OwnedFd>,
}

impl Launch {
    /// One that emulates a machine.
    pub(crate) fn machine(command: Command) -> Launch {
        Launch::new(command, &["-machine", "none", "-nodefaults", "-display", "none"])
    }

    /// One that runs a program, in user mode.
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

    /// Its command line.
    pub(crate) fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Hands a file on; returns the path by which QEMU opens it.
    pub(crate) fn inherit(&mut self, file: OwnedFd) -> String {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        self.inherited.push(file);
        path
    }

    /// Loads the plugin.
    pub(crate) fn trace(&mut self, tracing: Tracing) -> Result<(), GuestError> {
        let (results, writer) =
            pipe_with(PipeFlags::CLOEXEC).map_err(GuestError::errno("create a pipe"))?;
        let file = self.inherit(memory_file("knee-plugin", knee_artefacts::PLUGIN)?);
        let out = self.inherit(writer);
        let user = if tracing.user { "on" } else { "off" };
        let trace = tracing.trace.map_or(String::new(), |index| format!(",trace={index}"));
        let moves = if tracing.moves { "on" } else { "off" };
        let stack = if tracing.without_stack { "off" } else { "on" };
        let scope = if tracing.program { "program" } else { "machine" };
        let mut arguments = format!(
            "file={file},out={out},user={user},moves={moves},stack={stack},scope={scope}{trace}"
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

    /// Starts it, bound to the calling thread: it dies with it.
    pub(crate) fn start(self, patience: Duration) -> Result<Qemu, GuestError> {
        let Launch { mut command, inherited, results, resume, .. } = self;
        let child = spawn(&mut command, ties(&inherited));
        let mut child = child.map_err(|source| not_started(&command, source))?;
        // QEMU has its own copies; of the pipe's end there may be no other, or it would never end.
        drop(inherited);
        let mut streams = Vec::new();
        let mut listen = |source, pipe: Option<OwnedFd>| {
            streams.extend(pipe.map(|pipe| Stream { source, pipe, rest: LineBuffer::default() }));
        };
        listen(Source::Output, child.stdout.take().map(OwnedFd::from));
        listen(Source::Complaints, child.stderr.take().map(OwnedFd::from));
        listen(Source::Results, results);
        Ok(Qemu {
            child,
            resume,
            streams,
            buffer: vec![0; READ_BYTES],
            events: VecDeque::new(),
            complaints: Vec::new(),
            patience,
            last_output: Instant::now(),
            ended: false,
        })
    }
}

/// The version of the plugin API to claim, if the plugin has to be told. Each QEMU is asked once, by
/// starting `words` to do nothing.
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

/// Something that QEMU printed, or its end.
#[derive(Debug)]
pub(crate) enum QemuEvent {
    /// A line on standard output, without its end.
    Line(String),
    /// A result of the plugin.
    Result(Record),
    /// It has ended, with its last complaints; nothing follows.
    Ended(ExitStatus, String),
    /// It printed nothing within its patience, and was killed; nothing follows.
    Silent(Duration),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Output,
    Results,
    Complaints,
}

struct Stream {
    source: Source,
    pipe: OwnedFd,
    rest: LineBuffer,
}

/// A running QEMU. Dropping it kills it.
pub(crate) struct Qemu {
    child: Child,
    resume: Option<OwnedFd>,
    streams: Vec<Stream>,
    /// What is read into.
    buffer: Vec<u8>,
    events: VecDeque<QemuEvent>,
    complaints: Vec<u8>,
    patience: Duration,
    /// When it printed something last.
    last_output: Instant,
    ended: bool,
}

impl Qemu {
    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Resumes it after a pause ([`Tracing::pause`]). If it has ended, this does nothing; the end is an event.
    pub(crate) fn resume(&self) -> Result<(), GuestError> {
        let Some(resume) = &self.resume else { return Ok(()) };
        match rustix::io::write(resume, &[0]) {
            Ok(_) | Err(Errno::PIPE) => Ok(()),
            Err(errno) => Err(GuestError::errno("resume a guest")(errno)),
        }
    }

    /// From now on it counts as hung if it prints nothing for this long.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// It has shown by other means that it does not hang.
    pub(crate) fn reset_patience(&mut self) {
        self.last_output = Instant::now();
    }

    /// Waits for the next event.
    pub(crate) fn next(&mut self) -> Result<Option<QemuEvent>, GuestError> {
        loop {
            if let Poll::Ready(event) = self.poll(Duration::MAX)? {
                return Ok(event);
            }
        }
    }

    /// Waits for the next event, for `at_most` at most.
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
                let complaints = String::from_utf8_lossy(&self.complaints).trim().to_owned();
                return Ok(Poll::Ready(Some(QemuEvent::Ended(status, complaints))));
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

    /// Reads what there is, or waits for it. Returns whether there was something.
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

    /// Reads once. Returns whether there may be more.
    fn read(&mut self, stream: &mut Stream) -> Result<bool, GuestError> {
        let count = match rustix::io::read(&stream.pipe, &mut self.buffer[..]) {
            Ok(count) => count,
            Err(Errno::INTR) => return Ok(true),
            Err(errno) => return Err(GuestError::errno("read the output of QEMU")(errno)),
        };
        let new = &self.buffer[..count];
        if stream.source == Source::Complaints {
            self.complaints.extend(new);
            let excess = self.complaints.len().saturating_sub(MAX_COMPLAINTS);
            self.complaints.drain(..excess);
            return Ok(count > 0);
        }
        let (source, events) = (stream.source, &mut self.events);
        stream.rest.add(new, |line| add(events, source, line))?;
        // A guest that dies within a line has printed its beginning. A part of a result is dropped.
        if count == 0 && source == Source::Output {
            let rest = stream.rest.end();
            if !rest.is_empty() {
                add(events, source, &rest)?;
            }
        }
        Ok(count > 0)
    }

    fn kill(&mut self) {
        // It may have ended by itself.
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
        Source::Output | Source::Complaints => QemuEvent::Line(line.to_owned()),
    });
    Ok(())
}

/// A file in memory for QEMU to read.
pub(crate) fn memory_file(name: &str, content: &[u8]) -> Result<OwnedFd, GuestError> {
    let file =
        memfd::holding(name, content).map_err(GuestError::system("create a file in memory"))?;
    Ok(file.into())
}

/// A QEMU ends with the thread that started it, and leaves no core file.
fn ties(inherited: &[OwnedFd]) -> Ties {
    let inherited = inherited.iter().map(AsRawFd::as_raw_fd).collect();
    Ties { no_core: true, inherited, ..Ties::bound() }
}

/// Why a QEMU was not started.
pub(crate) fn not_started(command: &Command, source: io::Error) -> GuestError {
    let program = Path::new(command.get_program());
    match source.kind() {
        // A name without a directory was looked up in PATH.
        io::ErrorKind::NotFound if program.components().count() == 1 => {
            GuestError::NoQemu(program.display().to_string())
        }
        io::ErrorKind::NotFound => GuestError::NoEmulator(program.to_owned()),
        _ => GuestError::System { what: "start QEMU", source },
    }
}
