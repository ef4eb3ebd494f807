//! Starts, resumes and carries out measurements.

#[cfg(feature = "explain")]
pub(crate) mod bench;
mod quiet;
mod resume;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use knee_host::own_directory::refuse_foreign_link;
use knee_host::{CpuList, Interrupt, Topology};
use knee_run::launch::Launcher;
use knee_run::noise::NoiseFloors;
use knee_run::plan::Case;
use knee_run::record::{RecordError, Rounds, RunRecord, Writer};
use knee_run::sweep::{Ended, Sweep};
use knee_testcases::CATALOGUE;

pub(crate) use self::quiet::QuietWait;
pub(crate) use self::resume::resume;
use crate::exit::usage;
use crate::interrupt;
use crate::present::progress::RunProgress;
use crate::stderr::{tell, tell_of_debug_build};

/// Default directory for runs.
const RUNS: &str = "runs";

/// Default samples per round.
pub(crate) const SAMPLES: u64 = 3;
/// Default seconds per sample.
pub(crate) const INTERVAL: f64 = 0.2;
/// Default of {seconds} in a command.
pub(crate) const COMMAND_SECONDS: f64 = 1.0;
/// Default seconds before the first sample of a round.
pub(crate) const WARMUP: f64 = 0.1;

/// Default seconds of load on a server before its measurement.
pub(crate) const SERVER_WARMUP: f64 = 0.2;

/// Waits for a quiet machine if the user asked for it. Then creates the record of `run` in `output`, or
/// in a new directory in `runs`.
pub(crate) fn begin(
    mut run: RunRecord,
    output: Option<&Path>,
    quiet: &QuietWait<'_>,
) -> anyhow::Result<(Writer, RunRecord, Rounds)> {
    if let (Some(dir), Some(_)) = (output, quiet.limit) {
        Writer::check_unused(dir).map_err(refused)?;
    }
    if quiet.wait(&run.request.cpus)? {
        run.begin_now();
    }
    let writer = match output {
        Some(dir) => Writer::create(dir, &run).map_err(refused)?,
        None => {
            check_default(RUNS)?;
            create_unnamed(&run)?
        }
    };
    Ok((writer, run, Rounds::default()))
}

/// Checks a directory that the user did not name: in the directory of another user, it can be a link of that user.
pub(crate) fn check_default(dir: &str) -> anyhow::Result<()> {
    refuse_foreign_link(Path::new(dir))
        .with_context(|| format!("cannot write to the link {dir}; name another place with -o"))
}

/// Measures the rounds that `run` requests and that are not in `finished`.
pub(crate) fn carry_out(
    writer: &mut Writer,
    run: &mut RunRecord,
    finished: &Rounds,
    mut progress: RunProgress,
    signals: &Interrupt,
) -> anyhow::Result<Ended> {
    // Orphaned descendants of tasks become children of knee, which then terminates them.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    if run.cases.iter().any(Case::is_built_in) {
        tell_of_debug_build();
    }
    interrupt::set_next(run.resume_command(writer.dir()));
    let mut executor = Launcher;
    let observer = &mut progress;
    let mut sweep = Sweep {
        run,
        writer,
        executor: &mut executor,
        observer,
        interrupt: signals,
        catalogue: CATALOGUE,
    };
    let ended = sweep.run(finished);
    drop(progress);
    Ok(ended?)
}

/// The topology of this machine, restricted to the requested CPUs, if any.
pub(crate) fn topology(cpus: Option<&CpuList>) -> anyhow::Result<Topology> {
    let machine = Topology::read()?;
    match cpus {
        Some(cpus) => machine.restrict(cpus).map_err(|e| usage(e.to_string())),
        None => Ok(machine),
    }
}

/// Makes a directory that is not empty a usage error. Other errors keep exit status 3.
fn refused(error: RecordError) -> anyhow::Error {
    match error {
        RecordError::NotEmpty { .. } => usage(format!("-o {error}")),
        _ => error.into(),
    }
}

/// Creates a record in a new directory in `runs`.
fn create_unnamed(run: &RunRecord) -> Result<Writer, RecordError> {
    for dir in numbered(RUNS, &run.environment.started_at, "") {
        match Writer::create(&dir, run) {
            Err(RecordError::NotEmpty { .. } | RecordError::InUse { .. }) => {}
            other => return other,
        }
    }
    unreachable!("some number is unused")
}

/// The saved noise floors for the machine of `run`. If they cannot be read, prints a warning and
/// returns `None`, so that the command can still show results.
pub(crate) fn kept_floors(run: &RunRecord) -> Option<NoiseFloors> {
    NoiseFloors::kept_for(run).unwrap_or_else(|error| {
        tell!("knee: ignoring the saved noise floor: {error}");
        None
    })
}

/// A random number that is short enough to retype as a seed.
pub(crate) fn random() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ (now.as_secs() & 0xffff)
}

/// File names for a start time: `runs/2026-11-21T090000Z`, then the same name with `-2`, `-3` and
/// so on. `ending` is the file extension.
pub(crate) fn numbered(dir: &str, started_at: &str, ending: &str) -> impl Iterator<Item = PathBuf> {
    let started = Path::new(dir).join(started_at.replace(':', "")).display().to_string();
    let ending = ending.to_owned();
    (1_u64..).map(move |n| match n {
        1 => format!("{started}{ending}").into(),
        n => format!("{started}-{n}{ending}").into(),
    })
}
