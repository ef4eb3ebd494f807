//! Resumes a recorded run on the machine that started it.

use std::path::Path;

use knee_host::{CpuList, Environment, Topology};
use knee_run::record::{Machine, Paused, Rounds, RunRecord, Writer};
use knee_testcases::CATALOGUE;

use crate::exit::{ensure_usage, usage};
use crate::stderr::tell;

/// Opens the record in `dir` to resume it. Does not change a record that cannot be resumed here.
pub(crate) fn resume(dir: &Path) -> anyhow::Result<(Writer, RunRecord, Rounds)> {
    let paused = Paused::open(dir)?;
    let run = paused.run();
    if run.complete {
        tell!("knee: the run in {} is complete, so nothing is left to measure", dir.display());
    }
    let (then, now) =
        (Machine::from(&run.environment), Machine::from(&Environment::capture(&run.request.dir)));
    ensure_usage!(
        then == now,
        "--resume {}: cannot combine rounds of different machines or kernels; the run began on \
             {then}, but this machine is {now}; resume the run there, or start a new run here",
        dir.display()
    );
    for case in run.cases.iter().filter(|case| case.is_built_in()) {
        CATALOGUE.of_record(&case.id).map_err(|error| {
            usage(format!(
                "--resume {}: this knee cannot measure {}: {error}; use the version of knee that \
                 started the run",
                dir.display(),
                case.id
            ))
        })?;
    }
    let cpus: CpuList = run.request.cpus.iter().copied().collect();
    Topology::read()?.restrict(&cpus).map_err(|error| {
        usage(format!("--resume {}: the run used CPUs {cpus}: {error}", dir.display()))
    })?;
    Ok(paused.go_on()?)
}
