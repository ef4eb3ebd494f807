//! A platform for loom, which tries orders of accesses, and threads that it can interrupt.
//!
//! loom knows full fences and nothing like membarrier(2). So each model runs on a symmetric platform, and
//! on one whose heavy fence has each other thread execute a full fence before it returns. Where a
//! thread does so is for loom to choose, among the places where it executes a light one, waits or ends.
//! Real interrupts come in more places, so that the models allow for less than a system does, and for
//! nothing that it does not.
//!
//! loom's full fences do more than the language's: who executes one has acquired all that came before
//! any earlier one. In the language two of them only keep a load after the one from missing a store
//! before the other, and what else came before that store is acquired if the load acquires. So each
//! model runs a third time, where a full fence acquires and releases and no more, and each load sees
//! the latest, so that it misses nothing: then an order is missed that only loom's fences made up for.

use core::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::cell::Cell;

use loom::sync::atomic::AtomicUsize;

use crate::mutant::is_mutant;
use crate::platform::Platform;

/// Threads of a model, with the first one.
const THREADS: usize = 4;

/// What [`DONE`] is of a thread that is not there, or not awake.
const AWAY: usize = usize::MAX;

/// What a model runs on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Both sides execute loom's full fence.
    Symmetric,
    /// The heavy fence interrupts.
    Interrupts,
    /// Both sides execute a full fence that orders no more than the language says.
    Language,
}

std::thread_local! {
    // loom has one thread, which switches between those of the model.
    static KIND: Cell<Kind> = const { Cell::new(Kind::Symmetric) };
    /// Threads that have begun.
    static BEGUN: Cell<usize> = const { Cell::new(0) };
}

loom::lazy_static! {
    /// Heavy fences that have begun.
    static ref ASKED: AtomicUsize = AtomicUsize::new(0);
    /// The last of them for which each thread has executed a fence.
    static ref DONE: [AtomicUsize; THREADS] = core::array::from_fn(|_| AtomicUsize::new(AWAY));
}

loom::thread_local! {
    static ME: Cell<usize> = Cell::new(0);
    /// What the thread knows of [`ASKED`].
    static SEEN: Cell<usize> = Cell::new(0);
}

/// The threads of a model.
#[derive(Debug, Default)]
pub struct Model;

// SAFETY: it is symmetric, and its fence is a full one; or it waits for the fence of each thread.
unsafe impl Platform for Model {
    fn is_symmetric(&self) -> bool {
        !interrupts()
    }

    fn heavy(&self) {
        fence(SeqCst);
        if !interrupts() || is_mutant!("own_fence") {
            return;
        }
        let asked = ASKED.fetch_add(1, AcqRel) + 1;
        let me = ME.with(Cell::get);
        for (_, done) in DONE.iter().enumerate().filter(|&(thread, _)| thread != me) {
            while done.load(Acquire) < asked {
                // Two that execute a heavy fence wait for each other.
                thread::yield_now();
            }
        }
        fence(SeqCst);
    }

    fn relax(&self, _: u32) {
        thread::yield_now();
    }

    fn now(&self) -> u64 {
        0
    }

    fn thread(&self) -> u64 {
        0
    }
}

/// A fence, as the model's platform has it.
pub fn fence(order: Ordering) {
    let is_less = order == SeqCst && loads_see_the_latest();
    loom::sync::atomic::fence(if is_less { AcqRel } else { order });
}

/// Whether what full fences would make seen is seen anyway.
pub(super) fn loads_see_the_latest() -> bool {
    KIND.get() == Kind::Language
}

fn interrupts() -> bool {
    KIND.get() == Kind::Interrupts
}

/// A light fence: where an interrupt may come.
pub(crate) fn interrupt() {
    if interrupts() {
        execute(ASKED.load(Relaxed));
    }
}

/// A wait, in which all interrupts come.
fn wait() {
    if interrupts() {
        execute(ASKED.fetch_add(0, Relaxed));
    }
}

/// A full fence for those who have asked by now, if there is anybody new.
fn execute(asked: usize) {
    if SEEN.with(|seen| seen.replace(asked)) != asked {
        fence(SeqCst);
        DONE[ME.with(Cell::get)].store(asked, Release);
    }
}

/// The calling thread is there, and interrupted from now on.
fn come() {
    if !interrupts() {
        return;
    }
    DONE[ME.with(Cell::get)].store(0, Relaxed);
    SEEN.with(|seen| seen.set(0));
    // A heavy fence before this one comes before all that the thread does; a later one finds it.
    fence(SeqCst);
}

/// The thread does nothing until it comes again.
fn leave() {
    if !interrupts() {
        return;
    }
    fence(SeqCst);
    DONE[ME.with(Cell::get)].store(AWAY, Release);
}

/// Threads that can be interrupted.
pub mod thread {
    use super::{BEGUN, ME, come, leave, wait};

    /// A thread to wait for.
    #[derive(Debug)]
    pub struct JoinHandle<T>(loom::thread::JoinHandle<T>);

    /// Starts a thread that can be interrupted.
    pub fn spawn<T: 'static>(does: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
        let number = BEGUN.get();
        BEGUN.set(number + 1);
        JoinHandle(loom::thread::spawn(move || {
            ME.with(|me| me.set(number));
            come();
            let result = does();
            leave();
            result
        }))
    }

    impl<T> JoinHandle<T> {
        /// Waits for its end.
        pub fn join(self) -> std::thread::Result<T> {
            leave();
            let result = self.0.join();
            come();
            result
        }
    }

    /// Lets others run, and handles all interrupts.
    pub fn yield_now() {
        wait();
        loom::thread::yield_now();
    }
}

/// Tries all orders of `threads` with at most `preemptions` switches that no thread asks for, on all
/// platforms.
pub fn check(preemptions: usize, threads: impl Fn() + Sync + Send + Clone + 'static) {
    check_symmetric(preemptions, threads.clone());
    check_interrupted(preemptions, threads);
}

/// The same where both sides execute a fence: more than two threads that also interrupt each other are
/// too much for loom.
pub fn check_symmetric(preemptions: usize, threads: impl Fn() + Sync + Send + Clone + 'static) {
    check_on(Kind::Symmetric, preemptions, threads.clone());
    check_latest(preemptions, threads);
}

/// The same where both sides execute a fence and each load sees the latest value.
pub fn check_latest(preemptions: usize, threads: impl Fn() + Sync + Send + 'static) {
    check_on(Kind::Language, preemptions, threads);
}

/// The same where heavy fences interrupt.
pub fn check_interrupted(preemptions: usize, threads: impl Fn() + Sync + Send + 'static) {
    check_on(Kind::Interrupts, preemptions, threads);
}

fn check_on(kind: Kind, preemptions: usize, threads: impl Fn() + Sync + Send + 'static) {
    KIND.set(kind);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    // Enough for the models of knee-vm. A model that never ends panics here.
    builder.max_branches = 20_000;
    builder.check(move || {
        BEGUN.set(1);
        if interrupts() {
            // Who comes to a static acquires from the one who came first.
            ASKED.load(Relaxed);
        }
        come();
        threads();
    });
}
