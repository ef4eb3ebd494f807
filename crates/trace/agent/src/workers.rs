//! Who does what: two processes, with a thread for each call, each on a CPU of its own. The first
//! call of the first process is made by the agent's main thread; all others wait for a word in a
//! shared page.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::plan::{Call, Step};
use crate::returned::Returned;
use crate::steps::{self, Failed};

/// Processes, and calls at once.
pub(crate) const PROCESSES: usize = 2;
pub(crate) const CALLS: usize = 4;

/// Nothing to do.
const IDLE: u32 = 0;
/// There is a command.
const GO: u32 = 1;
/// There is a result.
const DONE: u32 = 2;

/// What a worker can be told.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Command {
    Step(Step),
    Call(Call),
    Clean,
}

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Result {
    Done,
    Failed(Failed),
    Returned(Returned),
}

struct Slot {
    state: AtomicU32,
    command: UnsafeCell<Command>,
    result: UnsafeCell<Result>,
}

/// What both processes see.
struct Shared {
    slots: [[Slot; CALLS]; PROCESSES],
}

// SAFETY: the command of a slot is written before `state` becomes GO and read after that, the result
// before it becomes DONE and after that, with release and acquire: at no time do two have it.
unsafe impl Sync for Shared {}

/// The workers; the second process ends with this one.
pub(crate) struct Workers {
    shared: &'static Shared,
    main: i32,
}

impl Workers {
    /// Starts `calls` threads in each of the two processes. Call it while this process has one
    /// thread.
    pub(crate) fn start(calls: usize) -> std::io::Result<Self> {
        assert!(calls <= CALLS, "at most {CALLS} calls at once");
        let size = std::mem::size_of::<Shared>();
        // SAFETY: new memory, shared with the child, which is zeroes: a valid `AtomicU32` in each
        // slot, and nothing else is read before it has been written.
        let shared = unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let at = libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0);
            if at == libc::MAP_FAILED {
                return Err(std::io::Error::last_os_error());
            }
            &*at.cast::<Shared>()
        };
        // SAFETY: this process has one thread.
        let (main, child) = unsafe { (libc::getpid(), libc::fork()) };
        if child < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let process = usize::from(child == 0);
        if process == 1 {
            // SAFETY: a plain system call.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        }
        // The main thread of this process is the worker of the first call of the first one, and of
        // the second call of the second one, which has no first.
        let own = process;
        for nr in (1..calls).filter(|nr| *nr != own) {
            std::thread::Builder::new().spawn(move || work(shared, process, nr, main))?;
        }
        pin(own);
        if process == 1 {
            work(shared, process, own, main);
        }
        Ok(Self { shared, main })
    }

    /// Has worker `nr` of `process` do `command`, and waits for it.
    pub(crate) fn tell(&self, process: usize, nr: usize, command: Command) -> Result {
        if (process, nr) == (0, 0) {
            return execute(&command, nr, self.main);
        }
        let slot = &self.shared.slots[process][nr];
        // SAFETY: the worker waits for GO.
        unsafe { *slot.command.get() = command };
        slot.state.store(GO, Ordering::Release);
        wake(&slot.state);
        wait_for(&slot.state, DONE);
        // SAFETY: the worker has written it and waits.
        let result = unsafe { *slot.result.get() };
        slot.state.store(IDLE, Ordering::Relaxed);
        result
    }
}

fn work(shared: &Shared, process: usize, nr: usize, main: i32) -> ! {
    pin(nr);
    let slot = &shared.slots[process][nr];
    loop {
        wait_for(&slot.state, GO);
        // SAFETY: it was written before GO.
        let command = unsafe { *slot.command.get() };
        let result = execute(&command, nr, main);
        // SAFETY: it is read after DONE.
        unsafe { *slot.result.get() = result };
        slot.state.store(DONE, Ordering::Release);
        wake(&slot.state);
    }
}

fn execute(command: &Command, nr: usize, main: i32) -> Result {
    match command {
        Command::Step(step) => match steps::step(step, main) {
            Ok(()) => Result::Done,
            Err(failed) => Result::Failed(failed),
        },
        Command::Call(call) => Result::Returned(steps::call(call, nr)),
        Command::Clean => {
            steps::clean();
            Result::Done
        }
    }
}

/// Runs the thread on CPU `nr` if there is one.
fn pin(nr: usize) {
    // SAFETY: the set is plain data, and of this size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(nr, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set);
    }
}

fn wait_for(state: &AtomicU32, wanted: u32) {
    loop {
        let now = state.load(Ordering::Acquire);
        if now == wanted {
            return;
        }
        // SAFETY: the word is in memory that both processes have for ever.
        unsafe {
            let timeout = std::ptr::null::<libc::timespec>();
            libc::syscall(libc::SYS_futex, state.as_ptr(), libc::FUTEX_WAIT, now, timeout);
        }
    }
}

fn wake(state: &AtomicU32) {
    // SAFETY: as of `wait_for`.
    unsafe { libc::syscall(libc::SYS_futex, state.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
