//! Up to three processes, each with a worker thread per call. Worker `nr` of each process runs on CPU `nr`.
//! The agent's main thread is the first worker of the first process; all other workers wait for
//! commands in a shared page.
//!
//! A waiting thread spins for a while before it sleeps, since waking a thread on another CPU takes longer
//! than most tests. QEMU with one host thread (`tcg,thread=single`) switches to the next virtual CPU at each
//! `pause`, so a spinning thread lets the other virtual CPUs run. Two threads of one CPU must not spin at the
//! same time, so on each CPU, only the thread that received the last command spins.

use knee_plan::{CALLS, Call, PROCESSES, Returned, Step};
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::calls;
use crate::cleanup;
use crate::steps::{self, Failed};

/// The number of times that a waiting thread polls before it sleeps.
const SPINS: u32 = 1000;

/// The slot has neither a command nor a reply.
const IDLE: u32 = 0;
/// The slot has a command.
const GO: u32 = 1;
/// The slot has a reply.
const DONE: u32 = 2;

/// For each process, the worker that executes the steps. In the first process, this is the main thread. In
/// the other processes, it is not, because their main threads share CPU 0 with the main thread of the first
/// process.
pub(crate) const STEPS_BY: [usize; PROCESSES] = [0, 1, 2];

/// A command for a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Command {
    Step(Step),
    /// A call, and whether the run is traced.
    Call(Call, bool),
    /// Clean up after a test.
    Clean,
    /// Clean up after a test whose set-up failed.
    Sweep,
}

/// A worker's reply to a command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    Done,
    Failed(Failed),
    Returned(Returned),
}

/// A word on which a thread waits until another thread sets it.
pub(crate) struct Word {
    value: AtomicU32,
    /// The number of threads that sleep, or are about to poll one last time and then sleep. A flag would not
    /// suffice: both threads wait on the same word, so a thread that wakes up might clear the flag that the
    /// other thread has just set.
    asleep: AtomicU32,
}

impl Word {
    pub(crate) fn set(&self, value: u32) {
        self.value.store(value, SeqCst);
        if self.asleep.load(SeqCst) != 0 {
            // SAFETY: the word is in memory that no process unmaps.
            unsafe {
                libc::syscall(libc::SYS_futex, self.value.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
            }
        }
    }

    /// Waits until the word has the value `wanted`. Spins only while `may_spin` returns true.
    pub(crate) fn wait(&self, wanted: u32, may_spin: impl Fn() -> bool) {
        self.wait_until(|value| value == wanted, may_spin);
    }

    /// Sleeps while the word has the value `unwanted`. Returns the next value.
    pub(crate) fn wait_while(&self, unwanted: u32) -> u32 {
        self.wait_until(|value| value != unwanted, || false)
    }

    fn wait_until(&self, is_wanted: impl Fn(u32) -> bool, may_spin: impl Fn() -> bool) -> u32 {
        let mut spins = 0;
        loop {
            let now = self.value.load(SeqCst);
            if is_wanted(now) {
                return now;
            }
            if spins < SPINS && may_spin() {
                spins += 1;
                std::hint::spin_loop();
                continue;
            }
            self.asleep.fetch_add(1, SeqCst);
            let now = self.value.load(SeqCst);
            if !is_wanted(now) {
                // SAFETY: as in `set`.
                unsafe {
                    let timeout = std::ptr::null::<libc::timespec>();
                    let word = self.value.as_ptr();
                    libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, now, timeout);
                }
            }
            self.asleep.fetch_sub(1, SeqCst);
        }
    }
}

/// A worker's part of the memory that all processes share.
struct Slot {
    state: Word,
    /// Uninitialized until the first GO.
    command: UnsafeCell<MaybeUninit<Command>>,
    /// Uninitialized until the first DONE.
    reply: UnsafeCell<MaybeUninit<Reply>>,
}

// SAFETY: two threads use a slot, and `state` says which of them may access the two cells. From GO to DONE,
// the worker of the slot may access the cells. The worker is the only thread that calls `serve`. At all other
// times, the thread that owns the `Workers` may access the cells; there is only one `Workers`, and it is not
// `Sync`. When a thread has finished its accesses, it stores to `state`, and the other thread loads this
// value before it accesses a cell. Both operations are SeqCst, so the accesses of the first thread happen
// before the accesses of the other thread.
unsafe impl Sync for Slot {}

impl Slot {
    /// Sends a command to the worker, and waits for its reply. Only the thread that owns the [`Workers`]
    /// calls this method. The state is IDLE before and after the call.
    fn request(&self, command: Command, may_spin: impl Fn() -> bool) -> Reply {
        // SAFETY: the state is IDLE, so this thread alone accesses the cell.
        unsafe { (*self.command.get()).write(command) };
        self.state.set(GO);
        self.state.wait(DONE, may_spin);
        // SAFETY: the state is DONE, so this thread alone accesses the cell, and the worker has
        // initialized it. The worker runs the same program, in this process or in a fork of it. So
        // the type has the same layout in the worker, and the text that a reply refers to is at the
        // same address.
        let reply = unsafe { (*self.reply.get()).assume_init_read() };
        self.state.set(IDLE);
        reply
    }

    /// Waits for a command and executes it. Only the worker of this slot calls this method.
    fn serve(&self, may_spin: impl Fn() -> bool, execute: impl FnOnce(Command) -> Reply) {
        self.state.wait(GO, may_spin);
        // SAFETY: the state is GO, so this thread alone accesses the cell, and the main thread has
        // initialized it; as in `request`, the type has the same layout in both threads. A command
        // is plain data.
        let command = unsafe { (*self.command.get()).assume_init_read() };
        let reply = execute(command);
        // SAFETY: the state is still GO, so this thread alone accesses the cell.
        unsafe { (*self.reply.get()).write(reply) };
        self.state.set(DONE);
    }
}

/// Memory that all processes share. All-zero memory is a valid `Shared`, since the struct has only atomics
/// and `MaybeUninit`.
struct Shared {
    slots: [[Slot; CALLS]; PROCESSES],
    /// For each CPU, the process whose worker received the last command.
    last: [AtomicU32; CALLS],
}

/// The workers. The other processes end when this process ends.
pub(crate) struct Workers {
    shared: &'static Shared,
    main: i32,
    /// Only the agent's main thread sends commands: see [`Slot::request`].
    not_sync: PhantomData<Cell<()>>,
}

impl Workers {
    /// Starts `processes` processes, at least one and at most [`PROCESSES`], with [`CALLS`] threads in each
    /// of them. Call this function while this process has only one thread.
    pub(crate) fn start(processes: usize) -> std::io::Result<Self> {
        let size = std::mem::size_of::<Shared>();
        // SAFETY: the memory is new, has this size, is page-aligned and is never unmapped. The kernel zeroes
        // new memory, and all-zero memory is a valid `Shared`, as the documentation of `Shared` explains.
        let shared = unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let at = libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0);
            if at == libc::MAP_FAILED {
                return Err(std::io::Error::last_os_error());
            }
            &*at.cast::<Shared>()
        };
        // Called before the fork, so that all processes keep their page tables.
        steps::keep_tables()?;
        // SAFETY: this is a plain system call.
        let main = unsafe { libc::getpid() };
        let process = fork(processes, main)?;
        for nr in 1..CALLS {
            std::thread::Builder::new().spawn(move || work(shared, process, nr, main))?;
        }
        if process > 0 {
            work(shared, process, 0, main);
        }
        pin(0);
        Ok(Self { shared, main, not_sync: PhantomData })
    }

    /// Sends `command` to worker `nr` of `process`, and waits for its reply.
    pub(crate) fn request(&self, process: usize, nr: usize, command: Command) -> Reply {
        if (process, nr) == (0, 0) {
            return execute(&command, nr, self.main);
        }
        self.shared.last[nr].store(process as u32, SeqCst);
        // A worker of CPU 0 cannot run while this thread spins on CPU 0. So this thread spins only while it
        // waits for workers of other CPUs.
        self.shared.slots[process][nr].request(command, || nr != 0)
    }
}

/// Forks until there are `processes` processes. When the first process, `main`, ends, all other processes
/// end too. Returns the number of the calling process, from 0. Call this function while `main`
/// has only one thread.
fn fork(processes: usize, main: i32) -> std::io::Result<usize> {
    for nr in 1..processes {
        // SAFETY: this process has only one thread.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: these are plain system calls.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    // If the first process has already ended, no signal arrives.
                    if libc::getppid() != main {
                        libc::_exit(0);
                    }
                }
                return Ok(nr);
            }
            child if child < 0 => return Err(std::io::Error::last_os_error()),
            _ => {}
        }
    }
    Ok(0)
}

fn work(shared: &Shared, process: usize, nr: usize, main: i32) -> ! {
    pin(nr);
    let slot = &shared.slots[process][nr];
    let may_spin = || nr != 0 && shared.last[nr].load(SeqCst) == process as u32;
    loop {
        slot.serve(may_spin, |command| execute(&command, nr, main));
    }
}

fn execute(command: &Command, nr: usize, main: i32) -> Reply {
    match command {
        Command::Step(step) => match steps::step(step, main) {
            Ok(()) => Reply::Done,
            Err(failed) => Reply::Failed(failed),
        },
        Command::Call(call, seen) => Reply::Returned(calls::call(call, nr, *seen)),
        Command::Clean => {
            cleanup::clean();
            Reply::Done
        }
        Command::Sweep => {
            cleanup::sweep();
            Reply::Done
        }
    }
}

/// Pins the calling thread to CPU `nr`. Does nothing if there is no such CPU.
pub(crate) fn pin(nr: usize) {
    // SAFETY: the set is plain data, and its size is passed.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(nr, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set);
    }
}
