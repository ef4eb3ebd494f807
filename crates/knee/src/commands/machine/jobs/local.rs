//! This machine.

use std::os::fd::BorrowedFd;
use std::process::Command;

use anyhow::Context;
use knee_host::filesystem;

use super::directory::Directory;
use super::machine::{Machine, run_tied};

/// Runs jobs in the current directory, as xargs(1) does.
pub(super) struct Local<'a> {
    pub(super) directory: &'a Directory,
    pub(super) seats: usize,
}

impl Machine for Local<'_> {
    fn name(&self) -> &str {
        "this machine"
    }

    fn seats(&self) -> usize {
        self.seats
    }

    fn run(&self, job: usize, stop: BorrowedFd<'_>) -> anyhow::Result<String> {
        let mut script = Command::new("sh");
        script.arg(self.directory.script()).arg(job.to_string());
        script.arg(self.directory.path()).arg("tied");
        let message = run_tied(&mut script, stop).context("cannot start sh")?;
        Ok(match filesystem::is_full(self.directory.path()) {
            true => format!("the file system of {} is full", self.directory.path().display()),
            false => message,
        })
    }
}
