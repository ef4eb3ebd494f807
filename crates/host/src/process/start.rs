//! The one place where knee starts programs, and keepers for those of the user. They inherit the signal mask of
//! the calling thread, unless their [`Ties`] say otherwise.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Resource, Rlimit, getpid, setrlimit};

use super::fork::die_with;
use crate::affinity::confine;
use crate::signal::reset_signals;

/// How a program is tied to the process that starts it. Without ties, it continues to live on its
/// own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ties {
    /// The kernel kills the program when the thread that started it ends.
    pub is_bound: bool,
    /// The CPUs it may use; if empty, all CPUs of the starting thread.
    pub cpus: Vec<u32>,
    /// Whether it may leave a core file.
    pub no_core: bool,
    /// Its limit of open files; `None`: that of this process.
    pub open_files: Option<Rlimit>,
    /// The most memory that it may map, in bytes; `None`: as much as this process.
    pub memory: Option<u64>,
    /// Whether no signal is blocked in it. knee blocks those that ask it to end.
    pub resets_signals: bool,
    /// Descriptors that it inherits under the same numbers. They must stay open until it is started.
    pub inherited: Vec<RawFd>,
}

impl Ties {
    /// A program that ends with the thread that started it.
    pub fn bound() -> Self {
        Self { is_bound: true, ..Self::default() }
    }
}

/// A child that is killed and reaped when this value is dropped.
#[derive(Debug)]
pub struct Tied(pub Child);

impl Drop for Tied {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program.
///
/// # Errors
/// Those of `fork(2)` and `execve(2)`.
pub fn spawn(command: &mut Command, ties: Ties) -> io::Result<Child> {
    if ties == Ties::default() {
        // Without a hook, `std` needs no copy of this process's page tables.
        return command.spawn();
    }
    let parent = getpid();
    let confine_to = move || {
        if ties.is_bound {
            die_with(parent)?;
        }
        if ties.resets_signals {
            reset_signals();
        }
        if ties.no_core {
            setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
        }
        if let Some(limit) = ties.open_files {
            setrlimit(Resource::Nofile, limit)?;
        }
        if let Some(most) = ties.memory {
            setrlimit(Resource::As, Rlimit { current: Some(most), maximum: Some(most) })?;
        }
        for &fd in &ties.inherited {
            // SAFETY: whoever made `ties` keeps its descriptors open until the program is started.
            fcntl_setfd(unsafe { BorrowedFd::borrow_raw(fd) }, FdFlags::empty())?;
        }
        if !ties.cpus.is_empty() {
            // The program starts even if its CPUs have gone offline meanwhile.
            let _ = confine(&ties.cpus);
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls. It allocates nothing: an
    // error of `confine` that needs memory arises for no CPU that this kernel has.
    unsafe { command.pre_exec(confine_to) };
    command.spawn()
}

/// Runs a program to its end, bound to the calling thread, and returns what it wrote.
///
/// # Errors
/// Those of [`spawn`].
pub fn output(command: &mut Command) -> io::Result<Output> {
    bind(command);
    command.output()
}

/// Runs a program to its end, bound to the calling thread, and returns its status.
///
/// # Errors
/// Those of [`spawn`].
pub fn status(command: &mut Command) -> io::Result<ExitStatus> {
    bind(command);
    command.status()
}

fn bind(command: &mut Command) {
    let parent = getpid();
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(move || die_with(parent)) };
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::process::Stdio;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command
    }

    fn text(command: &mut Command, ties: Ties) -> String {
        let child = spawn(command.stdout(Stdio::piped()), ties).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    }

    #[test]
    fn a_program_runs_on_the_cpus_that_it_is_confined_to() {
        let cpu = crate::affinity::usable_cpus().unwrap()[0];
        let mut command = shell("grep Cpus_allowed_list /proc/self/status");
        let shown = text(&mut command, Ties { cpus: vec![cpu], ..Ties::default() });
        assert_eq!(shown.split_whitespace().last(), Some(cpu.to_string().as_str()));
    }

    #[test]
    fn a_program_has_the_limit_of_open_files_that_it_is_given() {
        let limit = Rlimit { current: Some(100), maximum: Some(200) };
        let ties = Ties { open_files: Some(limit), ..Ties::default() };
        assert_eq!(text(&mut shell("ulimit -Sn; ulimit -Hn"), ties), "100\n200\n");
    }

    #[test]
    fn a_descriptor_is_inherited_if_named_and_closed_otherwise() {
        let (read, mut write) = io::pipe().unwrap();
        write.write_all(b"inherited\n").unwrap();
        drop(write);
        let script = format!("cat /dev/fd/{} 2>/dev/null", read.as_raw_fd());
        assert_eq!(text(&mut shell(&script), Ties::bound()), "");
        let ties = Ties { inherited: vec![read.as_raw_fd()], ..Ties::bound() };
        assert_eq!(text(&mut shell(&script), ties), "inherited\n");
    }

    #[test]
    fn a_bound_program_ends_with_the_thread_that_started_it() {
        let starter = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            spawn(command.arg("3600"), Ties::bound()).unwrap()
        });
        let mut child = starter.join().unwrap();
        // Without the tie this would wait for an hour.
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn output_and_status_are_those_of_the_program() {
        assert_eq!(output(&mut shell("echo out; exit 3")).unwrap().stdout, b"out\n");
        assert_eq!(status(&mut shell("exit 3")).unwrap().code(), Some(3));
        let missing = output(&mut Command::new("/does/not/exist")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
