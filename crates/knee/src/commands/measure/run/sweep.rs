//! Servers with several numbers of connections.

use anyhow::anyhow;
use knee_host::number::plural;
use knee_results::CaseId;
use knee_run::job::Source;
use knee_run::plan::Case;
use knee_run::server::{CONNECTIONS, require_open_files};
use knee_testcases::servers;

use crate::args::sweep::Sweep;
use crate::exit::ensure_usage;
use crate::stderr::tell;

/// Refuses a sweep of anything but servers, with this `advice`.
pub(super) fn require_servers(sweep: Option<&Sweep>, advice: &str) -> anyhow::Result<()> {
    let is_absent = sweep.is_none();
    ensure_usage!(is_absent, "--sweep applies only to servers, which have connections; {advice}");
    Ok(())
}

/// Refuses the names of points of a sweep among `words`, such as `nginx@connections=64`.
pub(super) fn require_no_points(words: &[String]) -> anyhow::Result<()> {
    for word in words {
        let Ok(id) = word.parse::<CaseId>();
        let Some((server, connections)) = id.split_connections() else { continue };
        ensure_usage!(
            servers(&server.testcase).is_empty(),
            "{word} is a point of a sweep; to measure it: knee run {server} --sweep \
             connections={connections}"
        );
    }
    Ok(())
}

/// Each of `servers` with each number of connections of `sweep`.
pub(super) fn cases(sweep: &Sweep, servers: &[Case]) -> anyhow::Result<Vec<Case>> {
    for case in servers {
        let Source::Server { server, .. } = &case.source else { continue };
        ensure_usage!(
            server.takes_connections(),
            "--sweep {sweep}: load.command of {} does not use the number of connections; insert \
             {CONNECTIONS} where it belongs",
            case.id
        );
    }
    let swept = servers.iter().flat_map(|server| {
        sweep.connections().map(|connections| server.clone().with_connections(connections))
    });
    let swept: Vec<Case> = swept.collect();
    for case in &swept {
        let Source::Server { server, .. } = &case.source else { continue };
        require_open_files(server).map_err(|failure| {
            anyhow!("--sweep {sweep}: {}; {}", failure.reason, failure.remedy)
        })?;
    }
    Ok(swept)
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
