//! Waits until the machine is quiet.

use std::time::{Duration, Instant};

use knee_host::number::percent;
use knee_host::process::wait_readable;
use knee_host::{CpuList, Interrupt};
use knee_run::quiet::{OtherWork, QUIET_SHARE};

use crate::exit::{ExitStatus, failed};
use crate::stderr::tell;

/// How long each look at the machine takes.
const LOOK: Duration = Duration::from_secs(1);
/// Quiet looks in a row after which the machine counts as quiet.
const QUIET_LOOKS: u32 = 3;
/// Looks between two messages.
const REPEAT_AFTER: u32 = 10;
/// How many programs a message names.
const NAMED: usize = 3;

/// How to wait for a quiet machine.
pub(crate) struct QuietWait<'a> {
    /// Seconds to wait at most; `None` if the user did not ask for it.
    pub(crate) limit: Option<f64>,
    /// Whether not to print what it waits for.
    pub(crate) is_silent: bool,
    /// Ends the wait.
    pub(crate) interrupt: &'a Interrupt,
}

impl QuietWait<'_> {
    /// Waits until other work hardly uses `cpus`. Returns whether it has waited.
    ///
    /// # Errors
    /// The limit was reached, or a signal arrived.
    pub(crate) fn wait(&self, cpus: &[u32]) -> anyhow::Result<bool> {
        let Some(limit) = self.limit else { return Ok(false) };
        let begun = Instant::now();
        let (mut quiet, mut looks) = (0, 0);
        loop {
            let look = || {
                wait_readable(self.interrupt, LOOK);
            };
            let work = OtherWork::during(cpus, look);
            if let Some(signal) = self.interrupt.take() {
                return Err(failed(
                    ExitStatus::Interrupted(signal),
                    "interrupted before the first round",
                ));
            }
            let Some(work) = work else {
                return Err(failed(
                    ExitStatus::Environment,
                    "--wait-quiet: this kernel does not account for CPU time in /proc",
                ));
            };
            quiet = if work.is_quiet() { quiet + 1 } else { 0 };
            if quiet == QUIET_LOOKS {
                return Ok(true);
            }
            if quiet == 0 && begun.elapsed().as_secs_f64() >= limit {
                return Err(failed(
                    ExitStatus::TooNoisy,
                    format!(
                        "the machine did not become quiet within {limit:.0} s: {}; stop these programs, \
                         or run without --wait-quiet",
                        describe(&work, cpus)
                    ),
                ));
            }
            if quiet == 0 && !self.is_silent && looks % REPEAT_AFTER == 0 {
                tell!("knee: waiting for a quiet machine: {}", describe(&work, cpus));
            }
            looks += 1;
        }
    }
}

/// `other work uses 43% of CPUs 0-3, more than 2% (cc 120%, qemu 50% of a CPU)`
fn describe(work: &OtherWork, cpus: &[u32]) -> String {
    let list: CpuList = cpus.iter().copied().collect();
    let programs: Vec<String> = work
        .programs
        .iter()
        .take(NAMED)
        .map(|(name, cpus)| format!("{name} {}", percent(*cpus)))
        .collect();
    let programs = match programs.is_empty() {
        true => String::new(),
        false => format!(" ({} of a CPU)", programs.join(", ")),
    };
    format!(
        "other work uses {} of CPUs {list}, more than {}{programs}",
        percent(work.share.max(0.0)),
        percent(QUIET_SHARE)
    )
}
