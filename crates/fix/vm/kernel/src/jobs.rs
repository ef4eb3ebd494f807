//! Work on other CPUs.

use core::mem;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::arch::{self, MOST_CPUS, cpu_number};
use crate::lock::Lock;
use crate::{cpu, remote};

type Job<'a> = &'a (dyn Fn(usize) + Sync);

static JOB: Lock<Option<Job<'static>>> = Lock::new(None);
/// The number of jobs that the first CPU has started on each CPU.
static STARTED: [AtomicUsize; MOST_CPUS] = [const { AtomicUsize::new(0) }; MOST_CPUS];
/// The number of other CPUs that have finished the current job.
static FINISHED: AtomicUsize = AtomicUsize::new(0);

/// Calls `job` on each CPU, with the CPU's number. Returns when all calls have returned. Only the first CPU
/// may call this function.
pub(crate) fn on_each_cpu(job: Job<'_>) {
    on(0..cpu::count(), job);
}

/// Calls `job` on these CPUs, like [`on_each_cpu`].
pub(crate) fn on(cpus: Range<usize>, job: Job<'_>) {
    FINISHED.store(0, Ordering::Relaxed);
    // SAFETY: this function returns only after all calls of the job have returned.
    let job = unsafe { mem::transmute::<Job<'_>, Job<'static>>(job) };
    *JOB.lock() = Some(job);
    let others = cpus.start.max(1)..cpus.end;
    for other in others.clone() {
        STARTED[other].fetch_add(1, Ordering::SeqCst);
        arch::interrupt(other);
    }
    if cpus.contains(&cpu_number()) {
        job(cpu_number());
    }
    while FINISHED.load(Ordering::Acquire) < others.len() {
        remote::handle();
        core::hint::spin_loop();
    }
    *JOB.lock() = None;
}

/// Runs the jobs that the first CPU starts. Each CPU except the first calls this function.
pub(crate) fn serve() -> ! {
    let mut done = 0;
    loop {
        remote::handle();
        if STARTED[cpu_number()].load(Ordering::SeqCst) == done {
            arch::idle();
            continue;
        }
        done += 1;
        let job = JOB.lock().expect("the first CPU has stored the job");
        job(cpu_number());
        FINISHED.fetch_add(1, Ordering::Release);
    }
}
