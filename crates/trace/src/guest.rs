//! A guest under QEMU: started, listened to, and ended whatever happens.
//!
//! All that QEMU reads (kernel, initramfs, plugin) is handed to it as memory files that it inherits,
//! so there is nothing to clean up. What it says comes over three pipes: the serial console, the
//! plugin's results, and its own complaints. The thread that starts a guest also reads it, with
//! [`Guest::next_event`]; when that thread ends, the kernel kills QEMU.
//!
//! The kernel's parameters are there for determinism and speed, as research with prototypes found
//! (5 s from start to power-off): no mitigations, which double the entry code; nothing that wakes
//! up by itself where it can be turned off; no zeroing of memory that nobody has asked to be zero; no
//! test of the timer that fails when the host is busy; caches of the slab allocator that are not
//! merged with others of the same size, as a cache's name tells of which type its objects are; a
//! panic, an oops and the out-of-memory killer all end the guest at once, so that its test is known.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use crate::error::GuestError;
use crate::kernel::Kernel;
use crate::ram::Ram;
use crate::record::Record;

pub(crate) const QEMU: &str = "qemu-system-x86_64";
/// A line that is longer is cut into several: a guest that writes no line ends costs no memory.
const MAX_LINE: usize = 16 << 20;
/// How much of QEMU's complaints is kept.
const MAX_COMPLAINTS: usize = 4 << 10;
const PARAMETERS: &str = "console=ttyS0 quiet panic=-1 oops=panic sysctl.vm.panic_on_oom=1 \
                          mitigations=off nokaslr slab_nomerge init_on_alloc=0 nowatchdog \
                          nosoftlockup tsc=reliable no_timer_check";
/// All that TCG can, less:
///
/// * five levels of page tables, which make walks longer and addresses wider, for nothing here;
/// * fast string instructions (erms, fsrm; and model 4 of family 15, of which Linux does not believe
///   that `rep` is good): TCG executes them a byte or a word at a time, at fifty times the cost of
///   the loops that kernels have instead;
/// * cmpxchg16b: with that of QEMU 7.2 the flags are sometimes garbage, and Linux 6.12, whose slabs
///   use it, dies of a double fault.
const CPU: &str = "max,la57=off,erms=off,fsrm=off,model=4,cx16=off";
/// What Linux says last, at a level that `quiet` lets through (kernel_power_off of kernel/reboot.c).
const POWER_DOWN: &str = "reboot: Power down";
const PANIC: &str = "Kernel panic - not syncing";

/// What the plugin is told; see crate knee-plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracing {
    /// What happens in user mode counts too.
    pub user: bool,
    /// The test whose every access is reported.
    pub trace: Option<u64>,
    /// After a test with conflicts the guest stands still, with all that the test has made, until
    /// [`Guest::resume`] is called: its memory can be looked at.
    pub pause: bool,
    /// Lines that sides get from other CPUs are reported, of which there are at most 64.
    pub moves: bool,
}

/// What to start.
#[derive(Clone, Debug)]
pub struct GuestOptions {
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory: u32,
    /// More parameters of the kernel.
    pub parameters: Vec<String>,
    /// Arguments for /init. It finds them in /proc/cmdline behind ` -- `: those of its process
    /// follow words that the kernel does not know itself, of which there are some.
    pub arguments: Vec<String>,
    /// Memory that the guest finds as a device ivshmem-plain; its size is a power of two.
    pub channel: Option<Arc<Ram>>,
    /// How to trace; without, the plugin is not loaded.
    pub tracing: Option<Tracing>,
    /// A guest that says nothing for so long hangs.
    pub patience: Duration,
}

impl Default for GuestOptions {
    /// Two CPUs, 1 GiB, traced, 30 s of patience: the guest boots in 5 s on an idle machine.
    fn default() -> GuestOptions {
        GuestOptions {
            cpus: 2,
            memory: 1024,
            parameters: Vec::new(),
            arguments: Vec::new(),
            channel: None,
            tracing: Some(Tracing::default()),
            patience: Duration::from_secs(30),
        }
    }
}

/// How a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// As it should.
    PoweredOff,
    /// It reset itself.
    Rebooted,
    /// The kernel gave up, and said this.
    Panicked(String),
    /// It said nothing for as long as it was given, and was killed.
    Hung(Duration),
    /// QEMU ended by itself: how, and what it said.
    Died(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::PoweredOff => f.write_str("it powered off"),
            End::Rebooted => f.write_str("it reset itself"),
            End::Panicked(said) => write!(f, "its kernel panicked: {said}"),
            End::Hung(patience) => write!(f, "it said nothing for {} s", patience.as_secs()),
            End::Died(how) => f.write_str(how),
        }
    }
}

/// Something that a guest did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A line on the serial console, without its end.
    Console(String),
    /// A result of the plugin.
    Result(Record),
    /// There is nothing after this.
    End(End),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Console,
    Results,
    Complaints,
}

struct Stream {
    source: Source,
    pipe: OwnedFd,
    /// What came after the last end of a line.
    rest: Vec<u8>,
}

/// A running guest. Dropping it kills it.
pub struct Guest {
    child: Child,
    ram: Ram,
    resume: OwnedFd,
    streams: Vec<Stream>,
    events: VecDeque<Event>,
    complaints: Vec<u8>,
    patience: Duration,
    heard: Instant,
    panic: Option<String>,
    powered_down: bool,
    ended: bool,
}

impl Guest {
    /// Starts a guest with this kernel and archive.
    ///
    /// QEMU is bound to the calling thread: it dies with it.
    pub fn start(
        kernel: &Kernel,
        initramfs: &[u8],
        options: &GuestOptions,
    ) -> Result<Guest, GuestError> {
        let kernel = memory_file("knee-kernel", kernel.image())?;
        let initrd = memory_file("knee-initramfs", initramfs)?;
        let bytes = u64::from(options.memory) << 20;
        let ram = Ram::new("knee-ram", bytes).map_err(GuestError::system("make memory"))?;
        let ram_fd = ram.as_fd().as_raw_fd();
        let mut inherited = vec![kernel.as_raw_fd(), initrd.as_raw_fd(), ram_fd];
        let mut command = Command::new(QEMU);
        command
            .args(["-nodefaults", "-no-user-config", "-nographic", "-no-reboot"])
            .args(["-serial", "stdio", "-monitor", "none"])
            // One host thread for all virtual CPUs: one that waits gives its turn to the next, and
            // handing over from one to another costs no sleep and no wake-up of a host thread.
            .args(["-accel", "tcg,thread=single"])
            .args(["-cpu", CPU])
            .arg("-smp")
            .arg(options.cpus.to_string())
            .arg("-m")
            .arg(options.memory.to_string())
            .args(["-machine", "memory-backend=ram", "-object"])
            .arg(format!(
                "memory-backend-file,id=ram,size={bytes},mem-path={},share=on",
                inherited_path(&ram)
            ))
            .arg("-kernel")
            .arg(inherited_path(&kernel))
            .arg("-initrd")
            .arg(inherited_path(&initrd))
            .arg("-append")
            .arg(command_line(options));

        if let Some(channel) = &options.channel {
            inherited.push(channel.as_fd().as_raw_fd());
            command.args(["-device", "ivshmem-plain,memdev=channel", "-object"]).arg(format!(
                "memory-backend-file,id=channel,size={},mem-path={},share=on",
                channel.bytes(),
                inherited_path(&**channel)
            ));
        }

        let (results, writer) =
            pipe_with(PipeFlags::CLOEXEC).map_err(GuestError::errno("make a pipe"))?;
        let (paused, resume) =
            pipe_with(PipeFlags::CLOEXEC).map_err(GuestError::errno("make a pipe"))?;
        let plugin = match options.tracing {
            Some(tracing) => {
                let plugin = memory_file("knee-plugin", knee_artefacts::PLUGIN)?;
                inherited.extend([plugin.as_raw_fd(), writer.as_raw_fd()]);
                let (file, out) = (inherited_path(&plugin), inherited_path(&writer));
                let user = if tracing.user { "on" } else { "off" };
                let trace = tracing.trace.map_or(String::new(), |index| format!(",trace={index}"));
                let moves = if tracing.moves { "on" } else { "off" };
                let mut arguments =
                    format!("file={file},out={out},user={user},moves={moves}{trace}");
                if tracing.pause {
                    inherited.push(paused.as_raw_fd());
                    arguments.push_str(&format!(",resume={}", inherited_path(&paused)));
                }
                command.arg("-plugin").arg(arguments);
                Some(plugin)
            }
            None => None,
        };

        let mut child = spawn(command, inherited)?;
        // QEMU has its own copies; of the pipe's end there may be no other, or it would never end.
        drop((kernel, initrd, plugin, writer, paused));
        let mut streams = Vec::new();
        let mut listen = |source, pipe: Option<OwnedFd>| {
            streams.extend(pipe.map(|pipe| Stream { source, pipe, rest: Vec::new() }));
        };
        listen(Source::Console, child.stdout.take().map(OwnedFd::from));
        listen(Source::Complaints, child.stderr.take().map(OwnedFd::from));
        listen(Source::Results, Some(results));
        Ok(Guest {
            child,
            ram,
            resume,
            streams,
            events: VecDeque::new(),
            complaints: Vec::new(),
            patience: options.patience,
            heard: Instant::now(),
            panic: None,
            powered_down: false,
            ended: false,
        })
    }

    /// The process of QEMU.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Lets a guest go on that stands still after a test with conflicts ([`Tracing::pause`]); to be
    /// called once for each. That a guest has ended meanwhile is told by its events.
    pub fn resume(&self) -> Result<(), GuestError> {
        match rustix::io::write(&self.resume, &[0]) {
            Ok(_) | Err(Errno::PIPE) => Ok(()),
            Err(errno) => Err(GuestError::errno("let a guest go on")(errno)),
        }
    }

    /// Its memory.
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// Waits for the next event; none follows the end.
    pub fn next_event(&mut self) -> Result<Option<Event>, GuestError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            if self.streams.is_empty() {
                let end = self.end()?;
                self.ended = true;
                return Ok(Some(Event::End(end)));
            }
            let left = self.patience.saturating_sub(self.heard.elapsed());
            if !self.listen(left)? && self.heard.elapsed() >= self.patience {
                self.kill();
                self.ended = true;
                // A kernel that cannot even reset itself has still said why.
                let end = self.panic.take().map_or(End::Hung(self.patience), End::Panicked);
                return Ok(Some(Event::End(end)));
            }
        }
    }

    /// Reads what there is, or waits for something; tells whether something came.
    fn listen(&mut self, at_most: Duration) -> Result<bool, GuestError> {
        let timeout = Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let pipes = self.streams.iter().map(|stream| &stream.pipe);
        let mut polled: Vec<_> = pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        match poll(&mut polled, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(errno) => return Err(GuestError::errno("wait for QEMU")(errno)),
        }
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        self.heard = Instant::now();
        let mut open = Vec::new();
        for (mut stream, ready) in std::mem::take(&mut self.streams).into_iter().zip(ready) {
            if !ready || self.read(&mut stream)? {
                open.push(stream);
            }
        }
        self.streams = open;
        Ok(true)
    }

    /// Reads once; tells whether there may be more.
    fn read(&mut self, stream: &mut Stream) -> Result<bool, GuestError> {
        let mut buffer = [0; 1 << 16];
        let count = match rustix::io::read(&stream.pipe, &mut buffer) {
            Ok(count) => count,
            Err(Errno::INTR) => return Ok(true),
            Err(errno) => return Err(GuestError::errno("read what QEMU says")(errno)),
        };
        let new = &buffer[..count];
        if stream.source == Source::Complaints {
            self.complaints.extend(new);
            let excess = self.complaints.len().saturating_sub(MAX_COMPLAINTS);
            self.complaints.drain(..excess);
            return Ok(count > 0);
        }
        stream.rest.extend(new);
        let mut begin = 0;
        let searched = stream.rest.len() - count;
        let ends: Vec<usize> =
            (searched..stream.rest.len()).filter(|&at| stream.rest[at] == b'\n').collect();
        for end in ends {
            self.line(stream.source, &stream.rest[begin..end])?;
            begin = end + 1;
        }
        stream.rest.drain(..begin);
        // A guest that died within a line has said it nevertheless, but half a result is none.
        let over = stream.rest.len() > MAX_LINE;
        if over || count == 0 && !stream.rest.is_empty() && stream.source == Source::Console {
            let rest = std::mem::take(&mut stream.rest);
            self.line(stream.source, &rest)?;
        }
        Ok(count > 0)
    }

    fn line(&mut self, source: Source, line: &[u8]) -> Result<(), GuestError> {
        let line = String::from_utf8_lossy(line).trim_end_matches('\r').to_owned();
        if source == Source::Results {
            self.events.push_back(Event::Result(Record::parse(&line)?));
            return Ok(());
        }
        if self.panic.is_none() && line.contains(PANIC) {
            self.panic = Some(line.clone());
        }
        self.powered_down |= line.contains(POWER_DOWN);
        self.events.push_back(Event::Console(line));
        Ok(())
    }

    fn end(&mut self) -> Result<End, GuestError> {
        let status = self.child.wait().map_err(GuestError::system("wait for QEMU"))?;
        let said = String::from_utf8_lossy(&self.complaints).trim().to_owned();
        Ok(match (self.panic.take(), status.code()) {
            (Some(panic), _) => End::Panicked(panic),
            (None, Some(0)) if self.powered_down => End::PoweredOff,
            (None, Some(0)) => End::Rebooted,
            (None, Some(code)) => End::Died(format!("QEMU ended with status {code}: {said}")),
            (None, None) => {
                let signal = status.signal().unwrap_or_default();
                End::Died(format!("QEMU was ended by signal {signal}: {said}"))
            }
        })
    }

    fn kill(&mut self) {
        // That it has ended by itself is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.streams.clear();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}

fn command_line(options: &GuestOptions) -> String {
    let mut line = PARAMETERS.to_owned();
    for parameter in &options.parameters {
        line.push(' ');
        line.push_str(parameter);
    }
    if !options.arguments.is_empty() {
        line.push_str(" -- ");
        line.push_str(&options.arguments.join(" "));
    }
    line
}

/// A file that lives in memory and has no name.
fn memory_file(name: &str, content: &[u8]) -> Result<OwnedFd, GuestError> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC)
        .map_err(GuestError::errno("make a file in memory"))?;
    let mut rest = content;
    while !rest.is_empty() {
        match rustix::io::write(&file, rest) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(GuestError::errno("fill a file in memory")(errno)),
        }
    }
    Ok(file)
}

/// The path by which a child that inherits the descriptor opens it.
fn inherited_path(file: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

fn spawn(mut command: Command, inherited: Vec<RawFd>) -> Result<Child, GuestError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let parent = getpid();
    // SAFETY: between fork and exec the closure makes system calls only and allocates nothing. The
    // descriptors are open: `start` owns them until the child has been spawned.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died before it was being watched.
            if getppid() != Some(parent) {
                return Err(Errno::CHILD.into());
            }
            for &fd in &inherited {
                fcntl_setfd(BorrowedFd::borrow_raw(fd), FdFlags::empty())?;
            }
            Ok(())
        });
    }
    command.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => GuestError::NoQemu(QEMU),
        _ => GuestError::System { what: "start QEMU", source },
    })
}
