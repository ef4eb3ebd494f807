//! A model in a program of its own: see `knee_commute::serve`.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use knee_commute::{
    Description, Exploration, Explored, Generated, Limits, Model, ModelError, Request,
    SERVE_SCHEMA, STUCK, Tests, Wanted,
};
use serde::de::DeserializeOwned;

/// How long a program may take to say what it is.
const INTRODUCTION: Duration = STUCK;
/// An answer beyond this is none.
const MOST_BYTES: u64 = 4 << 30;
/// Between two looks at whether the introduction is over.
const POLL: Duration = Duration::from_millis(5);

/// The program, which is run once for each question.
pub(super) struct Program {
    path: PathBuf,
    description: Description,
}

impl Program {
    /// Asks the program at `path` what it is.
    pub(super) fn introduce(path: PathBuf) -> Result<Self, ModelError> {
        // A path without a slash is a file here, not a program of the system.
        let path =
            if path.components().count() == 1 { PathBuf::from(".").join(path) } else { path };
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
            other => Err(program.failed(format!(
                "speaks version {other}, and this knee {SERVE_SCHEMA}: build both from one release"
            ))),
        }
    }

    fn failed(&self, what: String) -> ModelError {
        ModelError::Program { program: self.path.display().to_string(), what }
    }

    fn ask<T: DeserializeOwned>(
        &self,
        request: &Request,
        within: Option<Duration>,
    ) -> Result<T, ModelError> {
        let request = serde_json::to_string(request).expect("a request is plain data");
        let child = Command::new(&self.path)
            .arg(request)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|error| self.failed(format!("cannot be run: {error}")))?;
        let (answer, told) = self.hear(&mut child, within)?;
        let status = child.wait().map_err(|error| self.failed(error.to_string()))?;
        if !status.success() {
            let told = String::from_utf8_lossy(&told);
            let told = told.trim();
            return Err(self.failed(match told {
                "" => format!("{status}"),
                told => told.to_owned(),
            }));
        }
        serde_json::from_slice(&answer).map_err(|error| {
            self.failed(format!(
                "is not a model: its answer is not what was asked for ({error}); see \"A model of \
                 your own\" in docs/commuting.md"
            ))
        })
    }

    /// All that it writes to standard output and standard error.
    fn hear(
        &self,
        child: &mut Child,
        within: Option<Duration>,
    ) -> Result<(Vec<u8>, Vec<u8>), ModelError> {
        let out = child.stdout.take().expect("it is piped");
        let told = child.stderr.take().expect("it is piped");
        std::thread::scope(|scope| {
            let out = scope.spawn(|| read(out));
            let told = scope.spawn(|| read(told));
            if let Some(within) = within {
                let start = Instant::now();
                while child.try_wait().is_ok_and(|status| status.is_none()) {
                    if start.elapsed() > within {
                        let _ = child.kill();
                        let seconds = within.as_secs();
                        return Err(self.failed(format!(
                            "is not a model: it has not said what it is within {seconds} s"
                        )));
                    }
                    std::thread::sleep(POLL);
                }
            }
            let [out, told] = [out, told].map(|reader| reader.join().expect("it only reads"));
            Ok((out, told))
        })
    }
}

fn read(from: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What could not be read is missing in the answer, which is told then.
    let _ = from.take(MOST_BYTES).read_to_end(&mut bytes);
    bytes
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
        self.ask::<Result<Exploration, ModelError>>(
            &Request::Explore(operations.to_vec(), *limits),
            None,
        )?
    }

    fn generate(&self, operations: &[usize], limits: &Limits, wanted: &Wanted) -> Tests {
        self.ask::<Result<Generated, ModelError>>(
            &Request::Generate(operations.to_vec(), *limits, *wanted),
            None,
        )?
    }
}
