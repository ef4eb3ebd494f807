//! The protocol between knee and a program that contains a model.
//!
//! knee runs the program with one argument, a [`Request`] as JSON, and reads the answer, also JSON,
//! from the program's standard output. Messages for the user go to standard error.

use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::exploration::{Exploration, Limits, ModelError};
use crate::generate::{Generated, Test, Wanted};
use crate::model::Model;
use crate::watch::watch;

/// Version of the protocol.
pub const SERVE_SCHEMA: u32 = 1;

/// A request from knee.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Describe the model.
    Describe,
    /// Explore the operations with these numbers.
    Explore(Vec<usize>, Limits),
    /// Generate the tests of the operations with these numbers.
    Generate(Vec<usize>, Limits, Wanted),
}

/// The answer to [`Request::Describe`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// [`SERVE_SCHEMA`].
    pub schema: u32,
    /// The name of the interface.
    pub name: String,
    /// A description of the interface, in one line.
    pub about: String,
    /// The names of the operations, and what each operation does.
    pub operations: Vec<(String, String)>,
}

/// The answer to [`Request::Explore`].
pub type Explored = Result<Exploration, ModelError>;

/// A line of the answer to [`Request::Generate`]. The last line is [`Line::Done`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// A test.
    Test(Box<Test>),
    /// There are no more tests.
    Done(Result<Generated, ModelError>),
}

/// The `main` of a program that contains a model: `fn main() -> ExitCode { serve(&lamp()) }`.
pub fn serve(model: &dyn Model) -> ExitCode {
    let argument = std::env::args().nth(1);
    let program = std::env::args().next().unwrap_or_else(|| "PROGRAM".to_owned());
    let request = argument.as_deref().map(serde_json::from_str::<Request>);
    let Some(Ok(request)) = request else {
        eprintln!(
            "This is a model of {} for knee: {}\n\n  knee commute matrix --model {program}",
            model.name(),
            model.about()
        );
        return ExitCode::from(2);
    };
    watch(|message| eprintln!("{message}"));
    let mut out = BufWriter::new(std::io::stdout().lock());
    // A write fails if knee has stopped reading. In that case, knee would not read an error message
    // either.
    match answer(model, &request, &mut out).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer(model: &dyn Model, request: &Request, out: &mut impl Write) -> std::io::Result<()> {
    let answer = match request {
        Request::Describe => serde_json::to_string(&Description {
            schema: SERVE_SCHEMA,
            name: model.name().to_owned(),
            about: model.about().to_owned(),
            operations: model
                .operations()
                .into_iter()
                .map(|(name, about)| (name.to_owned(), about.to_owned()))
                .collect(),
        }),
        Request::Explore(operations, limits) => {
            serde_json::to_string(&model.explore(operations, limits))
        }
        Request::Generate(operations, limits, wanted) => {
            let mut written = Ok(());
            let done = model.generate(operations, limits, wanted, &mut |test| {
                written = write_line(out, &Line::Test(Box::new(test)));
                if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            written?;
            return write_line(out, &Line::Done(done));
        }
    };
    out.write_all(answer.expect("an answer is plain data").as_bytes())
}

fn write_line(out: &mut impl Write, line: &Line) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}
