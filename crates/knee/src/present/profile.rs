//! Text about a capture, in addition to its views.

use std::path::Path;

use anyhow::{Context, anyhow};
use knee_host::{RegularFile, number};
use knee_profile::Capture;
use knee_profile::capture::one_of;
use knee_profile::locks::LockWaits;
use knee_results::PointId;

use crate::stderr::tell;

/// One cut stack in as many is not worth a warning.
const FEW_CUT: u64 = 200;

/// Describes what was sampled, in one line.
pub(crate) fn summary(capture: &Capture) -> String {
    let samples = number::plural(capture.samples() as usize, "sample");
    let mut line = format!("{}: {samples}", capture.title);
    if let Some(seconds) = capture.seconds {
        line += &format!(" in {}", number::time(seconds));
    }
    line += &format!(" by {}", capture.clock.event);
    if capture.clock.user_only {
        line += " in user mode only";
    }
    if let Some(cpu) = capture.cpu_seconds {
        line += &format!(", {} of CPU time", number::time(cpu));
    }
    if let (Some(work), Some(cpu)) = (&capture.work, capture.cpu_seconds)
        && work.iterations > 0
    {
        let cost = cpu / work.iterations as f64;
        line += &format!(", {} per {}", number::time(cost), one_of(&work.unit));
    }
    line + "\n"
}

/// The sample count that the timer and the measured CPU time lead to.
fn due(capture: &Capture) -> Option<f64> {
    let is_timer = capture.clock.event == "cpu-clock";
    let frequency = capture.clock.frequency.filter(|_| is_timer)? as f64;
    Some(capture.cpu_seconds? * frequency)
}

/// Whether most of the expected samples are missing.
fn is_hardly_sampled(capture: &Capture) -> bool {
    // If fewer are expected, chance alone may lose half of them.
    const FEW: f64 = 30.0;
    let taken = (capture.samples() + capture.losses.lost) as f64;
    due(capture).is_some_and(|due| due > FEW && taken < due / 2.0)
}

/// Warns if other work or the hypervisor disturbed a testcase in some of the intervals in which it was
/// sampled.
pub(crate) fn disturbance(point: &PointId, disturbed: u64, intervals: u64) {
    if disturbed > 0 && intervals == 1 {
        tell!(
            "knee: {point}: other work or steal time disturbed the measurement, so costs may be too \
             high; reduce other load and sample again"
        );
    } else if disturbed > 0 {
        tell!(
            "knee: {point}: {disturbed} of {intervals} intervals were disturbed by other work or \
             steal time, so costs may be too high; reduce other load and sample again"
        );
    }
}

/// Warns about missing samples.
pub(crate) fn losses(capture: &Capture) {
    let losses = capture.losses;
    let all = capture.samples().saturating_add(losses.lost);
    let share = |part: u64| number::percent(part as f64 / all.max(1) as f64);
    if capture.samples() == 0 && capture.clock.event == "off-cpu" {
        tell!("knee: no samples: no thread was off-CPU for long; sample for longer with -d");
    } else if is_hardly_sampled(capture) {
        tell!(
            "knee: only {1} of about {0} expected samples: processes that live for less than a \
             millisecond are rarely sampled; to sample them, run as root, or set \
             kernel.perf_event_paranoid=0",
            due(capture).unwrap_or(0.0).round(),
            capture.samples()
        );
    } else if capture.samples() == 0 {
        tell!(
            "knee: no samples: the target ended at once or never ran on a CPU; sample for longer with -d"
        );
    }
    if losses.lost > 0 {
        tell!("knee: {} samples were lost ({}); try a lower -F", losses.lost, share(losses.lost));
    }
    if losses.untracked > 0 {
        tell!(
            "knee: {} of program names, processes and mappings were lost, so samples may have the wrong program \
             or no function names; probably a process renames itself, forks or maps code very often",
            number::plural(losses.untracked as usize, "record")
        );
    }
    if losses.throttled > 0 {
        tell!("knee: the kernel paused sampling {} times; try a lower -F", losses.throttled);
    }
    // The kernel cuts the stack of a thread that starts or ends now and then.
    if losses.cut > 0 && losses.cut.saturating_mul(FEW_CUT) >= all {
        tell!(
            "knee: the stacks of {} ({}) are too deep for the kernel and lack their \
             outermost functions; run as root: sysctl kernel.perf_event_max_stack=1024",
            number::plural(losses.cut as usize, "sample"),
            share(losses.cut)
        );
    }
    if losses.unreadable > 0 {
        tell!("knee: skipped {} unreadable records", losses.unreadable);
    }
    if losses.unnamed_files > 0 {
        tell!(
            "knee: functions of {} have no names, or keep their mangled names: the maps of just-in-time \
             compilers and the programs that other users can change would take too much memory or time \
             (sample fewer processes with -p), or such a program is not a 64-bit one",
            number::plural(losses.unnamed_files as usize, "file")
        );
    }
    if losses.unknown_mappings > 0 {
        tell!(
            "knee: left out at least {} of code, because all of them would take too much memory, so functions \
             there have no names; sample fewer processes with -p, or for a shorter time with -d",
            number::plural(losses.unknown_mappings as usize, "mapping")
        );
    }
    if losses.left_out > 0 {
        tell!(
            "knee: left out {} of further stacks, because the capture would become too large; sample for a \
             shorter time, or with a lower frequency (-F)",
            number::plural(losses.left_out as usize, "sample")
        );
    }
}

/// The lock waits in a file, or `None` if it contains something else.
pub(crate) fn lock_waits(path: &Path) -> anyhow::Result<Option<LockWaits>> {
    // The caller has already read standard input or a FIFO to its end.
    if !path.is_file() {
        return Ok(None);
    }
    let text =
        RegularFile::at(path).read().with_context(|| format!("cannot read {}", path.display()))?;
    match LockWaits::parse(&text) {
        Ok(waits) => Ok(Some(waits)),
        Err(reason) if LockWaits::is(&text) => Err(anyhow!("{}: {reason}", path.display())),
        Err(_) => Ok(None),
    }
}

/// Warns about missing lock waits.
pub(crate) fn wait_losses(waits: &LockWaits) {
    let losses = waits.losses;
    if losses.lost > 0 {
        // A wait has two records.
        let all = 2.0 * waits.all().acquisitions as f64 + losses.lost as f64;
        tell!(
            "knee: {} records were lost ({}); knee left out {} waits that have a lost record or \
             began before the recording, so the actual number and duration of waits are higher \
             than shown; use fewer tasks",
            losses.lost,
            number::percent(losses.lost as f64 / all),
            losses.unmatched
        );
    }
    if losses.unreadable > 0 {
        tell!("knee: skipped {} unreadable records", losses.unreadable);
    }
}
