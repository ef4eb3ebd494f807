//! Samples the requested target: a testcase, a process, a command or the whole machine.

use knee_host::Interrupt;
use knee_profile::sampling::Target;

use super::args::SampleArgs;
use super::subject::Subject;
use super::target::{self, Left};
use super::watch::Recorder;
use crate::exit::{ExitStatus, bail_usage};
use crate::stderr::tell;

/// Default seconds to sample a testcase.
const SECONDS: f64 = 3.0;

/// Samples the requested target until it ends. Returns what the sampler recorded, and the remaining
/// work.
pub(super) fn take<W: Recorder>(
    args: &SampleArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<(W::Taken, Left)> {
    let how = &args.how;
    if let Some(name) = &args.testcase {
        let subject = Subject::of(name, args.mode, how)?;
        let tasks = args.tasks.unwrap_or_else(|| subject.most());
        let seconds = args.duration.unwrap_or(SECONDS);
        let sampled = subject.sample::<W>(tasks, seconds, interrupt, !how.quiet)?;
        sampled.warn();
        let status = sampled.interrupted.map_or(ExitStatus::Done, ExitStatus::Interrupted);
        if sampled.interrupted.is_some() {
            tell!("knee: interrupted; knee kept the samples up to now, without an iteration count");
        }
        Ok((sampled.taken, Left::Nothing(status)))
    } else if let Some(pid) = args.pid {
        let target = if args.only { Target::Process(pid) } else { Target::Trees(vec![pid]) };
        target::running::<W>(&target, args.duration, how, interrupt)
    } else if args.all {
        target::running::<W>(&Target::System, args.duration, how, interrupt)
    } else if !args.command.is_empty() {
        target::command::<W>(&args.command, args.duration, how, interrupt)
    } else {
        bail_usage!(
            "no target to sample; name a testcase, -p PID, -a, or -- COMMAND (see knee profile \
             --help)"
        )
    }
}
