//! Keeps what is needed to see a fault again.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use knee_host::number::time;
use knee_host::signal::describe_end;

use crate::fault::Fault;
use crate::options::Options;
use crate::process::Ended;
use crate::readers::TEXT;
use crate::trial::{Trial, place};

/// A run to keep.
pub(crate) struct Finding<'f> {
    pub(crate) run: u64,
    pub(crate) trial: &'f Trial<'f>,
    pub(crate) ended: &'f Ended,
    pub(crate) fault: Option<&'f Fault>,
}

impl Finding<'_> {
    /// Writes the files of the run to a directory of its own, in which the command can be repeated.
    pub(crate) fn keep(&self, options: &Options, artifacts: &Path) -> anyhow::Result<PathBuf> {
        let directory = artifacts.join(format!("{}-{}", options.seed, self.run));
        place(&directory, self.trial.reader)?;
        self.trial.write(&directory)?;
        fs::write(directory.join("finding.txt"), self.text(options) + "\n" + &self.ended.errors)?;
        Ok(directory)
    }

    /// What happened, and the commands to see it again: here, and from its seed.
    pub(crate) fn text(&self, options: &Options) -> String {
        let Self { run, trial, ended, fault } = self;
        let status = ended.status;
        let fault = fault.map_or("no fault".to_owned(), ToString::to_string);
        let only = options.only.as_ref().map(|only| format!(" --only {only}")).unwrap_or_default();
        format!(
            "{fault}: knee {}, {}, {} MB\n\
             mutated: {} of {}\n\
             command: XDG_STATE_HOME=$PWD/state knee {} < {}\n\
             again:   mutate --seed {} --run {run}{only}\n",
            describe_end(status.signal(), status.code()),
            time(ended.cpu.as_secs_f64()),
            ended.memory >> 20,
            trial.original.at,
            trial.original.source,
            trial.command.replace(TEXT, &format!("\"$(cat {})\"", trial.original.at)),
            trial.original.at,
            options.seed,
        )
    }
}
