//! Work on all CPUs at once.

use core::mem;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::arch::{self, cpu_number};
use crate::lock::Lock;
use crate::{cpu, remote};

type Job<'a> = &'a (dyn Fn(usize) + Sync);

static JOB: Lock<Option<Job<'static>>> = Lock::new(None);
/// The number of jobs that the first CPU has started.
static STARTED: AtomicUsize = AtomicUsize::new(0);
/// The number of other CPUs that have finished the current job.
static FINISHED: AtomicUsize = AtomicUsize::new(0);

/// Calls `job` on each CPU, with the CPU's number. Returns when all calls have returned. Only the first CPU
/// may call this function.
pub(crate) fn on_each_cpu(job: Job<'_>) {
    FINISHED.store(0, Ordering::Relaxed);
    // SAFETY: this function returns only after all calls of the job have returned.
    let job = unsafe { mem::transmute::<Job<'_>, Job<'static>>(job) };
    *JOB.lock() = Some(job);
    STARTED.fetch_add(1, Ordering::SeqCst);
    (1..cpu::count()).for_each(arch::interrupt);
    job(cpu_number());
    while FINISHED.load(Ordering::Acquire) < cpu::count() - 1 {
        remote::handle();
        core::hint::spin_loop();
    }
    *JOB.lock() = None;
}

/// Runs the jobs that the first CPU starts. Every other CPU calls this function.
pub(crate) fn serve() -> ! {
    let mut done = 0;
    loop {
        remote::handle();
        if STARTED.load(Ordering::SeqCst) == done {
            arch::idle();
            continue;
        }
        done += 1;
        let job = JOB.lock().expect("the first CPU has stored the job");
        job(cpu_number());
        FINISHED.fetch_add(1, Ordering::Release);
    }
}
