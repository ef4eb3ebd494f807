//! Runs jobs on machines: each seat of a machine takes a job, runs it, and takes the next one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use knee_host::Interrupt;
use knee_host::process::wait_readable;

use super::directory::Directory;
use super::machine::Machine;
use super::queue::Queue;
use crate::stderr::tell;

/// How often this thread looks whether all seats have ended. It sleeps in between, because jobs may measure.
const LOOK: Duration = Duration::from_millis(200);

/// Runs the jobs of the queue. Calls `show` at least five times per second. Returns the signal that ended the
/// work, if any.
pub(super) fn run(
    machines: &[Box<dyn Machine + '_>],
    directory: &Directory,
    queue: &Queue,
    interrupt: &Interrupt,
    mut show: impl FnMut(),
) -> anyhow::Result<Option<i32>> {
    let (stop, go_on) = io::pipe().context("cannot create a pipe")?;
    let mut go_on = Some(go_on);
    let mut signal = None;
    let lost: Vec<AtomicBool> = machines.iter().map(|_| AtomicBool::new(false)).collect();
    thread::scope(|scope| {
        let stop = stop.as_fd();
        let mut seats = Vec::new();
        for (machine, is_lost) in machines.iter().zip(&lost) {
            let seat = move || work(&**machine, is_lost, directory, queue, stop);
            seats.extend((0..machine.seats()).map(|_| scope.spawn(seat)));
        }
        while !seats.iter().all(|seat| seat.is_finished()) {
            if wait_readable(interrupt, LOOK)
                && let Some(number) = interrupt.take()
            {
                signal = Some(number);
                queue.stop();
                drop(go_on.take());
            }
            show();
        }
    });
    Ok(signal)
}

/// The work of a seat, until no job is left.
fn work(
    machine: &dyn Machine,
    is_lost: &AtomicBool,
    directory: &Directory,
    queue: &Queue,
    stop: BorrowedFd<'_>,
) {
    while let Some(job) = queue.take(|| is_lost.load(Ordering::Relaxed)) {
        let ran = directory.forget(job).and_then(|()| machine.run(job, stop));
        let end = directory.end(job);
        let is_done = end.as_ref().is_some_and(|end| end.status == 0);
        if queue.is_stopped() && !is_done {
            // knee has ended the job, which has not failed.
            let _ = directory.forget(job);
        }
        let reason = match ran {
            Err(error) => format!("{error:#}"),
            Ok(message) if end.is_none() => message,
            Ok(_) => {
                queue.ended(job, is_done);
                continue;
            }
        };
        // Before the job waits again, so that no seat of this machine takes it.
        if !is_lost.swap(true, Ordering::Relaxed) && !queue.is_stopped() {
            tell!("knee: {} runs no more jobs: {reason}", machine.name());
        }
        queue.ended(job, is_done);
    }
}
