//! A guest under QEMU: its kernel, its console, and how it ends. The module `process` starts QEMU
//! and reads its output.
//!
//! The kernel's parameters are there for determinism and speed, as research with prototypes found
//! (5 s from start to power-off): no mitigations, which double the entry code; nothing that wakes
//! up by itself where it can be turned off; no zeroing of memory unless it is requested; no
//! test of the timer that fails when the host is busy; caches of the slab allocator that are not
//! merged with others of the same size, as a cache's name identifies the type of its objects; a
//! panic, an oops and the out-of-memory killer all end the guest at once, so that its test is known.

use std::fmt;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::error::GuestError;
use crate::kernel::Kernel;
use crate::process::{Launch, Qemu, QemuEvent, Tracing, memory_file};
use crate::qemu::Emulator;
use crate::ram::Ram;
use crate::record::Record;

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
///   use it, dies of a double fault;
/// * smap, so that the flag AC means nothing to the kernel: agents mark windows with it.
const CPU: &str = "max,la57=off,erms=off,fsrm=off,model=4,cx16=off,smap=off";
/// A traced guest may take this many times its patience to boot. What takes 5 s on an idle machine takes
/// longer on a busy one, and prints nothing meanwhile.
const BOOT: u32 = 4;
/// What Linux prints last, at a level that `quiet` lets through (kernel_power_off of kernel/reboot.c).
const POWER_DOWN: &str = "reboot: Power down";
const PANIC: &str = "Kernel panic - not syncing";

/// What to start.
#[derive(Clone, Debug)]
pub struct GuestOptions {
    /// The QEMU that runs the guest.
    pub emulator: Emulator,
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
    /// A guest that prints nothing for this long counts as hung. A traced one may boot for four times as
    /// long.
    pub patience: Duration,
}

impl Default for GuestOptions {
    /// The installed QEMU, two CPUs, 1 GiB, traced, 30 s of patience: the guest boots in 5 s on an idle machine.
    fn default() -> GuestOptions {
        GuestOptions {
            emulator: Emulator::default(),
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
    /// It exited, as a program should that has run all of its tests.
    Exited,
    /// It reset itself.
    Rebooted,
    /// The kernel panicked, with this message.
    Panicked(String),
    /// It printed nothing for this long, and was killed.
    Hung(Duration),
    /// QEMU ended by itself: how, and what it printed.
    Died(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::PoweredOff => f.write_str("it shut down"),
            End::Exited => f.write_str("it exited"),
            End::Rebooted => f.write_str("it rebooted"),
            End::Panicked(said) => write!(f, "its kernel panicked: {said}"),
            End::Hung(patience) => write!(f, "it printed nothing for {} s", patience.as_secs()),
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

/// A running guest. Dropping it kills it.
pub struct Guest {
    emulator: Emulator,
    qemu: Qemu,
    ram: Ram,
    /// The patience with it from its first result on.
    when_up: Option<Duration>,
    panic: Option<String>,
    powered_down: bool,
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
        let bytes = u64::from(options.memory) << 20;
        let ram = Ram::new("knee-ram", bytes)
            .map_err(GuestError::system("allocate memory for a guest"))?;
        let mut launch = Launch::machine(options.emulator.command());
        let kernel = launch.inherit(memory_file("knee-kernel", kernel.image())?);
        let initrd = launch.inherit(memory_file("knee-initramfs", initramfs)?);
        let memory = backend(&mut launch, "ram", &ram)?;
        launch
            .command()
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
            .args(["-machine", "memory-backend=ram", "-object", &memory])
            .args(["-kernel", &kernel, "-initrd", &initrd])
            .arg("-append")
            .arg(command_line(options));
        if let Some(channel) = &options.channel {
            let memory = backend(&mut launch, "channel", channel)?;
            let device = ["-device", "ivshmem-plain,memdev=channel", "-object", &memory];
            launch.command().args(device);
        }
        let mut patience = options.patience;
        if let Some(tracing) = options.tracing {
            launch.trace(tracing)?;
            patience *= BOOT;
        }
        let qemu = launch.start(patience)?;
        let emulator = options.emulator.clone();
        let when_up = Some(options.patience);
        Ok(Guest { emulator, qemu, ram, when_up, panic: None, powered_down: false })
    }

    /// The process of QEMU.
    pub fn id(&self) -> u32 {
        self.qemu.id()
    }

    /// Resumes a guest that is paused after a test with conflicts ([`Tracing::pause`]); call it once for
    /// each pause. If the guest has ended meanwhile, this does nothing; the end is an event.
    pub fn resume(&self) -> Result<(), GuestError> {
        self.qemu.resume()
    }

    /// The QEMU that it runs in.
    pub fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// Its memory.
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// It has written to memory that it shares with the host, so it does not hang.
    pub(crate) fn reset_patience(&mut self) {
        self.qemu.reset_patience();
    }

    /// Waits for the next event; none follows the end.
    pub fn next_event(&mut self) -> Result<Option<Event>, GuestError> {
        let event = self.qemu.next()?;
        Ok(event.map(|event| self.event(event)))
    }

    /// Waits for the next event, but not for longer than this.
    pub(crate) fn poll(&mut self, at_most: Duration) -> Result<Poll<Option<Event>>, GuestError> {
        let event = self.qemu.poll(at_most)?;
        Ok(event.map(|event| event.map(|event| self.event(event))))
    }

    fn event(&mut self, event: QemuEvent) -> Event {
        match event {
            QemuEvent::Line(line) => {
                // The firmware may have begun the line.
                if let (None, Some(at)) = (&self.panic, line.find(PANIC)) {
                    self.panic = Some(line[at..].to_owned());
                }
                self.powered_down |= line.contains(POWER_DOWN);
                Event::Console(line)
            }
            QemuEvent::Result(record) => {
                if let Some(patience) = self.when_up.take() {
                    self.qemu.set_patience(patience);
                }
                Event::Result(record)
            }
            // A kernel that cannot even reset itself has still printed the reason.
            QemuEvent::Silent(patience) => {
                Event::End(self.panic.take().map_or(End::Hung(patience), End::Panicked))
            }
            QemuEvent::Ended(status, complaints) => {
                Event::End(match (self.panic.take(), status.code()) {
                    (Some(panic), _) => End::Panicked(panic),
                    (None, Some(0)) if self.powered_down => End::PoweredOff,
                    (None, Some(0)) => End::Rebooted,
                    (None, Some(code)) => {
                        End::Died(format!("QEMU ended with status {code}: {complaints}"))
                    }
                    (None, None) => {
                        let signal = status.signal().unwrap_or_default();
                        End::Died(format!("QEMU was killed by signal {signal}: {complaints}"))
                    }
                })
            }
        }
    }
}

/// Memory that QEMU shares with knee, as an argument of its option `-object`.
fn backend(launch: &mut Launch, id: &str, ram: &Ram) -> Result<String, GuestError> {
    let file = ram
        .as_fd()
        .try_clone_to_owned()
        .map_err(GuestError::system("share memory with a guest"))?;
    let (path, bytes) = (launch.inherit(file), ram.bytes());
    Ok(format!("memory-backend-file,id={id},size={bytes},mem-path={path},share=on"))
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
