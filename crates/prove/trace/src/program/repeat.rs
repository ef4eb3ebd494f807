//! Repeats calls of a program: traced under QEMU, or timed without it.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use knee_agent::{Experiment, Outcome};
use knee_bind::{GUEST, MESSAGE_PREFIX, Message, REPEAT_PREFIX, Repeat};
use knee_host::process::{Ties, spawn};

use super::event::end;
use super::{Launcher, NO_BACKTRACE, Next, OTHER_VERSION, Process, ProgramHost, other_version};
use crate::check::CheckError;
use crate::cost::{Cost, Data};
use crate::error::GuestError;
use crate::guest::End;
use crate::process::memory_file;
use crate::record::{TestResult, Touch};
use crate::symbols::ProgramNames;

/// Maximum length of a program's answer in bytes. An answer has a few dozen lines.
const MOST_BYTES: u64 = 16 << 20;
/// Maximum number of bytes of a program's standard error that are kept.
const MOST_COMPLAINTS: u64 = 64 << 10;
/// How long to wait for the standard error of a program that has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The trace of calls that threads repeat.
pub struct Traced {
    /// Whether all calls were made.
    pub outcome: Outcome,
    /// The cost of the iterations, each of which counts as an operation. Thread n counts as CPU n.
    pub cost: Cost,
    /// The names of the program's code and data.
    pub names: ProgramNames,
}

/// Traces the calls of `request`, whose `how` must be [`How::Trace`](knee_bind::How::Trace), in a program
/// whose `main` calls `knee_bind::main`. A program counts as hung if it prints nothing for as long as
/// `patience`.
///
/// # Errors
/// The program or QEMU cannot be run. If the program ended before it had made the calls, the inner error says
/// how it ended.
pub fn trace_program(
    host: ProgramHost<'_>,
    program: &Path,
    request: &Repeat,
    patience: Duration,
) -> Result<Result<Traced, End>, CheckError> {
    let line = line(request);
    let launcher = Launcher::new(host, program, true)?;
    let mut names = ProgramNames::default();
    let mut process = Process::start(&launcher, &[&line], patience)?;
    let checked = match process.next(&mut names)? {
        Next::Checked(checked) => checked,
        Next::End(end) => return Ok(Err(end)),
    };
    if checked.id != request.id {
        return Err(other_version());
    }
    let Ok(outcome) = checked.outcome else { return Err(other_version()) };
    let mut operations = checked.runs;
    // In user mode, the main thread makes no calls but has the first virtual CPU. So number the CPUs by side.
    for side in operations.iter_mut().flat_map(|run| &mut run.sides) {
        side.cpu = side.side as u32;
    }
    names.look_up_code(code(&operations));
    let Data { lines: data, words } =
        Data::of(|| operations.iter(), |conflict| names.datum(conflict));
    let experiment =
        Experiment { operation: request.id.clone(), cpus: request.threads.len() as u32 };
    let (deferred, nodes) = (Vec::new(), Vec::new());
    let cost = Cost { experiment, operations, deferred, data, words, nodes };
    Ok(Ok(Traced { outcome, cost, names }))
}

/// The addresses of the code that accesses lines that move.
fn code(operations: &[TestResult]) -> impl Iterator<Item = u64> {
    operations.iter().flat_map(|run| {
        let accesses = run.accesses.iter().flat_map(|side| &side.list);
        let moves = run.moves.iter().flat_map(|moved| Touch::all_code(&moved.by));
        accesses.map(|access| access.pc).chain(moves)
    })
}

/// Times the calls of `request`, whose `how` must be [`How::Time`](knee_bind::How::Time), without QEMU.
/// Returns the iterations per second of each thread.
///
/// # Errors
/// There is no memory for the request. The inner error says why the program has not made the calls.
pub fn time_program(
    program: &Path,
    request: &Repeat,
    patience: Duration,
) -> Result<Result<Vec<f64>, String>, GuestError> {
    let cannot_run = |error: io::Error| Ok(Err(format!("it cannot be run: {error}")));
    let input = Stdio::from(memory_file("knee-calls", &line(request))?);
    let mut command = Command::new(program);
    command.env(GUEST, "0").envs([NO_BACKTRACE]);
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match spawn(&mut command, Ties::bound()) {
        Ok(child) => child,
        Err(error) => return cannot_run(error),
    };
    let (out, complaints) = (child.stdout.take(), child.stderr.take());
    // Do not join these threads: a process that the program has started may keep the program's output open.
    let (answered, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = out.map(|out| BufReader::new(io::Read::take(out, MOST_BYTES)).lines());
        let lines = lines.into_iter().flatten().map_while(Result::ok);
        // The receiver no longer exists if `time_program` has returned.
        let _ = lines.filter_map(|line| message(&line)).try_for_each(|one| answered.send(one));
    });
    let (complained, complaint) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(from) = complaints {
            // Ignore a read error: the text is only used in a message.
            let _ = io::Read::read_to_end(&mut io::Read::take(from, MOST_COMPLAINTS), &mut text);
        }
        complained.send(text)
    });
    let answer = loop {
        match answer.recv_timeout(patience) {
            Ok(Message::Timed { id, rates }) if id == request.id => break Some(Ok(rates)),
            Ok(Message::Done { id, outcome, .. }) if id == request.id => {
                break Some(Err(outcome.to_string()));
            }
            Ok(Message::Done { .. }) => break Some(Err(OTHER_VERSION.to_owned())),
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => break Some(Err(End::Hung(patience).to_string())),
            Err(RecvTimeoutError::Disconnected) => break None,
        }
    };
    // The program may have ended already.
    let _ = child.kill();
    match child.wait() {
        Ok(status) => Ok(answer.unwrap_or_else(|| {
            let complaints = complaint.recv_timeout(LAST_WORDS).unwrap_or_default();
            Err(end(status, &complaints).to_string())
        })),
        Err(error) => cannot_run(error),
    }
}

fn message(line: &str) -> Option<Message> {
    serde_json::from_str(line.strip_prefix(MESSAGE_PREFIX)?).ok()
}

fn line(request: &Repeat) -> Vec<u8> {
    let json = serde_json::to_string(request).expect("a request is plain data");
    format!("{REPEAT_PREFIX}{json}\n").into_bytes()
}
