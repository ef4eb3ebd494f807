//! Trials with known verdicts. A guest runs these trials before anything else. They show whether, with this
//! QEMU, the plugin finds exactly the memory that two CPUs share.
//!
//! Each virtual CPU has its own process, which waits for a request to do a trial's operation. The
//! operations are system calls, so that trials are traced in the same way as tests.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::SeqCst};

use knee_marks::Mark;
use knee_operations::trials::{Kind, NEIGHBOURS_AT, Trial, WARM_UP, WORD_AT, WORD_BYTES, trials};

use crate::apart;
use crate::workers::{Word, pin};

/// The maximum number of reads that a trial makes while it waits for its timer.
const MOST_READS: u32 = 100_000;
/// The time after which a trial's timer expires. Both the call that sets the timer and the wait for the timer
/// are traced.
const TIMER_NANOS: i64 = 100_000;
const LINE: usize = 64;
const PAGE: usize = 4096;

// Values of [`Place::request`]. `SIDE` requests the operation of the first side, and `SIDE + 1` that of the
// second.
const IDLE: u32 = 0;
const UNSEEN: u32 = 1;
const SIDE: u32 = 2;
const EXIT: u32 = 4;

/// A request to a CPU's process, in memory that the process shares with the agent.
#[repr(align(128))]
struct Place {
    request: Word,
    kind: AtomicU32,
}

/// The cache lines that all processes access.
#[repr(C, align(4096))]
struct Shared {
    /// The cache line that contains the shared word.
    word: [AtomicU8; LINE],
    /// The cache line that contains the two neighbouring bytes.
    neighbours: [AtomicU8; LINE],
}

/// Runs the trials in the working directory, which must be empty, and leaves it empty. Call this function
/// after [`Mark::Arm`]. Returns the number of trials, each of which the plugin counts as a test.
pub(crate) fn run(cpus: usize) -> io::Result<u64> {
    let count = trials(&Kind::ALL, cpus).count() as u64;
    if count == 0 {
        return Ok(count);
    }
    pin(0);
    let memory = Memory::new(cpus)?;
    fs::write("calibration", [7; LINE])?;
    let one_file = File::open("calibration")?;
    let children = (0..cpus)
        .map(|cpu| {
            make_zeroes(&file_of(cpu))?;
            // SAFETY: this process has only one thread.
            match unsafe { libc::fork() } {
                -1 => Err(io::Error::last_os_error()),
                0 => serve(&memory, cpu, &one_file),
                id => Ok(id),
            }
        })
        .collect::<io::Result<Vec<_>>>()?;
    for kind in Kind::ALL {
        for cpu in (0..WARM_UP).flat_map(|_| 0..cpus) {
            memory.perform(cpu, kind, UNSEEN);
        }
    }
    for Trial { kind, first, second } in trials(&Kind::ALL, cpus) {
        Mark::Begin.emit();
        memory.perform(first, kind, SIDE);
        memory.perform(second, kind, SIDE + 1);
        Mark::End.emit();
    }
    for (cpu, child) in children.into_iter().enumerate() {
        memory.post(cpu, Kind::Nothing, EXIT);
        // SAFETY: `child` is a child of this process, and its status is not stored.
        unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
        fs::remove_file(file_of(cpu))?;
    }
    fs::remove_file("calibration")?;
    Ok(count)
}

fn file_of(cpu: usize) -> String {
    format!("calibration{cpu}")
}

/// Makes an endless file of zeroes (/dev/zero). An ordinary file would not do: repeated reads mark its pages
/// active, and the kernel counts active pages in variables that all CPUs share.
fn make_zeroes(path: &str) -> io::Result<()> {
    let node = CString::new(path)?;
    // SAFETY: the path is a valid C string.
    match unsafe { libc::mknod(node.as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(1, 5)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Memory that all processes share until the guest powers off.
#[derive(Clone, Copy)]
struct Memory {
    shared: &'static Shared,
    places: &'static [Place],
}

impl Memory {
    fn new(cpus: usize) -> io::Result<Memory> {
        let bytes = PAGE + cpus * size_of::<Place>();
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: the memory is new and is never unmapped. It contains only zeroes, which are valid values of
        // atomics. The mapping is large enough: its first page contains the `Shared`, and `cpus` values of
        // type `Place` follow.
        unsafe {
            let flags = flags | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
            let at = libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0);
            if at == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let places = at.cast::<u8>().add(PAGE).cast::<Place>();
            let places = std::slice::from_raw_parts(places, cpus);
            Ok(Memory { shared: &*at.cast::<Shared>(), places })
        }
    }

    /// Sends a request to the process of a CPU, and waits until the process has completed it.
    fn perform(&self, cpu: usize, kind: Kind, request: u32) {
        self.post(cpu, kind, request);
        self.places[cpu].request.wait(IDLE, || false);
    }

    fn post(&self, cpu: usize, kind: Kind, request: u32) {
        let place = &self.places[cpu];
        place.kind.store(kind as u32, SeqCst);
        place.request.set(request);
    }
}

/// The loop of a CPU's process: serves requests until `EXIT`.
fn serve(memory: &Memory, cpu: usize, one_file: &File) -> ! {
    pin(cpu);
    let own = Own::new(cpu, memory.shared, one_file);
    let place = &memory.places[cpu];
    loop {
        let request = place.request.wait_while(IDLE);
        if request == EXIT {
            // SAFETY: `_exit` ends the process without running exit handlers, which belong to the
            // parent.
            unsafe { libc::_exit(0) }
        }
        let kind = Kind::ALL[place.kind.load(SeqCst) as usize];
        match (&own, request.checked_sub(SIDE)) {
            (Ok(own), Some(side)) => own.window(kind, side as u8),
            (Ok(own), None) => own.operate(kind, 0),
            // Do nothing: the calibration then fails, because no call of this trial is traced.
            (Err(_), _) => {}
        }
        place.request.set(IDLE);
    }
}

/// The objects of a CPU's process.
struct Own<'s> {
    shared: &'s Shared,
    one_file: &'s File,
    file: File,
    timer: OwnedFd,
}

impl<'s> Own<'s> {
    fn new(cpu: usize, shared: &'s Shared, one_file: &'s File) -> io::Result<Own<'s>> {
        let file = File::open(file_of(cpu))?;
        // SAFETY: the descriptor is new, and nothing else owns it.
        let timer = unsafe {
            match libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK) {
                -1 => return Err(io::Error::last_os_error()),
                fd => OwnedFd::from_raw_fd(fd),
            }
        };
        Ok(Own { shared, one_file, file, timer })
    }

    /// Makes a traced call: opens the window of this side, performs the operation, and closes the window.
    /// This function is not inlined, so that each mark occurs only once in the code.
    #[inline(never)]
    fn window(&self, kind: Kind, side: u8) {
        apart::open(side, true);
        self.operate(kind, side.into());
        apart::close(side);
    }

    #[inline(always)]
    fn operate(&self, kind: Kind, side: usize) {
        let mut own = [0_u8; LINE];
        match kind {
            Kind::Nothing => {}
            // SAFETY: no memory is involved.
            Kind::NoObject => unsafe {
                libc::syscall(libc::SYS_getppid);
            },
            Kind::TwoFiles => self.read(own.as_mut_ptr(), LINE),
            Kind::Interrupted => self.wait_for_interrupt(&mut own),
            Kind::SharedWord => {
                self.read(self.shared.word[WORD_AT].as_ptr(), WORD_BYTES);
            }
            Kind::NeighbouringBytes => {
                self.read(self.shared.neighbours[NEIGHBOURS_AT + side].as_ptr(), 1);
            }
            // SAFETY: no memory is involved.
            Kind::OneFile => unsafe {
                libc::lseek(self.one_file.as_raw_fd(), 0, libc::SEEK_CUR);
            },
        }
    }

    /// Reads bytes from this process's file into memory of the caller, or into shared atomics of
    /// the trial.
    #[inline(always)]
    fn read(&self, to: *mut u8, bytes: usize) {
        // SAFETY: all callers pass memory of at least `bytes` bytes. Only the two sides of this
        // trial access it, one after the other.
        unsafe { libc::pread(self.file.as_raw_fd(), to.cast(), bytes, 0) };
    }

    #[inline(always)]
    fn wait_for_interrupt(&self, own: &mut [u8; LINE]) {
        let (fd, zero) = (self.timer.as_raw_fd(), libc::timespec { tv_sec: 0, tv_nsec: 0 });
        let it_value = libc::timespec { tv_nsec: TIMER_NANOS, ..zero };
        let once = libc::itimerspec { it_interval: zero, it_value };
        // SAFETY: the descriptor belongs to a timer. The pointers refer to variables of this function and of
        // the caller. `read` on a timerfd writes at most eight bytes, and `own` has `LINE` bytes.
        unsafe {
            libc::timerfd_settime(fd, 0, &raw const once, ptr::null_mut());
            for _ in 0..MOST_READS {
                if libc::read(fd, own.as_mut_ptr().cast(), 8) == 8 {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_words_are_at_the_documented_offsets() {
        assert_eq!(std::mem::offset_of!(Shared, word), 0);
        assert_eq!(std::mem::offset_of!(Shared, neighbours), LINE);
        assert!(size_of::<Shared>() <= PAGE, "the places follow the first page");
        assert!(Kind::ALL.iter().enumerate().all(|(nr, kind)| *kind as usize == nr));
    }
}
