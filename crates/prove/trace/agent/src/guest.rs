//! The agent as the init process of a guest. It reads plans from memory that it shares with the
//! host, runs them while the plugin traces them, reports what the calls returned, and powers off.
//! If the host has sent a program, the agent runs the program instead.

use knee_plan::{PROCESSES, Shared, run_plans};
use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use knee_marks::{Mark, emit_entries};

use crate::apart;
use crate::calibration;
use crate::cost;
use crate::disk;
use crate::fault;
use crate::program;
use crate::relay::Relay;
use crate::run::run;
use crate::workers::Workers;

/// The directory in which tests create their files.
const WORK: &CStr = c"/tmp";
const DEVICES: &str = "/sys/bus/pci/devices";
/// The PCI vendor ID and device ID of ivshmem (docs/specs/ivshmem-spec of QEMU).
const IVSHMEM: [&str; 2] = ["0x1af4", "0x1110"];
/// The prefix of the agent's lines on the console, where the kernel writes too. The rest of the
/// line is the reason why the agent failed.
pub const CONSOLE: &str = "knee-agent: ";

/// Runs the plans and powers off.
pub fn init() -> ! {
    if let Err(error) = work() {
        println!("{CONSOLE}{error}");
    }
    // SAFETY: no memory is involved, and no mounted file system loses data when the power goes off.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    std::process::exit(1)
}

fn work() -> io::Result<()> {
    mount(c"proc", c"/proc")?;
    mount(c"sysfs", c"/sys")?;
    if let Some(request) = program::request()? {
        let (at, bytes) = memory()?;
        // SAFETY: the memory is never unmapped, and nothing else uses it.
        return program::run(request, &mut unsafe { Relay::new(at, bytes) }?);
    }
    if !disk::mount(WORK)? {
        mount(c"tmpfs", WORK)?;
    }
    std::env::set_current_dir(OsStr::from_bytes(WORK.to_bytes()))?;
    apart::load_driver();
    let (at, bytes) = memory()?;
    // SAFETY: the memory is page-aligned, it is never unmapped, and nothing else uses it.
    let mut shared = unsafe { Shared::new(at, bytes) }.map_err(io::Error::other)?;
    let kallsyms = fs::read_to_string("/proc/kallsyms")?;
    shared.symbols(&kallsyms).map_err(io::Error::other)?;
    emit_entries(&kallsyms)?;
    drop(kallsyms);
    if let Some(request) = cost::request()? {
        return cost::run(&request);
    }

    // The descriptors of tests begin at 0, and the agent does not need descriptors 0 to 2.
    for fd in 0..3 {
        // SAFETY: these descriptors refer to the console, which the agent opens again at the end.
        unsafe { libc::close(fd) };
    }
    let ran = run_all(&mut shared);
    let console = File::options().read(true).write(true).open("/dev/console")?;
    for fd in 0..3 {
        // SAFETY: these numbers belong to tests, and all tests have ended.
        unsafe { libc::dup2(console.as_raw_fd(), fd) };
    }
    // The descriptor in `console` may itself be 0, 1 or 2, so it must stay open.
    let _ = console.into_raw_fd();
    ran
}

fn run_all(shared: &mut Shared) -> io::Result<()> {
    fault::install();
    let cpus = online();
    apart::prepare(cpus);
    Mark::Arm.emit();
    std::thread::yield_now();
    calibration::run(cpus)?;
    // The host gives the guest at least as many CPUs as a test has processes. A third process that no test
    // uses would only change where the kernel allocates its objects. If the kernel uses fewer CPUs than that,
    // a test could wait for a process that does not exist. But then the host rejects the calibration, and no
    // test runs.
    let workers = Workers::start(cpus.clamp(2, PROCESSES))?;
    run_plans(shared, |plan, untraced, again| run(&workers, plan, untraced, again))
        .map_err(io::Error::other)
}

/// Returns the number of CPUs.
fn online() -> usize {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get())
}

/// Maps the memory of the ivshmem device, and never unmaps it. Call this function only once.
/// Returns the address and the size in bytes.
fn memory() -> io::Result<(*mut u8, usize)> {
    for device in fs::read_dir(DEVICES)? {
        let device = device?.path();
        let is = |file: &str, wanted: &str| {
            fs::read_to_string(device.join(file)).is_ok_and(|text| text.trim() == wanted)
        };
        let [vendor, number] = IVSHMEM;
        if !is("vendor", vendor) || !is("device", number) {
            continue;
        }
        fs::write(device.join("enable"), "1")?;
        let memory = File::options().read(true).write(true).open(device.join("resource2"))?;
        let bytes = memory.metadata()?.len() as usize;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: the call creates a new mapping at an address that the kernel chooses.
        let at =
            unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, memory.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        return Ok((at.cast(), bytes));
    }
    Err(io::Error::other("there is no memory shared with the host (ivshmem)"))
}

fn mount(kind: &CStr, at: &CStr) -> io::Result<()> {
    // SAFETY: both strings are valid C strings, and these file systems need no data.
    let mounted = unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, ptr::null()) };
    if mounted == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
