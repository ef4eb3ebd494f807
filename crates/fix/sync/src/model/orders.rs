//! The platforms of the loom models, and threads that these platforms can interrupt.
//!
//! loom models full fences, but nothing like membarrier(2). So each model runs on two platforms. One platform
//! is symmetric: light fences and heavy fences are both full fences. On the other platform, a heavy fence
//! returns only after every other thread has executed a full fence. loom chooses where a thread executes its
//! fence: at a light fence, in a wait, or at the end of the thread. Real interrupts can come anywhere. So
//! every execution of a model is possible on a real system, but a real system has more executions.
//!
//! loom's full fences are stronger than the language's full fences: in loom, a thread that executes a full
//! fence acquires everything that came before any earlier full fence. In the language, two full fences
//! guarantee only that a load after the later fence does not miss a store before the earlier fence. What came
//! before that store is visible only if the store is a Release store and the load is an Acquire load. So each
//! model runs a third time, with full fences that only acquire and release, and with loads that see the
//! latest store. This run detects missing orderings that loom's own full fences hide.

use core::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::cell::Cell;

use loom::sync::atomic::AtomicUsize;

use crate::mutant::is_mutant;
use crate::platform::Platform;

/// The maximum number of threads of a model, including the first one.
const THREADS: usize = 4;

/// The value of [`DONE`] for a thread that does not exist or is not running.
const AWAY: usize = usize::MAX;

/// The platform of a model.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Light fences and heavy fences are both loom's full fence.
    Symmetric,
    /// The heavy fence interrupts the other threads.
    Interrupts,
    /// Light fences and heavy fences are both full fences, but only as strong as the language guarantees, and
    /// thus weaker than loom's.
    Language,
}

std::thread_local! {
    // loom runs all threads of a model on one OS thread.
    static KIND: Cell<Kind> = const { Cell::new(Kind::Symmetric) };
    /// The number of threads that have started.
    static BEGUN: Cell<usize> = const { Cell::new(0) };
}

loom::lazy_static! {
    /// The number of heavy fences that have begun.
    static ref ASKED: AtomicUsize = AtomicUsize::new(0);
    /// For each thread, the value of [`ASKED`] that the thread has last answered with a full fence.
    static ref DONE: [AtomicUsize; THREADS] = core::array::from_fn(|_| AtomicUsize::new(AWAY));
}

loom::thread_local! {
    static ME: Cell<usize> = Cell::new(0);
    /// The value of [`ASKED`] that this thread has last answered.
    static SEEN: Cell<usize> = Cell::new(0);
}

/// The platform that the threads of a model run on.
#[derive(Debug, Default)]
pub struct Model;

// SAFETY: on a symmetric platform, `heavy` executes a full fence. On the other platform, `heavy` waits until
// each other thread has executed a full fence.
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
                // If two threads are both in `heavy`, they wait for each other, so `yield_now` also answers
                // the other thread's fence.
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

/// A fence of the model's platform.
pub fn fence(order: Ordering) {
    let is_less = order == SeqCst && loads_see_the_latest();
    loom::sync::atomic::fence(if is_less { AcqRel } else { order });
}

/// Whether every load sees the latest store. If so, [`fence`] executes acquire-release fences in place of
/// full fences.
pub(super) fn loads_see_the_latest() -> bool {
    KIND.get() == Kind::Language
}

fn interrupts() -> bool {
    KIND.get() == Kind::Interrupts
}

/// A light fence, at which an interrupt may come.
pub fn interrupt() {
    if interrupts() {
        execute(ASKED.load(Relaxed));
    }
}

/// A wait, during which the thread handles all pending interrupts.
fn wait() {
    if interrupts() {
        execute(ASKED.fetch_add(0, Relaxed));
    }
}

/// If new heavy fences have begun, executes a full fence and answers them.
fn execute(asked: usize) {
    if SEEN.with(|seen| seen.replace(asked)) != asked {
        fence(SeqCst);
        DONE[ME.with(Cell::get)].store(asked, Release);
    }
}

/// Makes heavy fences wait for the calling thread, which runs from now on.
fn come() {
    if !interrupts() {
        return;
    }
    DONE[ME.with(Cell::get)].store(0, Relaxed);
    SEEN.with(|seen| seen.set(0));
    // An earlier heavy fence comes before everything that the thread does. A later heavy fence waits for the
    // thread.
    fence(SeqCst);
}

/// Makes heavy fences ignore the calling thread until that thread calls `come` again.
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

    /// A thread that can be joined.
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
        /// Waits for the end of the thread.
        pub fn join(self) -> std::thread::Result<T> {
            leave();
            let result = self.0.join();
            come();
            result
        }
    }

    /// Lets other threads run, and handles all interrupts.
    pub fn yield_now() {
        wait();
        loom::thread::yield_now();
    }
}

/// Tries all interleavings of `threads` with at most `preemptions` involuntary context switches, on all
/// platforms.
pub fn check(preemptions: usize, threads: impl Fn() + Sync + Send + Clone + 'static) {
    check_symmetric(preemptions, threads.clone());
    check_interrupted(preemptions, threads);
}

/// Like [`check`], but only on the platforms whose light fences are full fences. With more than two threads,
/// loom takes too long on the platform whose heavy fences interrupt the other threads.
pub fn check_symmetric(preemptions: usize, threads: impl Fn() + Sync + Send + Clone + 'static) {
    check_on(Kind::Symmetric, preemptions, threads.clone());
    check_latest(preemptions, threads);
}

/// Like [`check`], but only on the platform on which each load sees the latest store and full fences
/// are weaker than loom's.
pub fn check_latest(preemptions: usize, threads: impl Fn() + Sync + Send + 'static) {
    check_on(Kind::Language, preemptions, threads);
}

/// Like [`check`], but only on the platform whose heavy fences interrupt the other threads.
pub fn check_interrupted(preemptions: usize, threads: impl Fn() + Sync + Send + 'static) {
    check_on(Kind::Interrupts, preemptions, threads);
}

fn check_on(kind: Kind, preemptions: usize, threads: impl Fn() + Sync + Send + 'static) {
    KIND.set(kind);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    // If a model never ends, loom panics at this limit, which is high enough for the models of knee-vm.
    builder.max_branches = 20_000;
    builder.check(move || {
        BEGUN.set(1);
        if interrupts() {
            // The first use of a loom static synchronizes threads, so `ASKED` is used before the threads
            // start.
            ASKED.load(Relaxed);
        }
        come();
        threads();
    });
}
