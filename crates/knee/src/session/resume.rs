//! Resumes a recorded run on the machine that started it.
//!
//! A record is code: it contains the commands and names the plug-ins that knee runs when it is resumed.

use std::path::Path;

use knee_host::text::visible_newlines;
use knee_host::{CpuList, Environment, Topology};
use knee_run::job::Source;
use knee_run::record::{Machine, Paused, Rounds, RunRecord, Writer};
use knee_run::runner::check_plugin;
use knee_testcases::CATALOGUE;

use crate::exit::{bail_usage, ensure_usage, usage};
use crate::stderr::tell;

/// Opens the record in `dir` to resume it. Does not change a record that cannot be resumed here.
pub(crate) fn resume(dir: &Path) -> anyhow::Result<(Writer, RunRecord, Rounds)> {
    let paused = Paused::open(dir)?;
    let run = paused.run();
    if run.complete {
        let name = dir.display();
        tell!("knee: the run in {name} is complete; knee measures only missing rounds");
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
    for case in &run.cases {
        match &case.source {
            Source::Command { command } => {
                tell!(
                    "knee: resuming runs the command {} in {}",
                    visible_newlines(&command.line),
                    command.dir.display()
                );
            }
            Source::Server { server, .. } => {
                for (what, line) in server.commands() {
                    let line = visible_newlines(line);
                    tell!("knee: resuming runs {what} of {}: {line}", case.id);
                }
                if let Some(host) = &server.load.host {
                    tell!("knee: resuming runs the load of {} on {}", case.id, host.name());
                }
            }
            Source::Plugin { plugin, sha256 } => {
                require_unchanged(dir, plugin, sha256.as_deref())?;
                tell!("knee: resuming loads the plug-in {}", plugin.display());
            }
            Source::BuiltIn {} => {}
        }
    }
    Ok(paused.go_on()?)
}

/// Refuses a plug-in that is not the one with which the run began. Its rounds would measure something else,
/// and somebody else may have written it.
fn require_unchanged(dir: &Path, plugin: &Path, recorded: Option<&str>) -> anyhow::Result<()> {
    let found = check_plugin(plugin).map_err(|failure| {
        usage(format!("--resume {}: {}; {}", dir.display(), failure.reason, failure.remedy))
    })?;
    match recorded {
        Some(recorded) if recorded != found => bail_usage!(
            "--resume {}: the plug-in {} has changed since the run began: its SHA-256 was {recorded}, \
             and is now {found}; restore the file, or start a new run",
            dir.display(),
            plugin.display()
        ),
        Some(_) => {}
        None => tell!(
            "knee: an older knee wrote this record, without the SHA-256 of {}; check that it is the \
             plug-in with which the run began",
            plugin.display()
        ),
    }
    Ok(())
}
