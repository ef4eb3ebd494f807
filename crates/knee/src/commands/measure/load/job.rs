//! `knee load --job`: the load of a server that another machine measures.

use std::io::{Read, stdin};

use anyhow::Context;
use knee_host::affinity::usable_cpus;
use knee_host::limits::raise_open_files;
use knee_host::ssh::MOST_BYTES;
use knee_run::server::{BEGUN, LoadJob};

use crate::exit::{ExitStatus, usage};
use crate::stdout;

/// Reads the load from standard input, generates it on all usable CPUs, and prints when it begins and what it measured.
/// A failure of the load is a result too.
pub(super) fn run() -> anyhow::Result<ExitStatus> {
    let mut text = String::new();
    stdin().take(MOST_BYTES as u64).read_to_string(&mut text).context("cannot read the load")?;
    let job: LoadJob = serde_json::from_str(&text).map_err(|error| {
        usage(format!(
            "--job is internal to `knee run` with load.host; standard input contains no load: {error}"
        ))
    })?;
    let cpus = usable_cpus().context("cannot determine the usable CPUs")?;
    raise_open_files();
    stdout::print(&format!("{BEGUN}\n"))?;
    let report = job.report(cpus);
    stdout::print_json_text(&(serde_json::to_string(&report)? + "\n"))?;
    Ok(ExitStatus::Done)
}
