//! Runs a batch of tests, in one guest after another.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::SyncSender;

use super::checked::Checked;
use super::error::CheckError;
use super::session::{CheckOptions, GuestSession, Job, Next};
use crate::functions::Functions;
use crate::guest_kernel::GuestKernel;

/// How many consecutive guests may end before their first test.
const MAX_FALSE_STARTS: u32 = 2;

/// A completed test: its number among all tests, its result, and the functions of the kernel on
/// which it ran.
pub(super) type Done = (usize, Checked, Arc<Functions>);

/// Runs a batch in as many guests as necessary, and sends each completed test. Returns early if `stop`
/// is set or the receiver has been dropped.
pub(super) fn run_batch(
    kernel: &GuestKernel,
    mut jobs: Vec<Job>,
    options: &CheckOptions,
    msr: Option<&[u8]>,
    done: &SyncSender<Done>,
    stop: &AtomicBool,
) -> Result<(), CheckError> {
    let mut false_starts = 0;
    while !jobs.is_empty() {
        let mut session = GuestSession::start(kernel, &jobs, options, msr)?;
        let end = loop {
            match session.next(stop)? {
                Next::Checked(nr, checked) => {
                    if done.send((nr, checked, session.functions().clone())).is_err() {
                        return Ok(());
                    }
                }
                Next::End(end) => break end,
                Next::Stopped => return Ok(()),
            }
        };
        let (completed, begun) = (session.completed(), session.begun()?);
        let functions = session.functions().clone();
        drop(session);
        if completed == jobs.len() {
            return Ok(());
        }
        if begun == 0 {
            false_starts += 1;
            if false_starts > MAX_FALSE_STARTS {
                return Err(match kernel {
                    GuestKernel::Linux(_) => CheckError::NotUp(end),
                    GuestKernel::Knee(kernel) => {
                        CheckError::NoAnswer { path: kernel.path().to_owned(), end }
                    }
                });
            }
            continue;
        }
        false_starts = 0;
        // The guest ended in the last test that it began. The guest may also have completed earlier
        // tests whose reports were lost with the guest.
        let rest = jobs.split_off(begun.clamp(completed + 1, jobs.len()));
        for lost in jobs.drain(completed..) {
            let checked = Checked::unobserved(lost.test.id, Err(end.clone()));
            if done.send((lost.nr, checked, functions.clone())).is_err() {
                return Ok(());
            }
        }
        jobs = rest;
    }
    Ok(())
}
