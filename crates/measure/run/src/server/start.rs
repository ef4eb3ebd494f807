//! Starts a command line: a program with its words, or a shell.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use knee_host::process::{Ties, spawn};

/// A line with one of these characters needs a shell.
const SHELL_CHARACTERS: &str = "|&;<>()$`\\\"'*?[]#~=%!{}\n";

/// How a command runs.
pub(super) struct Setting<'s> {
    /// Where.
    pub(super) dir: &'s Path,
    /// See [`crate::job::Job::layout`].
    pub(super) layout: u32,
    /// What ties it to this process.
    pub(super) ties: Ties,
    /// The directories with programs, as in `PATH`.
    pub(super) path: &'s OsStr,
    /// User and group, if this process is root's.
    pub(super) user: Option<(u32, u32)>,
}

impl Setting<'_> {
    /// Starts `line` in a process group of its own. The pipes from its output do not block.
    ///
    /// # Errors
    /// Those of `fork(2)` and `execve(2)`.
    pub(super) fn start(&self, line: &str) -> io::Result<Child> {
        let mut words = line.split_whitespace();
        let program = words.next().unwrap_or_default();
        let in_shell = || self.execute("/bin/sh", ["-c", line]);
        if program.is_empty() || line.contains(|c| SHELL_CHARACTERS.contains(c)) {
            return in_shell();
        }
        match self.execute(program, words) {
            // It may be a shell builtin.
            Err(error) if error.kind() == io::ErrorKind::NotFound => in_shell(),
            started => started,
        }
    }

    fn execute<A: AsRef<OsStr>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = A>,
    ) -> io::Result<Child> {
        let mut command = Command::new(program);
        command
            .current_dir(self.dir)
            .args(args)
            .env("KNEE_PADDING", "x".repeat(self.layout as usize))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env("PATH", self.path)
            .process_group(0);
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        let child = spawn(&mut command, self.ties.clone())?;
        let (stdout, stderr) = (child.stdout.as_ref(), child.stderr.as_ref());
        for pipe in [stdout.map(AsFd::as_fd), stderr.map(AsFd::as_fd)].into_iter().flatten() {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(child)
    }
}
