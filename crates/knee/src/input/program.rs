//! A model in a separate program: see `knee_commute::serve`.

use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, ensure};
use knee_commute::{
    Description, Exploration, Explored, Generated, Limits, Line, Model, ModelError, Request,
    SERVE_SCHEMA, STUCK, Test, Wanted,
};
use knee_host::process::{Ties, read_tail, spawn};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;

/// Time limit for a program to describe itself.
const INTRODUCTION: Duration = STUCK;
/// Size limit of a description; knee does not read further.
const MOST_OF_DESCRIPTION: u64 = 1 << 20;
/// Size limit of another answer.
const MOST_BYTES: u64 = 512 << 20;
/// Size limit of a line of an answer.
const LONGEST_LINE: u64 = 64 << 20;
/// The end of the error output that knee keeps.
const KEPT_ERRORS: usize = 64 << 10;

/// A model program, which knee runs once for each request.
pub(crate) struct Program {
    path: PathBuf,
    description: Description,
}

impl Program {
    /// Asks the program at `path` for its description.
    pub(crate) fn introduce(path: PathBuf) -> anyhow::Result<Self> {
        // A path without a slash is a file in this directory, not a program on PATH.
        let path =
            if path.components().count() == 1 { PathBuf::from(".").join(path) } else { path };
        // Not the fault of a model.
        let file = std::fs::metadata(&path);
        let file = file.with_context(|| format!("cannot run {}", path.display()))?;
        ensure!(file.is_file(), "cannot run {}: it is not a program", path.display());
        let description = Description {
            schema: SERVE_SCHEMA,
            name: String::new(),
            about: String::new(),
            operations: Vec::new(),
        };
        let mut program = Self { path, description };
        program.description = program.ask(&Request::Describe, Some(INTRODUCTION))?;
        match program.description.schema {
            SERVE_SCHEMA => Ok(program),
            other => Err(program
                .failed(format!(
                    "uses protocol version {other}, but this knee uses {SERVE_SCHEMA}; build both \
                 from the same release"
                ))
                .into()),
        }
    }

    /// The path of the program.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, what: String) -> ModelError {
        ModelError::Program { program: self.path.display().to_string(), what }
    }

    /// Adds the names of the requested operations to an error.
    fn of_operations(&self, operations: &[usize], error: ModelError) -> ModelError {
        let names: Vec<&str> = operations.iter().map(|&nr| self.operations()[nr].0).collect();
        match error {
            ModelError::Program { program, what } => {
                ModelError::Program { program, what: format!("{}: {what}", names.join(" and ")) }
            }
            other => other,
        }
    }

    /// Starts the program, which ends with the calling thread.
    fn start(&self, request: &Request) -> Result<Child, ModelError> {
        let request = serde_json::to_string(request).expect("a request is plain data");
        let mut program = Command::new(&self.path);
        program.arg(request);
        program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        spawn(&mut program, Ties::bound())
            .map_err(|error| self.failed(format!("cannot be run: {error}")))
    }

    /// Sends a request whose answer is one document.
    fn ask<T: DeserializeOwned>(
        &self,
        request: &Request,
        within: Option<Duration>,
    ) -> Result<T, ModelError> {
        let mut child = self.start(request)?;
        let most = if within.is_some() { MOST_OF_DESCRIPTION } else { MOST_BYTES };
        let mut is_cut = false;
        let answer = self.listen(&mut child, within, |out| {
            let mut answer = Vec::new();
            // If reading fails, the answer is incomplete, and parsing it reports an error.
            let _ = out.take(most).read_to_end(&mut answer);
            is_cut = answer.len() as u64 == most;
            answer
        });
        if is_cut {
            return Err(self.not_understood(&format!("it is longer than {} MiB", most >> 20)));
        }
        let answer = answer?;
        serde_json::from_slice(&answer).map_err(|error| self.not_understood(&error.to_string()))
    }

    fn not_understood(&self, what: &str) -> ModelError {
        self.failed(format!(
            "this is not a model, or writes other text to standard output: its answer is invalid \
             ({what}); see \"A model of your own\" in docs/commuting.md"
        ))
    }

    /// Passes the output of `child` to `read`, and waits for `child` to exit. Fails if the child
    /// exits unsuccessfully or exceeds the time limit `within`.
    fn listen<T>(
        &self,
        child: &mut Child,
        within: Option<Duration>,
        read: impl FnOnce(ChildStdout) -> T,
    ) -> Result<T, ModelError> {
        let out = child.stdout.take().expect("it is piped");
        let errors = child.stderr.take().expect("it is piped");
        let pid = Pid::from_child(child);
        let (read, errors, in_time) = std::thread::scope(|scope| {
            let errors = scope.spawn(move || {
                let (mut errors, mut text) = (errors, Vec::new());
                while !read_tail(&mut errors, &mut text, KEPT_ERRORS) {}
                text
            });
            let (done, is_done) = mpsc::channel::<()>();
            let in_time = scope.spawn(move || {
                let Some(within) = within else { return true };
                let late = is_done.recv_timeout(within) == Err(RecvTimeoutError::Timeout);
                if late {
                    // The child has not been reaped, so its PID cannot belong to another process.
                    let _ = kill_process(pid, Signal::KILL);
                }
                !late
            });
            let read = read(out);
            let errors = errors.join().expect("the thread only reads");
            drop(done);
            (read, errors, in_time.join().expect("the thread only waits"))
        });
        let status = child.wait().map_err(|error| self.failed(error.to_string()))?;
        if !in_time {
            let seconds = within.unwrap_or_default().as_secs();
            return Err(self.failed(format!(
                "this is not a model: it has not described itself within {seconds} s"
            )));
        }
        if status.success() {
            return Ok(read);
        }
        let errors = String::from_utf8_lossy(&errors);
        let why = match errors.trim() {
            "" => format!("{status}"),
            errors => errors.to_owned(),
        };
        Err(self.failed(match within {
            // It did not describe itself.
            Some(_) => {
                let line: String = why.lines().next().unwrap_or_default().chars().take(80).collect();
                format!(
                    "this is not a model, and does not bind a library to one: asked for its description, \
                     it failed ({line}); see \"A model of your own\" in docs/commuting.md, and \
                     docs/libraries.md"
                )
            }
            None => why,
        }))
    }
}

impl Model for Program {
    fn name(&self) -> &str {
        &self.description.name
    }

    fn about(&self) -> &str {
        &self.description.about
    }

    fn operations(&self) -> Vec<(&str, &str)> {
        let operations = self.description.operations.iter();
        operations.map(|(name, about)| (name.as_str(), about.as_str())).collect()
    }

    fn explore(&self, operations: &[usize], limits: &Limits) -> Explored {
        let request = Request::Explore(operations.to_vec(), *limits);
        let explored = self.ask::<Result<Exploration, ModelError>>(&request, None);
        explored.map_err(|error| self.of_operations(operations, error))?
    }

    fn generate(
        &self,
        operations: &[usize],
        limits: &Limits,
        wanted: &Wanted,
        take: &mut dyn FnMut(Test) -> ControlFlow<()>,
    ) -> Result<Generated, ModelError> {
        let request = Request::Generate(operations.to_vec(), *limits, *wanted);
        let mut child = self.start(&request)?;
        let mut enough = false;
        let mut done = Err("its answer is incomplete".to_owned());
        let listened = self.listen(&mut child, None, |out| {
            let mut out = BufReader::new(out);
            let mut text = Vec::new();
            while {
                text.clear();
                out.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut text).is_ok_and(|n| n > 0)
            } {
                match serde_json::from_slice(&text) {
                    Ok(Line::Test(test)) => {
                        // Further output is not read.
                        enough = take(*test).is_break();
                        if enough {
                            return;
                        }
                    }
                    Ok(Line::Done(generated)) => done = Ok(generated),
                    Err(error) => {
                        done = Err(error.to_string());
                        return;
                    }
                }
            }
        });
        if enough {
            return Ok(Generated::default());
        }
        listened.map_err(|error| self.of_operations(operations, error))?;
        done.map_err(|what| self.not_understood(&what))?
    }
}
