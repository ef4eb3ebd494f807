//! Models in programs of their own: what knee asks them, and how they answer.
//!
//! knee runs the program with one argument, a [`Request`] as JSON, and reads the answer, a JSON
//! document, from its standard output. Whatever else there is to say goes to standard error.

use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::exploration::{Exploration, Limits, ModelError};
use crate::generate::{Generated, Test, Wanted};
use crate::model::Model;
use crate::watch::{on_this_thread, stuck};

/// Version of requests and answers.
pub const SERVE_SCHEMA: u32 = 1;
/// An execution of a model takes microseconds: one that takes as long as this never ends.
pub const STUCK: Duration = Duration::from_secs(10);

/// What knee asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// What it is.
    Describe,
    /// All situations of operations, by number, called at once.
    Explore(Vec<usize>, Limits),
    /// Their tests.
    Generate(Vec<usize>, Limits, Wanted),
}

/// The answer to [`Request::Describe`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// [`SERVE_SCHEMA`].
    pub schema: u32,
    /// What the interface is called.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Its operations, and what each does.
    pub operations: Vec<(String, String)>,
}

/// The answer to [`Request::Explore`].
pub type Explored = Result<Exploration, ModelError>;

/// A line of the answer to [`Request::Generate`]; the last one says what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// A test.
    Test(Box<Test>),
    /// These were all.
    Done(Result<Generated, ModelError>),
}

/// The `main` of a program that has a model in it: `fn main() -> ExitCode { serve(&lamp()) }`.
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
    watch(|what| eprintln!("{what}"));
    let mut out = BufWriter::new(std::io::stdout().lock());
    // Nobody reads on: then there is nothing more to say.
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

/// From now on tells by `tell` which execution panicked, before the panic goes on, and ends the
/// process with status 4 when one is stuck.
pub fn watch(tell: impl Fn(String) + Copy + Send + Sync + 'static) {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        told(panic);
        if let Some(execution) = on_this_thread() {
            tell(format!("the model panicked: {execution}"));
        }
    }));
    std::thread::spawn(move || {
        let mut was_stuck = false;
        loop {
            std::thread::sleep(STUCK / 20);
            let execution = stuck(STUCK);
            // Where the machine has stood still, one look finds what is not stuck, and the next does not.
            if was_stuck && let Some(execution) = &execution {
                let seconds = execution.running.as_secs();
                tell(format!(
                    "the model has asked no new question for {seconds} s and probably does not \
                     terminate: {execution}"
                ));
                std::process::exit(4);
            }
            was_stuck = execution.is_some();
        }
    });
}
