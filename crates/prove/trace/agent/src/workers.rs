//! Two processes with a worker thread for each call, each on a CPU of its own. The agent's main thread
//! makes the first call of the first process; all other workers wait for commands in a shared page.
//!
//! A waiting thread spins for a while before it sleeps, as waking a thread on another CPU takes longer
//! than most tests. QEMU with one host thread (`tcg,thread=single`) switches to the next virtual CPU at
//! each `pause`, so spinning hands over to the other thread there. Two threads of one CPU must not spin
//! against each other, so only one of them does: the one that had the last command.

use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::calls;
use crate::cleanup;
use crate::returned::Returned;
use crate::script::{CALLS, Call, PROCESSES, Step};
use crate::steps::{self, Failed};

/// Polls of a waiting thread before it sleeps.
const SPINS: u32 = 1000;

/// Nothing to do.
const IDLE: u32 = 0;
/// There is a command.
const GO: u32 = 1;
/// There is a result.
const DONE: u32 = 2;

/// The worker that does the steps of a process: its main thread is slow to reach in the second one,
/// whose CPU is busy with the first.
pub(crate) const STEPS_BY: [usize; PROCESSES] = [0, 1];

/// A command for a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Command {
    Step(Step),
    /// A call, and whether the run is traced.
    Call(Call, bool),
    /// After a test.
    Clean,
    /// After a test whose set-up failed.
    Sweep,
}

/// A worker's reply to a command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    Done,
    Failed(Failed),
    Returned(Returned),
}

/// A word that one thread waits for another to set.
pub(crate) struct Word {
    value: AtomicU32,
    /// How many threads sleep, or are about to poll once more and sleep. Both sides wait for one word,
    /// and one may be waking up while the other falls asleep.
    asleep: AtomicU32,
}

impl Word {
    pub(crate) fn set(&self, value: u32) {
        self.value.store(value, SeqCst);
        if self.asleep.load(SeqCst) != 0 {
            // SAFETY: the word is in memory that neither process unmaps.
            unsafe {
                libc::syscall(libc::SYS_futex, self.value.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
            }
        }
    }

    /// Waits until it has this value.
    pub(crate) fn wait(&self, wanted: u32, may_spin: impl Fn() -> bool) {
        self.wait_until(|value| value == wanted, may_spin);
    }

    /// Waits, asleep, until it has another value than this, and returns that.
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

/// A worker's place in the memory that both processes share.
struct Slot {
    state: Word,
    /// Initialized from the first GO on.
    command: UnsafeCell<MaybeUninit<Command>>,
    /// Initialized from the first DONE on.
    reply: UnsafeCell<MaybeUninit<Reply>>,
}

// SAFETY: a slot has two users, and `state` says which of them may access the two cells: from GO to DONE
// the worker of this slot, the one thread that calls `serve`; otherwise the thread that has the only
// `Workers`, which is not `Sync`. Each hands over by a store of `state` that the other one reads before
// it accesses a cell. Both are SeqCst, so the accesses of one happen before those of the other.
unsafe impl Sync for Slot {}

impl Slot {
    /// Has the worker execute a command, and waits for its reply. Called by the thread that has the
    /// [`Workers`] only. The state is IDLE before and after.
    fn request(&self, command: Command, may_spin: impl Fn() -> bool) -> Reply {
        // SAFETY: the state is IDLE, so this thread alone accesses the cell.
        unsafe { (*self.command.get()).write(command) };
        self.state.set(GO);
        self.state.wait(DONE, may_spin);
        // SAFETY: the state is DONE, so this thread alone accesses the cell, and the worker has
        // initialized it. The worker is this program, a fork of this process: the type has the same
        // layout there, and the text that a reply refers to is at the same address.
        let reply = unsafe { (*self.reply.get()).assume_init_read() };
        self.state.set(IDLE);
        reply
    }

    /// Waits for a command and executes it. Called by the worker of this slot only.
    fn serve(&self, may_spin: impl Fn() -> bool, execute: impl FnOnce(Command) -> Reply) {
        self.state.wait(GO, may_spin);
        // SAFETY: the state is GO, so this thread alone accesses the cell, and the main thread has
        // initialized it; as in `request`, the type is the same there. A command is plain data.
        let command = unsafe { (*self.command.get()).assume_init_read() };
        let reply = execute(command);
        // SAFETY: the state is still GO, so this thread alone accesses the cell.
        unsafe { (*self.reply.get()).write(reply) };
        self.state.set(DONE);
    }
}

/// Memory that both processes share. All bytes of it may be zero: it is atomics and what need not be
/// initialized.
struct Shared {
    slots: [[Slot; CALLS]; PROCESSES],
    /// By CPU: the process whose worker had the last command there.
    last: [AtomicU32; CALLS],
}

/// The workers; the second process ends with this one.
pub(crate) struct Workers {
    shared: &'static Shared,
    main: i32,
    /// The agent's main thread alone gives commands: see [`Slot::request`].
    not_sync: PhantomData<Cell<()>>,
}

impl Workers {
    /// Starts `calls` threads in each of the two processes. Call it while this process has one
    /// thread.
    pub(crate) fn start(calls: usize) -> std::io::Result<Self> {
        assert!(calls <= CALLS, "at most {CALLS} calls at once");
        let size = std::mem::size_of::<Shared>();
        // SAFETY: new memory of this size at an address that the kernel chooses, page-aligned and never
        // unmapped. It is zeroes, which are a valid `Shared`: each of its fields is an `AtomicU32`, or
        // `MaybeUninit`, which is valid whatever its bytes are.
        let shared = unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let at = libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0);
            if at == libc::MAP_FAILED {
                return Err(std::io::Error::last_os_error());
            }
            &*at.cast::<Shared>()
        };
        // The other process gets a copy.
        steps::keep_tables()?;
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
        for nr in 1..calls {
            std::thread::Builder::new().spawn(move || work(shared, process, nr, main))?;
        }
        if process == 1 {
            work(shared, process, 0, main);
        }
        pin(0);
        Ok(Self { shared, main, not_sync: PhantomData })
    }

    /// Has worker `nr` of `process` do `command`, and waits for it.
    pub(crate) fn tell(&self, process: usize, nr: usize, command: Command) -> Reply {
        if (process, nr) == (0, 0) {
            return execute(&command, nr, self.main);
        }
        self.shared.last[nr].store(process as u32, SeqCst);
        // The worker of CPU 0 cannot begin while this thread spins there.
        self.shared.slots[process][nr].request(command, || nr != 0)
    }
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

/// Runs the thread on CPU `nr` if there is one.
pub(crate) fn pin(nr: usize) {
    // SAFETY: the set is plain data, and of this size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(nr, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set);
    }
}
