//! The init of a guest in which tests check what knee's QEMU plugin reports and what it leaves out.
//!
//! The arguments are pairs of a kind and a test count, for example `lseek 1000 null 10000`. Each
//! test runs the operation of its kind twice: as side 0 on virtual CPU 0, then as side 1 on virtual
//! CPU 1. After the tests of a pair, this program prints the index that the plugin gave to the
//! first test, and the test count: `probe lseek 0 1000`. After all pairs, it powers off.

use std::error::Error;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::{hint, mem, ptr, thread};

use knee_marks::{Mark, emit_entries};

/// The number of untraced runs before the first test of a kind. These runs fill slabs, page tables and each
/// CPU's caches.
const WARM_UP: u32 = 50;
/// The number of system calls in a long operation, which lasts several ticks of a timer at 250 Hz.
const LONG_CALLS: u32 = 20_000;
const SIDES: [u8; 2] = [0, 1];

fn main() {
    if let Err(error) = run() {
        println!("probe failed: {error}");
    }
    // SAFETY: no memory is involved, and no mounted file system loses data when the power goes off.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    mount("proc", "/proc")?;
    mount("tmpfs", "/tmp")?;
    emit_entries(&fs::read_to_string("/proc/kallsyms")?)?;
    Mark::Arm.emit();
    thread::yield_now();

    let state = State::new()?;
    // The process's own arguments also contain the kernel parameters that the kernel does not know.
    let line = fs::read_to_string("/proc/cmdline")?;
    let arguments = line.split_once(" -- ").map_or("", |(_, arguments)| arguments);
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let mut first = 0;
    for pair in arguments.chunks(2) {
        let [kind, tests] = pair else { return Err("each kind needs a number of tests".into()) };
        let tests: u32 = tests.parse()?;
        let operation = operation(kind).ok_or_else(|| format!("there is no kind {kind}"))?;
        run_tests(&state, operation, tests)?;
        println!("probe {kind} {first} {tests}");
        first += tests;
    }
    Ok(())
}

/// A page of memory.
#[repr(align(4096))]
struct Page([AtomicU8; 4096]);

struct State {
    files: [File; 2],
    shared: File,
    pages: [Page; 2],
    line: Page,
}

impl State {
    fn new() -> io::Result<State> {
        let file = |name: &str| -> io::Result<File> {
            fs::write(name, [7; 4096])?;
            File::options().read(true).write(true).open(name)
        };
        let page = || Page([const { AtomicU8::new(0) }; 4096]);
        Ok(State {
            files: [file("/tmp/a")?, file("/tmp/b")?],
            shared: file("/tmp/shared")?,
            pages: [page(), page()],
            line: page(),
        })
    }

    /// Byte 10 of one cache line for side 0, and the neighbouring byte 11 for side 1.
    fn neighbour(&self, side: usize) -> &AtomicU8 {
        &self.line.0[10 + side]
    }
}

type Operation = fn(&State, usize);

fn operation(kind: &str) -> Option<Operation> {
    Some(match kind {
        "null" => |_, _| {},
        "getppid" => |_, _| getppid(),
        "pread" => |state, side| pread(&state.files[side], state.pages[side].0.as_ptr().cast(), 64),
        "lseek" => |state, _| lseek(state),
        // The two sides make the kernel write neighbouring bytes of one cache line.
        "kernel-neighbours" => {
            |state, side| pread(&state.files[side], ptr::from_ref(state.neighbour(side)).cast(), 1)
        }
        "user-counter" => |state, _| {
            // SAFETY: the 8 bytes are aligned and within the page, and only this operation accesses
            // them, atomically.
            unsafe { AtomicU64::from_ptr(state.line.0.as_ptr().cast_mut().cast()) }
                .store(1, Ordering::Relaxed);
        },
        // One repeated string instruction stores all bytes: 1 byte or 100 bytes.
        "string-1" => |state, side| store_string(&state.pages[side], 1),
        "string-100" => |state, side| store_string(&state.pages[side], 100),
        "user-neighbours" => |state, side| state.neighbour(side).store(1, Ordering::Relaxed),
        "long-getppid" => |_, _| (0..LONG_CALLS).for_each(|_| getppid()),
        // The calls that conflict are the last call of side 0 and the first call of side 1.
        "long-lseek" => |state, side| {
            if side == 1 {
                lseek(state);
            }
            (0..LONG_CALLS).for_each(|_| getppid());
            if side == 0 {
                lseek(state);
            }
        },
        // The task sleeps while the plugin observes it.
        "sleep" => |_, _| thread::sleep(std::time::Duration::from_millis(1)),
        "panic" => |_, _| drop(fs::write("/proc/sysrq-trigger", "c")),
        "reset" => |_, _| drop(fs::write("/proc/sysrq-trigger", "b")),
        "exhaust" => |_, _| exhaust(),
        "hang" => |_, _| loop {
            hint::spin_loop();
        },
        _ => return None,
    })
}

/// Stores zeroes with a repeated string instruction. QEMU may end a translation block before or after such an
/// instruction.
fn store_string(page: &Page, bytes: usize) {
    // SAFETY: the page consists of atomics and is larger than `bytes`, and only this side uses the page.
    unsafe {
        std::arch::asm!(
            "rep stosb",
            inout("rcx") bytes => _,
            inout("rdi") page.0.as_ptr() => _,
            in("al") 0_u8,
            options(nostack, preserves_flags)
        );
    }
}

/// Allocates more memory than the guest has.
fn exhaust() {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_POPULATE;
    // SAFETY: the call creates a new mapping, to which nothing refers.
    unsafe { libc::mmap(ptr::null_mut(), 1 << 40, libc::PROT_WRITE, flags, -1, 0) };
}

fn getppid() {
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_getppid) };
}

fn pread(file: &File, to: *const libc::c_void, length: usize) {
    // SAFETY: the callers pass buffers of this length, which consist of atomics.
    unsafe { libc::pread(file.as_raw_fd(), to.cast_mut(), length, 0) };
}

fn lseek(state: &State) {
    // SAFETY: no memory is involved.
    unsafe { libc::lseek(state.shared.as_raw_fd(), 0, libc::SEEK_CUR) };
}

/// The number of the current turn: even turns belong to side 0, odd turns to side 1.
#[repr(align(128))]
struct Turn(AtomicU32);

fn run_tests(state: &State, operation: Operation, tests: u32) -> io::Result<()> {
    let turn = &Turn(AtomicU32::new(0));
    let wait = |mine: u32| {
        while turn.0.load(Ordering::Acquire) != mine {
            hint::spin_loop();
        }
    };
    let pass = |next: u32| turn.0.store(next, Ordering::Release);
    // A single test has no warm-up, because an operation such as `panic` never returns.
    let warm_up = if tests == 1 { 0 } else { WARM_UP };
    thread::scope(|scope| {
        let other = scope.spawn(move || {
            pin(1)?;
            for test in 0..warm_up + tests {
                wait(2 * test + 1);
                if test < warm_up {
                    operation(state, 1)
                } else {
                    window(state, operation, 1)
                }
                pass(2 * test + 2);
            }
            Ok::<_, io::Error>(())
        });
        pin(0)?;
        for test in 0..warm_up + tests {
            if test < warm_up {
                operation(state, 0);
            } else {
                Mark::Begin.emit();
                window(state, operation, 0);
            }
            pass(2 * test + 1);
            wait(2 * test + 2);
            if test >= warm_up {
                Mark::End.emit();
            }
        }
        other.join().map_err(|_| io::Error::other("side 1 panicked"))?
    })
}

#[inline(never)]
fn window(state: &State, operation: Operation, side: usize) {
    Mark::Open(SIDES[side]).emit();
    operation(state, side);
    Mark::Close(SIDES[side]).emit();
}

fn pin(cpu: usize) -> io::Result<()> {
    // SAFETY: `cpu_set_t` consists of plain bits, so zeroes are valid; the kernel reads only the
    // given size.
    unsafe {
        let mut cpus: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(cpu, &mut cpus);
        check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &cpus))
    }
}

fn mount(kind: &str, at: &str) -> io::Result<()> {
    let (kind, at) = (CString::new(kind)?, CString::new(at)?);
    // SAFETY: both strings end in a zero, and these file systems need no data.
    let mounted = unsafe {
        libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), libc::MS_NOATIME, ptr::null())
    };
    check(mounted)
}

fn check(returned: libc::c_int) -> io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
