//! Servers with several numbers of connections.

use knee_host::number::plural;
use knee_run::plan::Case;

use crate::args::sweep::{Sweep, with_connections};
use crate::exit::{bail_usage, ensure_usage};
use crate::stderr::tell;

/// Refuses a sweep of anything but servers, with this `advice`.
pub(super) fn require_servers(sweep: Option<&Sweep>, advice: &str) -> anyhow::Result<()> {
    let is_absent = sweep.is_none();
    ensure_usage!(is_absent, "--sweep applies only to servers, which have connections; {advice}");
    Ok(())
}

/// Each of `servers` with each number of connections of `sweep`.
pub(super) fn cases(sweep: &Sweep, servers: &[Case]) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for server in servers {
        if let Some((name, _)) = server.id.split_connections() {
            bail_usage!("--sweep {sweep}: {} already has a number; name {name}", server.id);
        }
        let with =
            |connections| with_connections(server, connections, format_args!("--sweep {sweep}"));
        // First the largest number, because a lower limit than it needs refuses the whole sweep.
        sweep.connections().last().map(with).transpose()?;
        for connections in sweep.connections() {
            cases.push(with(connections)?);
        }
    }
    Ok(cases)
}

/// The task count of a sweep without `-t`: the largest of `all`. Prints it, unless the run `is_quiet`.
pub(super) fn task_count(all: &[u32], is_quiet: bool) -> Vec<u32> {
    let most = all.iter().max().copied();
    if let Some(most) = most.filter(|_| !is_quiet) {
        let cpus = plural(most as usize, "CPU");
        tell!("knee: the servers of the sweep have {cpus} each; to choose other numbers, use -t");
    }
    most.into_iter().collect()
}
