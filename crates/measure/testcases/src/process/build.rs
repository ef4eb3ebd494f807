//! Real work: the machine's C compiler builds a small program, over and over.
//!
//! A compiler is mostly user time; the share of system time that remains (page faults, exec,
//! opening headers) is what kernel work can change here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use knee_run::{During, Family, Need, Outcome, Task, TaskError, Testcase, Unit};

use super::build_source::{FILES, source};

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "build1",
    description: "compile and link a C program of 24 files with cc, on a tmpfs; counts builds",
    unit: Unit { name: "builds", steps: STEPS, bytes: 0 },
    needs: &[Need::CCompiler, Need::Tmpfs],
    // The task sleeps while its compiler runs.
    has_helpers: true,
    starts_programs: true,
    min_interval: 1.0,
    ..Testcase::new(Family::Process, build)
}];

/// Steps of a build: a compilation for each file, and the link.
const STEPS: u64 = FILES as u64 + 1;

/// Name of the linked program.
const PROGRAM: &str = "program";

fn build(task: &Task<'_>) -> Outcome {
    let tree = Tree::generate(task.own_path("build"))?;
    let mut count = task.start();
    loop {
        for file in 0..FILES {
            tree.compile(file)?;
            count.add(1);
        }
        tree.link()?;
        count.add(1);
    }
}

/// A directory with the sources, where the objects go as well.
struct Tree {
    dir: PathBuf,
}

impl Tree {
    fn generate(dir: PathBuf) -> Result<Self, TaskError> {
        fs::create_dir(&dir).during("create a directory")?;
        for file in 0..FILES {
            fs::write(dir.join(named(file, "c")), source(file)).during("write a source")?;
        }
        Ok(Self { dir })
    }

    fn compile(&self, file: usize) -> Result<(), TaskError> {
        let (from, to) = (named(file, "c"), named(file, "o"));
        cc(&self.dir, ["-O1", "-c", &from, "-o", &to], &from)
    }

    fn link(&self) -> Result<(), TaskError> {
        let objects = (0..FILES).map(|file| named(file, "o"));
        let output = ["-o", PROGRAM, "-lm"].map(str::to_owned);
        cc(&self.dir, objects.chain(output), PROGRAM)
    }
}

fn named(file: usize, extension: &str) -> String {
    format!("file{file}.{extension}")
}

fn cc<A: AsRef<std::ffi::OsStr>>(
    dir: &Path,
    arguments: impl IntoIterator<Item = A>,
    about: &str,
) -> Result<(), TaskError> {
    let mut compiler = Command::new("cc");
    compiler
        .args(arguments)
        .current_dir(dir)
        // The compiler's own temporary files: on the tmpfs, and removed with the rest.
        .env("TMPDIR", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = knee_host::process::status(&mut compiler).during("run cc")?;
    if status.success() {
        Ok(())
    } else {
        Err(TaskError::found(format!("cc failed at {about} of build1: {status}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_builds_and_works() {
        let parent = tempfile::tempdir().unwrap();
        let tree = Tree::generate(parent.path().join("build")).unwrap();
        for file in 0..FILES {
            tree.compile(file).unwrap();
        }
        tree.link().unwrap();
        let status = Command::new(tree.dir.join(PROGRAM)).status().unwrap();
        assert!(status.success(), "{status}");
    }

    #[test]
    fn a_compiler_that_fails_is_reported_with_its_status() {
        let parent = tempfile::tempdir().unwrap();
        let tree = Tree::generate(parent.path().join("build")).unwrap();
        fs::write(tree.dir.join("file3.c"), "int f(void) { return }").unwrap();
        let error = tree.compile(3).unwrap_err();
        assert_eq!(error.to_string(), "cc failed at file3.c of build1: exit status: 1");
    }
}
