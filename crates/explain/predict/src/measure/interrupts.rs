//! Interrupts of other CPUs: membarrier(2) interrupts each CPU that runs a thread of this process,
//! and waits for all of them (kernel/sched/membarrier.c), as a TLB shootdown on x86 does. arm64
//! broadcasts TLBI instead.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::exchange::Line;
use super::figures::{line, powers_of_two};
use super::together::on_cpus;
use crate::machine::Interrupts;

/// Measurements per number of CPUs, how often knee tries to take them, and calls that are timed
/// together.
const TIMES: usize = 15;
const TRIES: usize = 200;
const CALLS: u32 = 30;

/// The cost of interrupting `others` from the CPU `first`. `None` if this kernel does not permit
/// it, or if other work kept the CPUs busy.
///
/// # Errors
/// Those of [`on_cpus`].
pub(super) fn cost(first: u32, others: &[u32]) -> io::Result<Option<Interrupts>> {
    if membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED).is_err() {
        return Ok(None);
    }
    let mut points = Vec::new();
    for count in powers_of_two(others.len()) {
        let cpus: Vec<u32> =
            std::iter::once(first).chain(others[..count].iter().copied()).collect();
        match times(&cpus)? {
            times if times.is_empty() => return Ok(None),
            times => points.push((count, times)),
        }
    }
    Ok(line(&points))
}

/// Times of a call on the first of the CPUs in ns, while the other ones are busy with threads of
/// this process.
fn times(cpus: &[u32]) -> io::Result<Vec<f64>> {
    let turns: Vec<Line> = cpus.iter().map(|_| Line(AtomicU64::new(0))).collect();
    let is_over = AtomicBool::new(false);
    let run = |nr: usize| {
        if nr > 0 {
            while !is_over.load(Ordering::Relaxed) {
                turns[nr].0.fetch_add(1, Ordering::Relaxed);
            }
            return Vec::new();
        }
        let turns_now = || turns[1..].iter().map(|turns| turns.0.load(Ordering::Relaxed));
        let mut times = Vec::new();
        for _ in 0..TRIES {
            let before: Vec<u64> = turns_now().collect();
            let Ok(time) = once() else { break };
            // The kernel interrupts a CPU only while a thread of this process runs there.
            let have_run = turns_now().zip(&before).all(|(after, before)| after > *before);
            times.extend(have_run.then_some(time));
            if times.len() == TIMES {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
        times
    };
    Ok(on_cpus(cpus, run)?.swap_remove(0))
}

/// Time of a call in ns.
fn once() -> io::Result<f64> {
    let start = Instant::now();
    for _ in 0..CALLS {
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(CALLS))
}

fn membarrier(command: libc::c_int) -> io::Result<()> {
    // SAFETY: these commands take no pointers, and change no memory.
    match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
