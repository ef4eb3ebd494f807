//! A guest under QEMU: its kernel, its console, and how it ends. The module `process` starts QEMU
//! and reads its output.
//!
//! The kernel parameters make a guest deterministic and fast (5 s from start to power-off):
//!
//! * no mitigations of CPU vulnerabilities, because they double the length of the kernel's entry code;
//! * no kernel service that wakes up by itself, if the service can be turned off;
//! * no zeroing of allocated memory, unless the allocating code requests it;
//! * no test of the timer, because this test fails when the host is busy;
//! * no merging of slab caches of the same size, because a cache's name identifies the type of its
//!   objects;
//! * a panic, an oops or the out-of-memory killer ends the guest at once, so that the test that
//!   caused it is known.

use std::fmt;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::task::Poll;
use std::time::Duration;

use crate::error::GuestError;
use crate::kernel::Kernel;
use crate::knee_kernel::KneeKernel;
use crate::process::{Launch, Qemu, QemuEvent, Tracing, memory_file};
use crate::qemu::Emulator;
use crate::ram::Ram;
use crate::record::Record;

const PARAMETERS: &str = "console=ttyS0 quiet panic=-1 oops=panic sysctl.vm.panic_on_oom=1 \
                          mitigations=off nokaslr slab_nomerge init_on_alloc=0 nowatchdog \
                          nosoftlockup tsc=reliable no_timer_check";
/// All features that TCG supports, except:
///
/// * five levels of page tables, which would make walks longer and addresses wider without a benefit;
/// * fast string instructions (erms, fsrm): TCG executes them a byte or a word at a time, at fifty times the
///   cost of the kernel's loops. The CPU is model 4 of family 15, on which Linux avoids `rep` as well;
/// * cmpxchg16b: QEMU 7.2 sometimes leaves garbage in the flags, and Linux 6.12, whose slab
///   allocator uses the instruction, dies of a double fault;
/// * smap: without it, the AC flag has no effect in the kernel, so the agent can use this flag to mark
///   windows.
const CPU: &str = "max,la57=off,erms=off,fsrm=off,model=4,cx16=off,smap=off";
/// While a traced guest boots, [`GuestOptions::patience`] is multiplied by this number. A booting
/// guest prints nothing for 5 s on an idle machine, and for longer on a busy machine.
const BOOT: u32 = 4;
/// Maximum length of a panic message in characters. The console line of a broken kernel may have any length.
const MAX_PANIC: usize = 500;
/// Linux's last message before it powers off (kernel_power_off of kernel/reboot.c), and the start of its
/// panic message. `quiet` suppresses neither.
const OF_LINUX: Messages =
    Messages { power_down: "reboot: Power down", panic: "Kernel panic - not syncing" };
/// The corresponding two texts of knee's own kernel.
const OF_KNEE: Messages = Messages { power_down: "passed", panic: "panicked at " };
/// Where knee's own kernel expects its parameters: `AT` of its module `parameters`.
const PARAMETERS_AT: u64 = 0xf0_0000;
/// Where knee's own kernel expects the memory that it shares with knee: after its image and its heap
/// (`IMAGE_END` and `HEAP` of its `lib.rs`).
pub(crate) const KNEE_CHANNEL_AT: u64 = 64 << 20;

/// Text on the console that shows how a kernel ends.
#[derive(Clone, Copy, Debug)]
struct Messages {
    power_down: &'static str,
    panic: &'static str,
}

/// How to start a guest.
#[derive(Clone, Debug)]
pub struct GuestOptions {
    /// The QEMU that runs the guest.
    pub emulator: Emulator,
    /// The number of virtual CPUs.
    pub cpus: u32,
    /// The number of memory nodes. Each node has an equal share of the CPUs and of the memory, so both must be
    /// multiples of this number.
    pub nodes: u32,
    /// Memory in MiB, at most [`GuestOptions::MOST_MEMORY`].
    pub memory: u32,
    /// Additional kernel parameters.
    pub parameters: Vec<String>,
    /// Arguments for /init. In /proc/cmdline, the arguments follow ` -- `. The `argv` of /init contains the
    /// arguments, and also all parameters that the kernel does not know.
    pub arguments: Vec<String>,
    /// Memory that the guest sees as an ivshmem-plain device. Its size must be a power of two.
    pub channel: Option<Ram>,
    /// How to trace; `None` to start without the plugin.
    pub tracing: Option<Tracing>,
    /// A guest that prints nothing for this long counts as hung. While a traced guest boots, this time
    /// is four times as long.
    pub patience: Duration,
}

impl Default for GuestOptions {
    /// The installed QEMU, two CPUs, one memory node, 1 GiB, traced, 30 s of patience. On an idle machine, the guest boots
    /// in 5 s.
    fn default() -> GuestOptions {
        GuestOptions {
            emulator: Emulator::default(),
            cpus: 2,
            nodes: 1,
            memory: 1024,
            parameters: Vec::new(),
            arguments: Vec::new(),
            channel: None,
            tracing: Some(Tracing::default()),
            patience: Duration::from_secs(30),
        }
    }
}

impl GuestOptions {
    /// Maximum memory in MiB. If a guest had more memory than this, QEMU's PC would place the rest above
    /// 4 GiB, where knee would not find it.
    pub const MOST_MEMORY: u32 = 3 << 10;

    /// The CPUs of each memory node; bit n is set for CPU n.
    pub(crate) fn node_cpus(&self) -> Vec<u64> {
        let cpus = (self.cpus / self.nodes.max(1)).clamp(1, u64::BITS);
        let first = u64::MAX >> (u64::BITS - cpus);
        (0..self.nodes.max(1)).map(|node| first.checked_shl(node * cpus).unwrap_or(0)).collect()
    }
}

/// How a guest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The guest powered off, as it should.
    PoweredOff,
    /// The program exited, as it should after its last test.
    Exited,
    /// The guest reset itself.
    Rebooted,
    /// The guest's kernel panicked, with this message.
    Panicked(String),
    /// The guest or the program printed nothing for this long, and was killed.
    Hung(Duration),
    /// The guest or the program kept running for this long without completing a test or an operation, and
    /// was killed.
    Endless(Duration),
    /// QEMU or the program ended in another way. The text describes how, and then quotes the end of the
    /// standard error.
    Died(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::PoweredOff => f.write_str("it shut down"),
            End::Exited => f.write_str("it exited"),
            End::Rebooted => f.write_str("it rebooted"),
            End::Panicked(message) => write!(f, "its kernel panicked: {message}"),
            End::Hung(patience) => write!(f, "it printed nothing for {} s", patience.as_secs()),
            End::Endless(limit) => {
                write!(f, "it ran for {} s without completing a test", limit.as_secs())
            }
            End::Died(how) => f.write_str(how),
        }
    }
}

/// An event of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A line on the serial console, without its newline.
    Console(String),
    /// A result from the plugin.
    Result(Record),
    /// The guest has ended. This is the last event.
    End(End),
}

/// A running guest. Dropping this kills the guest.
pub struct Guest {
    emulator: Emulator,
    qemu: Qemu,
    ram: Ram,
    messages: Messages,
    /// The patience that will apply after the first result; `None` once this result has arrived.
    when_up: Option<Duration>,
    panic: Option<String>,
    powered_down: bool,
}

impl Guest {
    /// Starts a guest with this kernel and initramfs.
    ///
    /// QEMU is bound to the calling thread: the kernel kills QEMU when that thread ends.
    pub fn start(
        kernel: &Kernel,
        initramfs: &[u8],
        options: &GuestOptions,
    ) -> Result<Guest, GuestError> {
        Guest::boot(OF_LINUX, options, |launch, _| {
            let kernel = launch.inherit(memory_file("knee-kernel", kernel.image())?);
            let initrd = launch.inherit(memory_file("knee-initramfs", initramfs)?);
            let line = command_line(options);
            launch.command().args(["-kernel", &kernel, "-initrd", &initrd, "-append", &line]);
            Ok(())
        })
    }

    /// Starts a guest with knee's own kernel and its parameters, like [`Guest::start`]. `channel` is the
    /// content of the guest's memory at [`KNEE_CHANNEL_AT`].
    pub(crate) fn start_knee(
        kernel: &KneeKernel,
        parameters: &str,
        channel: &[u8],
        options: &GuestOptions,
    ) -> Result<Guest, GuestError> {
        let (cpus, memory) = (options.cpus, options.memory);
        let parameters = format!("cpus={cpus} memory={memory} {parameters}");
        Guest::boot(OF_KNEE, options, |launch, ram| {
            let failed = GuestError::system("write the memory of a guest");
            ram.write(KNEE_CHANNEL_AT, channel).map_err(failed)?;
            let kernel = launch.inherit(memory_file("knee-kernel", kernel.image())?);
            let file = memory_file("knee-parameters", parameters.as_bytes())?;
            let file = launch.inherit(file);
            let loader = format!("loader,file={file},addr={PARAMETERS_AT:#x},force-raw=on");
            launch.command().args(["-kernel", &kernel, "-device", &loader]);
            Ok(())
        })
    }

    /// Starts QEMU. `add` adds the arguments that select the kernel, and may write the guest's memory.
    fn boot(
        messages: Messages,
        options: &GuestOptions,
        add: impl FnOnce(&mut Launch, &Ram) -> Result<(), GuestError>,
    ) -> Result<Guest, GuestError> {
        let bytes = u64::from(options.memory) << 20;
        let &GuestOptions { cpus, memory, nodes, .. } = options;
        if nodes == 0 || cpus == 0 || !cpus.is_multiple_of(nodes) || !memory.is_multiple_of(nodes) {
            return Err(GuestError::Nodes { cpus, memory, nodes });
        }
        let ram = Ram::in_parts("knee-ram", bytes, nodes)
            .map_err(GuestError::system("allocate memory for a guest"))?;
        let mut launch = Launch::machine(options.emulator.command());
        let objects = backends(&mut launch, "ram", &ram)?;
        launch
            .command()
            .args(["-nodefaults", "-no-user-config", "-nographic", "-no-reboot"])
            .args(["-serial", "stdio", "-monitor", "none"])
            .args(options.emulator.sandbox())
            // One host thread runs all virtual CPUs. A waiting virtual CPU yields to the next one, so no host
            // thread has to sleep or wake up.
            .args(["-accel", "tcg,thread=single"])
            .args(["-cpu", CPU])
            .arg("-smp")
            .arg(cpus.to_string())
            .arg("-m")
            .arg(memory.to_string());
        for object in &objects {
            launch.command().args(["-object", object]);
        }
        if nodes == 1 {
            launch.command().args(["-machine", "memory-backend=ram0"]);
        } else {
            let each = cpus / nodes;
            for node in 0..nodes {
                let (first, last) = (node * each, (node + 1) * each - 1);
                let node = format!("node,nodeid={node},cpus={first}-{last},memdev=ram{node}");
                launch.command().args(["-numa", &node]);
            }
        }
        add(&mut launch, &ram)?;
        if let Some(channel) = &options.channel {
            for object in backends(&mut launch, "channel", channel)? {
                launch.command().args(["-object", &object]);
            }
            launch.command().args(["-device", "ivshmem-plain,memdev=channel0"]);
        }
        let mut patience = options.patience;
        if let Some(tracing) = options.tracing {
            launch.trace(tracing)?;
            patience *= BOOT;
        }
        let qemu = launch.start(patience)?;
        let emulator = options.emulator.clone();
        let when_up = Some(options.patience);
        Ok(Guest { emulator, qemu, ram, messages, when_up, panic: None, powered_down: false })
    }

    /// QEMU's process id.
    pub fn id(&self) -> u32 {
        self.qemu.id()
    }

    /// Resumes a guest that pauses after a test ([`Tracing::pause`]). Call this once for each pause.
    /// Does nothing if the guest has ended; an event reports the end.
    pub fn resume(&self) -> Result<(), GuestError> {
        self.qemu.resume()
    }

    /// The QEMU that runs the guest.
    pub fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// The guest's memory.
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// Restarts the timeout of [`GuestOptions::patience`]. Call this when the guest has written to shared
    /// memory, because then the guest has not hung.
    pub(crate) fn reset_patience(&mut self) {
        self.qemu.reset_patience();
    }

    /// Starts a step, such as a test. The guest is killed if the next step does not start within ten times
    /// [`GuestOptions::patience`], even if the guest keeps printing. Until the first call of this function,
    /// there is no such limit.
    pub fn begin_step(&mut self) {
        self.qemu.begin_step();
    }

    /// Waits for the next event; `None` after the end.
    pub fn next_event(&mut self) -> Result<Option<Event>, GuestError> {
        let event = self.qemu.next()?;
        Ok(event.map(|event| self.event(event)))
    }

    /// Waits at most `at_most` for the next event.
    pub(crate) fn poll(&mut self, at_most: Duration) -> Result<Poll<Option<Event>>, GuestError> {
        let event = self.qemu.poll(at_most)?;
        Ok(event.map(|event| event.map(|event| self.event(event))))
    }

    fn event(&mut self, event: QemuEvent) -> Event {
        match event {
            QemuEvent::Line(line) => {
                // The firmware may have printed text before the message on the same line.
                if let (None, Some(at)) = (&self.panic, line.find(self.messages.panic)) {
                    self.panic = Some(line[at..].chars().take(MAX_PANIC).collect());
                }
                self.powered_down |= line.contains(self.messages.power_down);
                Event::Console(line)
            }
            QemuEvent::Result(record) => {
                if let Some(patience) = self.when_up.take() {
                    self.qemu.set_patience(patience);
                }
                Event::Result(record)
            }
            // If the kernel panicked but could not reset the machine, report the panic and not a hang.
            QemuEvent::Silent(patience) => {
                Event::End(self.panic.take().map_or(End::Hung(patience), End::Panicked))
            }
            QemuEvent::Endless(limit) => {
                Event::End(self.panic.take().map_or(End::Endless(limit), End::Panicked))
            }
            QemuEvent::Ended(status, stderr) => {
                Event::End(match (self.panic.take(), status.code()) {
                    (Some(panic), _) => End::Panicked(panic),
                    (None, Some(0)) if self.powered_down => End::PoweredOff,
                    (None, Some(0)) => End::Rebooted,
                    (None, Some(code)) => {
                        End::Died(format!("QEMU ended with status {code}: {stderr}"))
                    }
                    (None, None) => {
                        let signal = status.signal().unwrap_or_default();
                        End::Died(format!("QEMU was killed by signal {signal}: {stderr}"))
                    }
                })
            }
        }
    }
}

/// Lets QEMU inherit the files of `ram`. Returns an argument of QEMU's option `-object` for each file. The IDs
/// of these objects are `id` followed by the number of the file.
fn backends(launch: &mut Launch, id: &str, ram: &Ram) -> Result<Vec<String>, GuestError> {
    let backend = |(number, part): (usize, &File)| {
        let file = part.try_clone().map_err(GuestError::system("share memory with a guest"))?;
        let (path, bytes) = (launch.inherit(file.into()), ram.part_bytes());
        Ok(format!("memory-backend-file,id={id}{number},size={bytes},mem-path={path},share=on"))
    };
    ram.parts().iter().enumerate().map(backend).collect()
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
