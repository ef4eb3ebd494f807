//! Starting a program that ends at once, and waiting for it.
//!
//! As in DragonFly BSD's `exec1` and `exec2`: the parent's memory is lent to the child until it
//! executes the program. `vfork` itself returns twice, which Rust cannot express; `clone` with
//! `CLONE_VM` and `CLONE_VFORK` is the same path of the kernel with a function and a stack for the
//! child. `posix_spawn` takes that path too, but glibc's resets every signal in the child: 122
//! system calls that are not what is measured here.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use knee_run::{During, Family, Outcome, Task, TaskError, Testcase, check};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "exec_static",
        description: "vfork(), exec() of the task's own tiny static program, wait()",
        starts_programs: true,
        ..Testcase::new(Family::Process, exec_static)
    },
    Testcase {
        name: "exec_dynamic",
        description: "vfork(), exec() of the task's own tiny dynamically linked program, wait()",
        starts_programs: true,
        ..Testcase::new(Family::Process, exec_dynamic)
    },
];

fn exec_static(task: &Task<'_>) -> Outcome {
    exec(task, STATIC)
}

fn exec_dynamic(task: &Task<'_>) -> Outcome {
    exec(task, DYNAMIC)
}

const STATIC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/exit_static"));
const DYNAMIC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/exit_dynamic"));

fn exec(task: &Task<'_>, program: &[u8]) -> Outcome {
    let path = task.own_path("exit");
    install(program, &path)?;
    let mut start = Start::new(&path)?;
    task.repeat(|| start.run())
}

/// Writes the program; nobody has it open for writing afterwards, else it could not be executed.
fn install(program: &[u8], path: &Path) -> Result<(), TaskError> {
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(path)
        .during("create the program")?;
    file.write_all(program).during("write the program")
}

/// What the child finds in the memory that it shares with its parent.
struct Start {
    path: CString,
    argv: [*const c_char; 2],
    environment: [*const c_char; 1],
    failed: c_int,
    stack: Box<[u128]>,
}

/// Bytes of stack for a child that makes one system call.
const STACK: usize = 64 << 10;
/// Exit status of a child that could not execute the program, as a shell's.
const NOT_EXECUTED: c_int = 127;
/// Name that the program sees.
const NAME: &CStr = c"exit";

impl Start {
    fn new(path: &Path) -> Result<Self, TaskError> {
        Ok(Self {
            path: CString::new(path.as_os_str().as_bytes())
                .map_err(|_| TaskError::found("the path of the program contains a zero byte"))?,
            argv: [NAME.as_ptr(), std::ptr::null()],
            environment: [std::ptr::null()],
            failed: 0,
            stack: vec![0; STACK / size_of::<u128>()].into_boxed_slice(),
        })
    }

    /// Starts the program and waits for it.
    fn run(&mut self) -> Result<(), TaskError> {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let top = self.stack.as_mut_ptr_range().end;
        // SAFETY: the child runs on a stack of its own, 16-byte aligned, that nobody else uses and
        // that outlives it there: this thread sleeps until the child has executed the program or
        // ended (CLONE_VFORK). So it also is the only one that uses `self`, this thread's errno
        // and its other thread-local state meanwhile. It neither allocates nor takes a lock.
        let pid = check(
            unsafe { libc::clone(execute, top.cast(), flags, std::ptr::from_mut(self).cast()) },
            "clone",
        )?;
        let status = waitpid(Pid::from_raw(pid), WaitOptions::empty()).during("waitpid")?;
        match status {
            Some((_, status)) if status.exit_status() == Some(0) => Ok(()),
            Some((_, status)) => Err(self.explain(status)),
            None => Err(TaskError::found("waitpid returned without a child")),
        }
    }

    #[cold]
    fn explain(&self, status: WaitStatus) -> TaskError {
        let path = self.path.to_string_lossy();
        match self.failed {
            0 => TaskError::found(format!("{path} did not end with status 0: {status:?}")),
            libc::EACCES => TaskError::new(
                format!("execute {path} (file system mounted noexec? try another --dir)"),
                Errno::ACCESS,
            ),
            errno => TaskError::new(format!("execute {path}"), Errno::from_raw_os_error(errno)),
        }
    }
}

/// The child.
extern "C" fn execute(start: *mut c_void) -> c_int {
    // SAFETY: `start` is the `Start` of the thread that sleeps until we are gone, so nobody else
    // uses it; its strings and arrays end with null. `execve` and `_exit` may be called here.
    unsafe {
        let start = &mut *start.cast::<Start>();
        libc::execve(start.path.as_ptr(), start.argv.as_ptr(), start.environment.as_ptr());
        start.failed = *libc::__errno_location();
        libc::_exit(NOT_EXECUTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_programs_run_and_end_well() {
        let dir = tempfile::tempdir().unwrap();
        for (name, program) in [("static", STATIC), ("dynamic", DYNAMIC)] {
            let path = dir.path().join(name);
            install(program, &path).unwrap();
            // Another test may be between fork and exec with our file still open for writing.
            let mut start = Start::new(&path).unwrap();
            while matches!(start.run(), Err(e) if e.errno == Some(Errno::TXTBSY)) {}
            start.run().unwrap();
        }
    }

    #[test]
    fn only_the_dynamic_program_asks_for_an_interpreter() {
        let asks = |program: &[u8]| program.windows(8).any(|bytes| bytes.starts_with(b"/ld"));
        assert!(asks(DYNAMIC));
        assert!(STATIC.len() > DYNAMIC.len());
    }

    #[test]
    fn a_program_that_cannot_be_executed_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("not-a-program");
        std::fs::write(&path, "text").unwrap();
        let error = Start::new(&path).unwrap().run().unwrap_err();
        assert_eq!(error.errno, Some(Errno::ACCESS));
        assert!(error.to_string().contains("not-a-program"), "{error}");
        let error = Start::new(&dir.path().join("missing")).unwrap().run().unwrap_err();
        assert_eq!(error.errno, Some(Errno::NOENT));
    }
}
